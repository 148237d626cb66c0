"""Rules are pure functions of their input."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from livedbg.analysis.diagnosis import Finding
from livedbg.analysis.engine import GraphKeeper
from livedbg.analysis.rules import Rule, RuleInput
from livedbg.model.snapshot import Snapshot
from livedbg.session.replay import last_update
from livedbg.session.rulebook import all_rules, judged
from tests.analysis.world import two_locks

RECORDINGS = Path(__file__).parents[1] / "fixtures" / "recordings"
CLOCKS = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns")
IO = ("open", "os.", "socket.", "subprocess.", "shutil.", "glob.", "pathlib.")

_watched: list[list[str]] = []


@sys.addaudithook
def _note(event: str, arguments: tuple[object, ...]) -> None:
    """Note what rules do to the world while somebody watches (sys.addaudithook: a hook can't be taken out)."""
    if _watched and event.startswith(IO):
        _watched[-1].append(f"{event} {arguments}")


@contextmanager
def watched() -> Iterator[list[str]]:
    """What is opened, started or sent meanwhile."""
    _watched.append([])
    try:
        yield _watched[-1]
    finally:
        _watched.pop()


def findings(rules: tuple[Rule, ...], snapshot: Snapshot) -> list[list[Finding]]:
    state = RuleInput(snapshot, GraphKeeper().graph_of(snapshot), judged=judged())
    return [list(rule.apply(state)) for rule in rules]


@pytest.mark.invariant("rules.R1")
def test_R1_rules_read_no_file_and_no_clock_and_remember_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshots = [last_update(path)[0].snapshot for path in sorted(RECORDINGS.glob("*.livedbg"))]
    snapshots.append(two_locks().snapshot())
    alone = [findings(all_rules(), snapshot) for snapshot in snapshots]  # also imports what they need
    assert sum(bool(made) for each in alone for made in each) >= len(snapshots)

    def no_clock() -> int:
        raise AssertionError("a rule asks for the time")

    for name in CLOCKS:
        monkeypatch.setattr(time, name, no_clock)
    rules = all_rules()
    with watched() as done:
        among_others = [findings(rules, snapshot) for snapshot in (*snapshots, *reversed(snapshots))]
    assert done == []
    assert among_others == [*alone, *reversed(alone)]


def test_what_several_ask_for_is_worked_out_once() -> None:
    calls = []

    def work(snapshot: Snapshot) -> int:
        calls.append(snapshot)
        return 7

    state = RuleInput(Snapshot(), GraphKeeper().graph_of(Snapshot()))
    assert [state.once(work), state.once(work)] == [7, 7] and len(calls) == 1
