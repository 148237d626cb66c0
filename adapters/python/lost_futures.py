"""Futures that nothing but the tasks that await them refers to: only a weak reference could still complete them.

Every way to complete a future needs a reference to it: a task, callback, timer, handle or thread that has it, and a C
extension too, counts in its `ob_refcnt`. Where all references are found in the tasks that wait for it, and in those
that wait for these, nobody else has one. Weak references are not seen.

Invariants:
    lost_futures.R1. A future is lost only if each of its references was found in a suspended task that waits for it,
        directly or through other tasks, and no timer may wake or end such a task.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from livedbg.adapters.python.awaits import Await
from livedbg.cpython.event_loops import LoopTask
from livedbg.cpython.heap import HeapReader
from livedbg.cpython.objects import is_pointer

__all__ = ["lost_futures"]

_CELL_AT = 16


def lost_futures(
    heap: HeapReader, tasks: Iterable[LoopTask], awaits: Mapping[int, Await], unsure: Set[int]
) -> frozenset[int]:
    """The addresses of the futures that are lost (R1).

    Args:
        heap: reads their process.
        tasks: all tasks.
        awaits: what each of them awaits.
        unsure: tasks that may go on, as a timer may wake or end them, or because they are not the same any more.
    """
    known = {task.address: task for task in tasks}
    waiters: dict[int, list[int]] = {}
    behind: dict[int, list[int]] = {}
    for address, what in awaits.items():
        if what.kind == "future" and address in known:
            waiters.setdefault(what.address, []).append(address)
        for other in what.tasks:
            behind.setdefault(other, []).append(address)
    found = set()
    for future, direct in waiters.items():
        group = _all_behind(direct, behind)
        if group & unsure or not group <= known.keys():
            continue
        if any(known[one].chain.future != future for one in direct):
            continue
        try:
            if _counted(heap, future, [known[one] for one in group], len(direct)) == _references(heap, future):
                found.add(future)
        except (OSError, OverflowError):
            continue  # it goes on
    return frozenset(found)


def _all_behind(first: Iterable[int], behind: Mapping[int, Iterable[int]]) -> set[int]:
    """Some tasks, and those that wait for them, directly or through others."""
    found: set[int] = set()
    todo = list(first)
    while todo:
        one = todo.pop()
        if one not in found:
            found.add(one)
            todo += behind.get(one, ())
    return found


def _references(heap: HeapReader, address: int) -> int:
    """How many references to an object there are (`ob_refcnt`)."""
    return heap.words(address, 1)[0] & 0xFFFF_FFFF


def _counted(heap: HeapReader, future: int, group: Iterable[LoopTask], direct: int) -> int:
    """The references to a future that its waiters have: one from each task and one from its `await`, and those from
    the variables of their coroutines, a cell once."""
    count = 2 * direct
    cells = set()
    for task in group:
        for frame in task.chain.frames:
            for slot in frame.slots:
                if slot == future:
                    count += 1
                elif is_pointer(slot) and heap.type_name(slot) == "cell":
                    cells.add(slot)
    return count + sum(1 for cell in cells if heap.words(cell + _CELL_AT, 1)[0] == future)
