"""Executable mappings of processes, kept up to date by the kernel's records of mmap, fork and exec.

/proc/PID/maps is gone with its process, and a process that lives for a millisecond can't be read in time. Its records
are in the ring (perf_event_open(2), PERF_RECORD_MMAP2, PERF_RECORD_FORK, PERF_RECORD_COMM).

Invariants:
    layouts.Y1. What was read of a process overrides older records, and newer records over what was read.
    layouts.Y2. So many processes are remembered, and no more.
    layouts.Y3. A list that may be cut, because its process ended while it was read, overrides nothing.
"""

from __future__ import annotations

import errno
import os
import time
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from livedbg.linux.maps import Mapping, parse_maps
from livedbg.linux.procfs import living_task, read_stat
from livedbg.probes.perf import LAYOUT, PerfEvents, Source
from livedbg.probes.perf_records import Change, Executed, Forked

_MOST: Final = 256
_RINGS: Final = 64 << 10  # bytes: the least; who is not root has not much for all rings (perf_event_mlock_kb)


@dataclass(frozen=True, slots=True)
class _Layout:
    """The mappings of a process, by rising address.

    Attributes:
        read_ns: when they were read from /proc; older records are in them.
        reported_ns: time of the newest record in them.
        whole: no record is missing: they were read, or recorded since the exec.
    """

    mappings: tuple[Mapping, ...] = ()
    read_ns: int = 0
    reported_ns: int = 0
    whole: bool = False


class Layouts:
    """The mappings of a process and of its children. Not thread-safe, except `of` and `read`."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._known: OrderedDict[int, _Layout] = OrderedDict()
        self._events: PerfEvents | None = None

    def watch(self, threads: Callable[[], Iterable[int]], *, follow: bool) -> None:
        """Make the kernel report changes of threads and their children; else only `know` adds mappings.

        Raises:
            OSError: not allowed (NoPerf), or too many files would be open.
        """
        self._events = PerfEvents.in_threads([Source(LAYOUT)], threads, follow=follow, ring_bytes=_RINGS)

    def keep(self, alive: Iterable[int]) -> None:
        """Close the events of threads that have ended."""
        if self._events is not None:
            self._events.keep(set(alive))

    def update(self) -> None:
        """Apply the changes that the kernel has reported."""
        if self._events is not None:
            self._events.read()
            for change in self._events.take_changes():
                self._apply(change)

    def of(self, pid: int) -> tuple[Mapping, ...]:
        """Return the known mappings of a process, also after its end; () if nothing is known."""
        layout = self._known.get(pid)
        return layout.mappings if layout is not None else ()

    def read(self, pid: int) -> tuple[int, tuple[Mapping, ...]]:
        """Read /proc; return the time and the mappings, for `know`.

        Raises:
            OSError: the process has ended or is about to, or may not be read.
        """
        now_ns = time.monotonic_ns()
        found = tuple(parse_maps(pid))
        if not found or read_stat(living_task(pid)).ends:  # the kernel lists no more of it, in the midst of the list
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        return now_ns, found

    def know(self, pid: int, read_ns: int, mappings: tuple[Mapping, ...]) -> None:
        """Add mappings that were read, unless the kernel has reported newer ones meanwhile."""
        before = self._known.get(pid)
        if before is None or not before.whole or before.reported_ns < read_ns:
            self._put(pid, _Layout(mappings, read_ns, whole=True))

    def close(self) -> None:
        """Stop the kernel's reports; known mappings stay."""
        if self._events is not None:
            self._events.close()
            self._events = None

    def _apply(self, change: Change) -> None:
        before = self._known.get(change.pid, _Layout())
        if change.mono_ns < before.read_ns:
            return
        if isinstance(change, Forked):
            parent = self._known.get(change.parent, _Layout())
            self._put(change.pid, _Layout(parent.mappings, reported_ns=change.mono_ns, whole=parent.whole))
        elif isinstance(change, Executed):
            self._put(change.pid, _Layout(reported_ns=change.mono_ns, whole=True))
        else:
            mappings = _with(before.mappings, change.mapping)
            self._put(change.pid, replace(before, mappings=mappings, reported_ns=change.mono_ns))

    def _put(self, pid: int, layout: _Layout) -> None:
        self._known[pid] = layout
        self._known.move_to_end(pid)
        if self._pid in self._known:
            self._known.move_to_end(self._pid)  # the one that matters most
        while len(self._known) > _MOST:
            self._known.popitem(last=False)


def _with(mappings: tuple[Mapping, ...], fresh: Mapping) -> tuple[Mapping, ...]:
    first = bisect_left(mappings, fresh.start, key=lambda mapping: mapping.end - 1)
    last = bisect_left(mappings, fresh.end, key=lambda mapping: mapping.start)
    return (*mappings[:first], fresh, *mappings[last:])
