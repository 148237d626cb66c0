"""Programs that nothing can wake, and that may wait on purpose: each case by a state that is built by hand."""

from __future__ import annotations

import pytest

from livedbg.analysis import VerdictState
from livedbg.model import Frame, Process, Resource, Stack, Task, TaskState, ThreadState
from livedbg.model import events as ev
from tests.analysis.world import SECOND, World

ONE = "process:box/1"
MAIN = "thread:box/1/1"
LIBRARY = "/usr/lib/python3.11"
NAMED = [("Condition.wait", f"{LIBRARY}/threading.py"), ("Event.wait", f"{LIBRARY}/threading.py")]
EVENT = [("wait", f"{LIBRARY}/threading.py"), ("wait", f"{LIBRARY}/threading.py")]
USER = ("main", "/home/me/train.py")


def blocked(waits_in: str = "sem_wait", *, exe: str = "/usr/bin/python3.11", threads: int = 1) -> World:
    """A process of which nothing can wake any thread."""
    world = World()
    world.process(1, threads=threads, outside="", exe=exe)
    world.thread(1, "main", waits_in=waits_in, timed=False, wakers=(ONE,))
    if threads == 2:
        world.thread(2, "worker", waits_in="sem_wait", timed=False, wakers=(ONE,))
    return world.later(20 * SECOND)


def in_python(world: World, *frames: tuple[str, str]) -> World:
    found = tuple(Frame(function=name, file=file, line=1, language="python") for name, file in frames)
    stack = Stack(thread=MAIN, frames=found, source="py-spy", taken_mono_ns=world.now_ns)
    world.store.apply(ev.StacksSeen(stacks=(stack,), **world.stamp()))
    return world.later()


@pytest.mark.parametrize(
    ("frames", "state"),
    [
        ((*EVENT, USER), VerdictState.UNKNOWN),
        ((*NAMED, USER), VerdictState.UNKNOWN),
        ((NAMED[0], ("Barrier._wait", f"{LIBRARY}/threading.py"), USER), VerdictState.STALLED),
        ((NAMED[0], ("Barrier.wait", f"{LIBRARY}/threading.py"), USER), VerdictState.STALLED),
        ((*EVENT, ("serve", f"{LIBRARY}/site-packages/served/app.py"), USER), VerdictState.UNKNOWN),
        ((*EVENT, ("get", f"{LIBRARY}/multiprocessing/pool.py"), USER), VerdictState.STALLED),
        ((*EVENT, ("start", f"{LIBRARY}/threading.py"), USER), VerdictState.STALLED),
        ((EVENT[0], USER), VerdictState.STALLED),
        (tuple(EVENT), VerdictState.STALLED),  # who called it is not known
        ((EVENT[0], ("wait", "/home/me/train.py"), USER), VerdictState.STALLED),  # a class of the user's
        ((("wait", "/home/me/threading.pyx"), EVENT[1], USER), VerdictState.STALLED),
        ((NAMED[0], ("Thread.join", f"{LIBRARY}/threading.py"), USER), VerdictState.STALLED),
        ((("acquire", f"{LIBRARY}/threading.py"), NAMED[1], USER), VerdictState.STALLED),
        ((EVENT[0], ("get", f"{LIBRARY}/queue.py"), USER), VerdictState.STALLED),
        ((("wait", "/home/me/train.py"), ("wait", "/home/me/train.py"), USER), VerdictState.STALLED),
    ],
)
def test_a_python_program_in_event_wait_may_wait_for_ctrl_c(
    frames: tuple[tuple[str, str], ...], state: VerdictState
) -> None:
    world = in_python(blocked(), *frames)
    assert world.diagnosis().verdict.state is state
    assert ("waits for Ctrl-C looks the same" in world.found("no-waker").sentence) is (state is VerdictState.UNKNOWN)


@pytest.mark.invariant("idle_by_design.D2")
@pytest.mark.parametrize(
    ("called", "state"),
    [
        ("Socket.recv_string", VerdictState.STALLED),
        ("receive", VerdictState.STALLED),
        ("Reactor.run", VerdictState.UNKNOWN),
        ("forget", VerdictState.UNKNOWN),
        ("recvs", VerdictState.UNKNOWN),
    ],
)
def test_D2_a_call_that_returns_one_thing_is_no_event_loop(called: str, state: VerdictState) -> None:
    """A socket of zmq whose peer, a thread, has ended: it polls an event descriptor of its own process."""
    world = blocked("poll of 1 descriptor")
    world.waits(MAIN, world.resource("eventfd:box/7", wakes_itself=True))
    in_python(world, (called, f"{LIBRARY}/site-packages/library/socket.py"), USER)
    assert world.diagnosis().verdict.state is state


def test_a_worker_in_event_wait_is_stuck_if_its_main_thread_waits_for_something_else() -> None:
    assert in_python(blocked("pthread_join", threads=2), ("join", "x.py")).diagnosis().verdict.state is (
        VerdictState.STALLED
    )


@pytest.mark.parametrize(
    ("exe", "state"), [("/opt/python3.12", VerdictState.UNKNOWN), ("/bin/c", VerdictState.STALLED)]
)
def test_without_its_python_stack_nothing_is_known_of_a_python_program(exe: str, state: VerdictState) -> None:
    assert blocked(exe=exe).diagnosis().verdict.state is state


@pytest.mark.parametrize(
    ("facts", "state"), [({"wakes_itself": True}, VerdictState.UNKNOWN), ({}, VerdictState.STALLED)]
)
def test_an_event_loop_with_nothing_to_do_may_be_idle(facts: dict[str, bool], state: VerdictState) -> None:
    world = blocked("epoll_wait of 1 descriptor", exe="/bin/c")
    pipe = Resource(id="pipe:box/7", kind="pipe", name="pipe 3 of 1", **facts)
    world.store.apply(ev.ResourcesSeen(resources=(pipe,), **world.stamp()))
    world.waits(MAIN, "pipe:box/7")
    assert world.later().diagnosis().verdict.state is state


@pytest.mark.invariant("idle_by_design.D1")
@pytest.mark.parametrize(
    ("kind", "facts", "timed", "known", "state"),
    [
        ("cond", {}, False, "", VerdictState.STALLED),
        ("sem", {}, False, "", VerdictState.STALLED),
        ("pylock", {}, False, "", VerdictState.STALLED),
        ("cond", {"idle": "an event"}, False, "", VerdictState.UNKNOWN),
        ("cond", {"outside": "a signal"}, False, "", VerdictState.UNKNOWN),
        ("future", {}, False, "", VerdictState.UNKNOWN),
        ("cond", {}, True, "", VerdictState.UNKNOWN),
        ("cond", {}, False, "tasks-cut", VerdictState.UNKNOWN),
        ("", {}, False, "", VerdictState.UNKNOWN),
    ],
)
def test_an_event_loop_whose_tasks_all_wait_for_each_other_is_stuck(
    kind: str, facts: dict[str, str], timed: bool, known: str, state: VerdictState
) -> None:
    world = blocked("epoll_wait of 1 descriptor")
    wakes = Resource(id="socket:box/7", kind="socket", name="socket 3 of 1", wakes_itself=True)
    queue = Resource(id=f"{kind or 'cond'}:box/1/0x9", kind=kind, name="asyncio.Queue 0x9", **facts)  # type: ignore[arg-type]
    world.store.apply(ev.ResourcesSeen(resources=(wakes, queue), **world.stamp()))
    world.waits(MAIN, wakes.id)
    tasks = tuple(
        Task(id=f"task:asyncio/box/1/{name}", system="asyncio", name=name, state=TaskState.SUBMITTED, where=(MAIN,))
        for name in ("main", "asks")
    )
    world.store.apply(ev.TasksSeen(tasks=tasks, **world.stamp()))
    world.waits(tasks[0].id, tasks[1].id)
    if kind:
        world.waits(tasks[1].id, queue.id, timed=timed)
    if known:
        world.status("", code=known)
    verdict = world.later().diagnosis().verdict
    assert verdict.state is state
    if state is VerdictState.STALLED:
        assert verdict.sentence.startswith("Task asks waits in ")
        assert verdict.sentence.endswith("nothing can wake thread 1 (main).")


@pytest.mark.parametrize(
    ("waits_in", "exited", "state"),
    [
        ("sem_wait", False, VerdictState.UNKNOWN),
        ("sem_wait", True, VerdictState.STALLED),
        ("pthread_mutex_lock", False, VerdictState.STALLED),
    ],
)
def test_a_parent_may_wait_while_its_child_serves(waits_in: str, exited: bool, state: VerdictState) -> None:
    world = blocked(waits_in, exe="/bin/c")
    child = world.process(2, ppid=1)
    world.thread(2, "child", pid=2, waits_in="accept on *:80", timed=False)
    if exited:
        world.store.apply(ev.ProcessExited(id=child, status=0, **world.stamp()))
    assert world.later(SECOND).diagnosis().verdict.state is state


def family(*others: tuple[int, int, ThreadState], gone: tuple[int, ...] = ()) -> World:
    """Process 1, which nothing can wake, and others (pid, parent, state)."""
    world = blocked(exe="/bin/c")
    for pid, ppid, state in others:
        world.process(pid, state, ppid=ppid)
        if pid in gone:
            world.exits(f"process:box/{pid}", 0)
    return world.later(SECOND)


@pytest.mark.parametrize(
    ("world", "state"),
    [
        (family((2, 1, ThreadState.WAITING)), VerdictState.UNKNOWN),
        (family((2, 1, ThreadState.ZOMBIE)), VerdictState.STALLED),
        (family((2, 1, ThreadState.DEAD)), VerdictState.STALLED),
        (family((2, 1, ThreadState.ZOMBIE), (3, 2, ThreadState.WAITING)), VerdictState.UNKNOWN),
        (family((3, 2, ThreadState.WAITING), (2, 1, ThreadState.ZOMBIE)), VerdictState.UNKNOWN),
        (family((2, 1, ThreadState.ZOMBIE), (3, 1, ThreadState.WAITING)), VerdictState.UNKNOWN),
        (family((2, 77, ThreadState.WAITING)), VerdictState.STALLED),  # not of its family
        (family((2, 1, ThreadState.WAITING), gone=(2,)), VerdictState.STALLED),
    ],
)
def test_a_living_child_or_grandchild_may_still_work(world: World, state: VerdictState) -> None:
    found = world.diagnosis().verdict
    assert found.state is state, found.sentence


def test_a_child_of_the_same_number_on_another_host_is_not_of_the_family() -> None:
    world = blocked(exe="/bin/c")
    other = Process(id="process:far/2", host="far", pid=2, ppid=1, state=ThreadState.WAITING)
    world.store.apply(ev.ProcessSeen(process=other, **world.stamp()))
    assert world.later(SECOND).diagnosis().verdict.state is VerdictState.STALLED


def test_a_child_that_nothing_can_wake_either_does_not_work() -> None:
    world = blocked(exe="/bin/c")
    world.process(2, ppid=1, threads=1, outside="", exe="/bin/c")
    world.thread(2, pid=2, waits_in="sem_wait", timed=False, wakers=("process:box/2",))
    assert world.later(20 * SECOND).diagnosis().verdict.state is VerdictState.STALLED


@pytest.mark.parametrize(
    ("attributes", "state"),
    [
        (({"wakes_itself": True}, {"wakes_itself": True}), VerdictState.UNKNOWN),
        (({"wakes_itself": True}, {}), VerdictState.STALLED),
        (({"wakes_itself": True}, None), VerdictState.STALLED),
        ((), VerdictState.STALLED),
    ],
)
def test_an_event_loop_may_be_idle_only_if_all_that_it_waits_for_are_ways_to_wake_itself(
    attributes: tuple[dict[str, str] | None, ...], state: VerdictState
) -> None:
    world = blocked("epoll_wait of 2 descriptors", exe="/bin/c")
    for number, facts in enumerate(attributes):
        pipe = f"pipe:box/{number}"
        if facts is not None:
            world.resource(pipe, **facts)
        world.waits(MAIN, pipe)
    assert world.later().diagnosis().verdict.state is state


@pytest.mark.parametrize(
    ("waits_in", "state"),
    [
        ("pthread_join", VerdictState.STALLED),
        ("waitpid of any child", VerdictState.STALLED),
        ("flock of /tmp/f", VerdictState.STALLED),
        ("sem_wait", VerdictState.UNKNOWN),
        (None, VerdictState.UNKNOWN),
    ],
)
def test_who_waits_for_a_lock_or_an_end_does_not_wait_on_purpose(waits_in: str | None, state: VerdictState) -> None:
    world = World()
    world.process(1, threads=1, outside="", exe="/bin/c")
    world.thread(1, "main", waits_in=waits_in, timed=False, wakers=(ONE,))
    world.process(2, ppid=1)
    assert world.later(20 * SECOND).diagnosis().verdict.state is state


def test_who_waits_for_a_lock_that_is_held_does_not_wait_on_purpose() -> None:
    world = blocked("futex wait", exe="/bin/c")
    world.process(2, ppid=1)
    world.waits(MAIN, world.lock(0x10))
    world.holds("mutex:box/1/0x10", "thread:box/1/9")
    assert "may still work" not in world.later(20 * SECOND).found("no-waker").sentence


@pytest.mark.parametrize(
    ("second", "state"), [("sem_wait", VerdictState.UNKNOWN), ("pthread_join", VerdictState.STALLED)]
)
def test_one_main_thread_of_a_set_that_waits_for_a_lock_is_enough(second: str, state: VerdictState) -> None:
    world = World()
    for pid, waits_in in ((1, "sem_wait"), (2, second)):
        world.process(pid, threads=1, outside="", exe="/bin/c")
        world.thread(pid, f"m{pid}", pid=pid, waits_in=waits_in, timed=False, wakers=(f"process:box/{3 - pid}",))
    world.process(3, ppid=1)  # a child that may still work
    assert world.later(20 * SECOND).diagnosis().verdict.state is state


def notifier(
    waits_in: str, loop_waits_in: str = "select of 1 descriptor", *, own: bool = True, exe: str = "/t"
) -> World:
    """A main thread beside a thread in an event loop, as Tcl's notifier is."""
    world = World()
    world.process(1, threads=2, outside="", exe=exe)
    world.thread(1, "main", waits_in=waits_in, timed=False, wakers=(ONE,))
    loop = world.thread(2, "notifier", waits_in=loop_waits_in, timed=False, wakers=(ONE,))
    attributes = {"wakes_itself": True} if own else {}
    pipe = world.resource("pipe:box/7", "empty", **attributes)
    world.waits(loop, pipe)
    return world.later(20 * SECOND)


@pytest.mark.parametrize(
    ("world", "state"),
    [
        (notifier("pthread_cond_wait"), VerdictState.UNKNOWN),
        (notifier("futex wait", "epoll_wait of 2 descriptors"), VerdictState.UNKNOWN),
        (notifier("sem_wait", "poll of 1 descriptor"), VerdictState.UNKNOWN),
        (notifier("pthread_mutex_lock"), VerdictState.STALLED),  # nobody waits for a lock on purpose
        (notifier("pthread_join"), VerdictState.STALLED),
        (notifier("pthread_barrier_wait"), VerdictState.STALLED),
        (notifier("pthread_cond_wait", "read of pipe 3"), VerdictState.STALLED),  # no event loop
        (notifier("pthread_cond_wait", own=False), VerdictState.STALLED),
        (notifier("sem_wait", exe="/usr/bin/python3"), VerdictState.UNKNOWN),  # its Python stack can't be read
        (in_python(notifier("sem_wait", exe="/usr/bin/python3"), ("get", "/queue.py"), USER), VerdictState.STALLED),
    ],
)
def test_an_event_loop_of_another_thread_may_be_idle(world: World, state: VerdictState) -> None:
    assert world.diagnosis().verdict.state is state
