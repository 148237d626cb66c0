"""A program that launches through stand-ins for CUDA's libraries: the same functions, which do nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Target


@pytest.fixture
def launcher(build_target: Callable[..., Path], spawn: Callable[..., Target], libraries: tuple[str, str]) -> Target:
    """A process that launches as it is told."""
    return spawn([build_target("cuda_launcher"), *libraries], wait_for="READY")
