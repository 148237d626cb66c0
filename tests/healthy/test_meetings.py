"""Healthy programs that look like a meeting to which one does not come: none of them is called that, or stuck."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from livedbg.analysis import VerdictState
from livedbg.model.request import Request, TargetProcess
from livedbg.session.live import LiveView
from livedbg.session.view import Update
from tests.conftest import TARGETS, Target
from tests.waiting import WALL_S, until

_BAD: Final = {VerdictState.DEADLOCK, VerdictState.STALLED, VerdictState.CRASHED}
_LASTS_NS: Final = 11 * 10**9  # who does not come is named from 10 s on
_PYTHON: Final = ("rounds", "pool", "listens", "coordinated")
_CPP: Final = ("rounds", "pool")


def test_pools_servers_rounds_and_a_late_parent_are_no_meetings(
    build_target: Callable[..., Path], spawn: Callable[..., Target]
) -> None:
    targets = {f"Python {mode}": spawn([sys.executable, TARGETS / "py_meets.py", mode]) for mode in _PYTHON}
    program = build_target("meets", "-std=c++20")
    targets |= {f"C++ {mode}": spawn([program, mode]) for mode in _CPP}
    idle = {
        name: ids[-1] if ids else target.pid
        for name, target in targets.items()
        if "rounds" not in name
        for ids in [json.loads(target.ready.partition("READY ")[2])["pids"] if "Python" in name else []]
    }
    request = Request(
        host="box",
        processes=tuple(TargetProcess(target.pid) for target in targets.values()),
        stacks="native",
        interval_s=1.0,
        read_only=True,
    )
    view = LiveView(request)
    alarms: dict[str, str] = {}

    def note(update: Update) -> None:
        for finding in update.diagnosis.findings.values():
            if finding.rule == "odd-one-out" or finding.state in _BAD:
                alarms[finding.rule] = finding.sentence
        if update.diagnosis.verdict.state in _BAD:
            alarms["verdict"] = update.diagnosis.verdict.sentence

    view.subscribe(note)
    view.start()
    try:
        assert view.wait_settled(WALL_S)
        until(
            lambda: alarms or all(_waits_long(view.latest(), pid) for pid in idle.values()),
            told=lambda: "the idle ones did not stay idle",
        )
    finally:
        view.stop()
    assert alarms == {}, {name: target.pid for name, target in targets.items()}


def _waits_long(update: Update, pid: int) -> bool:
    """Whether a process was seen with its stack, and has waited for longer than the threshold."""
    snapshot, thread = update.snapshot, f"thread:box/{pid}/{pid}"
    activity = snapshot.activity.get(thread)
    if activity is None or activity.waiting_since_mono_ns is None or thread not in snapshot.stacks:
        return False
    return snapshot.now("box").mono_ns - activity.waiting_since_mono_ns > _LASTS_NS
