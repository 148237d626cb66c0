"""Programs that nothing can wake, and that may wait on purpose: each case by a state that is built by hand."""

from __future__ import annotations

import pytest

from livedbg.analysis import VerdictState
from livedbg.model import Frame, Resource, Stack
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
    ("attributes", "state"), [({"wake-up": "x"}, VerdictState.UNKNOWN), ({}, VerdictState.STALLED)]
)
def test_an_event_loop_with_nothing_to_do_may_be_idle(attributes: dict[str, str], state: VerdictState) -> None:
    world = blocked("epoll_wait of 1 descriptor", exe="/bin/c")
    pipe = Resource(id="pipe:box/7", kind="pipe", name="pipe 3 of 1", attributes=attributes)
    world.store.apply(ev.ResourcesSeen(resources=(pipe,), **world.stamp()))
    world.waits(MAIN, "pipe:box/7")
    assert world.later().diagnosis().verdict.state is state


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
