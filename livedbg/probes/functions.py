"""Probe events on functions of a process: where the functions are, events in each thread, and their samples.

A place is a function in a file (device, inode, offset): one definition serves every process that has loaded the file.
Events are perf events that count a definition of ours; threads born later inherit them (perf.P1).

Invariants:
    functions.P1. Threads born later are traced from their first instruction, and followed children, too.
    functions.P2. Changing the filter repeats no call and misses none. The events before it give the calls up to the
        moment from which the events after it trace everything, and one call of a thread that was at a probe then.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from livedbg.linux import target_files
from livedbg.probes.perf import RING_BYTES, TRACEPOINT, PerfEvents, Source
from livedbg.probes.perf_records import Sample
from livedbg.probes.places import Found, find_in_files, find_places
from livedbg.probes.tracefs import TraceEvent, TraceEvents
from livedbg.probes.tracer import ProcessTree

_LATE_NS: Final = 50_000_000
"""So long after its time a sample may still come into a ring: a hypervisor can take the CPU from the machine between
the two. Events that gave way are read for that long."""

_ONE_CALL_NS: Final = 20_000_000
"""Longer than the kernel takes from the first sample of a call to its last: some 20 microseconds, 300 where interrupts
come between (seen on Linux 6.18), and longer where a hypervisor takes the CPU."""


class FunctionNotFound(LookupError):
    """No readable file of the process has such a function."""


class NotTraceable(LookupError):
    """A file has the function, but its arguments are not known; the text says why, for users."""


class Probed(NamedTuple):
    """A function at one place, and the trace event defined for it."""

    found: Found
    event: TraceEvent

    def source(self, wanted: str = "") -> Source:
        """Return the event source that counts its calls; `wanted` is a kernel filter on the event's fields, or ""."""
        return Source(TRACEPOINT, self.event.number, wanted=wanted)


@dataclass(slots=True)
class _Armed:
    """Events that were opened at one time.

    One call gives a sample for each set of events that is open. The kernel goes from the newest to the oldest and gives
    each sample its own time, 10 to 30 microseconds apart (perf_tp_event in kernel/events/core.c; seen on Linux 6.18).

    Attributes:
        since_ns: earlier calls belong to the previous events.
        next: the events that replaced these; later calls belong to them. None while these are the newest.
        early: by thread, its last sample before `since_ns`.
        first_ns: by thread, the time of its first sample since `since_ns`.
        last_ns: by thread, the time of its last sample before `next` began.
        past: the threads that have had a sample since `next` began.
    """

    events: PerfEvents
    probed: Sequence[Probed]
    since_ns: int = 0
    next: _Armed | None = None
    early: dict[int, Sample] = field(default_factory=dict)
    first_ns: dict[int, int] = field(default_factory=dict)
    last_ns: dict[int, int] = field(default_factory=dict)
    past: set[int] = field(default_factory=set)

    def read(self) -> list[Sample]:
        samples = self.events.read()
        for sample in samples:
            if sample.mono_ns < self.since_ns:
                self.early[sample.tid] = sample
            else:
                self.first_ns.setdefault(sample.tid, sample.mono_ns)
        return samples

    def covers(self, sample: Sample) -> bool:
        """Return whether these events report the call of a sample. Call it once a sample, in the order of time."""
        if sample.mono_ns < self.since_ns:
            return False
        if self.next is None:
            return True
        if sample.mono_ns < self.next.since_ns:
            self.last_ns[sample.tid] = sample.mono_ns
            return True
        if sample.tid in self.past:
            return False
        self.past.add(sample.tid)
        return self._over_the_change(sample, self.next)

    def _over_the_change(self, sample: Sample, after: _Armed) -> bool:
        """Return whether the first call of a thread that came here after the change began before it.

        A thread is at one call at a time. Either that call came to the next events just before the change, or it began
        before they were there.
        """
        early = after.early.get(sample.tid)
        if early is not None and early.mono_ns > self.last_ns.get(sample.tid, 0) and early.raw == sample.raw:
            return True
        at_once = sample.mono_ns < after.since_ns + _ONE_CALL_NS
        return at_once and sample.mono_ns <= after.first_ns.get(sample.tid, sample.mono_ns)


class FunctionProbes:
    """Probe events on some functions. Not thread-safe, except `files`.

    Args:
        arguments: returns what the kernel reads at a place (Documentation/trace/uprobetracer.rst); may raise
            NotTraceable, or OSError if the file is gone.
        stack_bytes: stack bytes of each sample: a multiple of 8, at least 8.
        ring_bytes: upper limit of the rings of one set of events together.
        wake: samples wake the reader; without that each costs the target less.
        later: files that the process may load: traced before it does.

    Attributes:
        refused: why functions that were found are not traced.

    Raises:
        NoTracefs: not allowed.
    """

    def __init__(
        self,
        processes: ProcessTree,
        functions: Collection[str],
        arguments: Callable[[Found], Sequence[str]],
        *,
        stack_bytes: int,
        ring_bytes: int = RING_BYTES,
        wake: bool = True,
        later: Sequence[str] = (),
    ) -> None:
        self.unread: list[str] = []
        self.refused: list[NotTraceable] = []
        self.lost = 0
        self._processes = processes
        self._functions = tuple(functions)
        self._arguments = arguments
        self._stack_bytes = stack_bytes
        self._ring_bytes = ring_bytes
        self._wake = wake
        self._later = self._unsearched = tuple(later)
        self._probed: dict[tuple[int, int, int], Probed] = {}
        self._searched: set[tuple[str, int]] = set()
        self._armed: list[_Armed] = []
        self._trace = TraceEvents()

    @property
    def probed(self) -> tuple[Probed, ...]:
        """The known places, in the order in which they were found."""
        return tuple(self._probed.values())

    @property
    def files(self) -> tuple[str, ...]:
        """The files of the places, as the processes name them. Thread-safe."""
        return tuple(dict.fromkeys(one.found.file for one in self.probed))

    @property
    def armed(self) -> bool:
        return bool(self._armed)

    def threads(self) -> list[int]:
        return self._processes.threads()

    def filenos(self) -> list[int]:
        """Return the descriptors that are readable when there are samples."""
        return [armed.events.fileno() for armed in self._armed]

    def find(self) -> bool:
        """Search files that were not searched before for the functions; return whether new places were found.

        Raises:
            OSError: no place is known, and the process is gone or its mappings may not be read.
        """
        before = len(self._probed)
        for pid in self._processes.pids():
            try:
                found, missed = find_places(pid, self._functions, self._searched)
            except OSError:
                if pid == self._processes.pid and not self._probed:
                    raise
                continue
            self.unread += missed
            self._define(found)
        unsearched, self._unsearched = self._unsearched, ()
        self._define(find_in_files(unsearched, self._functions))
        return len(self._probed) > before

    def forget(self) -> None:
        """Forget all places, because other arguments are to be read there; armed events stay until `arm`."""
        self._probed.clear()
        self._searched.clear()
        self._unsearched = self._later

    def _define(self, found: Sequence[Found]) -> None:
        for one in found:
            with contextlib.suppress(OSError):  # the file is gone, or the kernel finds no code there
                stat = target_files.status(Path(one.place.path))
                key = (stat.st_dev, stat.st_ino, one.place.offset)
                if key in self._probed:
                    continue
                try:
                    arguments = self._arguments(one)
                except NotTraceable as refusal:
                    self.refused.append(refusal)
                    self.unread.append(str(refusal))
                    continue
                event = self._trace.define(one.place.path, one.place.offset, arguments)
                self._probed[key] = Probed(one, event)

    def arm(self, wanted: str = "") -> None:
        """Sample the calls at all places in all threads, in place of the events that were armed before.

        Raises:
            NoPerf: not allowed.
            OSError: more files would be open than are allowed (EMFILE).
        """
        probed = self.probed
        events = PerfEvents.in_threads(
            [one.source(wanted) for one in probed],
            self.threads,
            stack_bytes=self._stack_bytes,
            follow=self._processes.follow,
            ring_bytes=self._ring_bytes,
            wake=self._wake,
        )
        newest = _Armed(events, probed, time.monotonic_ns() if self._armed else 0)
        if self._armed:
            self._armed[-1].next = newest
            time.sleep(_ONE_CALL_NS / 1e9)  # whoever calls this may rely on the filter then
        self._armed.append(newest)

    def keep_alive(self) -> None:
        """Close the events of threads that have ended."""
        alive = self.threads()
        for armed in self._armed:
            armed.events.keep(alive)

    def read(self) -> list[tuple[Sample, Probed]]:
        """Return the calls since the last call, in the order of time; close events that were replaced a while ago."""
        over_ns = time.monotonic_ns() - _LATE_NS
        # The older first: a sample of the newer that belongs before one of the older is in its ring by then.
        samples = [(armed, armed.read()) for armed in self._armed]
        found = [
            (sample, armed.probed[sample.source])
            for armed, all_of_it in samples
            for sample in all_of_it
            if armed.covers(sample)
        ]
        for armed in self._armed[:]:
            self.lost += armed.events.take_lost()
            if armed.next is not None and armed.next.since_ns < over_ns:
                armed.events.close()
                self._armed.remove(armed)
        found.sort(key=lambda call: call[0].mono_ns)
        return found

    def disarm(self) -> None:
        """Sample no calls: no trap is left in the processes."""
        for armed in self._armed:
            armed.events.close()
        self._armed.clear()

    def close(self) -> None:
        """Disarm, and remove the definitions."""
        self.disarm()
        self._trace.close()
