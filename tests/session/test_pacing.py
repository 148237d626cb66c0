"""How long samplers rest."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livedbg.session import pacing
from livedbg.session.pacing import Backoff, ChangePace, Cost, Limit, SamplePace, Searches, timed

costs_s = st.floats(0, 10)


@given(st.lists(st.tuples(costs_s, costs_s), min_size=1), st.floats(0.001, 1), st.floats(0.001, 1))
@pytest.mark.invariant("pacing.R1")
def test_R1_a_limit_bounds_cpu_time_and_wall_time(spent: list[tuple[float, float]], cpu: float, wall: float) -> None:
    limit = Limit(cpu=cpu, wall=wall)
    rests_s = [limit.rest_s(Cost(cpu_s, wall_s)) for cpu_s, wall_s in spent]
    for share, used_s in ((cpu, [cpu_s for cpu_s, _ in spent]), (wall, [wall_s for _, wall_s in spent])):
        assert sum(used_s) <= share * (sum(used_s) + sum(rests_s)) + 1e-6


def test_a_limit_keeps_to_its_shortest_and_longest_pause() -> None:
    limit = Limit(cpu=0.02, wall=0.2, least_s=0.5, most_s=10.0)
    assert limit.rest_s(Cost(0.0, 0.0)) == 0.5
    assert limit.rest_s(Cost(0.1, 0.1)) == pytest.approx(4.9)  # 49 times the CPU time
    assert limit.rest_s(Cost(0.0, 1.0)) == pytest.approx(4.0)  # 4 times the wall time
    assert limit.rest_s(Cost(3.0, 3.0)) == 10.0


def test_what_some_work_cost_is_measured() -> None:
    result, cost = timed(sum, range(100_000))
    assert result == 4_999_950_000 and cost.cpu_s > 0
    _, idle = timed(time.sleep, 0.05)
    assert idle.wall_s >= 0.05 > idle.cpu_s


def test_pauses_grow_up_to_the_longest_and_begin_anew() -> None:
    backoff = Backoff(1.0, 5.0, 2)
    assert [backoff.pause_s, *(backoff.grow() for _ in range(3))] == [1.0, 2.0, 4.0, 5.0]
    assert backoff.reset() == 1.0


def test_samples_back_off_while_nothing_changes_and_return_at_once() -> None:
    pace = SamplePace(0.5)
    second, *pauses = [pace.after(changed=False, cost_s=0.001) for _ in range(20)]
    assert second == 0.15  # what makes progress is known after two samples
    assert pauses[0] == 0.5
    assert pauses == sorted(pauses)
    assert pauses[-1] == 2.0
    assert pace.after(changed=True, cost_s=0.001) == 0.5


@pytest.mark.invariant("pacing.R1")
def test_R1_one_costly_sample_is_allowed_and_many_are_taken_seldom() -> None:
    pace = SamplePace(0.5)
    assert pace.after(changed=True, cost_s=0.03) == 0.15
    assert pace.after(changed=True, cost_s=0.004) == 0.5
    samples = [(cost_s, pace.after(changed=True, cost_s=cost_s)) for cost_s in (0.012, 0.008) * 20]
    share = sum(cost_s for cost_s, _ in samples) / sum(pause_s for _, pause_s in samples)
    assert share == pytest.approx(0.002, rel=0.1)
    assert pace.after(changed=True, cost_s=1.0) == 8.0  # a wait counts as long after 10 s


def test_a_slower_interval_than_the_slowest_is_kept() -> None:
    pace = SamplePace(5.0)
    assert {pace.after(changed=False, cost_s=0.0) for _ in range(20)} == {0.15, 5.0}


class Clock:
    """A clock that stands until it is moved."""

    now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(pacing, "time", made)
    return made


def sampled_at(clock: Clock, pace: ChangePace, signatures: itertools.count[int] | None, cost_s: float) -> list[float]:
    """When samples were taken within a minute."""
    taken, begin_s = [], clock.now_s
    while clock.now_s < begin_s + 60:
        signature = next(signatures) if signatures is not None else None
        if pace.due(signature):
            taken.append(clock.now_s - begin_s)
            pace.sampled(signature, cost_s)
        clock.now_s += 0.1
    return taken


def test_what_has_not_changed_is_not_sampled_again(clock: Clock) -> None:
    pace = ChangePace(share=0.01, burst_s=0.1)
    assert pace.due("a")
    pace.sampled("a", 0.001)
    clock.now_s += 100
    assert not pace.due("a") and pace.due("b")


@pytest.mark.invariant("pacing.R1")
def test_R1_changes_are_sampled_soon_but_within_the_share(clock: Clock) -> None:
    cheap = sampled_at(clock, ChangePace(share=0.01, burst_s=0.1), itertools.count(), 0.001)
    assert cheap[1] == pytest.approx(0.4, abs=0.11) and len(cheap) > 100
    costly = sampled_at(clock, ChangePace(share=0.01, burst_s=0.1), itertools.count(), 0.05)
    assert 0.05 * len(costly) <= 0.01 * 60 + 0.1 + 0.05


def test_without_a_signature_samples_become_rarer(clock: Clock) -> None:
    taken = sampled_at(clock, ChangePace(share=1.0, burst_s=1.0), None, 0.0)
    gaps = [later - earlier for earlier, later in itertools.pairwise(taken)]
    assert gaps == sorted(gaps) and gaps[-1] > 10 * gaps[0]


def test_what_goes_on_moving_is_sampled_rarely_and_what_comes_to_rest_at_once(clock: Clock) -> None:
    pace = ChangePace(share=1.0, burst_s=1.0, moving_most_s=20.0)
    moving = sampled_at(clock, pace, itertools.count(), 0.0)
    gaps = [later - earlier for earlier, later in itertools.pairwise(moving)]
    assert gaps[0] < 1 and gaps[-1] > 15  # as long as all of it moves
    clock.now_s += 1
    assert not pace.due("moved", frozenset())
    assert pace.due("moved", frozenset({"a thread"}))
    pace.sampled("moved", 0.0, frozenset({"a thread"}))
    clock.now_s += 1
    assert not pace.due("moved", frozenset({"a thread"}))  # as it was
    assert pace.due("moved again", frozenset({"a thread"}))  # the pauses begin anew
    pace.sampled("moved again", 0.0, frozenset({"a thread"}))
    clock.now_s += 0.5
    assert pace.due("and another", frozenset({"a thread", "another"}))


def test_a_process_is_searched_ever_more_rarely(clock: Clock) -> None:
    searches, at = Searches(), []
    for second in range(100):
        if searches.due("process:box/1"):
            at.append(second)
        clock.now_s += 1
    assert at == [0, 2, 6, 14, 30, 60, 90]
    assert searches.due("process:box/2", often=True)
    clock.now_s += pacing.SEARCH_S
    assert searches.due("process:box/2")
    searches.forget("process:box/1")
    assert searches.due("process:box/1")
