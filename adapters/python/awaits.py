"""Find out what a suspended asyncio task awaits, and which locks its coroutines hold.

Based on asyncio of 3.11 to 3.13 (Lib/asyncio):
    Lock        keeps no owner. Inside `async with lock:` the bound method `lock.__aexit__` is on the value stack of the
                suspended coroutine: its task holds the lock. While `lock.__aenter__()` is awaited the method is there
                too; then the coroutine of `__aenter__` comes next, and the lock is not held
    Condition   the same, for its lock; inside `Condition.wait` the lock is free
    Future      any holder of a reference may complete it, also another thread: nothing is concluded from it

Invariants:
    awaits.H1. A task holds a lock only if the lock is locked and the task's suspended coroutine is inside the block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct, field

from livedbg.cpython.coroutines import CoroutineFrame
from livedbg.cpython.event_loops import EventLoop, EventLoops, LoopTask, callbacks, is_pending, is_task
from livedbg.cpython.heap import HeapReader
from livedbg.cpython.objects import is_pointer
from livedbg.cpython.threads import PyFrame
from livedbg.text.patterns import lazy_re

_MOST: Final = 2_000
_LIBRARY: Final = lazy_re(r"/lib(?:64)?/python3[^/]*/asyncio/")
_NOT_THE_USERS: Final = lazy_re(
    r"/lib(?:64)?/python3[^/]*/(?!(?:site|dist)-packages/)|/(?:site|dist)-packages/(?:trio|anyio|gevent)/"
)
INSTALLED: Final = lazy_re(r"/(?:site|dist)-packages/")
_ARGUMENTS: Final = 3
_KINDS: Final = {"Lock": "pylock", "Semaphore": "sem", "BoundedSemaphore": "sem", "Event": "cond", "Condition": "cond"}
_QUEUES: Final = frozenset({"Queue", "LifoQueue", "PriorityQueue"})
_FUNCTION_CODE_AT, _CLOSURE_AT = 48, 72
_SOCKET_FD_AT: Final = 16


class Await(NamedTuple):
    """The awaited object of a task.

    Attributes:
        label: in a user's words: `asyncio.Lock`, `Queue.get`, `asyncio.sleep`.
        kind: of the resource: `pylock`, `cond`, `sem`, `future`; "" for none.
        address: of the resource.
        name: of the resource.
        tasks: addresses of the awaited tasks; the end of any of them may be enough.
        fd: file descriptor that it reads or writes; -1 for none.
        by: who else may end it, if known: `a child process`.
        holds_up: it delays a server's request (a library called the waiting user code) or the end of a queue's jobs:
            nobody waits for these for ever on purpose.
        client: file descriptor of the connection whose request it serves; -1 if not known.
    """

    label: str
    kind: str = ""
    address: int = 0
    name: str = ""
    tasks: tuple[int, ...] = ()
    fd: int = -1
    by: str = ""
    holds_up: bool = False
    client: int = -1


class HeldLock(NamedTuple):
    """A lock held by a task.

    Attributes:
        how: the evidence: ``inside `async with` of it in worker() app.py:41``.
        inferred: from the coroutine; False if the lock names its owner.
    """

    lock: int
    how: str
    inferred: bool = True


def user_frame(frames: tuple[CoroutineFrame, ...]) -> CoroutineFrame | None:
    """Return the innermost coroutine outside Python's library, trio, anyio and gevent."""
    users = (frame for frame in frames if _NOT_THE_USERS.search(frame.code.file) is None)
    return next(users, frames[-1] if frames else None)


def _is_library(frame: CoroutineFrame) -> bool:
    return _LIBRARY.search(frame.code.file) is not None


def _file(frame: CoroutineFrame) -> str:
    return frame.code.file.rpartition("/")[2] if _is_library(frame) else ""


def awaited(heap: HeapReader, task: LoopTask) -> Await | None:
    """Return what a task awaits, None if nothing; raise OSError if memory is unreadable."""
    if not task.waiter or not task.pending:
        return None
    frames = task.chain.frames
    inner = frames[0] if frames else None
    if inner is not None and inner.slots and task.chain.future == task.waiter and _is_library(inner):
        return _with_request(heap, _in_library(heap, task, inner), frames)
    return _with_request(heap, _await_of_future(heap, task.waiter), frames)


def _with_request(heap: HeapReader, what: Await, frames: tuple[CoroutineFrame, ...]) -> Await:
    """Set `holds_up` and `client` if the user's code itself awaits something that a server's request needs."""
    user = next((frame for frame in frames if not _is_library(frame)), None)
    if not what.kind or user is None or INSTALLED.search(user.code.file):
        return what
    called = next((frame.code.name for frame in reversed(frames) if _is_library(frame)), "")
    writer = next((slot for slot in frames[-1].slots[:_ARGUMENTS] if heap.type_name(slot) == "StreamWriter"), 0)
    takes = called.endswith("Queue.get")  # news, or jobs
    by_library = INSTALLED.search(frames[-1].code.file) is not None and not takes
    return what._replace(
        holds_up=by_library or called.endswith("Queue.join"), client=_descriptor(heap, writer) if writer else -1
    )


def _in_library(heap: HeapReader, task: LoopTask, inner: CoroutineFrame) -> Await:
    file, function, own = _file(inner), inner.code.name, inner.slots[0]
    called = _user_call(task.chain.frames)
    if file == "locks.py":
        return _lock(heap, function, own, called)
    kind = heap.type_name(own)
    if file == "queues.py" and (kind in _QUEUES or function.startswith("Queue.")):
        return Await(called, "cond", own, f"asyncio.{kind}")
    if file == "tasks.py" and function == "sleep":
        return Await("asyncio.sleep")
    if file == "tasks.py" and function in ("_wait", "wait_for"):
        return Await(called, tasks=_tasks(heap, heap.items(own, _MOST) or [own]))
    if file == "taskgroups.py":
        group = heap.attributes(own)
        return Await("asyncio.TaskGroup", tasks=_tasks(heap, heap.items(group.get("_tasks", 0), _MOST)))
    if file == "streams.py":
        return Await(called, fd=_descriptor(heap, own))
    if function.partition(".")[2].startswith("sock_") and len(inner.slots) > 1:
        return Await(called.rpartition(".")[2], fd=_socket(heap, inner.slots[1]))
    if function == "Server.serve_forever":
        return Await(called, by="connections")
    if "ubprocess" in file:
        return Await(called, by="a child process")
    return Await(called)


def _user_call(frames: tuple[CoroutineFrame, ...]) -> str:
    """Return the outermost of asyncio's own coroutines: the user's call (`Queue.get`)."""
    name = ""
    for frame in frames:
        if not _is_library(frame):
            break
        name = frame.code.name
    return name if "." in name else f"asyncio.{name}"


def _lock(heap: HeapReader, function: str, own: int, called: str) -> Await:
    kind = heap.type_name(own)
    if function == "Lock.acquire" and kind == "Lock":
        return Await("asyncio.Lock", "pylock", own, "asyncio.Lock")
    if kind in _KINDS and kind != "Lock":
        label = f"asyncio.{kind}" if called.startswith("_ContextManagerMixin") else called
        return Await(label, _KINDS[kind], own, f"asyncio.{kind}")
    return Await(called)


def _tasks(heap: HeapReader, addresses: list[int]) -> tuple[int, ...]:
    return tuple(one for one in addresses if is_pointer(one) and is_task(heap, one) and is_pending(heap, one))


def _await_of_future(heap: HeapReader, future: int) -> Await:
    if is_task(heap, future):
        return Await("a task", tasks=(future,))
    if heap.type_name(future) == "_GatheringFuture":
        children = heap.items(heap.attributes(future).get("_children", 0), _MOST)
        return Await("asyncio.gather", tasks=_tasks(heap, children))
    for callback in callbacks(heap, future):
        name = _function_name(heap, callback)
        if name.startswith("_chain_future."):
            return Await("the result of another thread")
        if name.startswith("shield."):
            return Await("asyncio.shield", tasks=_tasks(heap, _closure(heap, callback)))
    return Await("a future", "future", future, "asyncio.Future")


def _function_name(heap: HeapReader, function: int) -> str:
    if heap.type_name(function) != "function":
        return ""
    (code_at,) = heap.words(function + _FUNCTION_CODE_AT, 1)
    code = heap.objects.code(code_at)
    return code.name if code is not None and _LIBRARY.search(code.file) else ""


def _closure(heap: HeapReader, function: int) -> list[int]:
    (cells,) = heap.words(function + _CLOSURE_AT, 1)
    return [heap.in_cell(cell) for cell in (heap.items(cells, 8) if cells else [])]


def _descriptor(heap: HeapReader, stream: int) -> int:
    """Return the file descriptor of the transport of a stream's reader or protocol; -1 if not known."""
    facts = heap.attributes(stream)
    transport = facts.get("_transport", 0)
    if not is_pointer(transport) or heap.type_name(transport) == "NoneType":
        return -1
    facts = heap.attributes(transport)
    number = heap.integer(facts.get("_sock_fd", facts.get("_fileno", 0)))
    return -1 if number is None else number


def _socket(heap: HeapReader, address: int) -> int:
    if heap.type_name(address) != "socket":
        return -1
    return heap.words(address + _SOCKET_FD_AT, 1)[0] & 0x7FFF_FFFF


def held_locks_of(heap: HeapReader, task: LoopTask) -> Iterator[HeldLock]:
    """Yield the locks that a task holds by `async with` (H1); raise OSError if memory is unreadable."""
    frames = task.chain.frames
    for depth, frame in enumerate(frames):
        values = frame.stack
        for place, value in enumerate(values):
            owner = _exit_of(heap, value)
            if not owner:
                continue
            entering = place == len(values) - 1 and depth > 0 and _is_entering(frames[depth - 1], owner)
            lock = 0 if entering else _lock_of(heap, owner, frames[:depth])
            if lock and heap.type_name(lock) == "Lock" and heap.integer(heap.attributes(lock).get("_locked", 0)):
                yield HeldLock(lock, f"inside `async with` of it in {frame.where}")


def _exit_of(heap: HeapReader, value: int) -> int:
    """Return the asyncio lock or condition to which a value is bound as `__aexit__`; 0 if it isn't one."""
    if not is_pointer(value) or heap.type_name(value) != "method":
        return 0
    function, owner = heap.words(value + 16, 2)
    name = _function_name(heap, function)
    return owner if name == "_ContextManagerMixin.__aexit__" and is_pointer(owner) else 0


def _is_entering(inner: CoroutineFrame, owner: int) -> bool:
    return inner.code.name.endswith(".__aenter__") and inner.slots[:1] == (owner,)


def _lock_of(heap: HeapReader, owner: int, inner: tuple[CoroutineFrame, ...]) -> int:
    """Return the lock of an `async with` block; that of a condition unless `wait` has released it."""
    kind = heap.type_name(owner)
    if kind == "Lock":
        return owner
    waits = any(frame.code.name == "Condition.wait" and frame.slots[:1] == (owner,) for frame in inner)
    return heap.attributes(owner).get("_lock", 0) if kind == "Condition" and not waits else 0


class LoopSample(Struct, frozen=True):
    """Result of one sample of the event loops.

    Attributes:
        loops: all loops that have tasks, and their tasks.
        awaits: task -> the object it awaits.
        held: lock -> the tasks that hold it and where (one, unless misread).
        timed: tasks that a timer may wake or end.
        due: tasks that are ready to run.
        callbacks: loop -> the frames of the callback in which its thread is.
        lost: futures referred to only by their waiters.
        others: runtimes of tasks that are loaded too but not read.
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
    """Merge the loops of several interpreters."""
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
    """Return the locks held by tasks that did not change during the sample (loops.L1)."""
    kept = {lock: [one for one in holders if one[0] in steady] for lock, holders in held.items()}
    return {lock: holders for lock, holders in kept.items() if holders}
