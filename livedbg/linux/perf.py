"""Samples of perf events in threads of a process: perf_event_open(2), one shared ring a CPU.

Layouts: linux/perf_event.h (struct perf_event_attr, PERF_ATTR_SIZE_VER7; PERF_RECORD_SAMPLE), asm/perf_regs.h.
x86-64 only: aarch64's registers are not read.

Invariants:
    P1. An event counts in the threads that were added, and in what these start where it is inherited; nowhere else.
    P2. Samples that the kernel had to drop are counted, never passed over.
    P3. Events are inherited, so none is of the PMU `uprobe`, which the kernel names by a path: it would read the path
        from the *target's* memory when that starts a thread, and the start would fail (seen on Linux 6.18).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import resource
import select
import struct
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple

__all__ = ["NoPerf", "PerfEvents", "Sample", "Source", "enable", "open_event", "supported"]

_SYSCALLS: Final = {"x86_64": 298}  # asm/unistd_64.h
_SOFTWARE, _DUMMY = 1, 9  # PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY
TRACEPOINT: Final = 2
"""PERF_TYPE_TRACEPOINT."""
BREAKPOINT: Final = 5
"""PERF_TYPE_BREAKPOINT: a debug register of the processor, which the kernel owns: four a thread, no rights needed but
those to trace the process, where kernel.perf_event_paranoid is 2 or less."""

_TID, _TIME, _RAW, _REGS_USER, _STACK_USER, _IDENTIFIER = 1 << 1, 1 << 2, 1 << 10, 1 << 12, 1 << 13, 1 << 16
_DISABLED, _INHERIT, _CLOCK, _INHERIT_THREAD = 1 << 0, 1 << 1, 1 << 25, 1 << 35
_ENABLE, _SET_OUTPUT, _SET_FILTER, _ID = 0x2400, 0x2405, 0x40082406, 0x80082407  # PERF_EVENT_IOC_*
_NO_KERNEL: Final = 1 << 5 | 1 << 6  # exclude_kernel, exclude_hv: what kernel.perf_event_paranoid 2 asks for
_EXECUTE, _WORD = 4, 8  # HW_BREAKPOINT_X (linux/hw_breakpoint.h) and its length, that of a long
_CLOEXEC: Final = 8  # PERF_FLAG_FD_CLOEXEC
_LOST, _SAMPLE = 2, 9  # PERF_RECORD_*
_HEAD, _TAIL = 1024, 1032  # data_head and data_tail of struct perf_event_mmap_page
_ATTR: Final = struct.Struct("<IIQQQQQIIQQQQIiQIHHIIQ")
_UNUSED: Final = (0,) * 7  # of _ATTR: sample_regs_intr and what follows

# perf's numbers of the registers (asm/perf_regs.h): ax bx cx dx si di bp sp ip flags cs ss, r8 to r15
_WANTED: Final = (*range(12), *range(16, 24))
_MASK: Final = sum(1 << number for number in _WANTED)
_PLACE: Final = {number: place for place, number in enumerate(_WANTED)}
_REGISTERS: Final = struct.Struct(f"<{len(_WANTED)}Q")
# struct user_regs_struct (sys/user.h): r15 r14 r13 r12 bp bx r11 r10 r9 r8 ax cx dx si di orig_ax ip cs flags sp ss
_USER_REGS: Final = (23, 22, 21, 20, 6, 1, 19, 18, 17, 16, 0, 2, 3, 4, 5, None, 8, 10, 9, 7, 11)
_PAGE: Final = mmap.PAGESIZE
_RINGS: Final = 64 << 20  # bytes of all rings together at most
_RING_MOST, _RING_LEAST = 32 << 20, 64 << 10
_FILES_SPARE: Final = 256
_ROUNDS: Final = 5  # of looking for threads that were born meanwhile

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class NoPerf(OSError):
    """The kernel or our rights don't allow it. `errno` says why: EACCES and EPERM want CAP_PERFMON."""


class Source(NamedTuple):
    """What is sampled.

    Attributes:
        kind: type of the event.
        config: which event of that type.
        wanted: a filter on the event's fields (Documentation/trace/events.rst); "" for all.
        address: for BREAKPOINT: of the instruction.
    """

    kind: int
    config: int = 0
    wanted: str = ""
    address: int = 0


class Sample(NamedTuple):
    """One.

    Attributes:
        source: its number, as they were given.
        mono_ns: when, CLOCK_MONOTONIC.
        raw: the fields of a trace event; b"" for others.
        registers: of struct user_regs_struct, the first 21.
        stack: the bytes from the stack pointer upwards.
    """

    source: int
    pid: int
    tid: int
    mono_ns: int
    raw: bytes
    registers: tuple[int, ...]
    stack: bytes


def supported() -> bool:
    """Whether the samples of this machine can be read."""
    return os.uname().machine in _SYSCALLS


class PerfEvents:
    """Events in the threads that are added, and their samples. A context manager.

    Every thread has one event a source and CPU: only such can be inherited by threads born later and still write into
    a shared ring.

    Args:
        sources: what to sample.
        stack_bytes: how much of the stack a sample brings: a multiple of 8. Every sample takes that much of the ring,
            also where the stack is shorter.
        follow: child processes inherit the events too.

    Raises:
        NoPerf: not on this kernel, or not with our rights.
    """

    def __init__(self, sources: Sequence[Source], *, stack_bytes: int = 24 << 10, follow: bool = False) -> None:
        if not supported():
            raise NoPerf(errno.ENOSYS, "samples of this machine can't be read")
        self._sources = list(sources)
        self._stack_bytes = stack_bytes
        self._follow = follow
        self._source_of: dict[int, tuple[int, int]] = {}
        self._events: dict[int, list[int]] = {}
        self._over: list[int] = []
        self._rings: dict[int, tuple[int, int, mmap.mmap]] = {}
        self._poll = select.epoll()
        self._lost = 0
        try:
            cpus = _online()
            for cpu in cpus:
                self._add_ring(cpu, min(_RING_MOST, _power_below(_RINGS // len(cpus))))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> PerfEvents:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def threads(self) -> frozenset[int]:
        """The threads that were added and are not known to have ended."""
        return frozenset(self._events)

    def fileno(self) -> int:
        """A descriptor that is readable when there are samples."""
        return self._poll.fileno()

    def room_for(self, threads: int) -> bool:
        """Whether so many more threads can be added: each takes a descriptor a source and CPU."""
        opened = sum(1 for _ in Path("/proc/self/fd").iterdir())
        wanted = opened + threads * len(self._sources) * len(self._rings) + _FILES_SPARE
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if wanted > soft and (hard == resource.RLIM_INFINITY or wanted <= hard):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return True
        return wanted <= soft

    def add_all(self, threads: Callable[[], Iterable[int]]) -> None:
        """Sample all threads; of those born meanwhile nobody knows whether they inherited: they are added too.

        Args:
            threads: lists them; asked again until there is none that is not known.

        Raises:
            NoPerf: not allowed.
            OSError: more files would be open than are allowed (EMFILE).
        """
        for _ in range(_ROUNDS):
            fresh = [tid for tid in threads() if tid not in self._events]
            if not fresh:
                return
            if not self.room_for(len(fresh)):
                raise OSError(errno.EMFILE, f"{len(fresh)} threads take more open files than `ulimit -n` allows")
            for tid in fresh:
                with contextlib.suppress(ProcessLookupError):
                    self.add(tid)

    def add(self, tid: int) -> None:
        """Sample a thread, and what it starts from now on.

        Raises:
            ProcessLookupError: it is gone.
            NoPerf: not allowed.
            OSError: too many files are open.
        """
        if tid in self._events:
            return
        files: list[int] = []
        try:
            for number in range(len(self._sources)):
                for cpu, (ring, _, _) in self._rings.items():
                    files.append(self._open(number, tid, cpu))
                    self._source_of[_identity(files[-1])] = (number, tid)
                    fcntl.ioctl(files[-1], _SET_OUTPUT, ring)
                    if self._sources[number].wanted:
                        fcntl.ioctl(files[-1], _SET_FILTER, self._sources[number].wanted.encode() + b"\0")
            for file in files:
                fcntl.ioctl(file, _ENABLE, 0)
        except BaseException:
            for file in files:
                os.close(file)
            raise
        self._events[tid] = files

    def keep(self, alive: Collection[int]) -> None:
        """Forget the threads that have ended; what they started keeps the events that it inherited."""
        for tid in self._events.keys() - set(alive):
            self._over += self._events.pop(tid)

    def read(self) -> list[Sample]:
        """What came since the last time, in the order of time."""
        samples = [sample for _, size, ring in self._rings.values() for sample in self._drain(ring, size)]
        samples.sort(key=lambda sample: sample.mono_ns)
        return samples

    def take_lost(self) -> int:
        """How many samples the kernel has dropped since this was last asked."""
        lost, self._lost = self._lost, 0
        return lost

    def close(self) -> None:
        """End all of it."""
        for file in chain(self._over, *self._events.values()):
            os.close(file)
        self._over.clear()
        self._events.clear()
        for file, _, ring in self._rings.values():
            ring.close()
            os.close(file)
        self._rings.clear()
        self._poll.close()

    def _add_ring(self, cpu: int, size: int) -> None:
        """A ring of a CPU: that of an event that never counts anything, so it outlives every thread."""
        try:
            file = _opened(_attr(_SOFTWARE, _DUMMY, _DISABLED | _CLOCK), -1, cpu)
        except NoPerf:  # a whole CPU is for CAP_PERFMON; rings of a CPU take events of any thread
            file = _opened(_attr(_SOFTWARE, _DUMMY, _DISABLED | _CLOCK | _NO_KERNEL), 0, cpu)
        while True:
            try:
                ring = mmap.mmap(file, _PAGE + size)
                break
            except OSError as error:
                if error.errno != errno.EPERM or size <= _RING_LEAST:  # perf_event_mlock_kb
                    os.close(file)
                    raise
                size //= 2
        self._rings[cpu] = (file, size, ring)
        self._poll.register(file, select.EPOLLIN)

    def _open(self, number: int, tid: int, cpu: int) -> int:
        source = self._sources[number]
        flags = _DISABLED | _CLOCK | _INHERIT | (0 if self._follow else _INHERIT_THREAD)
        flags |= _NO_KERNEL if source.address else 0
        attr = _attr(source.kind, source.config, flags, self._stack_bytes, source.address)
        return _opened(attr, tid, cpu)

    def _drain(self, ring: mmap.mmap, size: int) -> Iterator[Sample]:
        head, tail = struct.unpack_from("<QQ", ring, _HEAD)
        while tail < head:
            kind, _, length = struct.unpack("<IHH", _piece(ring, size, tail, 8))
            record = _piece(ring, size, tail, length)
            tail += length
            if kind == _SAMPLE:
                sample = self._sample(record)
                if sample is not None:
                    yield sample
            elif kind == _LOST:
                self._lost += struct.unpack_from("<Q", record, 16)[0]
        struct.pack_into("<Q", ring, _TAIL, tail)

    def _sample(self, record: bytes) -> Sample | None:
        identity, pid, tid, mono_ns = struct.unpack_from("<QIIQ", record, 8)
        number, owner = self._source_of.get(identity, (-1, 0))
        if number < 0 or (owner != tid and tid in self._events):  # it has events of its own: said twice otherwise
            return None
        at, raw = 32, b""
        if self._sources[number].kind == TRACEPOINT:
            (size,) = struct.unpack_from("<I", record, at)
            raw = record[at + 4 : at + 4 + size]
            at += 4 + size
        (abi,) = struct.unpack_from("<Q", record, at)
        if not abi:  # no user registers: a thread of the kernel
            return None
        values = _REGISTERS.unpack_from(record, at + 8)
        registers = tuple(values[_PLACE[n]] if n is not None else 0xFFFFFFFFFFFFFFFF for n in _USER_REGS)
        at += 8 + _REGISTERS.size
        (size,) = struct.unpack_from("<Q", record, at)
        stack = b""
        if size:
            (filled,) = struct.unpack_from("<Q", record, at + 8 + size)
            stack = record[at + 8 : at + 8 + filled]
        return Sample(number, pid, tid, mono_ns, raw, registers, stack)


def open_event(source: Source, tid: int) -> int:
    """An event of one thread, which nothing inherits: without a ring, told of by other means (livedbg.linux.knock).

    Returns:
        Its file descriptor; it counts nothing until it is enabled (`enable`).

    Raises:
        ProcessLookupError: the thread is gone.
        NoPerf: not allowed.
        OSError: too many files are open, or (EINVAL) the kernel doesn't understand the filter.
    """
    flags = _DISABLED | (_NO_KERNEL if source.address else 0)
    file = _opened(_attr(source.kind, source.config, flags, address=source.address), tid, -1)
    try:
        if source.wanted:
            fcntl.ioctl(file, _SET_FILTER, source.wanted.encode() + b"\0")
    except BaseException:
        os.close(file)
        raise
    return file


def enable(file: int) -> None:
    """Have an event count."""
    fcntl.ioctl(file, _ENABLE, 0)


def _opened(attr: bytes, tid: int, cpu: int) -> int:
    buffer = ctypes.create_string_buffer(attr, len(attr))
    file = int(_libc.syscall(_SYSCALLS[os.uname().machine], buffer, tid, cpu, -1, _CLOEXEC))
    if file >= 0:
        return file
    code = ctypes.get_errno()
    if code in (errno.ESRCH, errno.EMFILE, errno.ENFILE, errno.ENOMEM):
        raise OSError(code, os.strerror(code))
    raise NoPerf(code, os.strerror(code))


def _attr(kind: int, config: int, flags: int, stack: int = 0, address: int = 0) -> bytes:
    """struct perf_event_attr: sampled at each event, the reader woken each time.

    Args:
        kind: type of the event.
        config: the event.
        flags: the bits behind read_format.
        stack: bytes of the stack in each sample; 0 for an event that gives none.
        address: of the instruction that a breakpoint is for.
    """
    kind_of_breakpoint, length = (_EXECUTE, _WORD) if address else (0, 0)
    sampled, registers = _IDENTIFIER, 0
    if stack:
        sampled |= _TID | _TIME | _REGS_USER | _STACK_USER | (_RAW if kind == TRACEPOINT else 0)
        registers = _MASK
    clock = time.CLOCK_MONOTONIC  # events that share a ring must share a clock
    return _ATTR.pack(
        kind,
        _ATTR.size,
        config,
        1,
        sampled,
        0,
        flags,
        1,
        kind_of_breakpoint,
        address,
        length,
        0,
        registers,
        stack,
        clock,
        *_UNUSED,
    )


def _identity(file: int) -> int:
    answer = bytearray(8)
    fcntl.ioctl(file, _ID, answer)
    return int.from_bytes(answer, "little")


def _piece(ring: mmap.mmap, size: int, at: int, length: int) -> bytes:
    at %= size
    first = ring[_PAGE + at : _PAGE + min(at + length, size)]
    return first if len(first) == length else first + ring[_PAGE : _PAGE + length - len(first)]


def _power_below(number: int) -> int:
    return 1 << max(number.bit_length() - 1, _RING_LEAST.bit_length() - 1)


def _online() -> list[int]:
    """The CPUs that are on (/sys/devices/system/cpu/online: `0-3,8`)."""
    found: list[int] = []
    for part in Path("/sys/devices/system/cpu/online").read_text().strip().split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found
