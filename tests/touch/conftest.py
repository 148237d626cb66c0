"""The program that most tests of touches touch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def thrower(build_target: Any, spawn: Any, tmp_path: Path) -> Any:
    """A program that throws on three threads and starts children."""
    target = spawn([build_target("thrower"), tmp_path / "counters", "3", "2000", "1"])
    target.counted = tmp_path / "counters"
    return target
