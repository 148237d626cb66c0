"""Traces the functions that launch, in a thread of its own: samples each call, or only counts them.

Launches are counted by their samples while each is sampled, else by tallies. How closely they are traced depends on the
budget: a trap costs the launching thread some time, and reading arguments there costs more; a trap that only counts
costs less (livedbg.probes.perf_count). While the rate is so high that even counting is too much, nothing is traced, and
the rate is tried again later.

Invariants:
    launches_tracer.I1. Threads born later are traced from their first instruction: events are inherited (perf.P1).
    launches_tracer.I2. While it is off, no trap is in the target.
    launches_tracer.I3. Of launches that come faster than they may be sampled, no more are read than the budget allows
        in `_HELD_S` seconds: the kernel drops the others and counts them. On a busy machine it would take minutes to
        read them all, before it is known that there are too many.
    launches_tracer.C1. When counting changes between samples and tallies, no launch is counted twice, and none is lost:
        both count for a moment, and both counts are cut at a time at which nothing was launched, since two totals
        around it are the same. If there is no such time within the tries of `_MARGINS_NS`, launches of the last try,
        some 0.2 ms, may be counted wrongly.
    launches_tracer.R1. At the measured rates, tracing takes no more than its share of the launching threads' time,
        except while a rate is being measured.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from livedbg.probes.functions import FunctionProbes
from livedbg.probes.launch_calls import LaunchCall, LaunchFunctions
from livedbg.probes.perf_count import UNKNOWN, Tally, TrapCosts, trap_costs
from livedbg.probes.perf_event import Source
from livedbg.probes.tracefs import values
from livedbg.probes.tracer import ProcessTree, Tracer

SHARE: Final = 0.02
"""Of the launching threads' time."""

_FIRST_PAUSE_S: Final = 5.0
_LONGEST_PAUSE_S: Final = 60.0


class Detail(StrEnum):
    """The level of detail of tracing."""

    EACH = "each"
    COUNT = "count"
    OFF = "off"


class Budget:
    """Chooses the detail by the launch rate.

    Args:
        share: of the launching threads' time that tracing may take.

    Attributes:
        rate_per_s: the last measured rate.
    """

    def __init__(self, share: float, costs: TrapCosts) -> None:
        self._share = share
        self._costs = costs
        self._pause_s = _FIRST_PAUSE_S
        self._off_until_s = 0.0
        self.detail = Detail.EACH
        self.rate_per_s = 0.0

    def most_per_s(self, detail: Detail) -> float:
        """Return the highest rate that may be traced with this detail."""
        return self._share * 1e9 / self._cost_ns(detail)

    def cost(self, detail: Detail) -> float:
        """Return the share of the launching threads' time that a detail takes at the last rate."""
        return self.rate_per_s * self._cost_ns(detail) / 1e9

    def saw(self, rate_per_s: float, now_s: float) -> Detail:
        """Take a measured rate (launches per second, of all threads), and return the detail for it."""
        self.rate_per_s = rate_per_s
        if rate_per_s > self.most_per_s(Detail.COUNT):
            self.detail = Detail.OFF
            self._off_until_s = now_s + self._pause_s
            self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        elif rate_per_s > self.most_per_s(Detail.EACH):
            self.detail = Detail.COUNT
            self._pause_s = _FIRST_PAUSE_S
        elif self.detail is not Detail.COUNT or rate_per_s < self.most_per_s(Detail.EACH) / 2:
            self.detail = Detail.EACH
            self._pause_s = _FIRST_PAUSE_S
        return self.detail

    def try_again(self, now_s: float) -> bool:
        """Return whether it is time to measure the rate again; if so, the detail becomes `COUNT`."""
        if self.detail is Detail.OFF and now_s >= self._off_until_s:
            self.detail = Detail.COUNT
            return True
        return False

    def _cost_ns(self, detail: Detail) -> float:
        return self._costs.each if detail is Detail.EACH else self._costs.counted


_MARGINS_NS: Final = (*(500_000,) * 20, *(20_000,) * 50)
"""Of each try, between a total and the cut: a call is counted and sampled one after the other, in general within 20
microseconds, in a thousandth of the calls within 100 to 300 (seen on Linux 6.18). Where launches come so fast that a
long margin always has one, a short one has to do."""

_NEVER: Final = sys.maxsize


class LaunchCount:
    """Counts the launches of one process."""

    def __init__(self) -> None:
        self._sure = 0
        self._tallies: list[Tally] = []
        self._from_ns, self._until_ns = 0, _NEVER  # the samples that count

    @property
    def tallies(self) -> bool:
        """True if launches are counted by tallies."""
        return bool(self._tallies)

    def total(self) -> int:
        """Return the number of launches; of sampled ones, up to the last `sampled`."""
        return self._sure + self._in_tallies()

    def sampled(self, calls: Iterable[LaunchCall], lost: int) -> None:
        """Count launches by their sampled calls, and `lost` ones, which the kernel dropped, of unknown kind."""
        self._sure += lost + sum(self._from_ns <= call.mono_ns < self._until_ns for call in calls if not call.is_lookup)

    def tally(self, sources: Sequence[Source], threads: Callable[[], Iterable[int]], *, sampled: bool) -> None:
        """Count the calls of these events by a tally from now on.

        Args:
            sources: events of functions that launch.
            threads: lists the threads of the process.
            sampled: samples have counted up to now.

        Raises:
            NoPerf: not allowed.
            OSError: too many files are open.
        """
        self._tallies.append(Tally.of_all(sources, threads, follow=False))
        if sampled:
            counted, self._until_ns = self._cut()
            self._sure -= counted

    def leave_to_samples(self) -> None:
        """Let samples count from now on. The caller must be sampling already."""
        counted, self._from_ns = self._cut()
        self._until_ns = _NEVER
        self._end(counted)

    def end(self) -> None:
        """Close the tallies; the total stays."""
        self._end(self._in_tallies())

    def _end(self, counted: int) -> None:
        self._sure += counted
        for tally in self._tallies:
            tally.close()
        self._tallies.clear()

    def _in_tallies(self) -> int:
        return sum(tally.total() for tally in self._tallies)

    def _cut(self) -> tuple[int, int]:
        """Return the tallies' count up to a time, and that time (CLOCK_MONOTONIC): C1."""
        counted = self._in_tallies()
        for margin_ns in _MARGINS_NS:
            _spin(margin_ns)
            now_ns = time.monotonic_ns()
            _spin(margin_ns)
            before, counted = counted, self._in_tallies()
            if before == counted:
                break
        return counted, now_ns


def _spin(margin_ns: int) -> None:
    """Busy-wait: on a busy machine a thread that sleeps gets its CPU back late, after other launches."""
    end_ns = time.monotonic_ns() + margin_ns
    while time.monotonic_ns() < end_ns:
        pass


_STACK: Final = 8  # bytes of the stack that a sample brings: the least; registers are what is wanted
_RING: Final = 4 << 20  # bytes at most
_SAMPLE: Final = 400  # bytes of a sample in a ring, about
_HELD_S: Final = 4.0  # for so long a ring has room, at the highest rate that may be sampled
_WAKE_S: Final = 0.25
_SPAN_S: Final = 0.5  # over which a rate is taken
_TRY_S: Final = 0.2  # the same, where nothing was traced before
_LIBRARIES_S: Final = 2.0  # between two searches for libraries that were loaded meanwhile


class Traced(NamedTuple):
    """The calls traced since the last report.

    Attributes:
        calls: in the order of time; empty unless each is sampled.
        until_ns: all calls up to then are included (CLOCK_MONOTONIC).
        total: launches counted in all; a runtime's and its driver's call are two.
        rate_per_s: recent launches per second.
        lost: calls that the kernel dropped, in all.
        detail: how closely launches are traced now.
        to_sample: share of the launching threads' time that sampling each launch would take; 1 is all of it.
        to_count: the same for counting only.
    """

    calls: Sequence[LaunchCall]
    until_ns: int
    total: int
    rate_per_s: float
    lost: int
    detail: Detail
    to_sample: float
    to_count: float


class LaunchTracer(Tracer):
    """Traces launches. If no library with such functions is loaded yet, it waits for one.

    Args:
        share: of the launching threads' time that tracing may take.
        report: called in its thread, some times a second.
    """

    def __init__(self, pid: int, share: float, functions: LaunchFunctions, report: Callable[[Traced], None]) -> None:
        super().__init__("livedbg-launches")
        self._process = ProcessTree(pid)
        self._share = share
        self._budget = Budget(share, UNKNOWN)
        self._functions = functions
        self._report = report
        self._probes: FunctionProbes | None = None
        self._tallied = 0  # of the places
        self._count = LaunchCount()
        self._calls: list[LaunchCall] = []
        self._read_ns = time.monotonic_ns()

    @property
    def files(self) -> tuple[str, ...]:
        return self._probes.files if self._probes is not None else ()

    def _arm(self) -> None:
        self._budget = Budget(self._share, trap_costs())
        functions = self._functions.arguments
        self._probes = FunctionProbes(
            self._process,
            tuple(functions),
            lambda found: functions[found.name],
            stack_bytes=_STACK,
            ring_bytes=_ring_bytes(self._budget),
            wake=False,
        )
        self.counts.unread = self._probes.unread
        self._probes.find()
        self._sample_each(self._probes)

    def _trace(self) -> None:
        assert self._probes is not None
        probes = self._probes
        since_s, before = time.monotonic(), 0
        search_s = since_s + _LIBRARIES_S
        while not self._over.is_set():
            self._wait(_WAKE_S)
            if time.monotonic() >= search_s:
                self._search(probes)
                search_s = time.monotonic() + _LIBRARIES_S
            self._read(probes)
            now_s = time.monotonic()
            if self._budget.detail is Detail.OFF:
                if self._budget.try_again(now_s):
                    self._only_count(probes)
                    since_s, before = time.monotonic(), self._count.total()
                else:
                    self._report(self._traced())
                continue
            if now_s - since_s < (_SPAN_S if probes.armed else _TRY_S):
                continue
            total = self._count.total()
            self._change(probes, self._budget.saw((total - before) / (now_s - since_s), now_s))
            self._report(self._traced())
            since_s, before = now_s, total
        self._read(probes)
        self._report(self._traced())

    def _traced(self) -> Traced:
        calls, self._calls = self._calls, []
        budget = self._budget
        to_sample, to_count = budget.cost(Detail.EACH), budget.cost(Detail.COUNT)
        total = self._count.total()
        return Traced(
            calls, self._read_ns, total, budget.rate_per_s, self.counts.lost, budget.detail, to_sample, to_count
        )

    def _failed(self) -> None:
        self._report(self._traced())

    # how closely launches are traced

    def _search(self, probes: FunctionProbes) -> None:
        """Probe new libraries, and forget ended threads."""
        with contextlib.suppress(OSError):  # the process is gone
            probes.keep_alive()
            if probes.find() and self._budget.detail is Detail.EACH:
                self._sample_each(probes)
            elif self._budget.detail is Detail.COUNT and self._tallied < len(probes.probed):
                self._only_count(probes)

    def _change(self, probes: FunctionProbes, detail: Detail) -> None:
        if detail is Detail.EACH and not probes.armed:
            self._sample_each(probes)
        elif detail is Detail.COUNT and probes.armed:
            self._only_count(probes)
        elif detail is Detail.OFF:
            self._stop_tracing(probes)

    def _sample_each(self, probes: FunctionProbes) -> None:
        if probes.probed:
            probes.arm()
        if self._count.tallies:
            self._count.leave_to_samples()

    def _only_count(self, probes: FunctionProbes) -> None:
        """Sample no call any more; count calls at the places that are not counted yet."""
        sampled = probes.armed
        fresh = probes.probed[self._tallied if self._count.tallies else 0 :]
        sources = [one.source() for one in fresh if one.found.name not in self._functions.lookups]
        if sampled:
            self._read(probes)  # there is room in the rings: the next call brings how many were lost
        if sources:
            self._count.tally(sources, self._process.threads, sampled=sampled)
        self._sample_none(probes)
        self._tallied = len(probes.probed)

    def _stop_tracing(self, probes: FunctionProbes) -> None:
        """Trace nothing (I2)."""
        self._sample_none(probes)
        self._count.end()

    def _sample_none(self, probes: FunctionProbes) -> None:
        if probes.armed:
            self._read(probes)
        probes.disarm()

    def _read(self, probes: FunctionProbes) -> None:
        self._read_ns = time.monotonic_ns()
        calls = [
            self._functions.call(probed.found.name, sample, values(probed.event.fields, sample.raw))
            for sample, probed in probes.read()
        ]
        self._count.sampled(calls, probes.lost - self.counts.lost)
        self.counts.lost = probes.lost
        self._calls += calls

    def _disarm(self) -> None:
        if self._probes is not None:
            self._probes.disarm()
        self._count.end()  # before the definitions go: the kernel keeps those that are counted
        if self._probes is not None:
            self._probes.close()


def _ring_bytes(budget: Budget) -> int:
    """Return the bytes of all rings together (I3); a ring is never smaller than `Rings` makes it."""
    return min(_RING, int(budget.most_per_s(Detail.EACH) * _HELD_S * _SAMPLE))
