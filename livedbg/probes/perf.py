"""Samples of perf events in threads of a process: perf_event_open(2), one shared ring a CPU.

Layouts: linux/perf_event.h (struct perf_event_mmap_page, PERF_RECORD_*).

Invariants:
    P1. An event counts in the threads that were added, and in what these start where it is inherited; nowhere else.
    P2. Samples that the kernel had to drop are counted, never passed over.
    P3. Events are inherited, so none is of the PMU `uprobe`, which the kernel names by a path: it would read the path
        from the *target's* memory when that starts a thread, and the start would fail (seen on Linux 6.18).
    P4. The rings of all events of ours together stay within `RINGS`, but for the least that each has.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import select
import struct
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Final

from livedbg.linux.own_files import room_for_files
from livedbg.probes.perf_event import (
    BREAKPOINT,
    LAYOUT,
    TRACEPOINT,
    NoPerf,
    Source,
    enable,
    open_event,
    open_for_ring,
    open_ring,
    supported,
)
from livedbg.probes.perf_records import Change, Sample, layout_change, sample_of

__all__ = [
    "BREAKPOINT",
    "LAYOUT",
    "RINGS",
    "RING_BYTES",
    "TRACEPOINT",
    "NoPerf",
    "PerfEvents",
    "Sample",
    "Source",
    "enable",
    "open_event",
    "supported",
]

_SET_OUTPUT, _SET_FILTER, _ID = 0x2405, 0x40082406, 0x80082407  # PERF_EVENT_IOC_*
_LOST, _SAMPLE = 2, 9  # PERF_RECORD_*
_HEAD, _TAIL = 1024, 1032  # data_head and data_tail of struct perf_event_mmap_page

_PAGE: Final = mmap.PAGESIZE
RINGS: Final = 64 << 20
"""Bytes of all rings together."""

RING_BYTES: Final = 32 << 20
"""Of the rings of one set of events."""

_RING_LEAST: Final = 64 << 10
_ROUNDS: Final = 5  # of searching for threads that were born meanwhile


class _Budget:
    """What is left of `RINGS`; tracers have threads of their own."""

    def __init__(self) -> None:
        self._left = RINGS
        self._one_at_a_time = threading.Lock()

    def take(self, most: int, least: int) -> int:
        """Some bytes: the more there are who have some, the fewer."""
        with self._one_at_a_time:
            granted = max(least, min(most, self._left // 2))
            self._left -= granted
            return granted

    def give(self, granted: int) -> None:
        """Give back what was taken."""
        with self._one_at_a_time:
            self._left += granted


_budget: Final = _Budget()


class PerfEvents:
    """Events in the threads that are added, and their samples. A context manager.

    Every thread has one event a source and CPU: only such can be inherited by threads born later and still write into
    a shared ring.

    Args:
        sources: what to sample.
        stack_bytes: how much of the stack a sample brings: a multiple of 8. Every sample takes that much of the ring,
            also where the stack is shorter.
        follow: child processes inherit the events too.
        ring_bytes: of its rings together, at most; it gets half of what is left, but 64 KB a CPU at least.
        wake: `fileno` is readable at each sample; else only when a ring is half full, and a sample costs less.

    Raises:
        NoPerf: not on this kernel, or not with our rights.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        *,
        stack_bytes: int = 24 << 10,
        follow: bool = False,
        ring_bytes: int = RING_BYTES,
        wake: bool = True,
    ) -> None:
        if not supported():
            raise NoPerf(errno.ENOSYS, "samples of this machine can't be read")
        self._sources = list(sources)
        self._stack_bytes = stack_bytes
        self._follow = follow
        self._wake = wake
        self._source_of: dict[int, tuple[int, int]] = {}
        self._events: dict[int, list[int]] = {}
        self._own_since_ns: dict[int, int] = {}
        self._over: list[int] = []
        self._rings: dict[int, tuple[int, int, mmap.mmap]] = {}
        self._poll = select.epoll()
        self._lost = 0
        self._granted = 0
        self._layout = any(source.kind == LAYOUT for source in self._sources)
        self._changes: list[Change] = []
        try:
            cpus = _online()
            self._granted = _budget.take(ring_bytes, len(cpus) * _RING_LEAST)
            for cpu in cpus:
                self._add_ring(cpu, _power_below(self._granted // len(cpus)))
        except BaseException:
            self.close()
            raise

    @classmethod
    def in_threads(
        cls,
        sources: Sequence[Source],
        threads: Callable[[], Iterable[int]],
        *,
        stack_bytes: int = 24 << 10,
        follow: bool = False,
        ring_bytes: int = RING_BYTES,
        wake: bool = True,
    ) -> PerfEvents:
        """Events in some threads, those born meanwhile too.

        Args:
            sources: what to sample.
            threads: as for `add_all`.
            stack_bytes: as for the class; so are those after it.
            follow: child processes, too.
            ring_bytes: of its rings together, at most.
            wake: samples wake the reader.

        Raises:
            NoPerf: not allowed.
            OSError: more files would be open than are allowed (EMFILE).
        """
        events = cls(sources, stack_bytes=stack_bytes, follow=follow, ring_bytes=ring_bytes, wake=wake)
        try:
            events.add_all(threads)
        except BaseException:
            events.close()
            raise
        return events

    def __enter__(self) -> PerfEvents:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def ring_bytes(self) -> int:
        """Bytes of its rings together."""
        return sum(size for _, size, _ in self._rings.values())

    @property
    def threads(self) -> frozenset[int]:
        """The threads that were added and are not known to have ended."""
        return frozenset(self._events)

    def fileno(self) -> int:
        """A descriptor that is readable when there are samples."""
        return self._poll.fileno()

    def room_for(self, threads: int) -> bool:
        """Whether so many more threads can be added: each takes a descriptor a source and CPU."""
        return room_for_files(threads * len(self._sources) * len(self._rings))

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
            for number, source in enumerate(self._sources):
                for cpu, (ring, _, _) in self._rings.items():
                    files.append(
                        open_for_ring(
                            source, tid, cpu, stack_bytes=self._stack_bytes, follow=self._follow, wake=self._wake
                        )
                    )
                    self._source_of[_identity(files[-1])] = (number, tid)
                    fcntl.ioctl(files[-1], _SET_OUTPUT, ring)
                    if source.wanted:
                        fcntl.ioctl(files[-1], _SET_FILTER, source.wanted.encode() + b"\0")
            own_since_ns = time.monotonic_ns()
            for file in files:
                enable(file)
        except BaseException:
            for file in files:
                os.close(file)
            raise
        self._events[tid], self._own_since_ns[tid] = files, own_since_ns

    def keep(self, alive: Collection[int]) -> None:
        """Forget the threads that have ended; what they started keeps the events that it inherited."""
        for tid in self._events.keys() - set(alive):
            self._over += self._events.pop(tid)
            del self._own_since_ns[tid]

    def read(self) -> list[Sample]:
        """What came since the last time, in the order of time."""
        samples = [sample for _, size, ring in self._rings.values() for sample in self._drain(ring, size)]
        samples.sort(key=lambda sample: sample.mono_ns)
        return samples

    def take_changes(self) -> list[Change]:
        """What the processes did to their memory up to the last `read`, in the order of time; of a source LAYOUT."""
        changes, self._changes = self._changes, []
        return sorted(changes, key=lambda change: change.mono_ns)

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
        _budget.give(self._granted)
        self._granted = 0

    def _add_ring(self, cpu: int, size: int) -> None:
        """A ring of a CPU: that of an event that never counts anything, so it outlives every thread."""
        file = open_ring(cpu)
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

    def _drain(self, ring: mmap.mmap, size: int) -> Iterator[Sample]:
        head, tail = struct.unpack_from("<QQ", ring, _HEAD)
        while tail < head:
            kind, misc, length = struct.unpack("<IHH", _piece(ring, size, tail, 8))
            record = _piece(ring, size, tail, length)
            tail += length
            if kind == _SAMPLE:
                sample = self._sample(record)
                if sample is not None:
                    yield sample
            elif kind == _LOST:
                self._lost += struct.unpack_from("<Q", record, 16)[0]
            elif self._layout and (change := layout_change(kind, misc, record)) is not None:
                self._changes.append(change)
        struct.pack_into("<Q", ring, _TAIL, tail)

    def _sample(self, record: bytes) -> Sample | None:
        identity, _, tid = struct.unpack_from("<QII", record, 8)
        number, owner = self._source_of.get(identity, (-1, 0))
        if number < 0:
            return None
        sample = sample_of(record, number, self._sources[number].kind == TRACEPOINT)
        if sample is not None and owner != tid and sample.mono_ns >= self._own_since_ns.get(tid, sys.maxsize):
            return None  # it had inherited events when it got its own: counted twice otherwise
        return sample


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
