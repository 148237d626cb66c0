"""Samples of running threads by the kernel's clock: registers and the top of the stack, without ptrace and signals.

A `cpu-clock` event (perf_event_open(2)) counts while its thread runs; at each period the kernel copies the user
registers and the top of the user stack in an interrupt of some microseconds. A blocked thread gives no samples.

`Repeats` finds threads that spin: in a loop that only reads, with the same registers whenever it is sampled. Such a
loop has no state of its own, so it ends only when somebody else changes what it reads. A computation has state: a
counter or an address in a register, a sum in a vector register, something that it stores.

Invariants:
    clock_samples.C1. Only the threads that are followed have an event, and nothing inherits it; `close` ends all.
    clock_samples.C2. Memory is bounded: one ring a thread, of the size asked for at most, and `THREADS` threads.
    clock_samples.C3. Samples that the kernel had to drop are counted.
    clock_samples.E1. A thread repeats itself only while every sample is in one loop that only reads, and had the
        registers that an earlier sample had at the same instruction, if there was one.
    clock_samples.E2. Only samples that are the same as an earlier one are counted.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import select
import struct
import threading
from collections import Counter
from collections.abc import Collection, Mapping
from itertools import islice
from types import TracebackType
from typing import Final, NamedTuple

from livedbg.linux import memory
from livedbg.linux.descriptors import room_for_files
from livedbg.linux.procfs import read_file
from livedbg.linux.x86_64 import GENERAL, PC, REACH, SP, reading_loop
from livedbg.probes.perf_event import Counted, NoPerf, enable, open_clock, supported
from livedbg.probes.perf_records import Sample, sample_of
from livedbg.probes.rings import LEAST, map_ring, records

THREADS: Final = 64
"""How many threads can be followed at once."""

STACK_BYTES: Final = 8 << 10
"""How much of the stack a sample brings."""

_NEAR: Final = 3  # factor between two periods up to which one does for the other
_LOST, _SAMPLE = 2, 9  # PERF_RECORD_*


class _Clock(NamedTuple):
    file: int
    ring: mmap.mmap
    ring_bytes: int
    period_ns: int

    def close(self) -> None:
        self.ring.close()
        os.close(self.file)


class ClockSamples:
    """Samples of the threads that are followed. A context manager.

    Args:
        stack_bytes: stack bytes of each sample, a multiple of 8.
        ring_bytes: ring size of each thread, a power of two; less if no more memory may be locked.
        wake: each sample wakes `wait`.
        counted: the counted event; periods are in its unit.

    Raises:
        NoPerf: samples of this machine can't be read.
    """

    def __init__(
        self,
        stack_bytes: int = STACK_BYTES,
        ring_bytes: int = LEAST,
        *,
        wake: bool = False,
        counted: Counted = Counted.CPU_CLOCK,
    ) -> None:
        if not supported():
            raise NoPerf(errno.ENOSYS, f"perf events of {os.uname().machine} can't be read")
        self._stack_bytes = stack_bytes
        self._ring_bytes = ring_bytes
        self._wake = wake
        self._counted = counted
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
            periods: thread -> CPU time between two samples (ns). An existing clock of a similar period is kept.

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
        """Return the samples since the last call, in the order of time; `source` is 0."""
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
        """Return how many samples of each thread the kernel has dropped since the last call."""
        lost, self._lost = self._lost, Counter()
        return lost

    def wait(self, seconds: float) -> list[int]:
        """Wait for a sample (only with `wake`); return the threads that have new ones."""
        if self._poll is None:
            raise ValueError("nothing wakes")
        by_file = {clock.file: tid for tid, clock in self._clocks.items()}
        return [by_file[file] for file, _ in self._poll.poll(seconds) if file in by_file]

    def period_ns(self, tid: int) -> int:
        """Return the CPU time between two samples of a thread; 0 if it is not followed."""
        clock = self._clocks.get(tid)
        return clock.period_ns if clock is not None else 0

    def ran_ns(self, tid: int) -> int:
        """Return the CPU time of a thread since it is followed.

        Raises:
            OSError: it is not followed.
        """
        clock = self._clocks.get(tid)
        if clock is None:
            raise ProcessLookupError(tid)
        return int.from_bytes(os.read(clock.file, 8), "little")

    def close(self) -> None:
        if self._poll is not None:
            self._poll.close()
        for clock in self._clocks.values():
            clock.close()
        self._clocks.clear()

    def _open(self, tid: int, period_ns: int) -> _Clock:
        """Start the clock of a thread."""
        if not room_for_files(1):
            raise NoPerf(errno.EMFILE, "too many open files")
        try:
            file = open_clock(tid, period_ns, self._stack_bytes, self._wake, self._counted)
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
        """Map the ring of an event, smaller if need be; return it with its size.

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


_EVERYBODY: Final = 2
"""kernel.perf_event_paranoid up to which everybody may sample the user space of processes of their own."""

_SECOND_NS: Final = 1_000_000_000


class Refused(NamedTuple):
    """The reason why the kernel takes no samples."""

    code: str
    sentence: str
    remedy: str


def refused(error: NoPerf) -> Refused:
    """Return the reason of an error of the kernel, for a user."""
    what = "No native stacks of running threads"
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return Refused("samples-files", f"{what}: too many files are open.", "ulimit -n 65536")
    if error.errno not in (errno.EACCES, errno.EPERM):
        return Refused(
            "samples-missing", f"{what}: the kernel has no perf events for them.", "S in the app, or stacks --glance"
        )
    try:
        level = int(read_file("/proc/sys/kernel/perf_event_paranoid"))
    except (OSError, ValueError):
        level = _EVERYBODY
    if level > _EVERYBODY:
        return Refused(
            "samples-refused",
            f"{what}: kernel.perf_event_paranoid is {level}.",
            "sudo sysctl kernel.perf_event_paranoid=2   or give livedbg CAP_PERFMON   or stacks --glance",
        )
    return Refused(
        "samples-refused",
        f"{what}: a seccomp profile or a security module forbids perf events.",
        "docker run --cap-add=PERFMON …   or stacks --glance",
    )


def refused_here() -> Refused | None:
    """Return why this host takes no samples for us; None if it does. Tries a thread of our own."""
    try:
        with ClockSamples() as clocks:
            clocks.follow({threading.get_native_id(): _SECOND_NS})
    except NoPerf as error:
        return refused(error)
    return None


class Repeated(NamedTuple):
    """The repetition of a thread: CLOCK_MONOTONIC of the first sample, and how many equalled an earlier one."""

    since_ns: int
    samples: int


class _Loop:
    def __init__(self, addresses: frozenset[int], since_ns: int) -> None:
        self.addresses = addresses
        self.since_ns = since_ns
        self.registers: dict[int, tuple[int, ...]] = {}
        self.same = 0

    def takes(self, sample: Sample) -> bool:
        """Return whether a sample is in the loop and contradicts no earlier one (E1)."""
        pc = sample.registers[PC]
        registers = tuple(sample.registers[place] for place in (*GENERAL, SP))
        if pc not in self.addresses:
            return False
        known = pc in self.registers
        self.same += known
        return self.registers.setdefault(pc, registers) == registers


class Repeats:
    """Finds threads that repeat themselves; with `floats`, also loops with floating-point registers, which samples
    lack.
    """

    def __init__(self, *, floats: bool = False) -> None:
        self._floats = floats
        self._loops: dict[int, _Loop] = {}

    def seen(self, pid: int, sample: Sample) -> Repeated | None:
        """Add a sample of a thread; return None if the thread does not repeat itself, or not yet."""
        loop = self._loops.get(sample.tid)
        if loop is None or not loop.takes(sample):
            loop = self._loops[sample.tid] = _Loop(self._loop_at(pid, sample.registers[PC]), sample.mono_ns)
            loop.takes(sample)
        return Repeated(loop.since_ns, loop.same) if loop.same else None

    def keep(self, tids: Collection[int]) -> None:
        """Forget all threads but these."""
        for tid in self._loops.keys() - set(tids):
            del self._loops[tid]

    def _loop_at(self, pid: int, pc: int) -> frozenset[int]:
        base = pc - REACH
        try:
            code = memory.read(pid, base, 2 * REACH)
        except OSError:
            return frozenset()
        return reading_loop(code, base, pc, self._floats)
