"""Counts calls by perf events without samples: exactly, and only in the given threads.

The count of a trace event in tracefs (`uprobe_profile`) has the calls of every process in which somebody traces the
same function; that of a perf event (perf_event_open(2), read) only those of its thread and of what it starts.

Also measures what a trap costs on this machine, in our own process, at a function of the C library that nobody needs.
It differs much: some 2 µs on bare metal, tens of µs in some virtual machines.

Invariants:
    perf_count.T1. Threads born while a tally is made are in it: it is made anew until there were none. Where some were
        born each time, calls of these may be missing.
    perf_count.T2. A call whose samples all lie after `since_ns` is in the tally.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Final, NamedTuple, Self

from livedbg.probes.perf import TRACEPOINT, PerfEvents
from livedbg.probes.perf_event import Source, enable, open_to_count
from livedbg.probes.places import find_places
from livedbg.probes.tracefs import TraceEvents

_ROUNDS: Final = 10  # of making a tally
_ONE_CALL_NS: Final = 2_000_000
"""The kernel goes through the events of a call one by one, 10 to 30 microseconds apart: one that is enabled meanwhile
has been passed by, though the sample that another takes of that call is of later. A hypervisor can make it longer."""


class Tally:
    """Counts hits of trace events in threads and their children.

    Args:
        threads: the threads; those that are gone are left out.

    Attributes:
        since_ns: from then on all of them count (CLOCK_MONOTONIC); the first began some milliseconds before.

    Raises:
        NoPerf: not allowed.
        OSError: too many files are open.
    """

    def __init__(self, sources: Sequence[Source], threads: Iterable[int], *, follow: bool) -> None:
        self._files: list[int] = []
        try:
            for tid in threads:
                for source in sources:
                    with contextlib.suppress(ProcessLookupError):
                        self._files.append(open_to_count(source, tid, follow=follow))
            for file in self._files:
                enable(file)
        except BaseException:
            self.close()
            raise
        self.since_ns = time.monotonic_ns() + _ONE_CALL_NS

    @classmethod
    def of_all(cls, sources: Sequence[Source], threads: Callable[[], Iterable[int]], *, follow: bool) -> Self:
        """Return a tally of all threads: those born before their parent was in it have inherited nothing (T1)."""
        for last in reversed(range(_ROUNDS)):
            known = frozenset(threads())
            tally = cls(sources, known, follow=follow)
            try:
                if not last or known.issuperset(threads()):
                    break
            except BaseException:
                tally.close()
                raise
            tally.close()
        return tally

    def total(self) -> int:
        """Return the number of calls so far, including those of threads that have ended."""
        return sum(int.from_bytes(os.read(file, 8), "little") for file in self._files)

    def close(self) -> None:
        for file in self._files:
            os.close(file)
        self._files.clear()


_FUNCTION: Final = "labs"
_ARGUMENTS: Final = tuple(f"a{number}=+{8 * number}(%sp):u32" for number in range(9))  # as many as a launch has
_CALLS: Final = 41
_REST_S: Final = 0.0003


class TrapCosts(NamedTuple):
    """Nanoseconds that a probe adds to a call: `each` if it is sampled, `counted` if it is only counted."""

    each: float
    counted: float


UNKNOWN: Final = TrapCosts(100_000.0, 40_000.0)
"""Before it was measured, or where it can't be: what a slow box needs."""


@cache
def trap_costs() -> TrapCosts:
    """Measure the cost of a trap, once; takes some hundred milliseconds.

    Raises:
        OSError: the kernel or our rights allow no probes (NoPerf, NoTracefs).
    """
    found, _ = find_places(os.getpid(), [_FUNCTION])
    if not found:
        return UNKNOWN
    call = getattr(ctypes.PyDLL(None), _FUNCTION)  # keeps the interpreter: no other thread of ours comes between
    bare = _typical(call)
    with TraceEvents() as trace:
        event = trace.define(found[0].place.path, found[0].place.offset, _ARGUMENTS)
        source = Source(TRACEPOINT, event.number)
        with PerfEvents([source], stack_bytes=8, ring_bytes=1 << 20, wake=False) as events:
            events.add(threading.get_native_id())
            each = _typical(call)
        tally = Tally([source], [threading.get_native_id()], follow=False)
        try:
            counted = _typical(call)
        finally:
            tally.close()
    return TrapCosts(max(each - bare, 1.0), max(counted - bare, 1.0))


def _typical(call: Callable[[int], int]) -> float:
    """Return the nanoseconds of a call after a rest, as launches are: one right behind another costs half as much."""
    took = []
    for _ in range(_CALLS):
        time.sleep(_REST_S)
        begin_ns = time.perf_counter_ns()
        call(1)
        took.append(time.perf_counter_ns() - begin_ns)
    return statistics.median(took)
