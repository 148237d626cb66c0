"""Sample the trio tasks of a process: what each awaits, lock holders, which thread runs them.

Based on trio 0.35: a Lock names its owner; a wait in a `ParkingLot` is in whatever lot the task registered last (a
notified task waits for the condition's lock, in the same call); a cancel scope knows its deadline and its tasks.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from livedbg.adapters.python.awaits import Await, HeldLock, LoopSample, joined, of_steady
from livedbg.cpython.coroutines import CoroutineFrame
from livedbg.cpython.event_loops import EventLoops, LoopTask
from livedbg.cpython.heap import HeapReader
from livedbg.cpython.objects import is_pointer
from livedbg.cpython.threads import PyFrame, PyThread
from livedbg.cpython.trio_tasks import TrioTask, confirmed_trio, read_trio
from livedbg.model.reach import reachable
from livedbg.text.patterns import lazy_re

_MOST: Final = 2_000
_LIBRARY: Final = lazy_re(r"/(?:site|dist)-packages/trio/|/trio/_(?:core/|[^/]*\.py$)")
_WRAPPERS: Final = lazy_re(r"AsyncContextManagerMixin\.|_make_simple_sock_method_wrapper\.|_SocketType\._")
_LOCKS: Final = frozenset({"Lock", "StrictFIFOLock"})
_AHEAD_S: Final = 0.05  # a deadline is overdue from that on


def trio_awaited(heap: HeapReader, task: LoopTask, more: TrioTask) -> Await | None:
    """Return what a task awaits, None if nothing; raise OSError if memory is unreadable."""
    frames = [frame for frame in task.chain.frames if frame.slots]
    if not task.pending or not frames:
        return None
    function, called = frames[0].code.name, _user_call(frames)
    if function == "ParkingLot.park":
        return _parked(heap, frames[1:], more.sleeps_in, called)
    if not _is_library(frames[0]):
        return Await(called)
    if function == "Event.wait":
        return Await("Event.wait", "cond", _argument(heap, frames[0]), "trio.Event")
    if function in ("MemoryReceiveChannel.receive", "MemorySendChannel.send"):
        channel = heap.attributes(_argument(heap, frames[0])).get("_state", 0)
        return Await(function, "cond", channel, "trio memory channel")
    if function.startswith("Nursery."):
        nursery = heap.attributes(_argument(heap, frames[0]))
        return Await("trio.Nursery", tasks=tuple(heap.items(nursery.get("_children", 0), _MOST)))
    if function == "sleep_forever":
        return Await(_user_call(frames))
    if function == "EpollIOManager._epoll_wait":
        number = heap.integer(_argument(heap, frames[0], 1))
        return Await(
            "trio.socket" if called.endswith("wait_readable") or called.endswith("wait_writable") else called,
            fd=-1 if number is None else number,
        )
    if function == "to_thread_run_sync":
        return Await("trio.to_thread.run_sync", by="another thread")
    if any("ubprocess" in frame.code.file for frame in frames if _is_library(frame)):
        return Await(called, by="a child process")
    return Await(called)


def _parked(heap: HeapReader, frames: list[CoroutineFrame], lot: int, called: str) -> Await:
    """Return the object behind a place in a parking lot."""
    own = _argument(heap, frames[0]) if frames else 0
    kind = heap.type_name(own)
    name = f"trio.{kind}"
    if kind in _LOCKS:
        return Await(name, "pylock", own, name)
    if kind == "Condition":
        lock = heap.attributes(own).get("_lock", 0)
        if lock and heap.attributes(lock).get("_lot") == lot:
            kind = heap.type_name(lock)
            return Await(f"trio.{kind} (notified)", "pylock", lock, f"trio.{kind}")
        return Await(called, "cond", own, name)
    if kind in ("Semaphore", "CapacityLimiter"):
        return Await(f"{kind}.acquire", "sem", own, name)
    return Await(called, "cond", lot, "trio.lowlevel.ParkingLot")


def owner_of(heap: HeapReader, what: Await) -> tuple[int, HeldLock] | None:
    """Return the task that owns an awaited lock; raise OSError if memory is unreadable."""
    if what.kind != "pylock":
        return None
    owner = heap.attributes(what.address).get("_owner", 0)
    if heap.type_name(owner) != "Task":
        return None
    return owner, HeldLock(what.address, "it names its owner", inferred=False)


def _user_call(frames: Iterable[CoroutineFrame]) -> str:
    """Return the outermost of trio's own coroutines: the user's call."""
    name = ""
    for frame in frames:
        if not _is_library(frame):
            break
        if not _WRAPPERS.match(frame.code.name):
            name = frame.code.name.lstrip("_")
    return name if "." in name else f"trio.{name}" if name else "a task of its own loop"


def _is_library(frame: CoroutineFrame) -> bool:
    return _LIBRARY.search(frame.code.file) is not None


def _argument(heap: HeapReader, frame: CoroutineFrame, number: int = 0) -> int:
    """Return an argument, also if an inner function uses it (a cell)."""
    return heap.in_cell(frame.slots[number]) if number < len(frame.slots) else 0


def limited_tasks(
    heap: HeapReader, tasks: Iterable[LoopTask], more: Mapping[int, TrioTask], awaits: Mapping[int, Await]
) -> frozenset[int]:
    """Return the tasks that a deadline may end, and those that these may cancel.

    They may cancel through a nursery, scope or task in a variable of a coroutine (or in an object or list there), or by
    ending.
    """
    known = {task.address: task for task in tasks}
    ends: dict[int, set[int]] = {}
    for address, what in more.items():
        for scope in what.scopes:
            ends.setdefault(scope, set()).add(address)
    for what in more.values():
        for nursery, scope in what.nurseries.items():
            ends.setdefault(nursery, ends.get(scope, set()))

    def may_end(address: int) -> Iterator[int]:
        for value in _reach(heap, known[address]):
            yield from ends.get(value, ())
            yield value
        yield from awaits[address].tasks if address in awaits else ()

    limited = (address for address, what in more.items() if what.limited and address in known)
    return frozenset(reachable(limited, lambda address: known.keys() & set(may_end(address))))


def _reach(heap: HeapReader, task: LoopTask) -> Iterator[int]:
    """Yield the variables of a task's user coroutines, and the contents of objects, lists and sets there."""
    for frame in task.chain.frames:
        if _is_library(frame):
            continue
        for slot in range(len(frame.slots)):
            try:
                value = _argument(heap, frame, slot)
                yield value
                yield from _inside(heap, value) if is_pointer(value) else ()
            except (OSError, OverflowError):
                continue  # it changed meanwhile


def _inside(heap: HeapReader, value: int) -> Iterable[int]:
    kind = heap.type_name(value)
    if kind == "method":
        return (heap.bound_to(value),)
    if kind == "dict":
        return [one for _, one in heap.dict_items(value, _MOST)]
    return heap.items(value, _MOST) or heap.attributes(value).values()


def due_tasks(tasks: Iterable[LoopTask], more: Mapping[int, TrioTask]) -> Iterator[int]:
    """Yield the tasks that could run now: scheduled, or past their deadline."""
    now_s = time.monotonic() - _AHEAD_S
    for task in tasks:
        late = more[task.address].deadline
        if not task.running and (not task.pending or (late is not None and not math.isinf(late) and late < now_s)):
            yield task.address


_RUN: Final = "/trio/_core/_run.py"
_STEP: Final = "unrolled_run"


def read_all_trio(heap: HeapReader, contexts: Iterable[int]) -> LoopSample:
    """Sample the trio tasks of all interpreters; their loops' threads and `callbacks` are not filled in.

    Args:
        contexts: the `GLOBAL_RUN_CONTEXT` of each interpreter that has one.

    Raises:
        OSError: the process is gone or changes too fast.
    """
    found: list[EventLoops] = []
    more: dict[int, TrioTask] = {}
    awaits: dict[int, Await] = {}
    held: dict[int, list[tuple[int, HeldLock]]] = {}
    for context in contexts:
        part = read_trio(heap, context)
        more.update(part.more)
        for task in part.loops.tasks:
            try:
                what = trio_awaited(heap, task, part.more[task.address])
                owner = owner_of(heap, what) if what is not None else None
            except (OSError, OverflowError):
                continue  # it goes on
            if what is not None:
                awaits[task.address] = what
            if owner is not None and owner not in held.setdefault(owner[1].lock, []):
                held[owner[1].lock].append(owner)
        found.append(confirmed_trio(heap, context, part.loops))
    whole = joined(found)
    steady = {task.address for task in whole.tasks if task.steady}
    return LoopSample(
        loops=whole,
        awaits={task: what for task, what in awaits.items() if task in steady},
        held=of_steady(held, steady),
        timed=limited_tasks(heap, whole.tasks, more, awaits),
        due=frozenset(due_tasks(whole.tasks, more)),
    )


def threads_of_trio(found: EventLoops, threads: Iterable[PyThread]) -> tuple[EventLoops, bool]:
    """Add the threads that run the loops: a frame has the runner in a variable.

    Also return whether a thread is in trio though no task could be read.
    """
    loops = dict(found.loops)
    seen = False
    for thread in threads:
        for frame in thread.frames:
            if frame.code.file.endswith(_RUN):
                seen = True
                for loop in loops.keys() & set(frame.slots):
                    loops[loop] = replace(loops[loop], thread=thread.ident)
    return replace(found, loops=loops), seen and not found.tasks


def is_trio_step(frame: PyFrame) -> bool:
    """Return whether a frame is trio's loop function that lets tasks run."""
    return frame.code.name == _STEP and frame.code.file.endswith(_RUN)
