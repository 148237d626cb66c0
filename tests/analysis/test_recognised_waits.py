"""Waits of idle programs that are recognised: keys, changes of files, children, jobs. And those that only look so."""

from __future__ import annotations

import pytest

from livedbg.analysis import Verdict, VerdictState
from livedbg.analysis.python_calls import is_timer, waits_for_job
from livedbg.model import Frame, Stack
from livedbg.model import events as ev
from tests.analysis.world import SECOND, World

KEY = {"what": "tty", "path": "/dev/pts/7", "idle": "a key"}


def verdict(world: World) -> Verdict:
    return world.later(20 * SECOND).diagnosis().verdict


def waiting(*others: tuple[str, dict[str, str]], timed: bool | None = None) -> World:
    """A main thread that waits for a key of its terminal, and for other things."""
    world = World()
    world.process(1)
    things = [world.resource("file:box/1.0", **KEY)]
    things += [world.resource(entity, **attributes) for entity, attributes in others]
    world.waits(world.thread(1, "app", waits_in=f"poll of {len(things)} descriptors", timed=timed), *things)
    return world


def test_a_program_that_waits_for_a_key_is_idle() -> None:
    found = verdict(waiting())
    assert found.state is VerdictState.RUNNING
    assert found.sentence == "Idle: thread 1 (app) waits for a key (poll of 1 descriptors); no hang found."


@pytest.mark.invariant("behaviour.L5")
@pytest.mark.parametrize(
    ("entity", "attributes", "state"),
    [
        ("pipe:box/7", {"wakes_itself": True}, VerdictState.RUNNING),  # gdb's event pipe
        ("file:box/1.5", {"what": "signalfd"}, VerdictState.RUNNING),
        ("socket:box/8", {"listening": True}, VerdictState.RUNNING),
        ("socket:box/8", {"peer": "10.0.0.7:22"}, VerdictState.UNKNOWN),  # ssh, whose server hangs
        ("pipe:box/9", {"writers": "77"}, VerdictState.UNKNOWN),  # a launcher that passes on what its ranks print
        ("file:box/1.6", {"what": "other", "path": "/dev/npu0"}, VerdictState.UNKNOWN),
    ],
)
def test_L5_a_key_among_what_others_owe_is_none(entity: str, attributes: dict[str, str], state: VerdictState) -> None:
    assert verdict(waiting((entity, attributes))).state is state


def test_a_process_that_is_waited_for_beside_a_key_is_owed() -> None:
    world = waiting()
    world.waits("thread:box/1/1", "file:box/1.0", world.process(2))
    world.thread(2, pid=2, waits_in="read of pipe 3")
    assert verdict(world).state is VerdictState.UNKNOWN


def shell(child_in: str = "sleep 1e+05 s", *, timed: bool = True, watched: bool = True) -> World:
    """A shell that waits for a child."""
    world = World()
    world.process(1)
    world.waits(world.thread(1, "bash", waits_in="waitpid of its child 2 (x)"), "process:box/2")
    if watched:
        world.process(2, ppid=1)
        world.thread(2, "x", pid=2, waits_in=child_in, timed=timed)
    return world


def test_a_shell_is_as_idle_as_its_child() -> None:
    found = verdict(shell())
    assert found.state is VerdictState.RUNNING
    assert "thread 2 (x) is in sleep 1e+05 s and will wake by itself, and thread 1 (bash) waits for" in found.sentence
    world = shell("read of /dev/pts/7", timed=False)
    world.waits("thread:box/1/1", "process:box/2")
    world.waits("thread:box/2/2", world.resource("file:box/2.0", **KEY))
    assert "Idle: thread 2 (x) waits for a key" in verdict(world).sentence


@pytest.mark.parametrize(
    "world",
    [shell("read of pipe 3", timed=False), shell(watched=False), shell("poll of 2 descriptors")],
)
def test_a_shell_whose_child_may_hang_or_is_not_seen_is_not_idle(world: World) -> None:
    assert verdict(world).state is VerdictState.UNKNOWN


def test_a_sleep_says_nothing_of_another_thread_that_waits() -> None:
    world = shell()
    world.thread(3, "helper", pid=2, waits_in="sem_wait")
    assert verdict(world).state is VerdictState.UNKNOWN


LIBRARY = "/usr/lib/python3.12"
TAKES = (("recv", "multiprocessing/connection"), ("get", "multiprocessing/queues"), ("worker", "multiprocessing/pool"))


def stack(*calls: tuple[str, str]) -> tuple[Frame, ...]:
    return tuple(Frame(function=name, file=f"{LIBRARY}/{file}.py", line=1, language="python") for name, file in calls)


def pool(parent: str, *, timed: bool | None = False, calls: tuple[tuple[str, str], ...] = TAKES) -> World:
    """A process and its worker."""
    world = World()
    if parent:
        world.process(1)
        world.thread(1, "python", waits_in=parent, timed=timed)
    world.process(2, ppid=1)
    worker = world.thread(2, "worker", pid=2, waits_in="recv on pipe 5")
    taken = Stack(thread=worker, frames=stack(*calls), taken_mono_ns=world.now_ns, source="py-spy", layer="python")
    world.store.apply(ev.StacksSeen(stacks=(taken,), **world.stamp()))
    return world


def test_a_worker_that_waits_for_a_job_is_idle_and_shows_nothing_of_its_parent() -> None:
    assert "waits for a job" in verdict(pool("")).sentence
    assert verdict(pool("")).state is VerdictState.RUNNING
    assert verdict(pool("sem_wait")).state is VerdictState.UNKNOWN  # a result that never comes
    assert verdict(pool("sem_timedwait", timed=True)).state is VerdictState.UNKNOWN  # and is asked for again and again
    assert verdict(pool("", calls=(("load", "socket"), *TAKES[2:]))).state is VerdictState.UNKNOWN


def test_only_what_lies_in_the_queue_of_a_worker_waits_for_a_job() -> None:
    inside = Frame(function="sem_wait", file="sem_wait.c", language="native")
    assert waits_for_job((inside, *stack(*TAKES)))
    assert waits_for_job(stack(("get", "queue"), ("_worker", "concurrent/futures/thread")))
    assert not waits_for_job(stack(("get", "queue"), ("my_job", "site-packages/app"), *TAKES[2:]))
    assert not waits_for_job(stack(("get", "queue"), ("worker", "mine/pool")))
    assert not waits_for_job(())
    listens = (("QueueListener.dequeue", "logging/handlers"), ("QueueListener._monitor", "logging/handlers"))
    assert waits_for_job(stack(*listens))
    assert not waits_for_job(stack(("emit", "mine/sink"), *listens))
    feeds = ("Queue._feed", "multiprocessing/queues")
    assert waits_for_job(stack(("Condition.wait", "threading"), feeds))
    assert not waits_for_job(stack(("Connection._send", "multiprocessing/connection"), feeds))  # the pipe is full
    of_a_system = frozenset({("loads/worker.py", "loop")})
    assert waits_for_job(stack(("get", "queue"), ("loop", "loads/worker")), of_a_system)
    assert not waits_for_job(stack(("get", "queue"), ("loop", "loads/worker")))


def test_a_timer_of_the_standard_library() -> None:
    waits = (("Condition.wait", "threading"), ("Event.wait", "threading"))
    assert is_timer(stack(*waits, ("Timer.run", "threading"), ("Thread._bootstrap", "threading")))
    assert not is_timer(stack(*waits, ("Thread.run", "threading")))
    assert not is_timer(stack(("rings", "mine/clock"), ("Timer.run", "threading")))  # its time has come
    assert not is_timer(())
