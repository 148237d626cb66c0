"""One sample of the event loops of a process: their tasks, what each awaits, who holds what, which loop is blocked.

Invariants:
    loops.L1. A wait, and a holder of a lock, are given of tasks only that were the same before and after the sample.
    loops.L2. A loop is blocked only if its thread sat in the same call before and after the sample, and was between in
        a callback and not in the loop's own wait.
    loops.L3. A task that a timer may wake or end is `timed`, and so is each that such a task awaits, or has in a
        variable of its coroutines: it may cancel it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from livedbg.adapters.python.awaits import Await, HeldLock, awaited, held_locks_of
from livedbg.adapters.python.greenlet_loops import GREENLET, read_all_greenlets
from livedbg.adapters.python.loop_sample import LoopSample, joined, of_steady
from livedbg.adapters.python.lost_futures import lost_futures
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

__all__ = ["callback_of", "sample_loops"]

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
