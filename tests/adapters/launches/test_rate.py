"""How closely launches are looked at, by their rate."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from livedbg.adapters.launches.cost import Costs
from livedbg.adapters.launches.rate import Closeness, Pace

COSTS = Costs(each=20_000, counted=5_000)  # by 2 %: 1,000 a second each, 4,000 counted


def test_the_closest_look_that_the_budget_allows() -> None:
    pace = Pace(0.02, COSTS)
    assert pace.saw(900, 0) is Closeness.EACH
    assert pace.saw(1_100, 1) is Closeness.COUNT
    assert pace.saw(800, 2) is Closeness.COUNT  # not back at once, where it would go to and fro
    assert pace.saw(400, 3) is Closeness.EACH
    assert pace.saw(4_100, 4) is Closeness.OFF


def test_off_is_tried_again_ever_more_rarely() -> None:
    pace = Pace(0.02, COSTS)
    tries, now_s = [], 0.0
    pace.saw(9_000, now_s)
    while len(tries) < 6:
        now_s += 0.5
        if pace.try_again(now_s):
            assert pace.now is Closeness.COUNT
            tries.append(now_s)
            assert pace.saw(9_000, now_s) is Closeness.OFF
    pauses = [later - earlier for earlier, later in itertools.pairwise([0.0, *tries])]
    assert pauses == sorted(pauses)
    assert pauses[0] < pauses[-1] <= 60
    assert pace.try_again(now_s + 61)
    assert pace.saw(10, now_s + 61) is Closeness.EACH


@given(st.lists(st.floats(0, 1e7), min_size=1), st.floats(0.001, 1))
def test_R1_what_was_chosen_costs_no_more_than_its_share(rates: list[float], share: float) -> None:
    pace = Pace(share, COSTS)
    for now_s, rate in enumerate(rates):
        pace.saw(rate, now_s)
        if pace.now is not Closeness.OFF:
            assert pace.cost(pace.now) <= share * 1.000001
