"""The Python adapter on programs of trio on every interpreter that is here: tasks, what they await, who holds what."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from livedbg.model import TaskState
from livedbg.model.snapshot import Snapshot
from tests.adapters.python.test_python_tasks import (
    awaited,
    both_wait,
    edges_of,
    every,
    lock_holds,
    until,
    watching,
)
from tests.conftest import TARGETS, Target
from tests.cpython.interpreters import PURE

PROGRAM = str(TARGETS / "py_trio.py")
AWAITS = {
    "holds": ("Event.wait", ["cond"]),
    "locks": ("trio.Lock", ["pylo"]),
    "condition": ("Condition.wait", ["cond"]),
    "notified": ("trio.Lock (notified)", ["pylo"]),
    "notifies": ("Event.wait", ["cond"]),
    "semaphore": ("Semaphore.acquire", ["sem:"]),
    "receives": ("MemoryReceiveChannel.receive", ["cond"]),
    "sleeps": ("trio.sleep", []),
    "forever": ("trio.sleep_forever", []),
    "socket": ("trio.socket (a Unix socket)", []),
    "thread": ("trio.to_thread.run_sync (another thread)", []),
    "nests": ("trio.Nursery", ["inner"]),
}


def nothing_runs(now: Snapshot) -> bool:
    """Whether all tasks wait: a program says READY a step before its main task does."""
    return {task.state for task in now.tasks.values()} == {TaskState.SUBMITTED}


@every
def test_what_each_task_awaits(python: str, spawn: Callable[..., Target]) -> None:
    target = spawn([python, PROGRAM, "all-waits"], env=PURE)
    prefix = f"task:trio/box/{target.pid}/"
    with watching(target.pid) as view:
        snapshot = until(view, lambda now: awaited(now, prefix, AWAITS) == AWAITS and nothing_runs(now)).snapshot
    tasks = {task.name: task for task in snapshot.tasks.values()}
    assert "<init>" not in tasks and tasks["holds"].kernel == "holds"
    assert {task.where for task in tasks.values()} == {(f"thread:box/{target.pid}/{target.pid}",)}
    assert "holds() py_trio.py:" in tasks["holds"].attributes["at"]
    holds = {(e.source, e.target, e.inferred) for e in lock_holds(snapshot)}
    locks, notified = (edges_of(snapshot, name)[0].target for name in ("locks", "notified"))
    assert holds == {(f"{prefix}holds", locks, False), (f"{prefix}notifies", notified, False)}
    assert {e.source.rpartition("/")[2] for e in snapshot.waits.values() if e.timed} == set()


@every
@pytest.mark.parametrize(
    "word", ["crossed-with-timeout", "crossed-with-deadline", "crossed-with-watchdog", "crossed-with-stopper"]
)
def test_locks_that_a_deadline_may_free_are_no_deadlock(word: str, python: str, spawn: Callable[..., Target]) -> None:
    target = spawn([python, PROGRAM, word], env=PURE)
    with watching(target.pid) as view:
        update = until(view, both_wait)
    waits = [edge for name in ("left", "right") for edge in edges_of(update.snapshot, name)]
    assert any(edge.timed for edge in waits)
    assert list(update.diagnosis.graph.cycles) == [] and not update.diagnosis.findings


@every
def test_a_deadline_that_does_not_reach_them(python: str, spawn: Callable[..., Target]) -> None:
    target = spawn([python, PROGRAM, "shielded"], env=PURE)
    with watching(target.pid) as view:
        update = until(view, both_wait, rule="lock-cycle")
    assert not any(edge.timed for name in ("left", "right") for edge in edges_of(update.snapshot, name))


@every
def test_tasks_wait_for_the_thread_of_a_blocked_loop(python: str, spawn: Callable[..., Target]) -> None:
    target = spawn([python, PROGRAM, "blocked"], env=PURE)
    thread = f"thread:box/{target.pid}/{target.pid}"

    def blocked(now: Snapshot) -> bool:
        ticks = [now.tasks.get(f"task:trio/box/{target.pid}/tick-{number}") for number in range(3)]
        ready = all(tick is not None and tick.state is TaskState.READY for tick in ticks)
        return ready and all(thread in [e.target for e in edges_of(now, f"tick-{n}")] for n in range(3))

    with watching(target.pid) as view:
        snapshot = until(view, blocked).snapshot
    assert snapshot.tasks[f"task:trio/box/{target.pid}/culprit"].state is TaskState.RUNNING
    assert edges_of(snapshot, "culprit") == []


def test_who_is_at_the_other_end_of_a_socket_that_a_task_waits_for(spawn: Callable[..., Target]) -> None:
    target = spawn([sys.executable, PROGRAM, "server"])

    def named(now: Snapshot) -> list[str]:
        texts = [task.attributes.get("awaits", "") for task in now.tasks.values()]
        return [text for text in texts if "a socket to 127.0.0.1:" in text]

    with watching(target.pid) as view:
        snapshot = until(view, lambda now: len(named(now)) == 2).snapshot
    texts = [task.attributes.get("awaits", "") for task in snapshot.tasks.values()]
    assert any("connections to 127.0.0.1:" in text for text in texts)
