"""Find live queue operations and semaphores in memory: what each waits for and signals.

An operation of the local drivers (`iree_hal_task_queue_op_t`, runtime/src/iree/hal/drivers/local_task/task_queue.h) and
a submission of the Vulkan driver hold a list of the semaphores that they signal: `iree_hal_semaphore_list_t`, a count
and two arrays. They are found from the semaphores: arrays that contain one, then the lists that point to these arrays.

`iree_async_semaphore_t` (runtime/src/iree/async/semaphore.h) begins every semaphore of the local and Vulkan drivers. No
symbol leads to one, so memory is searched for its shape: a small reference count, a vtable in the runtime's file whose
first entries are code of it, and a pointer to just after the structure.

Invariants:
    iree_operations.P1. An operation is reported only while somebody waits for a semaphore that it signals, or while it
        is in the list of one that it waits for: freed memory contains others.
    iree_operations.M1. A wait is reported only if its list node points back to the semaphore.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Mapping
from enum import StrEnum
from typing import Final

import numpy as np
from msgspec import Struct, structs

from livedbg.adapters.iree.live.image import Image, Runtime, Words
from livedbg.model import ids
from livedbg.text.sanitize import clean_line

_WAITER_NODE: Final = struct.Struct("<6Q")  # next, previous, semaphore, minimum value, callback, user data
_TABLE: Final = struct.Struct("<3Q")
_TRAILER: Final = (96, 1024)  # how far behind the semaphore its trailing storage begins
_MOST_COUNT: Final = 10_000
_MOST_WAITERS: Final = 1024
_LARGEST: Final = 1 << 62
_LOWEST_POINTER: Final = 4096


class Waiter(Struct, frozen=True):
    """A waiter for a value of at least `minimum`: a list node in its owner's memory."""

    address: int
    minimum: int


class Semaphore(Struct, frozen=True):
    """A semaphore.

    Attributes:
        value: the reached one.
        failed: waiters get an error.
    """

    address: int
    value: int
    failed: bool
    waiters: tuple[Waiter, ...] = ()


def find_semaphores(image: Image, runtime: Runtime) -> dict[int, Semaphore]:
    """Return possible semaphores by address; freed memory may look like one too."""
    tables: dict[int, bool] = {}
    found: dict[int, Semaphore] = {}
    for start, words in image.pieces:
        for place in _candidates(start, words, runtime):
            address, fields = start + 8 * place, [int(word) for word in words[place : place + 11]]
            table, value, failure, head = fields[1], fields[5], fields[8], fields[9]
            if table not in tables:
                tables[table] = _is_table(image, table, runtime)
            if not tables[table] or value >= _LARGEST or 0 < failure < 2:
                continue
            waiters = tuple(_waiters(image, address, head))
            if head and not waiters:
                continue  # the list is not its own
            found[address] = Semaphore(address, value, failure != 0, waiters)
    return found


def _candidates(start: int, words: Words, runtime: Runtime) -> list[int]:
    count = len(words) - 10
    if count <= 0:
        return []
    references, tables, trailers = words[:count], words[1 : count + 1], words[10 : count + 10]
    near = (tables >= np.uint64(runtime.start)) & (tables < np.uint64(runtime.end))
    (places,) = np.nonzero(near & (references > 0) & (references < _MOST_COUNT))
    behind = trailers[places] - (places.astype(np.uint64) * np.uint64(8) + np.uint64(start))  # wraps if it is before
    return [int(place) for place in places[(behind >= _TRAILER[0]) & (behind < _TRAILER[1])]]


def _is_table(image: Image, at: int, runtime: Runtime) -> bool:
    entries = image.unpack(_TABLE, at)
    return entries is not None and all(runtime.has_code(entry) for entry in entries)


def _waiters(image: Image, semaphore: int, head: int) -> list[Waiter]:
    """Return the nodes of its list, as far as they point back (M1)."""
    found: list[Waiter] = []
    at, before = head, 0
    while at >= _LOWEST_POINTER and len(found) < _MOST_WAITERS:
        node = image.unpack(_WAITER_NODE, at)
        if node is None or node[2] != semaphore or node[1] != before:
            break
        found.append(Waiter(at, node[3]))
        before, at = at, node[0]
    return found


_LIST: Final = struct.Struct("<3Q")  # count, semaphores, values
_TASK: Final = struct.Struct("<i60xQ")  # type at 8, scope at 72
_COUNT_AND_QUEUE: Final = struct.Struct("<i4xQ8xQ")  # waits left at 136, queue 144, command buffer 160
_WAIT_ENTRY: Final = struct.Struct("<2Q")  # behind the list node: operation, semaphore
_KIND: Final = struct.Struct("<i")
_MOST_POINTS: Final = 64
_SLOTS: Final = 8  # of an array that are looked at before the one that was found
_TASK_LIST, _TASK_WAITS = 80, 136  # iree_hal_task_queue_op_t
_NAME: Final = 16  # bytes of the name of a device, at the begin of its scope
_VULKAN_BUFFER: Final = 408  # from the list of waits of an execute to its command buffer
_VULKAN_QUEUE: Final = 1048  # from the queue of a submission to its list of waits
_POINTER: Final = struct.Struct("<Q")
_VULKAN_NEAR: Final = 4096  # a submission and the list nodes of its waits are one block
_NODE: Final = 48


class Driver(StrEnum):
    """Driver of an operation."""

    LOCAL = "local"
    VULKAN = "vulkan"


_LOCAL_KINDS: Final = (
    "execute", "barrier", "host call", "alloca", "dealloca", "read", "write", "fill", "copy", "update", "dispatch",
)  # fmt: skip
_VULKAN_KINDS: Final = (
    "barrier", "host call", "fill", "update", "copy", "execute", "dispatch", "alloca", "dealloca", "sparse bind",
)  # fmt: skip


class Point(Struct, frozen=True):
    """A value of a semaphore."""

    semaphore: int
    value: int


class Operation(Struct, frozen=True):
    """A queue operation.

    Attributes:
        kind: `execute` (a command buffer), `alloca`, …
        signals: points signalled at its end.
        waits: awaited points that are not reached.
        left: its own count of remaining waits; None if it has none.
        command_buffer: address of the executed one, else 0.
        device: name of its device.
    """

    address: int
    driver: Driver
    kind: str
    signals: tuple[Point, ...]
    waits: tuple[Point, ...] = ()
    left: int | None = None
    command_buffer: int = 0
    device: str = "local-task"

    @property
    def blocked(self) -> bool:
        """Return whether it waits for a semaphore."""
        return bool(self.waits) or (self.left or 0) > 0


def find_operations(image: Image, semaphores: Mapping[int, Semaphore], *, vulkan: bool) -> dict[int, Operation]:
    """Return the operations with pending signals, by address; `vulkan` if the process has loaded Vulkan too."""
    arrays = {place - 8 * back for place, _ in image.places(semaphores) for back in range(_SLOTS)}
    local: dict[int, Operation] = {}
    submitted: dict[int, Operation] = {}
    for place, _ in image.places(arrays):
        signals = _points(image, place - 8, semaphores)
        if signals and any(semaphores[one.semaphore].value < one.value for one in signals):
            operation = _local(image, place - 8, signals)
            if operation is not None:
                local[operation.address] = operation
            elif vulkan and (operation := _vulkan(image, place - 8, signals, semaphores)) is not None:
                submitted[operation.address] = operation
    found = _with_waits(image, local, semaphores)
    # a list of waits lies before the list of signals
    found |= {at: one for at, one in submitted.items() if at + _LIST.size not in submitted}
    return {at: one for at, one in found.items() if _is_referenced(one, found, semaphores)}


def _points(image: Image, at: int, semaphores: Mapping[int, Semaphore]) -> tuple[Point, ...] | None:
    """Return the points of a semaphore list; None if there is no such list."""
    fields = image.unpack(_LIST, at)
    if fields is None or fields[0] > _MOST_POINTS:
        return None
    count, places, values = fields
    if not count:
        return ()
    both = image.bytes_at(places, 8 * count), image.bytes_at(values, 8 * count)
    if both[0] is None or both[1] is None:
        return None
    ours, least = (struct.unpack(f"<{count}Q", data) for data in both if data is not None)
    if not all(one in semaphores for one in ours):
        return None
    return tuple(Point(one, value) for one, value in zip(ours, least, strict=True))


def _local(image: Image, at: int, signals: tuple[Point, ...]) -> Operation | None:
    """Return an operation of a local device, recognised by its scope, which begins with the device name."""
    address = at - _TASK_LIST
    head = image.unpack(_TASK, address + 8)
    state = image.unpack(_COUNT_AND_QUEUE, address + _TASK_WAITS)
    if head is None or state is None or not head[1]:
        return None
    (kind, scope), (left, queue, buffer) = head, state
    if not 0 <= kind < len(_LOCAL_KINDS) or not 0 <= left < _MOST_POINTS or not queue:
        return None
    device = (image.bytes_at(scope, _NAME) or b"").partition(b"\0")[0]
    if not device or not device.isascii() or not device.decode("ascii").isprintable():
        return None
    name = _LOCAL_KINDS[kind]
    return Operation(
        address,
        Driver.LOCAL,
        name,
        signals,
        left=left,
        command_buffer=buffer if not kind else 0,
        device=clean_line(device.decode("ascii")),
    )


def _with_waits(
    image: Image, operations: dict[int, Operation], semaphores: Mapping[int, Semaphore]
) -> dict[int, Operation]:
    """Add the waits, from the list nodes of the semaphores' waiters."""
    waits: dict[int, list[Point]] = {}
    for semaphore in semaphores.values():
        for waiter in semaphore.waiters:
            entry = image.unpack(_WAIT_ENTRY, waiter.address + _NODE)
            if entry is not None and entry[1] == semaphore.address and semaphore.value < waiter.minimum:
                waits.setdefault(entry[0], []).append(Point(semaphore.address, waiter.minimum))
    return {at: structs.replace(one, waits=tuple(waits.get(at, ()))) for at, one in operations.items()}


def _vulkan(image: Image, at: int, signals: tuple[Point, ...], semaphores: Mapping[int, Semaphore]) -> Operation | None:
    """Return a submission: its adjacent waits, signals, and kind."""
    waits = _points(image, at - _LIST.size, semaphores)
    kind = image.unpack(_KIND, at + _LIST.size)
    queue = image.unpack(_POINTER, at - _LIST.size - _VULKAN_QUEUE)
    if waits is None or kind is None or not 0 <= kind[0] < len(_VULKAN_KINDS):
        return None
    if queue is None or queue[0] not in image:
        return None
    pending = tuple(one for one in waits if semaphores[one.semaphore].value < one.value)
    address, name = at - _LIST.size, _VULKAN_KINDS[kind[0]]
    buffer = image.unpack(_POINTER, address + _VULKAN_BUFFER) if name == "execute" else None
    return Operation(
        address,
        Driver.VULKAN,
        name,
        signals,
        pending,
        command_buffer=buffer[0] if buffer is not None else 0,
        device="vulkan",
    )


def _is_referenced(one: Operation, all_of_them: Mapping[int, Operation], semaphores: Mapping[int, Semaphore]) -> bool:
    """Return whether somebody still refers to it (P1)."""
    if one.waits and all(_listed(one, point, semaphores) for point in one.waits):
        return True
    return any(_is_awaited(point, one, all_of_them, semaphores) for point in one.signals)


def _listed(one: Operation, point: Point, semaphores: Mapping[int, Semaphore]) -> bool:
    waiters = semaphores[point.semaphore].waiters
    near = one.driver is Driver.LOCAL
    return any(
        waiter.minimum == point.value and (near or 0 < one.address - waiter.address < _VULKAN_NEAR)
        for waiter in waiters
    )


def _is_awaited(
    point: Point, one: Operation, operations: Mapping[int, Operation], semaphores: Mapping[int, Semaphore]
) -> bool:
    """Return whether somebody waits for a value that it signals."""
    semaphore = semaphores[point.semaphore]
    if any(semaphore.value < waiter.minimum <= point.value for waiter in semaphore.waiters):
        return True
    return any(point in other.waits for at, other in operations.items() if at != one.address)


class Names:
    """Task names of one process, with stable numbers, and a prefix if several processes have tasks."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._numbers: dict[tuple[str, Hashable], int] = {}
        self._next: dict[str, int] = {}

    def task(self, name: str, key: Hashable) -> str:
        """Return the id of a task: `task:iree/NAME#N`."""
        whole = name.replace("/", "_").replace(" ", "_")
        number = self._numbers.get((whole, key))
        if number is None:
            number = self._numbers[whole, key] = self._next.get(whole, 0)
            self._next[whole] = number + 1
        return ids.task("iree", *filter(None, (self._prefix, f"{whole}#{number}")))

    def semaphore(self, host: str, pid: int, point: Point) -> str:
        """Return the id of a semaphore's value: each value is a separate object to wait for."""
        return f"{ids.lock('sem', host, pid, point.semaphore)}:{point.value}"
