"""Scan the runtime in a process: queued and running operations, and waiters.

A submission of the Vulkan driver (runtime/src/iree/hal/drivers/vulkan/queue.c) points to a command buffer
(command_buffer.c): a chain of blocks of records, each with its length and its type. The record of a dispatch has the
executable, and its entry of the executable's table of pipelines (executable.h), which has the handle of the pipeline
and the name of the function.

Invariants:
    iree_shot.T1. A scan that finds everything unchanged copies no memory: it reads the known objects again.
    iree_shot.T2. Semaphores and queues are read only for versions with a known layout.
    iree_shot.T3. It searches for newly queued operations, unless only the runtime's own threads have run; if nothing
        was queued, or a recording had no context yet, unless no thread at all has run.
    iree_shot.T4. An operation is the same as in the scan before only if nobody could have queued another one with its
        address and values: a thread that waits for it has not run since, or only the runtime's own have.
    iree_shot.V1. A command buffer is read completely or not at all: its records fill its blocks, and each pipeline is
        in the table of its executable.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from msgspec import Struct, field, structs

from livedbg.adapters.iree.live.image import Image, Runtime, runtime_in
from livedbg.adapters.iree.live.libraries import Code, Dispatch, Libraries, Library, code_mappings, read_code
from livedbg.adapters.iree.live.operations import Driver, Operation, Point, Semaphore, find_operations, find_semaphores
from livedbg.adapters.iree.live.recordings import Command, Recording, read_progress, read_recordings
from livedbg.adapters.iree.live.waits import Waits, is_own, waits_of
from livedbg.linux import memory
from livedbg.linux.maps import Mapping, find_mapping, parse_maps
from livedbg.linux.procfs import BlockedSyscall, blocked_syscall, parse_schedstat, read_file, read_stat, thread_ids
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line

_BUFFER: Final = struct.Struct("<2Q128x2Q")  # references, table of functions, first block at 144, last block
_BLOCK: Final = struct.Struct("<3Q")  # next, bytes used, bytes
_DATA: Final = 32  # of a block
_RECORD: Final = struct.Struct("<QI4x")  # bytes, type
_RUN: Final = struct.Struct("<2Q")  # executable, pipeline: behind the head of a dispatch's record
_EXECUTABLE: Final = struct.Struct("<2Q72x2Q")  # references, table of functions; 88: count and address of pipelines
_PIPELINE: Final = struct.Struct("<Q112x2Q24x")  # handle; 120: name and its length
_FILL, _UPDATE, _COPY, _DISPATCH, _BARRIER, _LAST = 0, 1, 2, 3, 4, 6
_KINDS: Final = {_FILL: "fill", _UPDATE: "update", _COPY: "copy"}
_MOST_BLOCKS: Final = 256
_MOST_PIPELINES: Final = 4096
_LARGEST: Final = 1 << 20
_LONGEST: Final = 512


class _Strange(Exception):
    """It is no command buffer, or one of another layout."""


def read_submissions(
    image: Image, buffers: Sequence[int], runtime: Runtime
) -> tuple[dict[int, Recording], dict[int, Dispatch]]:
    """Return the recordings of command buffers by address, and their dispatches by pipeline handle.

    The address of such a dispatch is that of its entry in the executable's table.
    """
    recordings: dict[int, Recording] = {}
    pipelines: dict[int, Dispatch] = {}
    for buffer in buffers:
        own: dict[int, Dispatch] = {}
        try:
            commands = tuple(_commands(image, buffer, runtime, own))
        except _Strange:
            continue
        if commands:
            recordings[buffer] = Recording(commands)
            pipelines |= own
    return recordings, pipelines


def _commands(image: Image, buffer: int, runtime: Runtime, pipelines: dict[int, Dispatch]) -> Iterator[Command]:
    head = image.unpack(_BUFFER, buffer)
    if head is None or not _is_object(head, runtime):
        raise _Strange
    block, seen, region, index = head[2], set[int](), 0, 0
    while block:
        fields = image.unpack(_BLOCK, block)
        if fields is None or block in seen or len(seen) >= _MOST_BLOCKS or not fields[1] <= fields[2] <= _LARGEST:
            raise _Strange
        seen.add(block)
        for kind, data in _records(image.bytes_at(block + _DATA, fields[1]) or b"", fields[1]):
            if kind == _BARRIER:
                region += 1
            elif kind in _KINDS:
                yield Command(region, _KINDS[kind], index)
            elif kind == _DISPATCH:
                handle, dispatch = _dispatch(image, data, runtime)
                pipelines[handle] = dispatch
                yield Command(region, "dispatch", index, dispatch)
            index += 1
        block = fields[0]


def _records(data: bytes, size: int) -> Iterator[tuple[int, bytes]]:
    """Yield type and payload of each record."""
    at = 0
    if len(data) < size:
        raise _Strange
    while at < size:
        if at + _RECORD.size > size:
            raise _Strange
        length, kind = _RECORD.unpack_from(data, at)
        if not _RECORD.size <= length <= size - at or length % 16 or kind > _LAST:
            raise _Strange
        yield kind, data[at + _RECORD.size : at + length]
        at += length


def _dispatch(image: Image, data: bytes, runtime: Runtime) -> tuple[int, Dispatch]:
    """Return the pipeline handle of a dispatch record, and the dispatch."""
    if len(data) < _RUN.size:
        raise _Strange
    executable, entry = _RUN.unpack_from(data)
    fields = image.unpack(_EXECUTABLE, executable)
    if fields is None or not _is_object(fields, runtime) or not 0 < fields[2] <= _MOST_PIPELINES:
        raise _Strange
    ordinal, rest = divmod(entry - fields[3], _PIPELINE.size)
    pipeline = image.unpack(_PIPELINE, entry)
    if rest or not 0 <= ordinal < fields[2] or pipeline is None or not 0 < pipeline[2] <= _LONGEST:
        raise _Strange
    name = image.bytes_at(pipeline[1], pipeline[2])
    if not pipeline[0] or name is None or not name.isascii():
        raise _Strange
    return pipeline[0], Dispatch(entry, ordinal, clean_line(name.decode("ascii")), device="vulkan")


def _is_object(fields: tuple[int, ...], runtime: Runtime) -> bool:
    """Return whether it begins like a runtime object: few references, and a vtable in the runtime's file."""
    return 0 < fields[0] < 1 << 20 and runtime.start <= fields[1] < runtime.end


_KNOWN: Final = lazy_re(r"3\.13\.")
_VULKAN: Final = lazy_re(r"/libvulkan(?:\.so|_)")
_STATE: Final = struct.Struct("<QQ16xQQ")  # value, untainted, failure, waiters: from 40 on
_STATE_AT: Final = 40


class HostWait(Struct, frozen=True):
    """A thread of the process that waits for a point."""

    tid: int
    point: Point


class Shot(Struct, frozen=True):
    """Result of a scan.

    Attributes:
        known: the layout of the runtime is known (T2).
        host: waiting threads.
        code: driver code of the submitted dispatches.
        same: addresses of operations that the scan before found too (T4).
        cut: there was more memory than is searched.
    """

    runtime: Runtime
    libraries: tuple[Library, ...] = ()
    known: bool = False
    semaphores: dict[int, Semaphore] = field(default_factory=dict)
    operations: dict[int, Operation] = field(default_factory=dict)
    recordings: dict[int, Recording] = field(default_factory=dict)
    host: tuple[HostWait, ...] = ()
    waits: Waits = field(default_factory=Waits)
    code: tuple[Code, ...] = ()
    same: frozenset[int] = frozenset()
    cut: bool = False


class Reader:
    """Scans one process repeatedly; has its dispatches by address, and the bytes copied so far."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.libraries = Libraries(pid)
        self._last: Shot | None = None
        self._state: tuple[bytes | None, ...] = ()
        self._compiled: tuple[tuple[int, int], ...] = ()
        self._ran: dict[int, int] = {}  # how long each thread had run as the last look began
        self.copied = 0

    def look(self) -> Shot | None:
        """Scan once, None if no runtime is loaded; raise OSError if the process can't be read."""
        mappings = parse_maps(self._pid)
        runtime = runtime_in(self._pid, mappings)
        if runtime is None:
            self._last = None
            return None
        libraries = self.libraries.look(mappings)
        if not _KNOWN.match(runtime.version):
            return Shot(runtime, libraries)
        last, before = self._last, self._ran
        compiled = code_mappings(mappings) if _has_vulkan(mappings) else ()
        known = last is not None and last.libraries == libraries and compiled == self._compiled
        self._ran = _ran(self._pid)
        still = last is not None and (_is_whole(last) or self._ran == before) and self._moved(before) == []
        if last is not None and known and still and self._read_state(last) == self._state:
            return self._again(last)
        self._compiled = compiled
        shot = self._whole(runtime, libraries, mappings)
        if last is not None:
            host = [wait for wait in shot.host if wait in last.host]
            shot = structs.replace(shot, same=_same(shot.operations, last.operations, host, self._moved(before)))
        self._last = shot
        self._state = self._read_state(self._last)
        return self._last

    def at(self, address: int) -> Dispatch | None:
        """Return the dispatch whose code contains an address."""
        found = self.libraries.at(address)
        code = self._last.code if found is None and self._last is not None else ()
        return next((one.dispatch for one in code if one.start <= address < one.end), found)

    def moved(self) -> bool:
        """Return whether a semaphore or a queued operation has changed since the last scan."""
        return self._last is not None and bool(self._state) and self._read_state(self._last) != self._state

    def _moved(self, before: dict[int, int]) -> list[int] | None:
        """Return other threads than the runtime's own that have run since a scan began; None if not known."""
        now = _ran(self._pid)
        if not before or not now:
            return None
        ran = [tid for tid in now.keys() | before.keys() if before.get(tid) != now.get(tid)]
        return [tid for tid in ran if not self._is_own(tid)]

    def _is_own(self, tid: int) -> bool:
        try:
            return is_own(read_stat(self._pid, tid).name)
        except OSError:
            return False  # it has ended

    def _whole(self, runtime: Runtime, libraries: tuple[Library, ...], mappings: list[Mapping]) -> Shot:
        image = Image(self._pid, mappings)
        self.copied += image.size
        semaphores = find_semaphores(image, runtime)
        operations = find_operations(image, semaphores, vulkan=_has_vulkan(mappings))
        submissions, pipelines = read_submissions(image, _buffers(operations, Driver.VULKAN), runtime)
        recordings = read_recordings(image, _buffers(operations, Driver.LOCAL), libraries)
        host = self._host_waits(semaphores, mappings)
        return Shot(
            runtime,
            libraries,
            known=True,
            semaphores=semaphores,
            operations=operations,
            recordings=recordings | submissions,
            host=host,
            waits=waits_of(operations, frozenset(one.point for one in host)),
            code=read_code(image, self._compiled, pipelines),
            cut=image.cut,
        )

    def _again(self, last: Shot) -> Shot:
        """Return the last scan with current progress of the recordings."""
        recordings = read_progress(Image(self._pid, ()), last.recordings)
        self._last = structs.replace(last, recordings=recordings, same=frozenset(last.operations))
        return self._last

    def _read_state(self, shot: Shot) -> tuple[bytes | None, ...]:
        """Return the semaphores' values and lists, and the operations' counts."""
        wanted = [(at + _STATE_AT, _STATE.size) for at in shot.semaphores]
        wanted += [(at + 80, 80) for at in shot.operations]
        wanted += [(at, 8) for one in shot.code for at, _ in one.proof]
        return tuple(memory.read_many(self._pid, wanted))

    def _host_waits(self, semaphores: dict[int, Semaphore], mappings: list[Mapping]) -> tuple[HostWait, ...]:
        """Return the waiters whose list node is on the stack of a thread."""
        nodes = [
            (waiter, one.address) for one in semaphores.values() for waiter in one.waiters if one.value < waiter.minimum
        ]
        if not nodes:
            return ()
        found = []
        for tid in thread_ids(self._pid):
            top = _stack_pointer(self._pid, tid)
            stack = find_mapping(mappings, top) if top else None
            if stack is None:
                continue
            found += [
                HostWait(tid, Point(address, waiter.minimum))
                for waiter, address in nodes
                if top <= waiter.address < stack.end
            ]
        return tuple(found)


def _is_whole(shot: Shot) -> bool:
    """Return whether something was queued, and all of its begun parts were found."""
    return bool(shot.operations) and all(one.context or not one.blocks for one in shot.recordings.values())


def _same(
    operations: dict[int, Operation],
    before: dict[int, Operation],
    host: Sequence[HostWait],
    moved: Collection[int] | None,
) -> frozenset[int]:
    """Return the addresses of operations that were there before (T4).

    Args:
        before: operations of the scan before.
        host: waits that both scans found.
        moved: threads other than the runtime's own that have run meanwhile; None if not known.
    """
    alike = {at for at, one in operations.items() if at in before and before[at].signals == one.signals}
    if moved is None or not moved:
        return frozenset(alike if moved is not None else ())
    points = {wait.point for wait in host if wait.tid not in moved}
    found = set[int]()
    while more := {at for at in alike - found if points.intersection(_points(operations[at]))}:
        found |= more
        points.update(point for at in more for point in _points(operations[at]))
    return frozenset(found)


def _points(one: Operation) -> Iterator[Point]:
    yield from one.signals
    yield from one.waits


def _ran(pid: int) -> dict[int, int]:
    """Return the run time of each thread in nanoseconds; {} if the kernel does not count it."""
    found = {}
    for tid in thread_ids(pid):
        with contextlib.suppress(OSError):
            found[tid] = parse_schedstat(read_file(f"/proc/{pid}/task/{tid}/schedstat")).cpu_ns
    return found


def _has_vulkan(mappings: Sequence[Mapping]) -> bool:
    return any(_VULKAN.search(one.path) for one in mappings)


def _buffers(operations: dict[int, Operation], driver: Driver) -> list[int]:
    return sorted({one.command_buffer for one in operations.values() if one.driver is driver and one.command_buffer})


def _stack_pointer(pid: int, tid: int) -> int:
    """Return the stack pointer of a thread in a blocking system call; 0 for others."""
    try:
        seen = blocked_syscall(pid, tid)
    except OSError:
        return 0
    return seen.sp if isinstance(seen, BlockedSyscall) and seen.number >= 0 else 0
