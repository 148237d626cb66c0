"""The Python adapter on event loops of every interpreter that is here: tasks, what they await, who holds which lock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from livedbg.adapters.python import PythonAdapter, loop_watch
from livedbg.adapters.python.loops import callback_of
from livedbg.analysis import VerdictState
from livedbg.cpython import event_loops
from livedbg.cpython.objects import Code
from livedbg.cpython.threads import PyFrame
from livedbg.model import Edge, EdgeKind, Resource, TaskState
from livedbg.model.snapshot import Snapshot
from livedbg.session.adapter import Request, TargetProcess
from livedbg.session.live import LiveView
from livedbg.session.view import Update
from tests import waiting
from tests.conftest import TARGETS, Target
from tests.cpython.interpreters import interpreters, label

PROGRAM = str(TARGETS / "py_asyncio.py")
KNOWN = interpreters("3.12", "3.13")
every = pytest.mark.parametrize("python", KNOWN, ids=label)


@contextmanager
def watching(pid: int, **settings: Any) -> Iterator[LiveView]:
    request = Request(host="box", processes=(TargetProcess(pid),), interval_s=0.1, stacks="none", **settings)
    view = LiveView(request, adapters=[PythonAdapter()])
    view.start()
    try:
        yield view
    finally:
        view.stop()


def until(view: LiveView, true: Callable[[Snapshot], object], *, rule: str | None = None) -> Update:
    """The first update of whose snapshot something is true, and in which a rule has found something."""

    def found() -> Update | None:
        update = view.latest()
        is_found = rule is None or rule in {f.rule for f in update.diagnosis.findings.values()}
        return update if true(update.snapshot) and is_found else None

    def told() -> str:
        shot = view.latest().snapshot
        edges = "\n".join(f"{e.kind} {e.source} {e.target} {e.evidence}" for e in shot.edges.values())
        tasks = "\n".join(f"{t.id} {t.state} {t.attributes}" for t in shot.tasks.values())
        return f"edges:\n{edges}\ntasks:\n{tasks}\n{list(shot.statuses.values())}"

    update = waiting.until(found, told=told)
    assert update is not None
    return update


def edges_of(snapshot: Snapshot, name: str, kind: EdgeKind = EdgeKind.WAITS_FOR) -> list[Edge]:
    """The edges that leave the task of a name."""
    return [e for e in snapshot.edges.values() if e.kind is kind and e.source.endswith(f"/{name}")]


def lock_holds(snapshot: Snapshot) -> list[Edge]:
    """Who holds which lock of Python's; the GIL is held by a program that has just said READY."""
    return [e for e in snapshot.edges.values() if e.kind is EdgeKind.HOLDS and e.target.startswith("pylock:")]


def both_wait(snapshot: Snapshot) -> bool:
    """Whether the tasks left and right wait for a lock each."""
    waits = [edge for name in ("left", "right") for edge in edges_of(snapshot, name)]
    return len([edge for edge in waits if edge.target.startswith("pylock:")]) == 2


def ends(edges: Sequence[Edge]) -> list[str]:
    """The last parts of what edges lead to, or the kind of a resource."""
    return sorted(e.target.rpartition("/")[2] if e.target.startswith("task:") else e.target[:4] for e in edges)


@every
@pytest.mark.invariant("awaits.H1")
@pytest.mark.parametrize("word", ["crossed", "crossed-beside-work", "under-condition"])
def test_two_crossed_locks_are_a_deadlock(python: str, word: str, spawn: Callable[..., Target]) -> None:
    target = spawn([python, PROGRAM, word])
    with watching(target.pid) as view:
        update = until(view, both_wait, rule="lock-cycle")
    finding = next(one for one in update.diagnosis.findings.values() if one.state is VerdictState.DEADLOCK)
    assert finding.rule == "lock-cycle" and finding.inferred
    names = [entity.rpartition("/")[2] for entity in finding.entities if entity.startswith("task:")]
    assert sorted(names) == ["left", "right"]
    lines = Path(PROGRAM).read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "async with second" in text)
    assert f"py_asyncio.py:{line}" in finding.sentence
    assert (
        finding.sentence.startswith("Deadlock of 2 tasks") and "left take → right take → left take" in finding.sentence
    )


@every
def test_a_lock_that_its_own_task_waits_for(python: str, spawn: Callable[..., Target]) -> None:
    target = spawn([python, PROGRAM, "own-lock"])
    with watching(target.pid) as view:
        update = until(
            view, lambda now: any(e.target[:7] == "pylock:" for e in edges_of(now, "twice")), rule="self-deadlock"
        )
    assert [one.rule for one in update.diagnosis.findings.values()] == ["self-deadlock"]


@every
@pytest.mark.invariant("loops.L3")
@pytest.mark.parametrize("word", ["crossed-with-timeout", "crossed-with-deadline", "crossed-with-watchdog"])
def test_locks_that_a_timer_may_free_are_no_deadlock(python: str, word: str, spawn: Callable[..., Target]) -> None:
    target = spawn([python, PROGRAM, word])
    with watching(target.pid) as view:
        update = until(view, both_wait)
    waits = [edge for name in ("left", "right") for edge in edges_of(update.snapshot, name)]
    assert any(edge.timed for edge in waits)
    assert list(update.diagnosis.graph.cycles) == [] and not update.diagnosis.findings


@every
def test_a_task_has_the_name_of_its_coroutine_without_the_function_around_it(
    python: str, spawn: Callable[..., Target]
) -> None:
    target = spawn([python, PROGRAM, "crossed-with-deadline"])
    with watching(target.pid) as view:
        snapshot = until(view, both_wait).snapshot
    assert [task.kernel for task in snapshot.tasks.values() if task.name == "left"] == ["patient"]


@every
@pytest.mark.invariant("loop_watch.T2")
def test_T2_while_a_task_runs_that_may_cancel_them_two_that_cross_are_no_deadlock(
    python: str, spawn: Callable[..., Target]
) -> None:
    target = spawn([python, PROGRAM, "crossed-beside-a-runner"])
    with watching(target.pid) as view:
        update = until(view, both_wait)
    waits = [edge for name in ("left", "right") for edge in edges_of(update.snapshot, name)]
    assert all(edge.timed for edge in waits)
    assert list(update.diagnosis.graph.cycles) == [] and not update.diagnosis.findings


@every
def test_a_lock_that_was_acquired_by_hand_has_no_holder(python: str, spawn: Callable[..., Target]) -> None:
    target = spawn([python, PROGRAM, "acquired-by-hand"])
    with watching(target.pid) as view:
        update = until(view, both_wait)
    locks = [resource for resource in update.snapshot.resources.values() if resource.kind == "pylock"]
    assert len(locks) == 2 and all("keeps no owner" in (lock.state or "") for lock in locks)
    assert lock_holds(update.snapshot) == []
    assert list(update.diagnosis.graph.cycles) == []


AWAITS = {
    "holds": ("Event.wait", ["cond"]),
    "locks": ("asyncio.Lock", ["pylo"]),
    "gets": ("Queue.get", ["cond"]),
    "puts": ("Queue.put", ["cond"]),
    "condition": ("Condition.wait", ["cond"]),
    "semaphore": ("Semaphore.acquire", ["sem:"]),
    "sleeps": ("asyncio.sleep", []),
    "future": ("a future", ["futu"]),
    "task": ("a task", ["inner"]),
    "waits": ("asyncio.wait", ["inner"]),
    "shields": ("asyncio.shield", ["inner"]),
    "reads": ("StreamReader.read (a Unix socket)", []),
    "executor": ("the result of another thread", []),
    "groups": ("asyncio.TaskGroup", ["of-group"]),
    "iterates": ("Event.wait", ["cond"]),
}


def awaited(now: Snapshot, prefix: str, names: Iterable[str]) -> dict[str, tuple[str, list[str]]]:
    """What each of some tasks awaits, if it is known, and the ends of its edges."""
    tasks = {name: now.tasks.get(prefix + name) for name in names}
    return {
        name: (task.attributes.get("awaits", ""), ends(edges_of(now, name))) for name, task in tasks.items() if task
    }


@every
def test_what_each_task_awaits(python: str, spawn: Callable[..., Target]) -> None:
    target = spawn([python, PROGRAM, "all-waits"])
    prefix = f"task:asyncio/box/{target.pid}/"
    with watching(target.pid) as view:
        snapshot = until(view, lambda now: awaited(now, prefix, AWAITS) == AWAITS).snapshot
    assert "inner" in ends(edges_of(snapshot, "gathers")) and len(edges_of(snapshot, "gathers")) == 2
    (lock,) = (edge.target for edge in edges_of(snapshot, "locks"))
    (holds,) = lock_holds(snapshot)
    assert (holds.source, holds.target) == (f"{prefix}holds", lock) and holds.inferred
    tasks = [snapshot.tasks[prefix + name] for name in AWAITS]
    assert {task.state for task in tasks} == {TaskState.SUBMITTED}
    assert {task.where for task in tasks} == {(f"thread:box/{target.pid}/{target.pid}",)}
    assert snapshot.stacks[prefix + "holds"].frames[0].function == "Event.wait"
    assert "holds() py_asyncio.py:" in snapshot.tasks[prefix + "holds"].attributes["at"]


def futures_of(snapshot: Snapshot, name: str) -> list[Resource]:
    """What the task of a name waits for, but for a thread: that of its loop, before all is at rest."""
    return [snapshot.resources[e.target] for e in edges_of(snapshot, name) if e.target in snapshot.resources]


@every
@pytest.mark.invariant("loops.R1")
def test_R1_a_future_is_lost_if_nothing_but_its_waiters_refers_to_it(python: str, spawn: Callable[..., Target]) -> None:
    lost, kept = (spawn([python, PROGRAM, word]) for word in ("lost-future", "kept-futures"))
    with watching(lost.pid) as view:
        until(view, lambda now: [bool(future.lost) for future in futures_of(now, "waiter")] == [True])
    names = ("table", "object", "timer", "thread", "signal", "task", "future")
    with watching(kept.pid) as view:
        snapshot = until(view, lambda now: all(futures_of(now, name) for name in names)).snapshot
    futures = {name: futures_of(snapshot, name)[0] for name in names}
    assert {name for name, future in futures.items() if future.lost} == set()


@every
@pytest.mark.invariant("loops.L2")
def test_tasks_wait_for_the_thread_of_a_blocked_loop(python: str, spawn: Callable[..., Target]) -> None:
    target = spawn([python, PROGRAM, "blocked"])
    thread = f"thread:box/{target.pid}/{target.pid}"
    prefix = f"task:asyncio/box/{target.pid}/"

    def blocked(now: Snapshot) -> bool:
        ticks = [now.tasks.get(f"{prefix}tick-{number}") for number in range(3)]
        ready = all(tick is not None and tick.state is TaskState.READY for tick in ticks)
        return ready and all(thread in [e.target for e in edges_of(now, f"tick-{n}")] for n in range(3))

    with watching(target.pid) as view:
        snapshot = until(view, blocked).snapshot
    assert snapshot.tasks[f"{prefix}culprit"].state is TaskState.RUNNING
    assert edges_of(snapshot, "culprit") == []


@every
@pytest.mark.invariant("loops.L2")
def test_a_loop_with_nothing_to_do_is_not_blocked(python: str, spawn: Callable[..., Target]) -> None:
    target = spawn([python, PROGRAM, "queue-idle"])
    with watching(target.pid) as view:
        snapshot = until(view, lambda now: len(edges_of(now, "worker-0")) == 1).snapshot
    assert not [e for e in snapshot.waits.values() if e.target.startswith("thread:") and e.kind is EdgeKind.WAITS_FOR]


@every
def test_a_task_that_has_ended(python: str, spawn: Callable[..., Target]) -> None:
    target = spawn([python, PROGRAM, "ends"])
    task = f"task:asyncio/box/{target.pid}/short"
    with watching(target.pid) as view:
        until(view, lambda now: task in now.tasks and edges_of(now, "short"))
        target.stdin.write(b"\n")
        target.stdin.flush()
        snapshot = until(view, lambda now: now.tasks[task].state is TaskState.COMPLETED).snapshot
    assert not edges_of(snapshot, "short")


@every
@pytest.mark.invariant("loop_watch.T3")
def test_T3_a_task_that_waits_for_the_same_lock_again_has_begun_anew(python: str, spawn: Callable[..., Target]) -> None:
    target = spawn([python, PROGRAM, "again"])
    with watching(target.pid) as view:
        [first] = edges_of(until(view, lambda now: edges_of(now, "waits")).snapshot, "waits")
        target.stdin.write(b"\n")
        target.stdin.flush()
        later = until(
            view, lambda now: any(edge.since_mono_ns != first.since_mono_ns for edge in edges_of(now, "waits"))
        )
    [again] = edges_of(later.snapshot, "waits")
    assert again.key == first.key and (again.since_mono_ns or 0) > (first.since_mono_ns or 0)


@pytest.mark.invariant("loop_watch.T1")
def test_no_more_tasks_than_the_limit_are_published(
    spawn: Callable[..., Target], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_watch, "MOST_PUBLISHED", 10)
    target = spawn([KNOWN[0], PROGRAM, "all-waits"])
    with watching(target.pid) as view:
        snapshot = until(view, lambda now: any(s.code == "tasks-full" for s in now.statuses.values())).snapshot
    assert len(snapshot.tasks) == 10


def test_that_there_are_more_tasks_than_are_read_is_said(
    spawn: Callable[..., Target], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_loops, "MOST_TASKS", 5)
    target = spawn([KNOWN[0], PROGRAM, "all-waits"])
    with watching(target.pid) as view:
        until(view, lambda now: any(s.code == "tasks-cut" and s.sentence for s in now.statuses.values()))


@pytest.mark.invariant("loops.L1")
def test_a_task_that_goes_on_while_it_is_read_waits_for_nothing(
    spawn: Callable[..., Target], monkeypatch: pytest.MonkeyPatch
) -> None:
    from livedbg.adapters.python import loops

    monkeypatch.setattr(loops, "confirmed", lambda _heap, _names, found: found)  # none of its tasks is `steady`
    target = spawn([KNOWN[0], PROGRAM, "crossed"])
    with watching(target.pid) as view:
        snapshot = until(view, lambda now: any(task.name == "left" for task in now.tasks.values())).snapshot
    of_tasks = [edge for edge in snapshot.edges.values() if edge.source.startswith("task:")]
    assert not [edge for edge in of_tasks if edge.kind in (EdgeKind.WAITS_FOR, EdgeKind.HOLDS)]


def test_runtimes_whose_tasks_are_not_read_are_named(spawn: Callable[..., Target]) -> None:
    script = "import sys, types; sys.modules['curio.kernel'] = types.ModuleType('x'); print('READY'); input()"
    target = spawn([KNOWN[0], "-uc", script])
    with watching(target.pid) as view:
        snapshot = until(view, lambda now: any(s.code == "curio-unseen" for s in now.statuses.values())).snapshot
    assert not snapshot.tasks


def frame(name: str, file: str) -> PyFrame:
    return PyFrame(Code(0, name, file, 1, 0, 0, 0, b"", b""), 0, ())


def test_where_a_loop_calls_something() -> None:
    once, run = frame("BaseEventLoop._run_once", "asyncio/base_events.py"), frame("main", "app.py")
    select, call = frame("EpollSelector.select", "/x/selectors.py"), frame("Handle._run", "asyncio/events.py")
    own = frame("handler", "app.py")
    assert callback_of([own, call, once, run]) == [own, call]
    assert callback_of([select, once, run]) == () == callback_of([once, run]) == callback_of([own, run])
