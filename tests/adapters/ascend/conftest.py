"""The fixtures of the Ascend tests."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def recorded() -> Path:
    """The recorded runs."""
    return Path(__file__).parents[2] / "fixtures" / "ascend"
