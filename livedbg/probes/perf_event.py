"""Opens perf events: perf_event_open(2) and struct perf_event_attr (linux/perf_event.h, PERF_ATTR_SIZE_VER7).

x86-64 only: aarch64's registers are not read. Functions that open an event raise:
- ProcessLookupError: the thread is gone.
- NoPerf: not allowed.
- OSError: too many files are open, or (EINVAL) the kernel doesn't understand the filter.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
import time
from enum import IntEnum
from typing import Final, NamedTuple

from livedbg.probes.perf_records import REGISTERS_MASK

_SYSCALLS: Final = {"x86_64": 298}  # asm/unistd_64.h
_SOFTWARE, _DUMMY = 1, 9  # PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY
TRACEPOINT: Final = 2
"""PERF_TYPE_TRACEPOINT."""
BREAKPOINT: Final = 5
"""PERF_TYPE_BREAKPOINT: a debug register of the processor, which the kernel owns: four a thread, no rights needed but
those to trace the process, where kernel.perf_event_paranoid is 2 or less."""
LAYOUT: Final = -1
"""No type of the kernel's: no samples, but the records of what code is mapped, of forks and of execs."""

_TID, _TIME, _READ, _RAW, _REGS_USER, _STACK_USER = 1 << 1, 1 << 2, 1 << 4, 1 << 10, 1 << 12, 1 << 13
_IDENTIFIER: Final = 1 << 16
_DISABLED, _INHERIT, _CLOCK, _INHERIT_THREAD = 1 << 0, 1 << 1, 1 << 25, 1 << 35
_NO_KERNEL: Final = 1 << 5 | 1 << 6  # exclude_kernel, exclude_hv: what kernel.perf_event_paranoid 2 asks for
_LAYOUT: Final = 1 << 8 | 1 << 9 | 1 << 13 | 1 << 18 | 1 << 23 | 1 << 24  # mmap comm task sample_id_all mmap2 comm_exec
_ENABLE, _SET_FILTER = 0x2400, 0x40082406  # PERF_EVENT_IOC_*
_EXECUTE, _WORD = 4, 8  # HW_BREAKPOINT_X (linux/hw_breakpoint.h) and its length, that of a long
_CLOEXEC: Final = 8  # PERF_FLAG_FD_CLOEXEC
_ATTR: Final = struct.Struct("<IIQQQQQIIQQQQIiQIHHIIQ")
_UNUSED: Final = (0,) * 7  # of _ATTR: sample_regs_intr and what follows

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class Counted(IntEnum):
    """The counter that triggers samples of a thread."""

    CPU_CLOCK = 0
    """Nanoseconds in which it ran (PERF_COUNT_SW_CPU_CLOCK)."""
    PAGE_FAULTS = 2
    """Pages that it was the first to touch, mostly (PERF_COUNT_SW_PAGE_FAULTS); a huge page counts as one."""


class NoPerf(OSError):
    """The kernel or our rights don't allow it. `errno` says why: EACCES and EPERM want CAP_PERFMON."""


class Source(NamedTuple):
    """A sampled event.

    Attributes:
        kind: type of the event: TRACEPOINT, BREAKPOINT, LAYOUT or another of the kernel's.
        config: the event within that type.
        wanted: a filter on the event's fields (Documentation/trace/events.rst), or "".
        address: address of the instruction, for BREAKPOINT.
        period: events between two samples.
    """

    kind: int
    config: int = 0
    wanted: str = ""
    address: int = 0
    period: int = 1


NEW_PAGES: Final = Source(_SOFTWARE, 5)
"""PERF_COUNT_SW_PAGE_FAULTS_MIN: pages that a thread is the first to touch, mostly; once they are there, so that a
stack's own page can be copied."""


def supported() -> bool:
    """Return whether samples of this machine can be read."""
    return os.uname().machine in _SYSCALLS


def open_ring(cpu: int) -> int:
    """Open an event of a CPU that never counts anything: its ring outlives every thread."""
    try:
        return _opened(_attr(_SOFTWARE, _DUMMY, _DISABLED | _CLOCK), -1, cpu)
    except NoPerf:  # a whole CPU is for CAP_PERFMON; rings of a CPU take events of any thread
        return _opened(_attr(_SOFTWARE, _DUMMY, _DISABLED | _CLOCK | _NO_KERNEL), 0, cpu)


def open_for_ring(source: Source, tid: int, cpu: int, *, stack_bytes: int, follow: bool, wake: bool = True) -> int:
    """Open an event of one thread on one CPU, inherited by its children; it counts after `enable`.

    Args:
        follow: child processes inherit it, and not threads only.
        wake: each sample wakes the reader of the ring; without that, a sample costs the target less.
    """
    flags = _DISABLED | _CLOCK | _INHERIT | (0 if follow else _INHERIT_THREAD)
    if source.kind == LAYOUT:
        return _opened(_attr(_SOFTWARE, _DUMMY, flags | _LAYOUT | _NO_KERNEL), tid, cpu)
    flags |= _NO_KERNEL if source.address or source.kind == _SOFTWARE else 0
    attr = _attr(source.kind, source.config, flags, stack_bytes, source.address, period=source.period, wake=wake)
    return _opened(attr, tid, cpu)


def open_event(source: Source, tid: int) -> int:
    """Open an event of one thread, not inherited and without a ring (livedbg.probes.stop_signal).

    Return its file descriptor; it counts after `enable`.
    """
    flags = _DISABLED | (_NO_KERNEL if source.address else 0)
    return _filtered(_opened(_attr(source.kind, source.config, flags, address=source.address), tid, -1), source)


def open_to_count(source: Source, tid: int, *, follow: bool) -> int:
    """Open an event of one thread and its children that only counts: read(2) returns the count.

    With `follow`, child processes inherit it too, and not threads only.
    """
    flags = _DISABLED | _INHERIT | (0 if follow else _INHERIT_THREAD)
    return _filtered(_opened(_attr(source.kind, source.config, flags, period=0), tid, -1), source)


def open_clock(
    tid: int, period_ns: int, stack_bytes: int, wake: bool = False, counted: Counted = Counted.CPU_CLOCK
) -> int:
    """Open a clock of one thread that samples registers and stack while the thread runs; it is not inherited.

    Only user space is sampled. It counts after `enable`.

    Args:
        period_ns: CPU time of the thread between two samples.
        stack_bytes: stack bytes of each sample: a multiple of 8.
        wake: each sample wakes the reader of the event.
        counted: the counted event; the period is in its unit.
    """
    flags = _DISABLED | _CLOCK | _NO_KERNEL
    return _opened(_attr(_SOFTWARE, counted, flags, stack_bytes, period=period_ns, wake=wake), tid, -1)


def _filtered(file: int, source: Source) -> int:
    try:
        if source.wanted:
            fcntl.ioctl(file, _SET_FILTER, source.wanted.encode() + b"\0")
    except BaseException:
        os.close(file)
        raise
    return file


def enable(file: int) -> None:
    fcntl.ioctl(file, _ENABLE, 0)


def _opened(attr: bytes, tid: int, cpu: int) -> int:
    if not supported():
        raise NoPerf(errno.ENOSYS, f"perf events of {os.uname().machine} can't be read")
    buffer = ctypes.create_string_buffer(attr, len(attr))
    file = int(_libc.syscall(_SYSCALLS[os.uname().machine], buffer, tid, cpu, -1, _CLOEXEC))
    if file >= 0:
        return file
    code = ctypes.get_errno()
    if code in (errno.ESRCH, errno.EMFILE, errno.ENFILE, errno.ENOMEM):
        raise OSError(code, os.strerror(code))
    raise NoPerf(code, os.strerror(code))


def _attr(
    kind: int, config: int, flags: int, stack: int = 0, address: int = 0, *, period: int = 1, wake: bool = True
) -> bytes:
    """Return struct perf_event_attr.

    Args:
        flags: the bits behind read_format.
        period: events between two samples (nanoseconds of a clock); 0 for an event that only counts.
    """
    kind_of_breakpoint, length = (_EXECUTE, _WORD) if address else (0, 0)
    sampled, registers = _IDENTIFIER, 0
    if flags & _LAYOUT:
        sampled |= _TID | _TIME
    if stack:
        sampled |= _TID | _TIME | _REGS_USER | _STACK_USER | (_RAW if kind == TRACEPOINT else 0)
        sampled |= _READ if kind == _SOFTWARE and not flags & _INHERIT else 0  # not of inherited ones
        registers = REGISTERS_MASK
    clock = time.CLOCK_MONOTONIC  # events that share a ring must share a clock
    return _ATTR.pack(
        kind,
        _ATTR.size,
        config,
        period,
        sampled if period else 0,
        0,
        flags,
        int(wake),
        kind_of_breakpoint,
        address,
        length,
        0,
        registers,
        stack,
        clock,
        *_UNUSED,
    )
