"""How closely launches are traced, by their rate."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livedbg.adapters.launches.tracer import Budget, Detail
from livedbg.probes.perf_count import TrapCosts

COSTS = TrapCosts(each=20_000, counted=5_000)  # by 2 %: 1,000 a second each, 4,000 counted


def test_as_closely_as_the_budget_allows() -> None:
    budget = Budget(0.02, COSTS)
    assert budget.saw(900, 0) is Detail.EACH
    assert budget.saw(1_100, 1) is Detail.COUNT
    assert budget.saw(800, 2) is Detail.COUNT  # not back at once, where it would go to and fro
    assert budget.saw(400, 3) is Detail.EACH
    assert budget.saw(4_100, 4) is Detail.OFF


def test_off_is_tried_again_ever_more_rarely() -> None:
    budget = Budget(0.02, COSTS)
    tries, now_s = [], 0.0
    budget.saw(9_000, now_s)
    while len(tries) < 6:
        now_s += 0.5
        if budget.try_again(now_s):
            assert budget.detail is Detail.COUNT
            tries.append(now_s)
            assert budget.saw(9_000, now_s) is Detail.OFF
    pauses = [later - earlier for earlier, later in itertools.pairwise([0.0, *tries])]
    assert pauses == sorted(pauses)
    assert pauses[0] < pauses[-1] <= 60
    assert budget.try_again(now_s + 61)
    assert budget.saw(10, now_s + 61) is Detail.EACH


@given(st.lists(st.floats(0, 1e7), min_size=1), st.floats(0.001, 1))
@pytest.mark.invariant("launches_tracer.R1")
def test_R1_what_was_chosen_costs_no_more_than_its_share(rates: list[float], share: float) -> None:
    budget = Budget(share, COSTS)
    for now_s, rate in enumerate(rates):
        budget.saw(rate, now_s)
        if budget.detail is not Detail.OFF:
            assert budget.cost(budget.detail) <= share * 1.000001
