"""What one sample of the event loops of a process found: values only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from livedbg.adapters.python.awaits import Await, HeldLock
from livedbg.cpython.event_loops import EventLoop, EventLoops, LoopTask
from livedbg.cpython.threads import PyFrame


class LoopSample(Struct, frozen=True):
    """What one sample found.

    Attributes:
        loops: all loops that have tasks, and their tasks.
        awaits: task -> what it awaits.
        held: lock -> the tasks that hold it, with where (one, unless misread).
        timed: tasks that something timed may wake or end.
        due: tasks that are ready to go on.
        callbacks: loop -> the frames of the callback in which its thread is.
        lost: futures that nothing but their waiters refers to.
        others: runtimes of tasks that are loaded too and not read.
    """

    loops: EventLoops = field(default_factory=EventLoops)
    awaits: Mapping[int, Await] = field(default_factory=dict)
    held: Mapping[int, Sequence[tuple[int, HeldLock]]] = field(default_factory=dict)
    timed: frozenset[int] = frozenset()
    due: frozenset[int] = frozenset()
    callbacks: Mapping[int, Sequence[PyFrame]] = field(default_factory=dict)
    lost: frozenset[int] = frozenset()
    others: frozenset[str] = frozenset()


def joined(parts: Iterable[EventLoops]) -> EventLoops:
    """The loops of several interpreters."""
    loops: dict[int, EventLoop] = {}
    tasks: list[LoopTask] = []
    cut = False
    for part in parts:
        loops.update(part.loops)
        tasks += part.tasks
        cut = cut or part.cut
    return EventLoops(loops, tuple(tasks), cut)


def of_steady(
    held: Mapping[int, Sequence[tuple[int, HeldLock]]], steady: set[int]
) -> dict[int, list[tuple[int, HeldLock]]]:
    """The locks that are held by tasks that were the same before and after (loops.L1)."""
    kept = {lock: [one for one in holders if one[0] in steady] for lock, holders in held.items()}
    return {lock: holders for lock, holders in kept.items() if holders}
