"""Of which threads a new stack is taken."""

from __future__ import annotations

import pytest
from msgspec import structs

from livedbg.adapters.native.adapter import Due, due
from livedbg.model import events as ev
from tests.analysis.world import SECOND, World


def seen(world: World, after_ns: int, *, moves: bool) -> None:
    """One more look; the threads have moved since the last one, and wait for the same, or have not."""
    world.now_ns += after_ns
    for name, thread in world.threads.items():
        world.threads[name] = structs.replace(thread, switches=(thread.switches or 0) + moves)
    world.store.apply(ev.ThreadsSeen(threads=tuple(world.threads.values()), **world.stamp()))
    world.store.apply(ev.Looked(source="proc", since_mono_ns=world.now_ns, **world.stamp()))


def asked(world: World, taken: dict[str, object], after_ns: int) -> Due:
    """What is due so long after the last look."""
    world.now_ns += after_ns
    world.store.apply(ev.Tick(**world.stamp()))
    snapshot = world.snapshot().as_of_looks()
    (process,) = snapshot.processes.values()
    return due(process, snapshot, taken)


def waiting() -> tuple[World, str, dict[str, object]]:
    """A thread that waits, and whose stack was taken."""
    world = World()
    world.process(1)
    name = world.thread(1, "main", waits_in="futex")
    seen(world, SECOND, moves=True)
    first = asked(world, {}, 0)
    assert first.lasting and [thread.id for thread, _ in first.threads] == [name]
    return world, name, {thread.id: wait for thread, wait in first.threads}


@pytest.mark.invariant("native_due.D1")
def test_D1_a_thread_that_moves_between_looks_that_are_far_apart_has_no_lasting_wait() -> None:
    world, name, taken = waiting()
    assert asked(world, taken, SECOND) == Due([], lasting=False, long=False)
    for _ in range(5):
        seen(world, 8 * SECOND, moves=True)
        found = asked(world, taken, 7 * SECOND)
        assert ([thread.id for thread, _ in found.threads], found.lasting) == ([name], False)


@pytest.mark.invariant("native_due.D1")
def test_D1_one_that_moved_for_a_while_and_then_hangs_has_one_as_soon_as_looks_have_seen_it() -> None:
    world, name, taken = waiting()
    for _ in range(5):
        seen(world, 8 * SECOND, moves=True)
    seen(world, SECOND, moves=False)
    assert not asked(world, taken, 0).lasting
    seen(world, SECOND, moves=False)
    found = asked(world, taken, 0)
    assert found.lasting and not found.long and [thread.id for thread, _ in found.threads] == [name]
    seen(world, 7 * SECOND, moves=False)
    assert asked(world, taken, 0).long
