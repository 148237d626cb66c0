"""Waits for file locks that other processes hold."""

from __future__ import annotations

import pytest

from livedbg.analysis import VerdictState
from livedbg.model import Frame, Stack, ThreadState
from livedbg.model import events as ev
from livedbg.model.facts import SocketFacts
from tests.analysis.world import SECOND, World

HOLDER = "process:box/2"
PAUSES = "pause (waits for a signal)"


def held(outside: str | None = "", *, wait_s: int = 20, **holder: object) -> World:
    """Thread 1 waits for a lock of process 2, whose only thread waits as `holder` says."""
    world = World()
    world.process(1, threads=1, outside="handles SIGTERM")
    world.process(2, threads=1, outside=outside)
    waiter = world.thread(1, "asks", waits_in="fcntl lock of /tmp/f", timed=False, wakers=(HOLDER,))
    what: dict[str, object] = {"waits_in": PAUSES, "timed": False, **holder}
    world.thread(2, "has", pid=2, **what)  # type: ignore[arg-type]
    lock = world.resource("flock:box/fe:00:7:10-19", "locked", kind="POSIX")
    world.waits(waiter, lock)
    world.holds(lock, HOLDER)
    return world.later(wait_s * SECOND)


def test_a_lock_of_a_process_that_can_t_go_on_is_a_stall_that_names_it() -> None:
    for world in (held(), held(waits_in="sem_wait", wakers=(HOLDER,))):
        found = world.found("file-lock-held")
        assert world.diagnosis().verdict.state is VerdictState.STALLED
        assert found.roots == (HOLDER,)
        assert found.entities == ("thread:box/1/1", "flock:box/fe:00:7:10-19", HOLDER)
    assert held().diagnosis().verdict.sentence == (
        "Thread 1 (asks) waits for the lock of flock fe:00:7:10-19, held by process 2 (prog2). "
        "Its first thread is blocked in pause (waits for a signal) for 20 s or more."
    )


@pytest.mark.parametrize(
    "world",
    [
        held("handles SIGTERM"),
        held(None),
        held(waits_in="accept on 127.0.0.1:80", outside="a connection to socket 3"),
        held(waits_in="sleep 100 s", timed=True),
        held(waits_in="sem_wait", wakers=(HOLDER, "process:box/3")),
    ],
)
def test_a_second_instance_that_waits_for_its_turn_is_not_called_stuck(world: World) -> None:
    assert world.found("file-lock-held").state is VerdictState.UNKNOWN
    assert world.diagnosis().verdict.state is VerdictState.UNKNOWN


def test_a_holder_that_runs_leaves_it_running() -> None:
    world = held(None)
    world.thread(2, "has", pid=2, state=ThreadState.RUNNING, cpu_ns=5 * SECOND)
    verdict = world.later(SECOND).diagnosis().verdict
    assert verdict.state is VerdictState.RUNNING
    assert verdict.sentence.endswith("held by process 2 (prog2).")


def test_a_wait_that_is_short_is_not_reported() -> None:
    assert held(wait_s=9).finding("file-lock-held") is None
    assert held(wait_s=10).finding("file-lock-held") is not None


@pytest.mark.parametrize(
    ("servers", "function", "state"),
    [
        ((1, 2, 3), "work", VerdictState.RUNNING),
        ((2, 3), "work", VerdictState.UNKNOWN),
        ((1, 2, 3), "answer", VerdictState.UNKNOWN),  # a request has left the lock behind
        ((1, 2, 3), "", VerdictState.UNKNOWN),
    ],
)
def test_servers_that_take_turns_are_idle(servers: tuple[int, ...], function: str, state: VerdictState) -> None:
    world = held(waits_in="accept on 127.0.0.1:80", outside="a connection to socket 3")
    world.waits("thread:box/2/2", world.resource("socket:box/7", listening=True, facts=SocketFacts(servers=servers)))
    for thread, names in (("thread:box/1/1", (function, "work")), ("thread:box/2/2", ("work",))):
        frames = tuple(Frame(function=name, file="/home/me/server.c", line=3) for name in names if function)
        stack = Stack(thread=thread, frames=frames, source="native", taken_mono_ns=world.now_ns)
        world.store.apply(ev.StacksSeen(stacks=(stack,), **world.stamp()))
    found = world.later(SECOND).diagnosis()
    assert found.verdict.state is state, found.verdict.sentence
