"""Event loops that are well, or may be: none is called stuck, on every interpreter that is here."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

import pytest

from livedbg.analysis import VerdictState
from livedbg.model.request import Request, TargetProcess
from livedbg.model.snapshot import Snapshot
from livedbg.session.live import LiveView
from livedbg.session.view import Update
from tests.conftest import TARGETS, Target
from tests.cpython.interpreters import PURE, gevent_environment, gevent_interpreters, interpreters, label
from tests.waiting import WALL_S, until

_BAD: Final = {VerdictState.DEADLOCK, VerdictState.STALLED, VerdictState.CRASHED}
_SAMPLES: Final = 3
HEALTHY: Final = {
    "queue-idle": "worker-0",
    "server": "Task-1",
    "executor": "works",
    "child": "child",
    "on-signal": "Task-1",
    "lost-future": "waiter",  # a program that is meant to run for ever awaits one too
    "all-waits": "locks",
    "crossed-with-timeout": "left",
    "crossed-with-deadline": "left",
    "crossed-with-watchdog": "left",
}
"""Words of the program of asyncio, and a task of each."""
HEALTHY_TRIO: Final = {
    "channel-idle": "worker-0",
    "lock-over-socket": "asks-0",
    "server": "Task-1",
    "child": "child",
    "all-waits": "locks",
    "crossed-with-timeout": "left",
    "crossed-with-deadline": "left",
    "crossed-with-watchdog": "left",
    "crossed-with-stopper": "left",
}
"""The same of trio."""
HEALTHY_GEVENT: Final = {
    "server": "client",
    "many": "worker-0",
    "all-waits": "locks",
    "threads": "other-0",
    "crossed-with-timeout": "left",
    "crossed": "left",  # stuck, which can't be told from the one with a time limit
}
"""The same of gevent."""
_WORDS: Final = {"asyncio": HEALTHY, "trio": HEALTHY_TRIO, "gevent": HEALTHY_GEVENT}


@pytest.mark.parametrize(
    ("runtime", "python"),
    [
        *(pytest.param("asyncio", python, id=f"asyncio-{label(python)}") for python in interpreters("3.12", "3.13")),
        pytest.param("trio", sys.executable, id="trio"),
        *(pytest.param("gevent", python, id=f"gevent-{label(python)}") for python in gevent_interpreters()),
    ],
)
def test_no_healthy_event_loop_is_called_stuck(runtime: str, python: str, spawn: Callable[..., Target]) -> None:
    healthy = _WORDS[runtime]
    env = gevent_environment(python) if runtime == "gevent" else PURE
    targets = [spawn([python, str(TARGETS / f"py_{runtime}.py"), word], env=env) for word in healthy]
    tasks = [f"task:{runtime}/box/{target.pid}/{name}" for target, name in zip(targets, healthy.values(), strict=True)]
    processes = tuple(TargetProcess(target.pid) for target in targets)
    view = LiveView(Request(host="box", processes=processes, stacks="none", interval_s=0.5, read_only=True))
    alarms: dict[str, str] = {}

    def note(update: Update) -> None:
        found = [one for one in update.diagnosis.findings.values() if one.state in _BAD]
        alarms.update((finding.rule, f"{finding.entities} {finding.sentence}") for finding in found)

    view.subscribe(note)
    view.start()
    try:
        assert view.wait_settled(WALL_S)
        seen: set[int] = set()
        unseen = tasks

        def sampled() -> bool:
            nonlocal unseen
            snapshot = view.latest().snapshot
            unseen = [task for task in tasks if not _waits(snapshot, task)]
            if not unseen:
                seen.add(snapshot.now("box").mono_ns)
            return len(seen) >= _SAMPLES or bool(alarms)

        until(sampled, told=lambda: f"{unseen} are not seen, or nothing is sampled: {len(seen)} samples")
    finally:
        view.stop()
    assert alarms == {}


def _waits(snapshot: Snapshot, task: str) -> bool:
    """Whether a task is seen, and what it awaits."""
    return task in snapshot.tasks and "awaits" in snapshot.tasks[task].attributes
