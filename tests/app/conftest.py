"""What the tests of the app share: a fixed time zone, and waiting until a screen has settled."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.pilot import Pilot

_parse = Stylesheet._parse_rules
_parsed: dict[tuple[object, ...], list[RuleSet]] = {}
"""The rules of the app and of Textual's widgets, which the next app has too: to parse them costs a fifth of a test."""


def _parse_once(sheet: Stylesheet, css: str, *place: object, **kind: object) -> list[RuleSet]:
    key = (css, *place, *sorted(kind.items()), *sorted(sheet._variables.items()))
    if key not in _parsed:
        _parsed[key] = _parse(sheet, css, *place, **kind)  # type: ignore[arg-type]
    return _parsed[key]


Stylesheet._parse_rules = _parse_once  # type: ignore[method-assign]


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
