"""Stacks that overflowed, told from other faults by the stack pointer; and what was on them.

The kernel copies nothing of a stack whose pointer lies below it. So each thread is sampled at every 128th page that it
is the first to touch: a stack grows by such pages, and its last sample shows which calls filled it.

Invariants:
    overflows.O1. A sample is shown for the overflowed stack only if it is of the same stack, in its lower half, and of
        the program that the process executes now.
    overflows.O2. If page faults may not be sampled, the main thread's overflow is told all the same, without its calls.
    overflows.O3. Another thread's overflow, whose mappings were never read, is an access to memory that is there and
        forbidden, with a stack pointer that can't be read just below a stack of which that thread has filled 1 MB: a
        function with a large array that is not used yet looks the same in a shorter one.
"""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Final

from livedbg.linux.maps import Mapping, parse_maps
from livedbg.linux.registers import SP
from livedbg.probes.newest import Newest
from livedbg.probes.perf import NEW_PAGES, STACK_COPY_BYTES, PerfEvents
from livedbg.probes.perf_records import Sample

_STACK_PAGE: Final = 4096
_FIRST_BYTES: Final = 64 << 10  # of a stack: arguments and environment, where its end may not be known exactly
_BEYOND: Final = 64 << 20  # bytes below its stack that one frame may reach
_FILLED: Final = 1 << 20
_PROCESSES: Final = 256
_THREADS: Final = 256
_RINGS: Final = 1 << 20
_PAGES: Final = 128  # between two samples, sixteen of a stack of 8 MB: 0.03 us a new page, of 1.4 us (Linux 6.18)


class Overflows:
    """Where the stacks of a process and its children end, and what was last seen on them as they grew."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._ends: Newest[int, int] = Newest(_PROCESSES)  # of main threads, by process
        self._grown: Newest[int, tuple[int, Sample]] = Newest(_THREADS)  # by thread: its highest pointer; the last one
        self._events: PerfEvents | None = None

    def start(self, threads: Callable[[], Iterable[int]], *, follow: bool) -> None:
        """Sample threads as their stacks grow, if that is allowed."""
        with contextlib.suppress(OSError):
            self._events = PerfEvents.in_threads(
                [NEW_PAGES._replace(period=_PAGES)], threads, follow=follow, ring_bytes=_RINGS, wake=False
            )

    @property
    def filenos(self) -> tuple[int, ...]:
        """What is readable when there are samples."""
        return (self._events.fileno(),) if self._events is not None else ()

    def update(self) -> None:
        """Take the samples since the last call."""
        for sample in self._events.read() if self._events is not None else ():
            top, _ = self._grown.get(sample.tid) or (0, sample)
            self._grown[sample.tid] = max(top, sample.registers[SP]), sample

    def begun(self, sample: Sample) -> None:
        """Keep where the stack of a program ends that a process has just begun to execute."""
        end = stack_end(sample)
        with contextlib.suppress(OSError):  # it has ended
            end = next((one.end for one in parse_maps(sample.pid) if one.path == "[stack]"), end)
        self._ends[sample.pid] = end
        if sample.tid in self._grown and self._grown[sample.tid][1].mono_ns < sample.mono_ns:
            del self._grown[sample.tid]

    def of(self, sample: Sample, mappings: Sequence[Mapping], *, forbidden: bool) -> int:
        """Return the bytes of the stack that a thread has used up, or 0 (`stack_overflow`).

        Args:
            forbidden: the memory is there and may not be accessed (SEGV_ACCERR), as that of a guard.
        """
        used = stack_overflow(sample, mappings, self._ends.get(sample.pid) or self._ends.get(self._pid) or 0)
        if used or not forbidden or sample.stack or sample.tid not in self._grown:
            return used
        top, grown = self._grown[sample.tid]
        used, below = top - sample.registers[SP], grown.registers[SP] - sample.registers[SP]
        return used if used >= _FILLED and 0 < below <= _PAGES * _STACK_PAGE + _FIRST_BYTES else 0

    def seen(self, sample: Sample, used: int) -> Sample:
        """Return the sample, or if it shows nothing, with what was seen last on its stack, of which `used` bytes are
        used up.
        """
        _, grown = self._grown.get(sample.tid) or (0, None)
        if sample.stack or grown is None or not 0 <= grown.registers[SP] - sample.registers[SP] <= used // 2:
            return sample
        return sample._replace(registers=grown.registers, stack=grown.stack)

    def close(self) -> None:
        if self._events is not None:
            self._events.close()
            self._events = None


def stack_end(sample: Sample) -> int:
    """Return where a stack ends at least whose copy begins in a program's first moment; 0 if the copy is full.

    The kernel copies up to the first page that is not there (kernel/events/core.c, perf_output_sample_ustack): mostly
    the end of the stack. So the end is known of a process that is over before its mappings could be read.
    """
    return sample.registers[SP] + len(sample.stack) if len(sample.stack) < STACK_COPY_BYTES else 0


def stack_overflow(sample: Sample, mappings: Sequence[Mapping], main_end: int = 0) -> int:
    """Return the bytes of the stack that a thread has used up, or 0 if it has not, or that is not seen.

    The main thread's stack grows up to RLIMIT_STACK (mm/mmap.c, acct_stack_growth); glibc maps that of another one with
    a guard without rights below it.

    Args:
        main_end: the end of the main thread's stack, if it is not that of the mappings.
    """
    pointer = sample.registers[SP]
    main_end = main_end or next((one.end for one in mappings if one.path == "[stack]"), 0)
    limit = _stack_limit(sample.pid)
    least = limit - (_STACK_PAGE if sample.stack else _FIRST_BYTES)
    if least <= main_end - pointer <= limit + _BEYOND:
        return main_end - pointer
    for guard, stack in pairwise(mappings):
        guarded = guard.end == stack.start and (guard.permissions[:3], stack.permissions[:2]) == ("---", "rw")
        if guarded and guard.start <= pointer < stack.start + _STACK_PAGE:
            return stack.end - pointer
    return 0


def _stack_limit(pid: int) -> int:
    try:
        limit, _ = resource.prlimit(pid, resource.RLIMIT_STACK)
    except OSError:  # it is gone: it has ours, as a rule
        limit, _ = resource.getrlimit(resource.RLIMIT_STACK)
    return limit if limit != resource.RLIM_INFINITY else 1 << 62
