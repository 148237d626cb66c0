"""Samples that are taken often while somebody looks at them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from livedbg.adapters.proc import ProcAdapter
from livedbg.adapters.samples import SamplesAdapter
from livedbg.adapters.samples.account import LEAST_HZ, Pace
from livedbg.adapters.samples.adapter import Faster
from livedbg.model.intents import SampleFaster
from livedbg.probes.clock_samples import refused_here
from livedbg.session.adapter import Request, TargetProcess
from livedbg.session.live import LiveView
from livedbg.session.tools import no_unwinder
from tests.conftest import Target, eventually, settled


@pytest.mark.invariant("samples_pace.P1")
def test_P1_the_rate_falls_until_the_samples_are_cheap() -> None:
    pace = Pace(50, 200, 0.04)
    assert pace.period_ns(0) == 20_000_000  # 50 a second of each
    assert pace.period_ns(4) == 20_000_000 and pace.period_ns(8) == 40_000_000  # 200 of all
    cpu_s, samples = 0.0, 0
    for _ in range(30):
        cpu_s, samples = cpu_s + 100 * 0.001, samples + 100
        pace.cost(cpu_s, samples)
    assert 8e9 / pace.period_ns(8) == pytest.approx(40, rel=0.02)  # 1 ms each: 4 % of a core
    before = pace.period_ns(8)
    pace.cost(cpu_s + 5, samples + 3)
    assert pace.period_ns(8) == before  # too few to know
    for _ in range(30):
        cpu_s, samples = cpu_s + 100 * 0.1, samples + 100
        pace.cost(cpu_s, samples)
    assert 8e9 / pace.period_ns(8) == pytest.approx(LEAST_HZ, rel=0.02)
    for _ in range(30):
        cpu_s, samples = cpu_s + 100 * 0.00001, samples + 100
        pace.cost(cpu_s, samples)
    assert pace.period_ns(8) == pytest.approx(40_000_000, rel=0.02)


def test_who_asked_for_one_thread_gets_no_other() -> None:
    faster = Faster()
    assert not faster._wanted("thread:box/7/8")
    faster.want(SampleFaster(of="thread:box/7/8", seconds=1e6))
    assert faster._wanted("thread:box/7/8") and not faster._wanted("thread:box/7/9")
    assert not faster.covers("thread:box/7/8")  # nothing is sampled yet
    faster.want(SampleFaster(of="process:box/7", seconds=1e6))
    assert faster._wanted("thread:box/7/9") and not faster._wanted("thread:box/6/9")
    faster.want(SampleFaster(seconds=1e6))
    assert faster._wanted("thread:box/6/9") and faster._goes_on()
    for of in (None, "process:box/7", "thread:box/7/8"):
        faster.want(SampleFaster(of=of, seconds=-1))
    assert not faster._wanted("thread:box/7/8") and not faster._goes_on()


@pytest.mark.skipif(
    refused_here() is not None or no_unwinder(Request(host="box")) is not None, reason="no samples here"
)
def test_whoever_looks_has_more_samples_and_they_are_in_the_ledger(
    build_target: Callable[..., Path], spawn: Callable[..., Target]
) -> None:
    target = spawn([build_target("spinners"), "2"])
    tids = [int(word) for word in target.words[1:]]
    settled(target.pid, but=tids[:-1])
    first = f"thread:box/{target.pid}/{tids[0]}"
    view = LiveView(
        Request(host="box", processes=(TargetProcess(target.pid),)), adapters=[ProcAdapter(), SamplesAdapter()]
    )
    view.start()
    try:
        eventually(lambda: first in view.latest().snapshot.stacks)

        def often() -> bool:  # a slice of half a second has more samples than one a second gives
            view.send(SampleFaster())
            slices = view.latest().snapshot.profiles.get(first, ())
            return any(sum(stack.samples for stack in one.stacks) >= 3 for one in slices)

        eventually(often)
    finally:
        view.stop()
    assert view.latest().snapshot.touches.stops == 0
    ledger = sum(int(touch.why.partition(" ")[0].replace(",", "")) for touch in view.latest().snapshot.intrusions)
    slices = [one for kept in view.latest().snapshot.profiles.values() for one in kept]
    assert ledger >= sum(stack.samples for one in slices for stack in one.stacks)
