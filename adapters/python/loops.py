"""One sample of the event loops of a process: their tasks, what each awaits, who holds what, which loop is blocked.

Futures that nothing but the tasks that await them refers to: only a weak reference could still complete them.

Every way to complete a future needs a reference to it: a task, callback, timer, handle or thread that has it, and a C
extension too, counts in its `ob_refcnt`. Where all references are found in the tasks that wait for it, and in those
that wait for these, nobody else has one. Weak references are not seen.

Invariants:
    loops.L1. A wait, and a holder of a lock, are given of tasks only that were the same before and after the sample.
    loops.L2. A loop is blocked only if its thread sat in the same call before and after the sample, and was between in
        a callback and not in the loop's own wait.
    loops.L3. A task that a timer may wake or end is `timed`, and so is each that such a task awaits, or has in a
        variable of its coroutines: it may cancel it.
    loops.R1. A future is lost only if each of its references was found in a suspended task that waits for it,
        directly or through other tasks, and no timer may wake or end such a task.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Final

from livedbg.adapters.python.awaits import Await, HeldLock, awaited, held_locks_of
from livedbg.adapters.python.greenlet_loops import GREENLET, read_all_greenlets
from livedbg.adapters.python.loop_sample import LoopSample, joined, of_steady
from livedbg.adapters.python.trio_loops import is_trio_step, read_all_trio, threads_of_trio
from livedbg.cpython.event_loops import (
    MOST_TASKS,
    EventLoop,
    EventLoops,
    LoopTask,
    Timer,
    confirmed,
    is_future,
    read_loops,
)
from livedbg.cpython.greenlets import GreenletReader, is_known
from livedbg.cpython.heap import HeapReader
from livedbg.cpython.loop_modules import LoopModules
from livedbg.cpython.objects import is_pointer
from livedbg.cpython.threads import PyFrame, PyThread, ThreadReader
from livedbg.cpython.trio_tasks import CONTEXT

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


_METHODS: Final = frozenset({"method", "builtin_function_or_method"})
_BOUND_AT: Final = 24
_RUN_ONCE: Final = "BaseEventLoop._run_once"
_AHEAD_S: Final = 0.05  # a timer is overdue from that on


def sample_loops(reader: ThreadReader, heap: HeapReader, modules: LoopModules, greenlets: GreenletReader) -> LoopSample:
    """Sample the event loops of a process.

    Raises:
        OSError: gone, or it changes too fast.
    """
    found: list[EventLoops] = []
    awaits: dict[int, Await] = {}
    held: dict[int, list[tuple[int, HeldLock]]] = {}
    contexts: list[int] = []
    roots: list[int] = []
    others = set[str]()
    for interpreter in reader.interpreters():
        names = modules.names(interpreter)
        loops = read_loops(heap, names) if names else EventLoops()
        for task in loops.tasks:
            _read(heap, task, awaits, held)
        found.append(confirmed(heap, names, loops) if loops.tasks else loops)
        contexts += [names[CONTEXT]] if CONTEXT in names else []
        if GREENLET in names:
            if is_known(heap.objects.text(names.get("__version__", 0))):
                roots.append(names[GREENLET])
            else:
                others.add(GREENLET)
    others |= modules.others
    own = joined(found)
    if not own.tasks and not contexts and not roots:
        return LoopSample(others=frozenset(others))
    steady = {task.address for task in own.tasks if task.steady}
    trio = read_all_trio(heap, contexts)
    threads = reader.threads()
    of_trio, unread = threads_of_trio(trio.loops, threads)
    of_loops = joined((own, of_trio))
    light = read_all_greenlets(heap, greenlets, roots, reader.threads)
    timed = _timed(heap, own, awaits)
    unsure = timed | (awaits.keys() - steady)
    return LoopSample(
        loops=joined((of_loops, light.loops)),
        awaits={task: what for task, what in awaits.items() if task in steady} | dict(trio.awaits) | dict(light.awaits),
        held=of_steady(held, steady) | dict(trio.held) | dict(light.held),
        timed=timed | trio.timed | light.timed,
        due=_due(heap, own) | trio.due | light.due,
        callbacks=_callbacks(of_loops.loops.values(), threads) | dict(light.callbacks),
        lost=lost_futures(heap, own.tasks, awaits, unsure),
        others=frozenset(others | ({"trio"} if unread else set())),
    )


def _read(
    heap: HeapReader, task: LoopTask, awaits: dict[int, Await], held: dict[int, list[tuple[int, HeldLock]]]
) -> None:
    try:
        what = awaited(heap, task)
        locks = list(held_locks_of(heap, task))
    except (OSError, OverflowError):
        return  # it goes on
    if what is not None:
        awaits[task.address] = what
    for lock in locks:
        held.setdefault(lock.lock, []).append((task.address, lock))


def _timed(heap: HeapReader, found: EventLoops, awaits: Mapping[int, Await]) -> frozenset[int]:
    """The tasks that a timer may wake or end, those that they await, and those that their coroutines have (L3)."""
    by_waiter: dict[int, list[int]] = {}
    known = {task.address: task for task in found.tasks}
    for task in found.tasks:
        by_waiter.setdefault(task.waiter, []).append(task.address)
    todo: list[int] = []
    for loop in found.loops.values():
        if not loop.readable:  # its timers are not known
            todo += [task.address for task in found.tasks if task.loop == loop.address]
        for timer in loop.timers:
            for thing in _things_of(heap, timer):
                todo += by_waiter.get(thing, ())
                if thing in known:
                    todo.append(thing)
    seen: set[int] = set()
    while todo:
        task_at = todo.pop()
        if task_at not in seen:
            seen.add(task_at)
            what = awaits.get(task_at)
            todo += what.tasks if what is not None else ()
            if task_at in known:
                todo += (one for one in _reach(heap, known[task_at]) if one in known)
    return frozenset(seen)


def _reach(heap: HeapReader, task: LoopTask) -> Iterator[int]:
    """What the coroutines of a task have in their variables, also in lists and sets: it may cancel these tasks."""
    for frame in task.chain.frames:
        for value in dict.fromkeys(frame.slots):
            yield value
            try:
                yield from heap.items(value, MOST_TASKS) if is_pointer(value) else ()
            except (OSError, OverflowError):
                continue  # it changed meanwhile


def _things_of(heap: HeapReader, timer: Timer) -> list[int]:
    """The futures and tasks that a timer may end."""
    found = list(timer.arguments)
    try:
        if heap.type_name(timer.callback) in _METHODS:
            (bound,) = heap.words(timer.callback + _BOUND_AT, 1)
            found.append(bound)
            if is_pointer(bound) and not is_future(heap, bound):
                found.append(heap.attributes(bound).get("_task", 0))  # asyncio.Timeout
    except (OSError, OverflowError):
        pass  # it was called meanwhile
    return found


def _due(heap: HeapReader, found: EventLoops) -> frozenset[int]:
    """The tasks that could go on now: what they waited for is there, or their time has come."""
    now_s = time.monotonic() - _AHEAD_S
    late: set[int] = set()
    for loop in found.loops.values():
        for timer in loop.timers:
            if timer.when is not None and timer.when < now_s:
                late.update(_things_of(heap, timer))
    return frozenset(
        task.address for task in found.tasks if not task.running and (not task.pending or task.waiter in late)
    )


def _callbacks(loops: Iterable[EventLoop], threads: Iterable[PyThread]) -> dict[int, Sequence[PyFrame]]:
    by_ident = {thread.ident: thread for thread in threads}
    found = {}
    for loop in loops:
        thread = by_ident.get(loop.thread) if loop.thread is not None else None
        frames = callback_of(thread.frames) if thread is not None else ()
        if frames:
            found[loop.address] = frames
    return found


def callback_of(frames: Sequence[PyFrame]) -> Sequence[PyFrame]:
    """The frames of the callback that a loop calls, innermost first; () while it waits for something to do."""
    at = next((place for place, frame in enumerate(frames) if frame.code.name == _RUN_ONCE or is_trio_step(frame)), 0)
    inside = frames[:at]
    if not inside or inside[-1].code.file.endswith("/selectors.py"):
        return ()
    return inside
