"""Traces the functions that launch, in a thread of its own: samples of each call, or only their count.

Invariants:
    launches_tracer.I1. Threads born later are traced from their first instruction: events are inherited (perf.P1).
    launches_tracer.I2. While it is off, no trap is in the target.
    launches_tracer.I3. Of launches that come faster than they may be sampled, no more are read than the budget allows
        in `_HELD_S` seconds: the kernel drops the others and counts them. On a busy machine it would take minutes to
        read them all, before it is known that there are too many.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from livedbg.adapters.launches.budget import Budget, Detail
from livedbg.adapters.launches.counting import LaunchCount
from livedbg.probes.fetch import values
from livedbg.probes.functions import FunctionProbes
from livedbg.probes.launch_calls import LaunchCall, LaunchFunctions
from livedbg.probes.processes import ProcessTree
from livedbg.probes.tracer import Tracer
from livedbg.probes.trap_cost import UNKNOWN, trap_costs

__all__ = ["LaunchTracer", "Traced"]

_STACK: Final = 8  # bytes of the stack that a sample brings: the least; registers are what is wanted
_RING: Final = 4 << 20  # bytes at most
_SAMPLE: Final = 400  # bytes of a sample in a ring, about
_HELD_S: Final = 4.0  # for so long a ring has room, at the highest rate that may be sampled
_WAKE_S: Final = 0.25
_SPAN_S: Final = 0.5  # over which a rate is taken
_TRY_S: Final = 0.2  # the same, where nothing was traced before
_LIBRARIES_S: Final = 2.0  # between two searches for libraries that were loaded meanwhile


class Traced(NamedTuple):
    """What came since the last time.

    Attributes:
        calls: in the order of time; empty unless each is sampled.
        until_ns: all calls up to then were taken (CLOCK_MONOTONIC).
        total: launches counted in all; a runtime's and its driver's call are two.
        rate_per_s: launches a second lately.
        lost: calls that the kernel had to drop, in all.
        detail: how closely launches are traced now.
        to_sample: what it would take of the launching threads' time at that rate to sample each; 1 is all of it.
        to_count: the same, only to count.
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
    """Traces launches. Where no library with such functions is loaded yet, it waits for one.

    Args:
        pid: the process.
        share: of the launching threads' time that this may take.
        functions: those that launch.
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
        """The files in which launches are traced."""
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
        """Look for new libraries, and forget the threads that have ended."""
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
        """Sample each call at all places that are known."""
        if probes.probed:
            probes.arm()
        if self._count.tallies:
            self._count.leave_to_samples()

    def _only_count(self, probes: FunctionProbes) -> None:
        """Sample no call any more; count those at the places that are not counted yet."""
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
        """Nothing is traced: I2."""
        self._sample_none(probes)
        self._count.end()

    def _sample_none(self, probes: FunctionProbes) -> None:
        if probes.armed:
            self._read(probes)
        probes.disarm()

    def _read(self, probes: FunctionProbes) -> None:
        """Take what came."""
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
    """Bytes of all rings together (I3); a ring is never smaller than `Rings` makes it."""
    return min(_RING, int(budget.most_per_s(Detail.EACH) * _HELD_S * _SAMPLE))
