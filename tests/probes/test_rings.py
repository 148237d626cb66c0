"""The rings of perf events, and their budget."""

from __future__ import annotations

import os

import pytest

from livedbg.probes.perf import TRACEPOINT, PerfEvents, Source
from livedbg.probes.rings import RINGS
from livedbg.probes.tracefs import kernel_event
from tests.probes.refused import refused

pytestmark = pytest.mark.skipif(bool(refused()), reason=refused() or "probes can be set")


@pytest.mark.invariant("rings.B1")
def test_B1_rings_stay_within_their_budget() -> None:
    source = Source(TRACEPOINT, kernel_event("signal", "signal_deliver").number)
    events: list[PerfEvents] = []
    try:
        for _ in range(12):
            events.append(PerfEvents([source]))
            events[-1].add(os.getpid())
        least = len(events) * (os.cpu_count() or 1) * (64 << 10)
        assert sum(one.ring_bytes for one in events) <= RINGS + least
        assert events[0].ring_bytes > events[-1].ring_bytes
    finally:
        for one in events:
            one.close()
    with PerfEvents([source]) as again:
        assert again.ring_bytes >= RINGS // 4  # a power of two a CPU
