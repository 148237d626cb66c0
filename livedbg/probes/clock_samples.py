"""Samples of running threads by the kernel's clock: registers and the top of the stack, without ptrace and signals.

An event `cpu-clock` (perf_event_open(2)) runs while its thread runs; at each period the kernel copies the user
registers and the top of the user stack in an interrupt of some microseconds. A thread that is blocked gives none.

Invariants:
    clock_samples.C1. Only the threads that are followed have an event, and nothing inherits it; `close` ends all.
    clock_samples.C2. Memory is bounded: one ring a thread, of the size asked for at most, and `THREADS` threads.
    clock_samples.C3. Samples that the kernel had to drop are counted.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import select
import struct
from collections import Counter
from collections.abc import Mapping
from itertools import islice
from types import TracebackType
from typing import Final, NamedTuple

from livedbg.linux.own_files import room_for_files
from livedbg.probes.perf_event import NoPerf, enable, open_clock, supported
from livedbg.probes.perf_records import Sample, sample_of
from livedbg.probes.rings import LEAST, map_ring, records

THREADS: Final = 64
"""How many threads can be followed at once."""

STACK_BYTES: Final = 8 << 10
"""How much of the stack a sample brings."""

_NEAR: Final = 3  # factor between two periods up to which one does for the other
_LOST, _SAMPLE = 2, 9  # PERF_RECORD_*


class _Clock(NamedTuple):
    """The event of one thread and its ring."""

    file: int
    ring: mmap.mmap
    ring_bytes: int
    period_ns: int

    def close(self) -> None:
        """End both."""
        self.ring.close()
        os.close(self.file)


class ClockSamples:
    """Samples of the threads that are followed. A context manager.

    Args:
        stack_bytes: how much of the stack a sample brings: a multiple of 8.
        ring_bytes: of the ring of each thread, a power of two; less where no more memory may be locked.
        wake: each sample wakes who waits for one (`wait`).

    Raises:
        NoPerf: samples of this machine can't be read.
    """

    def __init__(self, stack_bytes: int = STACK_BYTES, ring_bytes: int = LEAST, *, wake: bool = False) -> None:
        if not supported():
            raise NoPerf(errno.ENOSYS, f"perf events of {os.uname().machine} can't be read")
        self._stack_bytes = stack_bytes
        self._ring_bytes = ring_bytes
        self._wake = wake
        self._poll = select.epoll() if wake else None
        self._clocks: dict[int, _Clock] = {}
        self._lost: Counter[int] = Counter()

    def __enter__(self) -> ClockSamples:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def threads(self) -> frozenset[int]:
        """The threads that are followed."""
        return frozenset(self._clocks)

    def follow(self, periods: Mapping[int, int]) -> None:
        """Follow these threads and no others; those that are gone, and more than `THREADS`, are left out.

        Args:
            periods: thread -> its CPU time between two samples (ns). A clock that is not too far from that is kept.

        Raises:
            NoPerf: not allowed; or more memory would be locked, or more files open, than is allowed, for even one.
        """
        wanted = dict(islice(periods.items(), THREADS))
        for tid in list(self._clocks):
            if not wanted.get(tid, 0) / _NEAR <= self._clocks[tid].period_ns <= wanted.get(tid, 0) * _NEAR:
                self._clocks.pop(tid).close()
        for tid, period_ns in wanted.items():
            if tid in self._clocks:
                continue
            try:
                with contextlib.suppress(ProcessLookupError):
                    self._clocks[tid] = self._open(tid, period_ns)
            except NoPerf:
                if not self._clocks:
                    raise
                return  # perf_event_mlock_kb, or RLIMIT_NOFILE: those that there are have to do

    def read(self) -> list[Sample]:
        """What came since the last time, in the order of time; `source` is 0."""
        samples = []
        for tid, clock in self._clocks.items():
            for kind, _, record in records(clock.ring, clock.ring_bytes):
                if kind == _SAMPLE and (sample := sample_of(record, 0, False, has_count=True)) is not None:
                    samples.append(sample)
                elif kind == _LOST:
                    self._lost[tid] += struct.unpack_from("<Q", record, 16)[0]
        samples.sort(key=lambda sample: sample.mono_ns)
        return samples

    def take_lost(self) -> Counter[int]:
        """How many samples of each thread the kernel has dropped since this was last asked."""
        lost, self._lost = self._lost, Counter()
        return lost

    def wait(self, seconds: float) -> list[int]:
        """Wait for a sample; only with `wake`.

        Args:
            seconds: how long at most.

        Returns:
            The threads that have new ones.
        """
        if self._poll is None:
            raise ValueError("nothing wakes")
        by_file = {clock.file: tid for tid, clock in self._clocks.items()}
        return [by_file[file] for file, _ in self._poll.poll(seconds) if file in by_file]

    def period_ns(self, tid: int) -> int:
        """CPU time between two samples of a thread; 0 of one that is not followed."""
        clock = self._clocks.get(tid)
        return clock.period_ns if clock is not None else 0

    def ran_ns(self, tid: int) -> int:
        """For how long a thread has run since it is followed, as its samples count it.

        Raises:
            OSError: it is not followed.
        """
        clock = self._clocks.get(tid)
        if clock is None:
            raise ProcessLookupError(tid)
        return int.from_bytes(os.read(clock.file, 8), "little")

    def close(self) -> None:
        """Follow no thread any more."""
        if self._poll is not None:
            self._poll.close()
        for clock in self._clocks.values():
            clock.close()
        self._clocks.clear()

    def _open(self, tid: int, period_ns: int) -> _Clock:
        """The clock of a thread, running.

        Raises:
            ProcessLookupError: the thread is gone.
            NoPerf: not allowed.
        """
        if not room_for_files(1):
            raise NoPerf(errno.EMFILE, "too many open files")
        try:
            file = open_clock(tid, period_ns, self._stack_bytes, self._wake)
        except (NoPerf, ProcessLookupError):
            raise
        except OSError as error:
            raise NoPerf(error.errno, error.strerror) from None
        try:
            ring, ring_bytes = self._ring(file)
        except OSError as error:
            os.close(file)
            raise NoPerf(error.errno, "no more memory may be locked (kernel.perf_event_mlock_kb)") from None
        except BaseException:
            os.close(file)
            raise
        if self._poll is not None:
            self._poll.register(file, select.EPOLLIN)
        enable(file)
        return _Clock(file, ring, ring_bytes, period_ns)

    def _ring(self, file: int) -> tuple[mmap.mmap, int]:
        """The ring of an event, and its size.

        Raises:
            OSError: not even a small one.
        """
        while True:
            try:
                return map_ring(file, self._ring_bytes), self._ring_bytes
            except OSError:
                if self._ring_bytes <= LEAST:
                    raise
                self._ring_bytes //= 2
