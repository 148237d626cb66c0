"""Looks at a process as tasks, semaphores and edges; who signals what is waited for, and what nobody will signal."""

from __future__ import annotations

import pytest

from livedbg.adapters.iree.facts import dispatch_facts, semaphore_facts
from livedbg.adapters.iree.live.image import Runtime
from livedbg.adapters.iree.live.libraries import Dispatch
from livedbg.adapters.iree.live.loops import Loop, OnStack
from livedbg.adapters.iree.live.operations import Driver, Operation, Point, Semaphore
from livedbg.adapters.iree.live.recordings import Command, Progress, Recording
from livedbg.adapters.iree.live.shot import HostWait, Shot
from livedbg.adapters.iree.live.view import View
from livedbg.adapters.iree.live.waits import Outsiders, ends_by_itself, waits_of
from livedbg.model import EdgeKind, Process, TaskState

NOBODY = Outsiders()
RUNTIME = Runtime("/lib/runtime.so", 0, 1, (), "3.13.0")
FIRST, SECOND = Dispatch(16, 0, "first", "m.mlir:3"), Dispatch(32, 1, "second", "m.mlir:4")
COMMANDS = (Command(0, "dispatch", 0, FIRST, 0, 8), Command(1, "dispatch", 2, SECOND, 0, 4))
PROCESS = Process(id="process:box/7", host="box", pid=7)
DONE = Point(500, 1)


def _shot(left: int, *, blocked: bool = False, address: int = 100, same: bool = True) -> Shot:
    waits = (Point(600, 5),) if blocked else ()
    execute = Operation(address, Driver.LOCAL, "execute", (DONE,), waits, command_buffer=900)
    progress = None if blocked else Progress(0, 1, left, (8 - left + 1,), 2, False)
    operations = {address: execute}
    return Shot(
        RUNTIME,
        known=True,
        semaphores={500: Semaphore(500, 0, False), 600: Semaphore(600, 0, False)},
        operations=operations,
        recordings={900: Recording(COMMANDS, progress=progress)},
        host=(HostWait(7, DONE),),
        waits=waits_of(operations, frozenset({DONE})),
        same=frozenset({address} if same else ()),
    )


@pytest.mark.invariant("iree_view.W1")
def test_W1_what_one_look_found_is_not_shown() -> None:
    view = View("box", PROCESS)
    view.take(_shot(8), 1000)
    assert view.shown([], NOBODY).tasks == {}
    view.take(_shot(8, address=101), 2000)  # the next call, of the same command buffer
    assert view.shown([], NOBODY).tasks == {}
    view.take(_shot(8, address=101), 3000)
    shown = view.shown([], NOBODY)
    assert {task.name: task.state for task in shown.tasks.values()} == {
        "execute#1": TaskState.RUNNING,
        "first#0": TaskState.RUNNING,
        "second#0": TaskState.SUBMITTED,
    }
    first = shown.tasks["task:iree/first#0"]
    assert dispatch_facts(first).source == "m.mlir:3" and first.where == ("local-task",)
    edges = {(edge.kind, edge.source, edge.target) for edge in shown.edges}
    assert edges == {
        (EdgeKind.WAITS_FOR, "task:iree/execute#1", "task:iree/first#0"),
        (EdgeKind.DEPENDS_ON, "task:iree/second#0", "task:iree/first#0"),
        (EdgeKind.WAITS_FOR, "thread:box/7/7", "sem:box/7/0x1f4:1"),
        (EdgeKind.HOLDS, "task:iree/execute#1", "sem:box/7/0x1f4:1"),
    }


@pytest.mark.invariant("iree_view.W2")
def test_W2_a_dispatch_has_stood_since_its_last_workgroup() -> None:
    view = View("box", PROCESS)
    for at, left in ((1000, 8), (2000, 8), (3000, 7), (4000, 7)):
        view.take(_shot(left), at)
    shown = view.shown([], NOBODY)
    assert shown.tasks["task:iree/first#0"].since_mono_ns == 3000
    assert shown.tasks["task:iree/execute#0"].since_mono_ns == 1000
    assert shown.counters == {("task:iree/execute#0", "workgroups"): (2, 12)}


@pytest.mark.invariant("iree_view.W4")
def test_W4_what_may_be_the_next_call_begins_anew_under_a_name_of_its_own() -> None:
    view = View("box", PROCESS)
    for at in (1000, 2000):
        view.take(_shot(8), at)
    assert view.shown([], NOBODY).tasks["task:iree/first#0"].since_mono_ns == 1000
    view.take(_shot(8, same=False), 3000)
    shown = view.shown([], NOBODY)
    assert not shown.tasks and not view.still(3000)
    view.take(_shot(8), 4000)
    tasks = view.shown([], NOBODY).tasks
    assert {task.since_mono_ns for task in tasks.values()} == {3000}
    assert "task:iree/first#0" not in tasks and "task:iree/execute#0" not in tasks


def test_a_program_that_gets_on_has_few_names_however_long_it_is_watched() -> None:
    view, names = View("box", PROCESS), set()
    for at in range(1, 100):
        view.take(_shot(8, address=100 + at % 2, same=False), 1000 * at)
        shown = view.shown([], NOBODY)
        assert not shown.tasks
        names |= shown.counters.keys()
    assert len(names) == 2


def test_a_dispatch_loops_if_all_its_workers_do() -> None:
    view = View("box", PROCESS)
    for at in (1000, 2000):
        view.take(_shot(8), at)
    on = [OnStack(f"thread:box/7/{tid}", FIRST, 1500, 17) for tid in (8, 9)]
    loop = Loop("first", 6, 1200)

    def loops(looping: dict[str, Loop]) -> int:
        return dispatch_facts(view.shown(on, NOBODY, looping).tasks["task:iree/first#0"]).loops

    assert loops({"thread:box/7/8": loop, "thread:box/7/9": loop}) == 12
    assert loops({"thread:box/7/8": loop}) == 0
    other = Loop("second", 6, 1200)
    assert loops({"thread:box/7/8": loop, "thread:box/7/9": other}) == 0


def test_a_wait_that_nobody_ends_is_missing_and_says_who_could_signal() -> None:
    view = View("box", PROCESS)
    for at in (1000, 2000):
        view.take(_shot(8, blocked=True), at)
    [missing] = [
        one
        for one in view.shown([], Outsiders(("thread:box/7/9",), ("feeder",))).resources.values()
        if semaphore_facts(one).missing
    ]
    assert missing.id == "sem:box/7/0x258:5" and missing.outside == "feeder could signal it"
    assert semaphore_facts(missing).outsiders == ("thread:box/7/9",)
    tasks = view.shown([], NOBODY).tasks
    assert {task.state for task in tasks.values()} == {TaskState.SUBMITTED}


GPU_FIRST, GPU_SECOND = Dispatch(1, 0, "first", device="vulkan"), Dispatch(2, 1, "second", device="vulkan")
GPU_COMMANDS = (Command(0, "dispatch", 0, GPU_FIRST), Command(1, "dispatch", 2, GPU_SECOND))


def _submitted(*buffers: int) -> Shot:
    """Submissions in flight, of command buffers with two dispatches each."""
    operations = {
        at: Operation(at, Driver.VULKAN, "execute", (Point(500, at),), command_buffer=buffer, device="vulkan")
        for at, buffer in enumerate(buffers, 1)
    }
    semaphores = {500: Semaphore(500, 0, False)}
    return Shot(
        RUNTIME,
        known=True,
        semaphores=semaphores,
        operations=operations,
        recordings={buffer: Recording(GPU_COMMANDS) for buffer in buffers},
        same=frozenset(operations),
    )


def _on(dispatch: Dispatch, at: int) -> list[OnStack]:
    return [OnStack("thread:box/7/8", dispatch, at, 5, at + 1, device="vulkan")]


def test_a_dispatch_of_a_submission_is_named_by_a_stack_and_else_all_of_them_are_told() -> None:
    view = View("box", PROCESS)
    for at in (1000, 2000):
        view.take(_submitted(900), at)
    [task] = view.shown([], NOBODY).tasks.values()
    assert dispatch_facts(task).one_of == "first, second"
    shown = view.shown(_on(GPU_FIRST, 3000), NOBODY)
    states = {task.name: (task.state, task.since_mono_ns, dispatch_facts(task).after) for task in shown.tasks.values()}
    assert states["first#0"] == (TaskState.RUNNING, 3000, "") and states["second#0"][0] is TaskState.SUBMITTED
    assert not dispatch_facts(shown.tasks["task:iree/execute#0"]).one_of
    [task] = [one for one in view.shown(_on(GPU_SECOND, 9000), NOBODY).tasks.values() if one.kernel]
    assert (task.kernel, task.since_mono_ns, dispatch_facts(task).after) == ("second", 9000, "first")


@pytest.mark.invariant("iree_view.W3")
def test_W3_of_two_submissions_with_the_dispatch_that_runs_none_is_said_to_run_it() -> None:
    view = View("box", PROCESS)
    for at in (1000, 2000):
        view.take(_submitted(900, 901), at)
    shown = view.shown(_on(GPU_FIRST, 3000), NOBODY)
    [named] = [task for task in shown.tasks.values() if task.kernel]
    assert dispatch_facts(named).by == "stacks" and named.where == ("vulkan", "thread:box/7/8")
    assert not dispatch_facts(named).operation


S, T = 100, 200


def _operations(*rows: tuple[tuple[int, int] | None, tuple[int, int]]) -> dict[int, Operation]:
    """Operations 0, 1, …: what each waits for and what it signals."""
    return {
        number: Operation(
            number, Driver.LOCAL, "execute", (Point(*signal),), (Point(*wait),) if wait is not None else ()
        )
        for number, (wait, signal) in enumerate(rows)
    }


def test_the_smallest_signal_that_is_large_enough_ends_a_wait() -> None:
    waits = waits_of(_operations((None, (S, 9)), (None, (S, 4)), ((S, 3), (T, 1))), frozenset())
    assert waits.producers == {Point(S, 3): 1} and not waits.missing


@pytest.mark.invariant("iree_waits.A1")
def test_A1_a_larger_signal_that_depends_on_the_wait_is_no_circle() -> None:
    chain = _operations(((S, 1), (S, 2)), ((S, 2), (S, 3)), ((S, 3), (S, 4)))
    waits = waits_of(chain, frozenset({Point(S, 4)}))
    assert waits.missing == {Point(S, 1)} and waits.later == {Point(S, 1): 2}
    assert waits.producers == {Point(S, 2): 0, Point(S, 3): 1, Point(S, 4): 2}


def test_a_circle_of_exact_values_stays_one() -> None:
    waits = waits_of(_operations(((T, 1), (S, 1)), ((S, 1), (T, 1))), frozenset())
    assert waits.producers == {Point(T, 1): 1, Point(S, 1): 0} and not waits.missing


def test_what_only_threads_wait_for_counts_too() -> None:
    assert waits_of({}, frozenset({Point(S, 1)})).missing == {Point(S, 1)}


def test_a_wait_ends_by_itself_only_if_all_that_it_leads_to_is_in_flight() -> None:
    operations = _operations((None, (S, 1)), ((S, 1), (S, 2)), ((T, 1), (T, 2)), ((S, 9), (S, 8)), ((S, 8), (S, 9)))
    waits = waits_of(operations, frozenset({Point(S, 2), Point(T, 2), Point(S, 9)}))
    assert ends_by_itself(Point(S, 2), waits, operations)
    assert not ends_by_itself(Point(T, 1), waits, operations)  # nobody signals it
    assert not ends_by_itself(Point(T, 2), waits, operations)
    assert not ends_by_itself(Point(S, 9), waits, operations)  # a circle
