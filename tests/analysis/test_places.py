"""A place is said of a thread only if its stack was taken in the wait that it is in."""

from __future__ import annotations

import pytest

from livedbg.analysis import VerdictState
from livedbg.model import Frame, Stack
from livedbg.model.events import StacksSeen
from tests.analysis.world import World

SECOND = 1_000_000_000


def deadlock(*, outdated: bool) -> World:
    """Two threads that sleep, of which stacks are taken, and that then lock each other out; or with new stacks."""
    world = World()
    world.process(1)

    def threads(waits_in: str, line: int | None) -> list[str]:
        names = [world.thread(tid, f"t{tid}", waits_in=waits_in) for tid in (11, 12)]
        for name in names if line is not None else ():
            frame = Frame(function="work", file="/w/work.cpp", line=line)
            stack = Stack(thread=name, frames=(frame,), taken_mono_ns=world.stamp()["mono_ns"], source="no stop")
            world.store.apply(StacksSeen(stacks=(stack,), **world.stamp()))
        return names

    threads("sleep 0.3 s", 3)
    world.later(SECOND)
    one, other = threads("pthread_mutex_lock", None if outdated else 7)
    for waiter, holder, lock in ((one, other, world.lock(0x10)), (other, one, world.lock(0x20))):
        world.waits(waiter, lock)
        world.holds(lock, holder)
    return world


@pytest.mark.parametrize("outdated", [True, False])
def test_a_stack_from_before_the_wait_gives_no_place(outdated: bool) -> None:
    world = deadlock(outdated=outdated).later(5 * SECOND)
    verdict = world.diagnosis().verdict
    assert verdict.state is VerdictState.DEADLOCK
    assert ("work.cpp:7" in verdict.sentence, "work.cpp:3" in verdict.sentence) == (not outdated, False)


@pytest.mark.parametrize("outdated", [True, False])
def test_a_cycle_says_whether_its_places_are_still_to_come(outdated: bool) -> None:
    chief = deadlock(outdated=outdated).diagnosis().chief
    assert chief is not None and chief.places_come is outdated
