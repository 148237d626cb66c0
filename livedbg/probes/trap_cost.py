"""What a trap costs on this very box: measured in our own process, at a function of the C library that nobody needs.

It differs much: some 2 µs on bare metal, tens of µs in some virtual machines.
"""

from __future__ import annotations

import ctypes
import os
import statistics
import threading
import time
from collections.abc import Callable
from functools import cache
from typing import Final, NamedTuple

from livedbg.probes.perf import TRACEPOINT, PerfEvents, Source
from livedbg.probes.perf_count import Tally
from livedbg.probes.places import find_places
from livedbg.probes.tracefs import TraceEvents

_FUNCTION: Final = "labs"
_ARGUMENTS: Final = tuple(f"a{number}=+{8 * number}(%sp):u32" for number in range(9))  # as many as a launch has
_CALLS: Final = 41
_REST_S: Final = 0.0003


class TrapCosts(NamedTuple):
    """Nanoseconds that a call takes longer.

    Attributes:
        each: where each call is sampled.
        counted: where calls are only counted.
    """

    each: float
    counted: float


UNKNOWN: Final = TrapCosts(100_000.0, 40_000.0)
"""Before it was measured, or where it can't be: what a slow box needs."""


@cache
def trap_costs() -> TrapCosts:
    """Measure, once; takes some hundred milliseconds.

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
    """Nanoseconds of a call that comes after a rest, as launches do: one that follows another is cheaper by half."""
    took = []
    for _ in range(_CALLS):
        time.sleep(_REST_S)
        begin_ns = time.perf_counter_ns()
        call(1)
        took.append(time.perf_counter_ns() - begin_ns)
    return statistics.median(took)
