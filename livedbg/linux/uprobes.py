"""Listening to functions of a running process by kernel probes: perf events of type "uprobe" (perf_event_open(2)).

Each call of a probed function gives a sample: the registers and the top of the stack at its first instruction, and
when. Nothing is stopped and nothing is traced; the kernel owns the probes and takes them out when the last
descriptor closes, however its owner ends.

Layouts: linux/perf_event.h (struct perf_event_attr, PERF_ATTR_SIZE_VER7; PERF_RECORD_SAMPLE), asm/perf_regs.h.
x86-64 only: aarch64's registers are not read.

Invariants:
    P1. A probe is set in the processes that were asked for and in nobody else's.
    P2. Samples that the kernel had to drop are counted, never passed over.
    P3. Threads and, where asked, processes that are born later inherit the probes.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import resource
import select
import struct
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple

__all__ = ["NoProbes", "Place", "Sample", "Uprobes", "usable"]

_TYPE_FILE: Final = Path("/sys/bus/event_source/devices/uprobe/type")
_SYSCALLS: Final = {"x86_64": 298}  # asm/unistd_64.h
_SOFTWARE, _DUMMY = 1, 9  # PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY
_TID, _TIME, _REGS_USER, _STACK_USER, _IDENTIFIER = 1 << 1, 1 << 2, 1 << 12, 1 << 13, 1 << 16
_SAMPLED: Final = _IDENTIFIER | _TID | _TIME | _REGS_USER | _STACK_USER
_DISABLED, _INHERIT, _ENABLE_ON_EXEC, _CLOCK, _INHERIT_THREAD = 1 << 0, 1 << 1, 1 << 12, 1 << 25, 1 << 35
_ENABLE, _SET_OUTPUT, _ID = 0x2400, 0x2405, 0x80082407  # PERF_EVENT_IOC_*
_CLOEXEC: Final = 8  # PERF_FLAG_FD_CLOEXEC
_LOST, _SAMPLE = 2, 9  # PERF_RECORD_*
_HEAD, _TAIL = 1024, 1032  # data_head and data_tail of struct perf_event_mmap_page
_ATTR: Final = struct.Struct("<IIQQQQQIIQQQQIiQIHHIIQ")
_UNUSED: Final = (0,) * 7  # of _ATTR: sample_regs_intr and what follows

# perf's numbers of the registers (asm/perf_regs.h): ax bx cx dx si di bp sp ip flags cs ss, r8 to r15
_WANTED: Final = (*range(12), *range(16, 24))
_MASK: Final = sum(1 << number for number in _WANTED)
_PLACE: Final = {number: place for place, number in enumerate(_WANTED)}
# struct user_regs_struct (sys/user.h): r15 r14 r13 r12 bp bx r11 r10 r9 r8 ax cx dx si di orig_ax ip cs flags sp ss
_USER_REGS: Final = (23, 22, 21, 20, 6, 1, 19, 18, 17, 16, 0, 2, 3, 4, 5, None, 8, 10, 9, 7, 11)
_PAGE: Final = mmap.PAGESIZE
_RINGS: Final = 64 << 20  # bytes of all rings together at most
_RING_MOST, _RING_LEAST = 8 << 20, 64 << 10
_FILES_SPARE: Final = 256

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class NoProbes(OSError):
    """The kernel or our rights don't allow probes. `errno` says why: EACCES or EPERM want CAP_PERFMON."""


class Place(NamedTuple):
    """Where to probe.

    Attributes:
        path: a path of ours to the file that holds the code.
        offset: of the function's first instruction in that file.
    """

    path: str
    offset: int


class Sample(NamedTuple):
    """One call.

    Attributes:
        place: number of the place, as they were given.
        mono_ns: when, CLOCK_MONOTONIC.
        registers: of struct user_regs_struct, the first 21.
        stack: the bytes from the stack pointer upwards.
    """

    place: int
    pid: int
    tid: int
    mono_ns: int
    registers: tuple[int, ...]
    stack: bytes

    @property
    def arguments(self) -> tuple[int, ...]:
        """The first six integer arguments (System V AMD64 ABI, 3.2.3)."""
        r = self.registers
        return (r[14], r[13], r[12], r[11], r[9], r[8])


def usable() -> bool:
    """Whether this kernel has such probes at all; rights show when one is set."""
    return _TYPE_FILE.exists() and os.uname().machine in _SYSCALLS


class Uprobes:
    """Probes on places, in the threads that are added, and the samples they gave. A context manager.

    Every thread has one event a place and CPU, because only such are inherited by threads born later and can still
    write into a shared ring: one ring a CPU.

    Args:
        places: where.
        stack_bytes: how much of the stack a sample brings: a multiple of 8.
        follow: child processes inherit the probes too.

    Raises:
        NoProbes: not on this kernel, or not with our rights.
    """

    def __init__(self, places: Sequence[Place], *, stack_bytes: int = 32 << 10, follow: bool = False) -> None:
        if not usable():
            raise NoProbes(errno.ENOSYS, "this kernel has no uprobe events")
        self._type = int(_TYPE_FILE.read_text())
        self._call = _SYSCALLS[os.uname().machine]
        self._places = list(places)
        self._paths = [ctypes.create_string_buffer(os.fsencode(place.path)) for place in places]
        self._stack_bytes = stack_bytes
        self._follow = follow
        self._place_of: dict[int, int] = {}
        self._events: dict[int, list[int]] = {}
        self._rings: dict[int, tuple[int, int, mmap.mmap]] = {}
        self._poll = select.epoll()
        self.lost = 0
        try:
            for cpu in _online():
                self._add_ring(cpu)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Uprobes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def threads(self) -> int:
        """How many threads were added."""
        return len(self._events)

    def fileno(self) -> int:
        """A descriptor that is readable when there are samples."""
        return self._poll.fileno()

    def room_for(self, threads: int) -> bool:
        """Whether so many more threads can be added: each takes a descriptor a place and CPU."""
        wanted = (threads + len(self._events)) * len(self._places) * len(self._rings) + _FILES_SPARE
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if wanted > soft and (hard == resource.RLIM_INFINITY or wanted <= hard):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return True
        return wanted <= soft

    def add(self, tid: int, *, on_exec: bool = False) -> None:
        """Probe a thread, and what it starts from now on.

        Args:
            tid: the thread.
            on_exec: not before it executes another program.

        Raises:
            ProcessLookupError: it is gone.
            NoProbes: not allowed, or the file has no such code.
            OSError: too many files are open.
        """
        if tid in self._events:
            return
        files: list[int] = []
        try:
            for number in range(len(self._places)):
                for cpu, (ring, _, _) in self._rings.items():
                    files.append(self._open(number, tid, cpu, on_exec))
                    self._place_of[_identity(files[-1])] = number
                    fcntl.ioctl(files[-1], _SET_OUTPUT, ring)
            if not on_exec:
                for file in files:
                    fcntl.ioctl(file, _ENABLE, 0)
        except BaseException:
            for file in files:
                os.close(file)
            raise
        self._events[tid] = files

    def read(self) -> list[Sample]:
        """What came since the last time, in the order of time."""
        samples = [sample for _, size, ring in self._rings.values() for sample in self._drain(ring, size)]
        samples.sort(key=lambda sample: sample.mono_ns)
        return samples

    def close(self) -> None:
        """Take the probes out."""
        for files in self._events.values():
            for file in files:
                os.close(file)
        self._events.clear()
        for file, _, ring in self._rings.values():
            ring.close()
            os.close(file)
        self._rings.clear()
        self._poll.close()

    def _add_ring(self, cpu: int) -> None:
        """A ring of a CPU: that of an event that never counts anything, so it outlives every thread."""
        file = self._event(_attr(_SOFTWARE, _DUMMY, _DISABLED), -1, cpu)
        size = min(_RING_MOST, _power_below(_RINGS // max(len(_online()), 1)))
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

    def _open(self, number: int, tid: int, cpu: int, on_exec: bool) -> int:
        flags = _DISABLED | _INHERIT | _CLOCK | (0 if self._follow else _INHERIT_THREAD)
        function = (ctypes.addressof(self._paths[number]), self._places[number].offset)
        flags |= _ENABLE_ON_EXEC if on_exec else 0
        return self._event(_attr(self._type, 0, flags, function, self._stack_bytes), tid, cpu)

    def _event(self, attr: bytes, tid: int, cpu: int) -> int:
        buffer = ctypes.create_string_buffer(attr, len(attr))
        file = int(_libc.syscall(self._call, buffer, tid, cpu, -1, _CLOEXEC))
        if file >= 0:
            return file
        code = ctypes.get_errno()
        if code in (errno.ESRCH, errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            raise OSError(code, os.strerror(code))
        raise NoProbes(code, os.strerror(code))

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
                self.lost += struct.unpack_from("<Q", record, 16)[0]
        struct.pack_into("<Q", ring, _TAIL, tail)

    def _sample(self, record: bytes) -> Sample | None:
        identity, pid, tid, mono_ns, abi = struct.unpack_from("<QIIQQ", record, 8)
        number = self._place_of.get(identity)
        if number is None or not abi:  # no user registers: a thread of the kernel
            return None
        values = struct.unpack_from(f"<{len(_WANTED)}Q", record, 40)
        registers = tuple(values[_PLACE[n]] if n is not None else 0xFFFFFFFFFFFFFFFF for n in _USER_REGS)
        at = 40 + 8 * len(_WANTED)
        (size,) = struct.unpack_from("<Q", record, at)
        stack = b""
        if size:
            (filled,) = struct.unpack_from("<Q", record, at + 8 + size)
            stack = record[at + 8 : at + 8 + filled]
        return Sample(number, pid, tid, mono_ns, registers, stack)


def _attr(kind: int, config: int, flags: int, function: tuple[int, int] = (0, 0), stack: int = 0) -> bytes:
    """struct perf_event_attr: sampled at each call of a function, each time the reader is woken.

    Args:
        kind: type of the event.
        config: the event.
        flags: the bits behind read_format.
        function: address of the path, and offset in the file.
        stack: bytes of the stack in each sample; 0 for an event that gives none.
    """
    sampled, registers = (_SAMPLED, _MASK) if stack else (_IDENTIFIER, 0)
    clock = time.CLOCK_MONOTONIC if stack else 0
    return _ATTR.pack(
        kind, _ATTR.size, config, 1, sampled, 0, flags, 1, 0, *function, 0, registers, stack, clock, *_UNUSED
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
