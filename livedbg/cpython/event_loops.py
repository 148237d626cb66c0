"""The event loops of asyncio in another process: their tasks, timers and ready callbacks. Read without a stop.

Functions raise OSError if the process is gone, unreadable, or changes too fast.

The tasks are in the WeakSet `asyncio.tasks._all_tasks` (3.11), or `_scheduled_tasks` and the set `_eager_tasks` (3.12
and 3.13), found through `sys.modules` of each interpreter. Tasks that are not of C asyncio are not read.

Invariants:
    event_loops.E1. At most MOST_TASKS tasks, MOST_TIMERS timers and MOST_READY ready callbacks of a loop are read;
        `cut` says that there are more.
    event_loops.E2. A task is `steady` only if it, the future that it waits for and each coroutine of its chain were the
        same when they were read again after everything else.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct, field, structs

from livedbg.cpython.coroutines import AwaitChain, await_chain
from livedbg.cpython.heap import HeapReader
from livedbg.cpython.objects import is_pointer

MOST_TASKS: Final = 2_000
MOST_TIMERS: Final = 2_000
MOST_READY: Final = 2_000
_MOST_CALLBACKS: Final = 64
_LOOP_AT, _CALLBACK_AT, _CALLBACKS_AT, _RESULT_AT = 16, 24, 40, 64  # FutureObj
_REGISTERS: Final = ("_all_tasks", "_scheduled_tasks", "_eager_tasks")


class LoopTask(Struct, frozen=True):
    """A task that has not ended.

    Attributes:
        waiter: the future that it waits for, or 0.
        waiter_type: name of the type of `waiter`.
        cancelling: it was asked to end.
        steady: unchanged in a second read (E2).
    """

    address: int
    name: str
    loop: int
    chain: AwaitChain
    waiter: int
    waiter_type: str
    pending: bool
    cancelling: bool
    running: bool
    steady: bool
    system: str = "asyncio"


class Timer(Struct, frozen=True):
    """A scheduled callback of a loop; `when` is CLOCK_MONOTONIC, None if unreadable."""

    when: float | None
    callback: int
    arguments: tuple[int, ...]


class EventLoop(Struct, frozen=True):
    """An event loop that has tasks.

    Attributes:
        thread: `threading.get_ident()` of the thread that runs it; None if none does, or unreadable.
        current: the task that runs right now, or 0.
        ready: addresses of the callbacks that it is about to call.
        readable: all of its timers and ready callbacks were read.
        signals: it has callbacks for signals (`add_signal_handler`).
    """

    address: int
    kind: str
    thread: int | None
    current: int
    ready: tuple[int, ...]
    timers: tuple[Timer, ...]
    readable: bool
    signals: bool = False


class EventLoops(Struct, frozen=True):
    """The event loops of a process."""

    loops: dict[int, EventLoop] = field(default_factory=dict)
    tasks: tuple[LoopTask, ...] = ()
    cut: bool = False


def read_loops(heap: HeapReader, registers: dict[str, int], most: int = 0) -> EventLoops:
    """Return the event loops of one interpreter, by the variables of `LoopModules.names`; no task is `steady` yet.

    Args:
        most: tasks that are read; 0: MOST_TASKS.
    """
    most = most or MOST_TASKS
    addresses: dict[int, None] = {}
    for name in _REGISTERS:
        if name in registers:
            addresses.update(dict.fromkeys(heap.items(registers[name], most + 1)))
    cut = len(addresses) > most
    current = _current(heap, registers.get("_current_tasks", 0))
    read = [task for at in list(addresses)[:most] if (task := _task(heap, at, current)) is not None]
    loops: dict[int, EventLoop] = {}
    for task in read:
        if task.loop not in loops:
            loops[task.loop] = _loop(heap, task.loop, current.get(task.loop, 0))
    return EventLoops(loops, tuple(read), cut)


def confirmed(heap: HeapReader, registers: dict[str, int], found: EventLoops) -> EventLoops:
    """Return the loops with `steady` set for unchanged tasks (E2); call it after all else was read."""
    again = _current(heap, registers.get("_current_tasks", 0))
    tasks = (structs.replace(task, steady=task == _task(heap, task.address, again)) for task in found.tasks)
    return structs.replace(found, tasks=tuple(tasks))


def _current(heap: HeapReader, register: int) -> dict[int, int]:
    if heap.type_name(register) != "dict":
        return {}
    return dict(heap.dict_items(register, 1024))


def _task(heap: HeapReader, address: int, current: dict[int, int]) -> LoopTask | None:
    at = heap.objects.layout.tasks
    if at is None or not is_pointer(address):
        return None
    try:
        if not is_task(heap, address):
            return None
        words = heap.words(address, max(at.name, at.cancels) // 8 + 1)
        if words[at.state // 8] & 0xFFFF_FFFF:
            return None
        waiter = words[at.waiter // 8]
        kind, pending = _waiter(heap, waiter)
        return LoopTask(
            address=address,
            name=_name(heap, words[at.name // 8]),
            loop=words[_LOOP_AT // 8],
            chain=await_chain(heap, words[at.coroutine // 8]),
            waiter=waiter,
            waiter_type=kind,
            pending=pending,
            cancelling=bool(words[at.cancels // 8] & 0xFFFF_FFFF),
            running=current.get(words[_LOOP_AT // 8]) == address,
            steady=False,
        )
    except (OSError, OverflowError):
        return None


def is_task(heap: HeapReader, address: int) -> bool:
    """Return whether an object is a task of C asyncio, or of a subclass."""
    return _derives(heap, address, "_asyncio.Task")


def is_future(heap: HeapReader, address: int) -> bool:
    """Return whether an object is a future of C asyncio (or a task), or of a subclass."""
    return _derives(heap, address, "_asyncio.Future") or is_task(heap, address)


def _derives(heap: HeapReader, address: int, name: str) -> bool:
    if heap.type_name(address) == name:
        return True
    return name in heap.base_names(address)


def is_pending(heap: HeapReader, future: int) -> bool:
    """Return whether a future has no result yet."""
    at = heap.objects.layout.tasks
    return at is not None and not heap.words(future + at.state, 1)[0] & 0xFFFF_FFFF


def _waiter(heap: HeapReader, waiter: int) -> tuple[str, bool]:
    if not waiter or not is_future(heap, waiter):
        return heap.type_name(waiter), False
    return heap.type_name(waiter), is_pending(heap, waiter)


def _name(heap: HeapReader, address: int) -> str:
    """Return a task's name; from 3.12 on it is stored as a number until it is used."""
    if heap.type_name(address) == "int":
        return f"Task-{heap.integer(address)}"
    return heap.objects.text(address)


def callbacks(heap: HeapReader, future: int) -> list[int]:
    """Return the callbacks of a future."""
    (first,) = heap.words(future + _CALLBACK_AT, 1)
    (rest,) = heap.words(future + _CALLBACKS_AT, 1)
    found = [first] if first else []
    for pair in heap.items(rest, _MOST_CALLBACKS) if rest else []:
        found += heap.items(pair, 2)[:1]
    return found


def _loop(heap: HeapReader, address: int, current: int) -> EventLoop:
    kind = heap.type_name(address)
    try:
        facts = heap.attributes(address)
    except OSError:
        facts = {}
    if not {"_ready", "_scheduled", "_thread_id"} <= facts.keys():
        return EventLoop(address, kind, None, current, (), (), readable=False)
    try:
        ready = tuple(heap.items(facts["_ready"], MOST_READY))
        timers = tuple(_timers(heap, heap.items(facts["_scheduled"], MOST_TIMERS)))
        signals = bool(heap.dict_items(facts["_signal_handlers"], 1)) if "_signal_handlers" in facts else False
    except OSError:
        return EventLoop(address, kind, heap.integer(facts["_thread_id"]), current, (), (), readable=False)
    thread, whole = heap.integer(facts["_thread_id"]), len(timers) < MOST_TIMERS
    return EventLoop(address, kind, thread, current, ready, timers, readable=whole, signals=signals)


def _timers(heap: HeapReader, handles: list[int]) -> list[Timer]:
    found = []
    for handle in handles:
        facts = heap.attributes(handle)
        if heap.integer(facts.get("_cancelled", 0)) or "_callback" not in facts:
            continue
        arguments = tuple(heap.items(facts["_args"], 8)) if "_args" in facts else ()
        found.append(Timer(heap.number(facts.get("_when", 0)), facts["_callback"], arguments))
    return found
