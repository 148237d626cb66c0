"""One sample of the greenlets of a process: what each waits for, which thread runs them, what blocks it.

gevent's hub is their event loop: it calls whatever is ready, and a call in any other greenlet that does not switch to
it blocks them all. Greenlets without a hub switch to each other as they like; nothing is concluded of these.

Invariants:
    greenlet_loops.G1. Every wait of a greenlet is `timed`: whether a `gevent.Timeout`, `kill` or `throw` will end it is
        not read.
    greenlet_loops.G2. A hub's thread is in a callback only if another greenlet than the hub runs, or the hub called
        Python code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from livedbg.adapters.python.awaits import Await, HeldLock
from livedbg.adapters.python.greenlet_waits import Waiters, due_greenlets, owner_of_lock, waited_for
from livedbg.adapters.python.loop_sample import LoopSample
from livedbg.cpython.coroutines import AwaitChain, CoroutineFrame
from livedbg.cpython.event_loops import MOST_TASKS, EventLoop, EventLoops, LoopTask
from livedbg.cpython.greenlets import Greenlet, GreenletReader
from livedbg.cpython.heap import HeapReader
from livedbg.cpython.threads import PyFrame, PyThread
from livedbg.linux.maps import find_mapping, parse_maps

GREENLET: Final = "greenlet"
_GEVENT: Final = "gevent"
_HUB_RUN: Final = "Hub.run"
_HUB_FILE: Final = "/gevent/hub.py"
_HUB: Final = "gevent._gevent_c_hub_primitives.WaitOperationsGreenlet"
_FUNCTION_AT, _CODE_AT = 16, 48  # PyMethodObject, PyFunctionObject
_MAIN: Final = "main"


class _Group:
    """The greenlets of one thread.

    Args:
        main: their main greenlet.
        members: all of them, without the hub.
        hub: gevent's, if there is one.
        thread: that runs them.
    """

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
    """The greenlets of all threads.

    Args:
        heap: reads their process.
        reader: finds them.
        roots: the types `greenlet.greenlet` of the interpreters.
        threads: reads the threads of the process, with their frames.

    Raises:
        OSError: gone, or it changes too fast.
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
                owner = owner_of_lock(heap, what) if what is not None else None
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
        loops=EventLoops(loops, tuple(tasks[:MOST_TASKS]), _cut(read.cut, tasks)),
        awaits={task: what for task, what in awaits.items() if task in steady},
        held={lock: holders for lock, holders in held.items() if holders[0][0] in steady},
        timed=known,
        due=frozenset(due & steady),
        callbacks={group.loop: frames for group in groups if group.hub is not None and (frames := _callback(group))},
    )


def _cut(cut: bool, tasks: Sequence[LoopTask]) -> bool:
    return cut or len(tasks) > MOST_TASKS


def is_hub_run(frame: PyFrame) -> bool:
    """Whether a frame is the function of gevent's hub that calls what is ready."""
    return frame.code.name == _HUB_RUN and frame.code.file.endswith(_HUB_FILE)


def _groups(heap: HeapReader, found: Sequence[Greenlet], threads: Iterable[PyThread]) -> list[_Group]:
    """The greenlets by their main one, where a living thread runs them; a thread's main one alone is not given."""
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
    """Which thread's stack an address is in: glibc keeps a thread's descriptor above its stack."""

    def __init__(self, pid: int, threads: Iterable[PyThread]) -> None:
        self._mappings = parse_maps(pid)
        self._threads = sorted(threads, key=lambda thread: thread.ident)
        self._pid = pid

    def thread_of(self, address: int) -> PyThread | None:
        """The thread; None where none is known."""
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
    """The name that its author gave it, else that of its function, else that of its class: it is the same while it
    lives."""
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
    """The frames of what keeps a hub's thread, innermost first (G2)."""
    frames = group.thread.frames
    at = next((place for place, frame in enumerate(frames) if is_hub_run(frame)), None)
    if at is not None:
        return frames[:at]
    return frames if group.running else ()
