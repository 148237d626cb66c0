"""Listens to the functions that launch, in a thread of its own: by probe events, each call or only their count.

Invariants:
    I1. Threads born later are heard from their first instruction: what listens is inherited (livedbg.probes.perf P1).
    I2. While it is off, no trap stands in the target.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from livedbg.adapters.launches.calls import FUNCTIONS, LOOKUPS, Called, arguments, called
from livedbg.adapters.launches.cost import UNKNOWN, costs
from livedbg.adapters.launches.counting import LaunchCount
from livedbg.adapters.launches.rate import Closeness, Pace
from livedbg.linux import procfs
from livedbg.linux.places import Found, find_places
from livedbg.probes.perf import TRACEPOINT, PerfEvents, Sample, Source
from livedbg.probes.tracefs import TraceEvent, TraceEvents
from livedbg.text.sanitize import clean_line

__all__ = ["Heard", "LaunchListener"]

_STACK: Final = 8  # bytes of the stack that a sample brings: the least; registers are what is wanted
_RING: Final = 4 << 20
_WAKE_S: Final = 0.25
_SPAN_S: Final = 0.5  # over which a rate is taken
_TRY_S: Final = 0.2  # the same, where nothing was listened to before
_LIBRARIES_S: Final = 2.0  # how often it is looked for libraries that were loaded meanwhile


class Heard(NamedTuple):
    """What came since the last time.

    Attributes:
        calls: in the order of time; empty unless each is looked at.
        until_ns: all calls up to then were taken (CLOCK_MONOTONIC).
        total: launches counted in all; a runtime's and its driver's call are two.
        rate_per_s: launches a second lately.
        lost: calls that the kernel could not hand over, in all.
        to_look: what it would take of the launching threads' time at that rate to look at each; 1 is all of it.
        to_count: the same, only to count.
    """

    calls: Sequence[Called]
    until_ns: int
    total: int
    rate_per_s: float
    lost: int
    closeness: Closeness
    to_look: float
    to_count: float


class _Listened(NamedTuple):
    found: Found
    event: TraceEvent


class LaunchListener:
    """Hears launches.

    Args:
        pid: the process.
        share: of the launching threads' time that this may take.
        tell: called in that thread, some times a second.

    Attributes:
        files: in which launches are listened to.
        unread: files that could not be searched.
        failure: why it has ended by itself; "" while it has not.
    """

    def __init__(self, pid: int, share: float, tell: Callable[[Heard], None]) -> None:
        self.files: tuple[str, ...] = ()
        self.unread: list[str] = []
        self.failure = ""
        self._pid = pid
        self._share = share
        self._pace = Pace(share, UNKNOWN)
        self._tell = tell
        self._trace: TraceEvents | None = None
        self._places: dict[tuple[int, int, int], _Listened] = {}
        self._searched: set[tuple[str, int]] = set()
        self._sets: list[tuple[PerfEvents, Sequence[_Listened]]] = []
        self._covered = 0  # of the places: in a set, or tallied
        self._count = LaunchCount()
        self._calls: list[Called] = []
        self._read_ns = time.monotonic_ns()
        self._lost = 0
        self._awake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="livedbg-launches", daemon=True)

    def start(self) -> None:
        """Set the probes, and listen. Where no library of CUDA is loaded yet, it is waited for.

        Raises:
            OSError: the process is gone, or the kernel or our rights don't allow it (NoPerf, NoTracefs).
        """
        try:
            self._pace = Pace(self._share, costs())
            self._trace = TraceEvents()
            self._find()
            self._listen_closely()
        except BaseException:
            self._close()
            os.close(self._awake)
            raise
        self._thread.start()

    def stop(self) -> None:
        """Take the probes out; returns when that is done."""
        self._over.set()
        if self._thread.ident is not None:
            os.eventfd_write(self._awake, 1)
            self._thread.join()
            os.close(self._awake)

    def _run(self) -> None:
        try:
            self._listen()
        except Exception as error:
            self.failure = clean_line(f"{type(error).__name__}: {error}", 300)
        finally:
            self._close()
            if self.failure:
                self._tell(self._heard())

    def _listen(self) -> None:
        since_s, before = time.monotonic(), 0
        look_s = since_s + _LIBRARIES_S
        while not self._over.is_set():
            self._wait()
            if time.monotonic() >= look_s:
                self._look()
                look_s = time.monotonic() + _LIBRARIES_S
            self._read()
            now_s = time.monotonic()
            if self._pace.now is Closeness.OFF:
                if self._pace.try_again(now_s):
                    self._only_count()
                    since_s, before = time.monotonic(), self._count.total()
                else:
                    self._tell(self._heard())
                continue
            span_s = _TRY_S if not self._sets else _SPAN_S
            if now_s - since_s < span_s:
                continue
            total = self._count.total()
            self._change(self._pace.saw((total - before) / (now_s - since_s), now_s))
            self._tell(self._heard())
            since_s, before = now_s, total
        self._read()
        self._tell(self._heard())

    def _wait(self) -> None:
        waiting = select.poll()
        waiting.register(self._awake, select.POLLIN)
        waiting.poll(1000 * _WAKE_S)

    def _heard(self) -> Heard:
        calls, self._calls = self._calls, []
        pace = self._pace
        to_look, to_count = pace.cost(Closeness.EACH), pace.cost(Closeness.COUNT)
        total = self._count.total()
        return Heard(calls, self._read_ns, total, pace.rate_per_s, self._lost, pace.now, to_look, to_count)

    # what is listened to

    def _find(self) -> bool:
        """Whether there are places that were not known."""
        assert self._trace is not None
        found, missed = find_places(self._pid, (*FUNCTIONS, *LOOKUPS), self._searched)
        self.unread += missed
        before = len(self._places)
        for one in found:
            with contextlib.suppress(OSError):  # the file is gone, or the kernel finds no code there
                stat = Path(one.place.path).stat()
                key = (stat.st_dev, stat.st_ino, one.place.offset)
                if key not in self._places:
                    event = self._trace.define(one.place.path, one.place.offset, arguments(one.name))
                    self._places[key] = _Listened(one, event)
        self.files = tuple(dict.fromkeys(listened.found.file for listened in self._places.values()))
        return len(self._places) > before

    def _look(self) -> None:
        """Look for new libraries, and forget the threads that have ended."""
        with contextlib.suppress(OSError):  # the process is gone
            alive = self._threads()
            for events, _ in self._sets:
                events.keep(alive)
            if self._find() and self._pace.now is Closeness.EACH:
                self._listen_closely()
            elif self._pace.now is Closeness.COUNT and self._covered < len(self._places):
                self._only_count()

    def _change(self, closeness: Closeness) -> None:
        if closeness is Closeness.EACH and not self._sets:
            self._listen_closely()
        elif closeness is Closeness.COUNT and self._sets:
            self._only_count()
        elif closeness is Closeness.OFF:
            self._let_go()

    def _listen_closely(self) -> None:
        """Look at each call at the places that are not looked at yet."""
        fresh = list(self._places.values())[self._covered if self._sets else 0 :]
        if fresh:
            sources = [Source(TRACEPOINT, listened.event.number) for listened in fresh]
            events = PerfEvents(sources, stack_bytes=_STACK, ring_bytes=_RING, wake=False)
            try:
                events.add_all(self._threads)
            except BaseException:
                events.close()
                raise
            self._sets.append((events, fresh))
        self._covered = len(self._places)
        if self._count.tallies:
            self._count.leave_to_samples()

    def _only_count(self) -> None:
        """Look at no call any more; count those at the places that are not counted yet."""
        sampled = bool(self._sets)
        fresh = list(self._places.values())[self._covered if self._count.tallies else 0 :]
        sources = [Source(TRACEPOINT, one.event.number) for one in fresh if one.found.name not in LOOKUPS]
        if sampled:
            self._read()  # there is room in the rings: the next call brings how many were lost
        if sources:
            self._count.tally(sources, self._threads, sampled=sampled)
        self._close_sets()
        self._covered = len(self._places)

    def _let_go(self) -> None:
        """Nothing is listened to: I2."""
        self._close_sets()
        self._count.end()

    def _threads(self) -> list[int]:
        return procfs.thread_ids(self._pid)

    def _read(self) -> None:
        """Take what came."""
        self._read_ns = time.monotonic_ns()
        fresh: list[Called] = []
        for events, listened in self._sets:
            calls = [self._called(sample, listened) for sample in events.read()]
            lost = events.take_lost()
            self._count.sampled(calls, lost)
            self._lost += lost
            fresh += calls
        fresh.sort(key=lambda call: call.mono_ns)
        self._calls += fresh

    @staticmethod
    def _called(sample: Sample, listened: Sequence[_Listened]) -> Called:
        found, event = listened[sample.source]
        read = {
            field.name: sample.raw[field.offset : field.offset + field.size]
            if field.name == "name"
            else field.read(sample.raw)
            for field in event.fields.values()
        }
        return called(found.name, sample, read)

    # the end

    def _close_sets(self) -> None:
        if self._sets:
            self._read()
        for events, _ in self._sets:
            events.close()
        self._sets.clear()

    def _close(self) -> None:
        for events, _ in self._sets:
            events.close()
        self._sets.clear()
        self._count.end()
        if self._trace is not None:
            self._trace.close()
