"""Samples of perf events in threads of a process: perf_event_open(2), one shared ring a CPU.

Layouts: linux/perf_event.h (PERF_RECORD_*).

Invariants:
    perf.P1. An event counts in the threads that were added, and in what these start where it is inherited; nowhere
        else.
    perf.P2. Samples that the kernel had to drop are counted, never passed over.
    perf.P3. A thread whose events are inherited can start threads: no event is of the PMU `uprobe`, which the kernel
        names by a path. It would read the path from the *target's* memory when that starts a thread, and the start
        would fail (seen on Linux 6.18).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
import sys
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import chain
from types import TracebackType
from typing import Final

from livedbg.linux.descriptors import room_for_files
from livedbg.probes.perf_event import (
    BREAKPOINT,
    LAYOUT,
    NEW_PAGES,
    TRACEPOINT,
    NoPerf,
    Source,
    enable,
    open_event,
    open_for_ring,
    supported,
)
from livedbg.probes.perf_records import Change, Sample, layout_change, sample_of
from livedbg.probes.rings import RING_BYTES, Rings

__all__ = [
    "BREAKPOINT",
    "LAYOUT",
    "NEW_PAGES",
    "RING_BYTES",
    "STACK_COPY_BYTES",
    "TRACEPOINT",
    "NoPerf",
    "PerfEvents",
    "Sample",
    "Source",
    "enable",
    "open_event",
    "supported",
]

STACK_COPY_BYTES: Final = 24 << 10
"""Stack bytes of each sample, where nobody asks for others."""

_SET_OUTPUT, _SET_FILTER, _ID = 0x2405, 0x40082406, 0x80082407  # PERF_EVENT_IOC_*
_LOST, _SAMPLE = 2, 9  # PERF_RECORD_*

_ROUNDS: Final = 5  # of searching for threads that were born meanwhile


class PerfEvents:
    """Events in the threads that are added, and their samples. A context manager.

    Every thread has one event a source and CPU: only such can be inherited by threads born later and still write into a
    shared ring.

    Args:
        stack_bytes: stack bytes of each sample: a multiple of 8. Every sample takes that much of the ring, also where
            the stack is shorter.
        follow: child processes inherit the events too.
        ring_bytes: upper limit of its rings together; it gets half of what is left, but 64 KB a CPU at least.
        wake: `fileno` is readable at each sample; else only when a ring is half full, and a sample costs less.

    Raises:
        NoPerf: not on this kernel, or not with our rights.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        *,
        stack_bytes: int = STACK_COPY_BYTES,
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
        self._lost = 0
        self._layout = any(source.kind == LAYOUT for source in self._sources)
        self._changes: list[Change] = []
        self._rings = Rings(ring_bytes)

    @classmethod
    def in_threads(
        cls,
        sources: Sequence[Source],
        threads: Callable[[], Iterable[int]],
        *,
        stack_bytes: int = STACK_COPY_BYTES,
        follow: bool = False,
        ring_bytes: int = RING_BYTES,
        wake: bool = True,
    ) -> PerfEvents:
        """Open events in threads, including those born meanwhile. The keyword arguments are the class's.

        Args:
            threads: as for `add_all`.

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
        """Total size of the rings, in bytes."""
        return self._rings.size

    @property
    def threads(self) -> frozenset[int]:
        """The threads that were added and are not known to have ended."""
        return frozenset(self._events)

    def fileno(self) -> int:
        """Return a descriptor that is readable when there are samples."""
        return self._rings.fileno()

    def room_for(self, threads: int) -> bool:
        """Return whether so many more threads can be added: each takes a descriptor a source and CPU."""
        return room_for_files(threads * len(self._sources) * len(self._rings.files))

    def add_all(self, threads: Callable[[], Iterable[int]]) -> None:
        """Sample all threads. Those born meanwhile are added too, since they may not have inherited the events.

        Args:
            threads: lists them; called again until there is no new one.

        Raises:
            NoPerf: not allowed.
            OSError: more files would be open than are allowed (EMFILE).
        """
        for _ in range(_ROUNDS):
            fresh = [tid for tid in threads() if tid not in self._events]
            if not fresh:
                return
            if not self.room_for(len(fresh)):
                raise OSError(errno.EMFILE, f"{len(fresh)} threads need more open files than `ulimit -n` allows")
            for tid in fresh:
                with contextlib.suppress(ProcessLookupError):
                    self.add(tid)

    def add(self, tid: int) -> None:
        """Sample a thread, and the threads that it starts from now on.

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
                for cpu, ring in self._rings.files.items():
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
        """Forget the threads that have ended; their children keep the inherited events."""
        for tid in self._events.keys() - set(alive):
            self._over += self._events.pop(tid)
            del self._own_since_ns[tid]

    def read(self) -> list[Sample]:
        """Return the samples since the last call, in the order of time."""
        samples = []
        for kind, misc, record in self._rings.drain():
            if kind == _SAMPLE:
                sample = self._sample(record)
                if sample is not None:
                    samples.append(sample)
            elif kind == _LOST:
                self._lost += struct.unpack_from("<Q", record, 16)[0]
            elif self._layout and (change := layout_change(kind, misc, record)) is not None:
                self._changes.append(change)
        samples.sort(key=lambda sample: sample.mono_ns)
        return samples

    def take_changes(self) -> list[Change]:
        """Return the memory changes of the processes up to the last `read`, in the order of time; needs a source
        LAYOUT.
        """
        changes, self._changes = self._changes, []
        return sorted(changes, key=lambda change: change.mono_ns)

    def take_lost(self) -> int:
        """Return how many samples the kernel has dropped since the last call."""
        lost, self._lost = self._lost, 0
        return lost

    def close(self) -> None:
        for file in chain(self._over, *self._events.values()):
            os.close(file)
        self._over.clear()
        self._events.clear()
        self._rings.close()

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
