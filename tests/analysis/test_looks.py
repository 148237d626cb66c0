"""What is judged is the state as of the last look: a thread that nobody has looked at since may have moved."""

from __future__ import annotations

import pytest

from livedbg.analysis import Diagnosis, VerdictState
from livedbg.model import events as ev
from livedbg.session.rulebook import diagnose
from tests.analysis.world import SECOND, World

LIMIT = 10 * SECOND


def held_lock(looked_after_ns: int, clock_after_ns: int) -> World:
    """Thread 12 began to wait at a look for the lock that thread 11 holds, which waits too; one more look began some
    time later, and the clock went on."""
    world = World()
    world.process(1)
    first, second = world.thread(1, "main", waits_in="sem_wait"), world.thread(12, waits_in="pthread_mutex_lock")
    lock = world.lock(0x10)
    world.holds(lock, first)
    world.waits(second, lock)
    world.waits(first, world.resource("sem:box/1/0x90"))
    began_ns = world.now_ns
    world.now_ns = began_ns + looked_after_ns
    world.store.apply(ev.ThreadsSeen(threads=tuple(world.threads.values()), **world.stamp()))
    world.store.apply(ev.Looked(source="proc", since_mono_ns=world.now_ns, **world.stamp()))
    world.now_ns = began_ns + clock_after_ns
    world.store.apply(ev.Tick(**world.stamp()))
    return world


def judged(world: World) -> Diagnosis:
    return diagnose(world.snapshot())


@pytest.mark.invariant("snapshot.S3")
@pytest.mark.parametrize("late_ns", [0, 8 * SECOND, 3600 * SECOND])
def test_S3_time_that_passed_since_the_last_look_is_no_wait(late_ns: int) -> None:
    short = held_lock(LIMIT - 1, LIMIT - 1 + late_ns)
    assert judged(short).verdict.state not in (VerdictState.STALLED, VerdictState.DEADLOCK)
    long = held_lock(LIMIT, LIMIT + late_ns)
    assert judged(long).verdict.state is VerdictState.STALLED


def test_a_wait_begins_when_it_began_however_late_the_look_was() -> None:
    late, now = (judged(held_lock(LIMIT, LIMIT + late)) for late in (8 * SECOND, 0))
    assert late.verdict.since_wall_ns == now.verdict.since_wall_ns is not None


def test_a_source_that_watches_nothing_any_more_holds_no_clock_back() -> None:
    world = held_lock(LIMIT - 1, LIMIT + 1)
    before = world.snapshot().as_of_looks().now("box").mono_ns
    world.store.apply(ev.Looked(source="proc", since_mono_ns=None, **world.stamp()))
    assert world.snapshot().as_of_looks().now("box").mono_ns == before + 2


def test_the_source_that_looked_first_counts_and_another_host_does_not() -> None:
    world = held_lock(5 * SECOND, 9 * SECOND)
    early = world.now_ns - 6 * SECOND
    world.store.apply(ev.Looked(source="memory", since_mono_ns=early, **world.stamp()))
    elsewhere = ev.Stamp(host="other", mono_ns=70, wall_ns=10**18)
    world.store.apply(ev.Looked(source="proc", since_mono_ns=20, **elsewhere))
    shot = world.snapshot().as_of_looks()
    assert (shot.now("box").mono_ns, shot.now("other").mono_ns) == (early, 20)
    assert shot.now("box").wall_ns == world.stamp()["wall_ns"] - 6 * SECOND


def test_a_look_in_the_future_changes_nothing() -> None:
    world = held_lock(SECOND, 2 * SECOND)
    world.store.apply(ev.Looked(source="proc", since_mono_ns=world.now_ns + LIMIT, **world.stamp()))
    snapshot = world.snapshot()
    assert snapshot.as_of_looks() is snapshot
