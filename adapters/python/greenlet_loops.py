"""Sample the greenlets of a process: what each waits for, which thread runs them, what blocks it.

gevent's hub is their event loop: it calls whatever is ready, and a call in any other greenlet that does not switch to
the hub blocks them all. Greenlets without a hub switch to each other as they like; nothing is concluded about these.

Based on gevent 26.9 with its compiled modules and libev: the object that a greenlet waits for is among the values of
its innermost frames, and has the greenlet's `switch`, or a `Waiter` with the greenlet, in a list of its own. The
position of that list is not assumed: all words of the object are searched. Only an RLock names its owner.

Invariants:
    greenlet_loops.G1. Every wait of a greenlet is `timed`: whether a `gevent.Timeout`, `kill` or `throw` will end it is
        not read.
    greenlet_loops.G2. A hub's thread is in a callback only if another greenlet than the hub runs, or the hub called
        Python code.
    greenlet_loops.A1. A greenlet waits for an object only if that object refers to the greenlet as a waiter.
"""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from livedbg.adapters.python.awaits import Await, HeldLock, LoopSample
from livedbg.cpython.coroutines import AwaitChain, CoroutineFrame
from livedbg.cpython.event_loops import MOST_TASKS, EventLoop, EventLoops, LoopTask
from livedbg.cpython.greenlets import Greenlet, GreenletReader
from livedbg.cpython.heap import METHODS, SELF_AT, HeapReader
from livedbg.cpython.objects import is_pointer, word_in
from livedbg.cpython.threads import PyFrame, PyThread
from livedbg.linux.maps import find_mapping, parse_maps
from livedbg.text.patterns import lazy_re

_BASICSIZE_AT: Final = 32  # PyTypeObject
_MOST_WORDS: Final = 64  # of an object
_MOST_WAITERS: Final = 2_000
_MOST_READY: Final = 2_000
_FRAMES: Final = 6  # innermost ones whose values are looked through
_LISTS: Final = frozenset({"list", "tuple", "collections.deque"})
_LIBRARY: Final = lazy_re(r"/(?:site|dist)-packages/gevent/")
_WAITER: Final = "Waiter"
_WATCHERS: Final = "gevent.libev.corecext."
_KINDS: Final = {
    "Semaphore": ("sem", "gevent.Semaphore"),
    "BoundedSemaphore": ("sem", "gevent.BoundedSemaphore"),
    "LockType": ("sem", "threading.Lock (gevent)"),
    "Event": ("cond", "gevent.Event"),
    "AsyncResult": ("future", "gevent.AsyncResult"),
    "Queue": ("cond", "gevent.Queue"),
    "SimpleQueue": ("cond", "gevent.SimpleQueue"),
    "JoinableQueue": ("cond", "gevent.JoinableQueue"),
    "LifoQueue": ("cond", "gevent.LifoQueue"),
    "PriorityQueue": ("cond", "gevent.PriorityQueue"),
    "Channel": ("cond", "gevent.Channel"),
}
_EVENT_WORDS: Final = 6  # libev's ev.h: active and pending, priority, data unless built without, cb, then what differs
_READ_WRITE: Final = 3  # EV_READ, EV_WRITE
_AHEAD_S: Final = 0.05  # a timer is overdue from that on


def waited_for(heap: HeapReader, waiters: Waiters, one: Greenlet, known: frozenset[int]) -> Await | None:
    """Return what a suspended greenlet waits for, None if not known; raise OSError if memory is unreadable."""
    called = _user_call(one.frames)
    for value in _values(heap, one.frames) if one.frames else _function_of(heap, one.address):
        if value == one.address:
            continue
        kind = heap.type_name(value)
        if kind.startswith(_WATCHERS):
            if one.address in waiters.of(value):
                return _watched(heap, value, kind, called)
        elif (value in known or _short(kind) in _KINDS) and one.address in waiters.of(value):
            return _object(heap, value, kind, known, one.frames)
    return None


def _object(heap: HeapReader, value: int, kind: str, known: frozenset[int], frames: Sequence[PyFrame]) -> Await:
    if value in known:
        return Await("a greenlet", tasks=(value,))
    if frames and frames[0].code.name == "RLock.acquire" and frames[0].slots:
        lock = frames[0].slots[0]
        if heap.type_name(lock) == "RLock" and heap.attributes(lock).get("_block") == value:
            return Await("gevent.RLock", "pylock", lock, "gevent.RLock")
    form, name = _KINDS[_short(kind)]
    return Await(name, form, value, name)


def _watched(heap: HeapReader, watcher: int, kind: str, called: str) -> Await:
    """Return the wait that a watcher of libev serves."""
    if kind.endswith(".timer"):
        return Await("gevent.sleep" if called == "sleep" else called or "a timer")
    if kind.endswith(".io"):
        return Await(f"socket.{_short(called)}" if called else "a socket", fd=_descriptor(_event(heap, watcher)))
    if kind.endswith(".child"):
        return Await(called or "wait", by="a child process")
    if kind.endswith(".async"):
        return Await(called or "another thread", by="another thread")
    return Await(called or kind.removeprefix(_WATCHERS))


def due_greenlets(heap: HeapReader, waiters: Waiters, hub: int, greenlets: Iterable[Greenlet]) -> set[int]:
    """Return the greenlets that could run now: queued in the hub, or with an expired timer."""
    found = set(_queued(heap, hub))
    for one in greenlets:
        if one.running:
            continue
        try:
            for value in _values(heap, one.frames):
                is_timer = heap.type_name(value) == f"{_WATCHERS}timer"
                if is_timer and _is_over(heap, value) and one.address in waiters.of(value):
                    found.add(one.address)
        except (OSError, OverflowError):
            continue  # it goes on
    return found


def _queued(heap: HeapReader, hub: int) -> Iterator[int]:
    """Yield the greenlets in the callback queue of a hub's loop."""
    try:
        loop = _first_referent(heap, hub, f"{_WATCHERS}loop")
        queue = _first_referent(heap, loop, f"{_WATCHERS}CallbackFIFO") if loop else 0
        call = _first_referent(heap, queue, f"{_WATCHERS}callback") if queue else 0
        for _ in range(_MOST_READY):
            if not call:
                return
            following = 0
            for word in _words(heap, call):
                kind = heap.type_name(word) if is_pointer(word) else ""
                if kind in METHODS:
                    bound = heap.bound_to(word)
                    yield bound
                    yield from _words(heap, bound) if _short(heap.type_name(bound)) == _WAITER else ()
                elif kind == f"{_WATCHERS}callback":
                    following = word
            call = following
    except (OSError, OverflowError):
        return  # it goes on


def _first_referent(heap: HeapReader, address: int, kind: str) -> int:
    """Return the first object of a type that an object refers to; 0 for none."""
    return next((word for word in _words(heap, address) if is_pointer(word) and heap.type_name(word) == kind), 0)


def _values(heap: HeapReader, frames: Sequence[PyFrame]) -> Iterator[int]:
    """Yield the variables and value stacks of the innermost frames, and the objects that methods there are bound to."""
    for frame in frames[:_FRAMES]:
        for value in dict.fromkeys(frame.slots):
            if not is_pointer(value):
                continue
            try:
                yield value
                if bound := heap.bound_to(value):
                    yield bound
            except (OSError, OverflowError):
                continue  # a value of before


def _function_of(heap: HeapReader, greenlet: int) -> Iterator[int]:
    """Yield the object to which a greenlet's function is bound: `event.wait` has no readable frame."""
    if bound := heap.bound_to(heap.attributes(greenlet).get("_run", 0)):
        yield bound


class Waiters:
    """The waiters of objects, from the lists in the objects (A1); each object is read once."""

    def __init__(self, heap: HeapReader) -> None:
        self._heap = heap
        self._known: dict[int, frozenset[int]] = {}

    def of(self, address: int) -> frozenset[int]:
        """Return the greenlets that an object would switch to; raise OSError if memory is unreadable."""
        if address not in self._known:
            self._known[address] = frozenset(self._read(address))
        return self._known[address]

    def _read(self, address: int) -> Iterator[int]:
        for word in _words(self._heap, address):
            kind = self._heap.type_name(word) if is_pointer(word) else ""
            if kind in _LISTS:
                yield from self._woken(self._heap.items(word, _MOST_WAITERS))
            elif kind in METHODS:
                yield from self._woken([word])

    def _woken(self, items: Sequence[int]) -> Iterator[int]:
        """Yield the greenlets of `switch` methods or `Waiter` objects."""
        bound = [item if not is_bound else own for item, is_bound, own in self._bound(items)]
        for item, _, _ in self._bound(bound, _WAITER):
            yield from _words(self._heap, item)
        yield from bound

    def _bound(self, items: Sequence[int], wanted: str = "") -> Iterator[tuple[int, bool, int]]:
        """Yield (object, is a method, its `__self__`) in one batch, of types whose name ends with `wanted`."""
        places = [item for item in items if is_pointer(item)]
        for item, head in zip(places, self._heap.objects.heads(places), strict=True):
            kind = self._heap.objects.type_name(head) if head is not None else ""
            if head is not None and (_short(kind).endswith(wanted) if wanted else True):
                yield item, kind in METHODS, word_in(head, SELF_AT)


def _words(heap: HeapReader, address: int) -> tuple[int, ...]:
    """Return the words of an object after its head."""
    if not is_pointer(address):
        return ()
    (kind,) = heap.words(address + 8, 1)
    (size,) = heap.words(kind + _BASICSIZE_AT, 1) if is_pointer(kind) else (0,)
    return heap.words(address + 16, min(size // 8, _MOST_WORDS) - 2) if size >= 24 else ()


def _event(heap: HeapReader, watcher: int) -> tuple[int, ...]:
    """Return the first words of the libev struct inside a watcher, to which the watcher points; () for none."""
    words = _words(heap, watcher)
    at = next((word for word in words if watcher < word < watcher + 16 + 8 * len(words)), 0)
    return heap.words(at, _EVENT_WORDS) if at else ()


def _descriptor(event: Sequence[int]) -> int:
    """Return the file descriptor of an ev_io: it follows the link to the next, with the read and write event bits."""
    found = (word for word in event[4:] if word >> 32 & _READ_WRITE and word >> 40 == 0)
    return next((word & 0x7FFF_FFFF for word in found), -1)


def _is_over(heap: HeapReader, timer: int) -> bool:
    """Return whether a timer has expired and its greenlet has not run yet."""
    event = _event(heap, timer)
    if not event:
        return False
    active, pending = event[0] & 0xFFFF_FFFF, event[0] >> 32
    if pending:
        return True
    word = next((word for word in event[3:5] if word >> 56), 0)  # a time; addresses are less
    (at,) = struct.unpack("<d", struct.pack("<Q", word))
    return bool(active) and math.isfinite(at) and 0 < at < time.monotonic() - _AHEAD_S


def _user_call(frames: Sequence[PyFrame]) -> str:
    """Return the outermost of gevent's own innermost functions: the user's call."""
    name = ""
    for frame in frames:
        if _LIBRARY.search(frame.code.file) is None:
            break
        name = frame.code.name
    return name


def _short(kind: str) -> str:
    return kind.rpartition(".")[2]


GREENLET: Final = "greenlet"
_GEVENT: Final = "gevent"
_HUB_RUN: Final = "Hub.run"
_HUB_FILE: Final = "/gevent/hub.py"
_HUB: Final = "gevent._gevent_c_hub_primitives.WaitOperationsGreenlet"
_FUNCTION_AT, _CODE_AT = 16, 48  # PyMethodObject, PyFunctionObject
_MAIN: Final = "main"


class _Group:
    """The greenlets of one thread, without gevent's hub, and that hub, if there is one."""

    def __init__(self, main: int, members: Sequence[Greenlet], hub: Greenlet | None, thread: PyThread) -> None:
        self.main = main
        self.thread = thread
        self.hub = hub
        self.tasks = members
        self.running = next((one.address for one in members if one.running), 0)
        self.loop = hub.address if hub is not None else main


def read_all_greenlets(
    heap: HeapReader, reader: GreenletReader, roots: Iterable[int], threads: Callable[[], Sequence[PyThread]]
) -> LoopSample:
    """Sample the greenlets of all threads.

    Args:
        roots: the types `greenlet.greenlet` of the interpreters.
        threads: reads the threads of the process, with their frames.

    Raises:
        OSError: the process is gone or changes too fast.
    """
    read = reader.read(roots)
    if not read.found:
        return LoopSample()
    groups = _groups(heap, read.found, threads())
    loops: dict[int, EventLoop] = {}
    awaits: dict[int, Await] = {}
    held: dict[int, list[tuple[int, HeldLock]]] = {}
    due: set[int] = set()
    waiters = Waiters(heap)
    known = frozenset(one.address for group in groups for one in group.tasks)
    for group in groups:
        for one in group.tasks:
            try:
                what = waited_for(heap, waiters, one, known) if not one.running else None
                is_lock = what is not None and what.kind == "pylock"
                owner = heap.attributes(what.address).get("_owner") if what is not None and is_lock else None
            except (OSError, OverflowError):
                continue  # it goes on
            if what is not None:
                awaits[one.address] = what
            if what is not None and owner is not None and owner in known:
                held[what.address] = [(owner, HeldLock(what.address, "it names its owner", inferred=False))]
        ready = due_greenlets(heap, waiters, group.hub.address, group.tasks) if group.hub is not None else set()
        due |= ready
        loops[group.loop] = _loop(group, tuple(sorted(ready)))
    names = {one.address: _name(heap, one, group.thread) for group in groups for one in group.tasks}
    again = {one.address: one for one in reader.again([one.address for one in read.found])}
    steady = {one.address for one in read.found if again.get(one.address) == one}
    tasks = [_task(one, names[one.address], group, one.address in steady) for group in groups for one in group.tasks]
    return LoopSample(
        loops=EventLoops(loops, tuple(tasks[:MOST_TASKS]), read.cut or len(tasks) > MOST_TASKS),
        awaits={task: what for task, what in awaits.items() if task in steady},
        held={lock: holders for lock, holders in held.items() if holders[0][0] in steady},
        timed=known,
        due=frozenset(due & steady),
        callbacks={group.loop: frames for group in groups if group.hub is not None and (frames := _callback(group))},
    )


def is_hub_run(frame: PyFrame) -> bool:
    """Return whether a frame is gevent's hub function that calls what is ready."""
    return frame.code.name == _HUB_RUN and frame.code.file.endswith(_HUB_FILE)


def _groups(heap: HeapReader, found: Sequence[Greenlet], threads: Iterable[PyThread]) -> list[_Group]:
    """Group greenlets by their main one, if a living thread runs them; skip a main greenlet without others."""
    members: dict[int, list[Greenlet]] = {}
    for one in found:
        members.setdefault(one.main, []).append(one)
    stacks = _Stacks(heap.pid, threads)
    groups = []
    for main, group in members.items():
        thread = next((known for one in group if (known := stacks.thread_of(one.stack_at)) is not None), None)
        if thread is not None:
            hubs = {one.address for one in group if _HUB in heap.base_names(one.address)}
            hub = next((one for one in group if one.address in hubs), None)
            groups.append(_Group(main, [one for one in group if one.address not in hubs], hub, thread))
    return groups


class _Stacks:
    """Maps stack addresses to threads: glibc keeps a thread's descriptor above its stack."""

    def __init__(self, pid: int, threads: Iterable[PyThread]) -> None:
        self._mappings = parse_maps(pid)
        self._threads = sorted(threads, key=lambda thread: thread.ident)
        self._pid = pid

    def thread_of(self, address: int) -> PyThread | None:
        mapping = find_mapping(self._mappings, address)
        if mapping is None:
            return None
        if mapping.path == "[stack]":
            return next((thread for thread in self._threads if thread.native_id == self._pid), None)
        above = (thread for thread in self._threads if address < thread.ident < mapping.end)
        return next(above, None)


def _task(one: Greenlet, name: str, group: _Group, steady: bool) -> LoopTask:
    frames = one.frames if not one.running else tuple(group.thread.frames) if steady else ()
    chain = tuple(CoroutineFrame(frame.code, frame.code.line(frame.offset)) for frame in frames)
    return LoopTask(
        address=one.address,
        name=name,
        loop=group.loop,
        chain=AwaitChain(chain, 0, False, one.stamp),
        waiter=0,
        waiter_type="",
        pending=not one.running,
        cancelling=False,
        running=one.running,
        steady=steady,
        system=_GEVENT if group.hub is not None else GREENLET,
    )


def _name(heap: HeapReader, one: Greenlet, thread: PyThread) -> str:
    """Return its user-given name, or else its function's or class's name; stable while the greenlet lives."""
    if one.address == one.main:
        return _MAIN if thread.native_id == heap.pid else f"{_MAIN}-{thread.native_id}"
    try:
        attributes = heap.attributes(one.address)
        if heap.type_name(attributes.get("name", 0)) == "str":
            return heap.objects.text(attributes["name"])
        function = attributes.get("_run", 0)
        if heap.type_name(function) == "method":
            (function,) = heap.words(function + _FUNCTION_AT, 1)
        if heap.type_name(function) == "function":
            code = heap.objects.code(heap.words(function + _CODE_AT, 1)[0])
            if code is not None:
                return code.name.rpartition("<locals>.")[2]
    except (OSError, OverflowError):
        pass  # it ends
    return one.kind.rpartition(".")[2]


def _loop(group: _Group, ready: tuple[int, ...]) -> EventLoop:
    kind = "gevent.hub.Hub" if group.hub is not None else "greenlet.greenlet"
    return EventLoop(group.loop, kind, group.thread.ident, group.running, ready, (), readable=True)


def _callback(group: _Group) -> Sequence[PyFrame]:
    """Return the frames of the code that blocks a hub's thread, innermost first (G2)."""
    frames = group.thread.frames
    at = next((place for place, frame in enumerate(frames) if is_hub_run(frame)), None)
    if at is not None:
        return frames[:at]
    return frames if group.running else ()
