"""Real programs that are well, idle ones for longer than the threshold of a stall: none is called stuck or crashed.

One session looks at all of them, so each must be free of findings for itself, and they cost one sampler.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Mapping
from typing import Final

import pytest

from livedbg.analysis import VerdictState
from livedbg.model.request import Request, TargetProcess
from livedbg.session.live import LiveView
from livedbg.session.view import Update
from tests.waiting import WALL_S, until
from tests.zoo.cases import CASES, Case
from tests.zoo.start import build, started

_BAD: Final = {VerdictState.DEADLOCK, VerdictState.STALLED, VerdictState.CRASHED}
_LASTS_NS: Final = 11 * 10**9  # a stall is one from 10 s on
_BURNS: Final = ("busy", "long-gil", "slow-holder", "pool-map", "compute")
"""Words in the names of those that use all the CPU time that they can get; `make zoo` has them."""

_NEEDS: Final = {"bash", "gcc", "less", "vi", "gdb", "tclsh"}
HEALTHY: Final = [
    case
    for case in CASES
    if "running" in case.right
    and set(case.needs) <= _NEEDS
    and all(map(shutil.which, case.needs))
    and not case.before
    and case.settle_s <= 3
    and not any(word in case.name for word in _BURNS)
]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[int, Case]]:
    """All of them, by pid."""
    programs = tmp_path_factory.mktemp("programs")
    with contextlib.ExitStack() as stack:
        found = {}
        for case in HEALTHY:
            build(case, programs)
            folder = tmp_path_factory.mktemp("own")
            found[stack.enter_context(started(case, folder, programs, settle=False))] = case
        yield found


def test_no_healthy_program_is_called_stuck_or_crashed(running: Mapping[int, Case]) -> None:
    assert len(running) >= 20
    request = Request(
        host="box",
        processes=tuple(map(TargetProcess, running)),
        stacks="none",
        interval_s=1.0,
        read_only=True,
    )
    view = LiveView(request)
    alarms: dict[str, str] = {}

    def note(update: Update) -> None:
        found = [one for one in update.diagnosis.findings.values() if one.state in _BAD]
        alarms.update((finding.rule, f"{finding.entities} {finding.sentence}") for finding in found)
        if update.diagnosis.verdict.state in _BAD:
            alarms["verdict"] = update.diagnosis.verdict.sentence

    view.subscribe(note)
    view.start()
    try:
        assert view.wait_settled(WALL_S)
        until(lambda: alarms or _watched_long(view.latest(), running), told=lambda: "the idle ones did not stay idle")
    finally:
        view.stop()
    assert alarms == {}, {pid: case.name for pid, case in running.items()}


def _watched_long(update: Update, running: Mapping[int, Case]) -> bool:
    """Whether all were seen, and many of them have waited for longer than the threshold."""
    snapshot = update.snapshot
    if not all(f"process:box/{pid}" in snapshot.processes for pid in running):
        return False
    now_ns = snapshot.now("box").mono_ns
    waits = [snapshot.activity[f"thread:box/{pid}/{pid}"].waiting_since_mono_ns for pid in running]
    long = [since for since in waits if since is not None and now_ns - since > _LASTS_NS]
    return len(long) >= len(running) // 2
