"""Samples of perf events: of which threads, and how many."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from livedbg.probes.perf import TRACEPOINT, PerfEvents, Source
from livedbg.probes.tracefs import TraceEvents
from tests.conftest import Target
from tests.probes.calls import call, define, start_caller
from tests.probes.refused import refused

pytestmark = pytest.mark.skipif(bool(refused()), reason=refused() or "probes can be set")


@pytest.mark.invariant("perf.P1", "perf.P3")
def test_P1_P3_a_thread_that_was_added_and_the_one_that_it_starts_are_sampled_and_no_other(
    spawn: Callable[..., Target],
) -> None:
    target, (added, other) = start_caller(spawn)
    with TraceEvents() as trace, PerfEvents([Source(TRACEPOINT, define(trace, target.pid).number)]) as events:
        events.add(added)
        call(target, 0, 1)
        call(target, 1, 1)
        os.getppid()
        call(target, 0, "new")
        call(target, 1, "new")
        first, second = events.read()
        assert first.tid == added
        assert second.pid == target.pid and second.tid not in (added, other)


@pytest.mark.invariant("perf.P2")
def test_P2_each_call_is_a_sample_or_is_counted_as_lost(spawn: Callable[..., Target]) -> None:
    target, (added, _) = start_caller(spawn)
    with (
        TraceEvents() as trace,
        PerfEvents([Source(TRACEPOINT, define(trace, target.pid).number)], ring_bytes=0) as events,
    ):
        events.add(added)
        call(target, 0, 300)
        samples = len(events.read())
        call(target, 0, 1)  # the kernel says what it dropped when there is room again
        samples += len(events.read())
        lost = events.take_lost()
        assert lost > 0 and samples > 1
        assert samples + lost == 301
        assert events.take_lost() == 0
