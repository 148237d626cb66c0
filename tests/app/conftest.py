"""What the tests of the app share: a fixed time zone, and waiting until a screen has settled."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Clock times in snapshots are those of UTC; nothing of this terminal leaks in."""
    monkeypatch.setenv("TZ", "UTC")
    for name in ("NO_COLOR", "COLORTERM", "SSH_CONNECTION", "TEXTUAL_COLOR_SYSTEM"):
        monkeypatch.delenv(name, raising=False)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
