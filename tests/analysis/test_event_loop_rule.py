"""The rule of blocked event loops, and cycles of tasks, on small states."""

from __future__ import annotations

import pytest

from livedbg.analysis import VerdictState
from livedbg.analysis.behaviour import Behaviour, doing
from livedbg.model import Edge, EdgeKind, Frame, LoopWay, Severity, Stack, Task, TaskState, ThreadState
from livedbg.model.events import EdgesAdded, StacksSeen, TasksSeen
from livedbg.model.facts import RequestFacts
from tests.analysis.test_verdict_words import seen
from tests.analysis.world import SECOND, World


def a_loop(*states: TaskState, **thread: object) -> tuple[World, str]:
    """A thread of an event loop in a callback, and tasks that wait for it."""
    world = World()
    world.process(1)
    loop = world.thread(1, "main", **{"waits_in": "recvfrom", **thread})  # type: ignore[arg-type]
    running = world.task("culprit", TaskState.RUNNING, None)
    world.edge(EdgeKind.RUNS_ON, running, loop)
    for number, state in enumerate(states):
        task = world.task(f"t{number}", state, 0)
        world.edge(EdgeKind.RUNS_ON, task, loop)
        world.waits(task, loop)
    return world, loop


def test_a_loop_that_is_blocked_while_a_task_is_ready() -> None:
    world, loop = a_loop(TaskState.READY, TaskState.SUBMITTED, TaskState.READY)
    assert world.later(9 * SECOND).finding("loop-blocked") is None
    finding = world.later(2 * SECOND).found("loop-blocked")
    assert finding.sentence == (
        "The event loop of thread 1 (main) is blocked in recvfrom() for 11 s or more; 3 tasks wait, 2 ready to run."
    )
    assert finding.entities == (loop, "task:nvfuser/culprit", "task:nvfuser/t0", "task:nvfuser/t2")
    assert finding.roots == (loop,) and len(finding.evidence) == 3
    assert world.diagnosis().verdict.state is VerdictState.STALLED


@pytest.mark.parametrize("states", [(), (TaskState.SUBMITTED,) * 3])
def test_a_blocking_call_that_keeps_nobody_from_running(states: tuple[TaskState, ...]) -> None:
    world, _ = a_loop(*states)
    assert world.later(60 * SECOND).finding("loop-blocked") is None


def test_a_loop_that_is_blocked_for_exactly_the_threshold() -> None:
    world, _ = a_loop(TaskState.READY)
    assert world.later(10 * SECOND - 1).finding("loop-blocked") is None
    assert world.later(1).found("loop-blocked").severity is Severity.ERROR


def test_only_some_of_many_ready_tasks_are_named() -> None:
    world, loop = a_loop(*[TaskState.READY] * 17)
    finding = world.later(11 * SECOND).found("loop-blocked")
    assert "17 tasks wait, 17 ready to run" in finding.sentence
    assert finding.entities == (loop, "task:nvfuser/culprit", *[f"task:nvfuser/t{number}" for number in range(16)])
    assert len(finding.evidence) == 17  # the thread's own, and one for each named task


def test_a_loop_that_is_not_blocked_does_not_hide_another() -> None:
    """One whose thread is unknown, one whose thread runs, and the blocked one, in this order."""
    world = World()
    world.process(1)
    running = world.thread(11, "busy", state=ThreadState.RUNNING)
    blocked = world.thread(12, "blocked", waits_in="recvfrom")
    for number, loop in enumerate(("thread:box/1/99", running, blocked)):
        world.waits(world.task(f"t{number}", TaskState.READY, 0), loop)
    assert world.later(11 * SECOND).found("loop-blocked").roots == (blocked,)


def test_a_loop_that_computes_is_not_blocked() -> None:
    world, _ = a_loop(TaskState.READY, state=ThreadState.RUNNING)
    assert world.later(60 * SECOND).finding("loop-blocked") is None


@pytest.mark.parametrize(
    ("thread", "state"),
    [
        ({"timed": True}, VerdictState.UNKNOWN),
        ({"timed": True, "waits_in": "sleep 60 s"}, VerdictState.STALLED),
    ],
)
def test_a_call_with_a_time_limit(thread: dict[str, object], state: VerdictState | None) -> None:
    world, _ = a_loop(TaskState.READY, **thread)
    finding = world.later(20 * SECOND).found("loop-blocked")
    assert finding.state is state
    assert finding.severity is (Severity.ERROR if state is VerdictState.STALLED else Severity.WARNING)
    assert world.diagnosis().verdict.state is state


@pytest.mark.parametrize("facts", [{"idle": "a key"}, {"listening": True}])
def test_a_call_that_waits_as_an_idle_program_does(facts: dict[str, str]) -> None:
    world, loop = a_loop(TaskState.READY)
    world.waits(loop, world.resource("file:box/7", **facts))
    assert world.later(20 * SECOND).found("loop-blocked").state is None


def test_a_call_that_waits_for_something_else_is_no_idle_wait() -> None:
    world, loop = a_loop(TaskState.READY)
    world.waits(loop, world.resource("file:box/7", listening=False))
    assert world.later(20 * SECOND).found("loop-blocked").state is VerdictState.STALLED


def test_a_call_that_waits_for_somebody_who_is_known() -> None:
    world, loop = a_loop(TaskState.READY)
    lock, other = world.lock(0x10), world.thread(12, "holder", waits_in="recvfrom")
    world.waits(loop, lock)
    world.holds(lock, other)
    assert world.later(20 * SECOND).found("loop-blocked").state is VerdictState.UNKNOWN


def test_the_first_sentence_names_the_call_and_the_line() -> None:
    world, loop = a_loop(*[TaskState.READY] * 30, TaskState.SUBMITTED, waits_in="read of socket 5", timed=True)
    frames = (
        Frame(function="SocketIO.readinto", file="/usr/lib/python3.11/socket.py", line=706, language="python"),
        Frame(function="urlopen", file="/usr/lib/python3.11/urllib/request.py", line=216, language="python"),
        Frame(function="fetch", file="/home/me/app.py", line=40, language="python"),
    )
    stack = Stack(thread=loop, frames=frames, taken_mono_ns=1, source="test", layer="python")
    world.store.apply(StacksSeen(stacks=(stack,), **world.stamp()))
    verdict = world.later(12 * SECOND).diagnosis().verdict
    assert verdict.state is VerdictState.UNKNOWN
    assert verdict.sentence == (
        "The event loop of thread 1 (main) is blocked in urllib.request.urlopen in fetch (app.py:40) for 12 s or more; "
        "31 tasks wait, 30 ready."
    )


def test_a_loop_that_waits_for_a_child_which_sleeps_is_not_called_running() -> None:
    world, loop = a_loop(TaskState.READY, waits_in="waitpid of 2")
    child = world.process(2, ppid=1)
    world.thread(2, "sleep", pid=2, waits_in="sleep 600 s", timed=True)
    world.waits(loop, child)
    verdict = world.later(20 * SECOND).diagnosis().verdict
    assert verdict.state is VerdictState.UNKNOWN and verdict.sentence.startswith("The event loop of ")


def test_a_future_that_nobody_is_left_to_complete() -> None:
    world = World()
    world.process(1)
    world.thread(1, "main", waits_in="epoll_wait of 1 descriptor")
    waiter = world.task("waiter", TaskState.SUBMITTED, 0)
    kept = world.task("kept", TaskState.SUBMITTED, 0)
    lost = world.resource("future:box/1/0x10", lost="nothing refers to it")
    stamp = world.stamp()
    edge = Edge(kind=EdgeKind.WAITS_FOR, source=waiter, target=lost, since_mono_ns=stamp["mono_ns"])
    world.store.apply(EdgesAdded(scope="test", edges=(edge,), **stamp))
    world.waits(kept, world.resource("future:box/1/0x20"))
    assert world.later(9 * SECOND).finding("lost-future") is None
    finding = world.later(2 * SECOND).found("lost-future")
    assert finding.entities == (waiter, lost) and finding.state is VerdictState.UNKNOWN and finding.inferred
    assert finding.sentence == (
        "Task waiter K has awaited a future for 11 s or more that nothing else references: it may never complete."
    )


def test_tasks_with_crossed_locks() -> None:
    world = World()
    a, b = world.task("a", TaskState.SUBMITTED, 0), world.task("b", TaskState.SUBMITTED, 0)
    one, two = world.lock(0x10, "pylock"), world.lock(0x20, "pylock")
    world.holds(one, a)
    world.holds(two, b)
    world.waits(a, two)
    world.waits(b, one)
    finding = world.later().found("lock-cycle")
    assert finding.sentence.startswith("Deadlock of 2 tasks over 2 Python locks: a K → b K → a K")
    assert finding.state is VerdictState.DEADLOCK


def test_a_task_that_waits_for_its_own_lock() -> None:
    world = World()
    me, lock = world.task("a", TaskState.SUBMITTED, 0), world.lock(0x10, "pylock")
    world.holds(lock, me)
    world.waits(me, lock)
    assert "that it holds itself" in world.later().found("self-deadlock").sentence


def test_tasks_that_await_each_other() -> None:
    world = World()
    a, b = world.task("a", TaskState.SUBMITTED, 0), world.task("b", TaskState.SUBMITTED, 0)
    world.waits(a, b)
    world.waits(b, a)
    assert world.later().found("task-cycle").state is VerdictState.DEADLOCK


@pytest.mark.parametrize(
    ("holder", "timed", "waited_s", "said"),
    [
        ("", False, 10, "Task asks waits for a semaphore for 10 s or more; no task is seen to hold it."),
        ("", False, 9, ""),
        ("", True, 10, ""),
        ("task:asyncio/has", False, 10, ""),
    ],
)
def test_a_task_that_waits_for_a_semaphore_that_nobody_has(holder: str, timed: bool, waited_s: int, said: str) -> None:
    world = World()
    world.process(1)
    loop = world.thread(1, "main", waits_in="epoll_wait of 3 descriptors", timed=False)
    task = Task(id="task:asyncio/asks", system="asyncio", name="asks", state=TaskState.SUBMITTED, where=(loop,))
    world.store.apply(TasksSeen(tasks=(task,), **world.stamp()))
    lock = world.resource("sem:box/1/0x9")
    world.waits(task.id, lock, timed=timed)
    if holder:
        world.holds(lock, holder)
    found = world.later(waited_s * SECOND).finding("task-held-up")
    assert (found.sentence if found is not None else "") == said
    assert found is None or found.state is VerdictState.UNKNOWN


HELD = "Task asks waits for a Python lock{}, held by task has, which awaits {}."


@pytest.mark.parametrize(
    ("awaits", "timed", "polls", "waited_s", "said"),
    [
        ("future:box/1/0x7", False, False, 10, HELD.format(" for 10 s or more", "a future")),
        ("future:box/1/0x7", False, False, 9, ""),  # the loop may be about to serve
        ("future:box/1/0x7", False, True, 1, HELD.format("", "a future")),
        ("future:box/1/0x7", True, False, 10, ""),  # it gives up by itself
        ("thread:box/1/1", False, False, 10, ""),  # it is ready to run
        ("", False, False, 10, ""),  # it runs
    ],
)
def test_a_task_whose_lock_is_held_by_one_that_awaits_something(
    awaits: str, timed: bool, polls: bool, waited_s: int, said: str
) -> None:
    world = World()
    world.process(1)
    loop = world.thread(1, "main", waits_in="sem_wait", timed=polls, switches=0, moved=0)
    tasks = [
        Task(id=f"task:asyncio/{name}", system="asyncio", name=name, state=TaskState.SUBMITTED, where=(loop,))
        for name in ("asks", "has")
    ]
    world.store.apply(TasksSeen(tasks=tuple(tasks), **world.stamp()))
    lock = world.lock(0x9, "pylock")
    world.waits(tasks[0].id, lock)
    world.holds(lock, tasks[1].id)
    if awaits:
        world.waits(tasks[1].id, world.resource(awaits) if awaits.startswith("future") else awaits, timed=timed)
    if polls:
        world.now_ns += SECOND // 10
        world.thread(1, "main", waits_in="sem_wait", timed=True, cpu_ns=1000, switches=3, moved=0)
    found = world.later(waited_s * SECOND).finding("task-held-up")
    assert (found.sentence if found is not None else "") == said
    assert found is None or (found.state, found.roots) == (VerdictState.UNKNOWN, (tasks[1].id,))


@pytest.mark.parametrize(
    ("answers", "timed", "lost", "waited_s", "said"),
    [
        (True, False, "", 10, "Task asks has waited for a future for 10 s or more: it is held up, or waits for news."),
        (True, False, "", 9, ""),
        (True, True, "", 10, ""),
        (True, False, "nothing refers to it", 10, ""),  # that has a rule of its own
        (False, False, "", 10, ""),
    ],
)
def test_a_request_that_waits_for_what_its_own_program_owes_it(
    answers: bool, timed: bool, lost: str, waited_s: int, said: str
) -> None:
    world = World()
    world.process(1)
    loop = world.thread(1, "main", waits_in="epoll_wait of 3 descriptors", timed=False)
    world.waits(loop, world.resource("socket:box/9", listening=True))
    facts = RequestFacts(held_up=True) if answers else None
    task = Task(
        id="task:asyncio/asks", system="asyncio", name="asks", state=TaskState.SUBMITTED, where=(loop,), facts=facts
    )
    world.store.apply(TasksSeen(tasks=(task,), **world.stamp()))
    world.waits(task.id, world.resource("future:box/1/0x9", lost=lost), timed=timed)
    found = world.later(waited_s * SECOND).finding("request-held-up")
    assert (found.sentence if found is not None else "") == said
    if not lost:
        expected = VerdictState.UNKNOWN if said else VerdictState.RUNNING
        assert world.diagnosis().verdict.state is expected


ASLEEP = Frame("sleep", file="/usr/lib/python3.13/asyncio/tasks.py", line=1, language="python")
GETS = Frame("Queue.get", file="/usr/lib/python3.13/asyncio/queues.py", line=1, language="python")
GIVES_UP = Frame("wait_for", file="/usr/lib/python3.13/asyncio/tasks.py", line=2, language="python")
PACKAGE = Frame("ask", file="/usr/lib/python3.13/site-packages/client/api.py", line=3, language="python")


@pytest.mark.invariant("behaviour.L18")
@pytest.mark.parametrize(
    ("inside", "way", "moved", "waited_s", "sleeps"),
    [
        ((ASLEEP,), LoopWay.RESTS, False, 99, True),
        ((ASLEEP,), LoopWay.ONCE, False, 99, True),
        ((ASLEEP,), LoopWay.POLLS, True, 1, False),
        ((ASLEEP,), LoopWay.UNKNOWN, True, 1, False),
        ((ASLEEP, PACKAGE), LoopWay.UNKNOWN, True, 1, False),
        ((GETS,), LoopWay.UNKNOWN, True, 9, True),
        ((GETS,), LoopWay.RESTS, True, 9, True),
        ((GETS,), LoopWay.POLLS, True, 9, False),
        ((GETS,), LoopWay.RESTS, True, 10, False),  # nothing has come since
        ((GETS,), LoopWay.RESTS, False, 1, False),  # nothing was seen of it
        ((GETS, GIVES_UP), LoopWay.RESTS, True, 1, False),
        ((GETS, PACKAGE), LoopWay.RESTS, True, 1, False),  # which may poll
        ((), LoopWay.PAUSES, False, 99, True),
    ],
)
def test_L18_an_event_loop_sleeps_if_each_of_its_tasks_goes_on(
    inside: tuple[Frame, ...], way: LoopWay, moved: bool, waited_s: int, sleeps: bool
) -> None:
    world = World()
    world.process(1)
    for looks in range(2):
        waits_in = "epoll_wait of 1 descriptor"
        loop = world.thread(1, "main", waits_in=waits_in, timed=True, cpu_ns=looks, switches=3 * looks, moved=0)
        world.now_ns += 99 * SECOND
    rests = Frame("beats", file="/job/a.py", line=3, language="python", loop=LoopWay.RESTS)
    place = Frame("works", file="/job/a.py", line=9, language="python", loop=way)
    chains = {"beats": (ASLEEP, rests), "works": (*inside, place)}
    since_ns = world.now_ns - waited_s * SECOND
    for name, frames in chains.items():
        task = Task(
            id=f"task:asyncio/{name}",
            system="asyncio",
            name=name,
            state=TaskState.SUBMITTED,
            since_mono_ns=since_ns,
            facts=RequestFacts(moved=moved),
        )
        stack = Stack(thread=task.id, frames=frames, taken_mono_ns=world.now_ns, source="coroutines")
        world.store.apply(TasksSeen(tasks=(task,), **world.stamp()))
        world.store.apply(StacksSeen(stacks=(stack,), **world.stamp()))
        world.edge(EdgeKind.RUNS_ON, task.id, loop)
    state = seen(world)
    found = doing(state.snapshot.threads[loop], state).kind
    assert found is (Behaviour.SLEEPING if sleeps else Behaviour.POLLING)
    if sleeps:  # the task is named, not the line that runs the loop
        said = world.diagnosis().verdict.sentence
        assert (
            said == "Asleep: task beats of thread 1 (main) is in sleep() in beats (a.py:3) and will wake by itself; "
            "no hang found."
        )
