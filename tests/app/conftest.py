"""What the tests of the app share: a fixed time zone, and waiting until a screen has settled."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from textual.pilot import Pilot


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


@pytest.fixture(autouse=True)
def patient_pilot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Textual's pilot gives an app 30 s to handle its messages: too little at 20 times the load."""
    wait = Pilot._wait_for_screen
    monkeypatch.setattr(Pilot, "_wait_for_screen", lambda pilot, timeout=200.0: wait(pilot, timeout))
