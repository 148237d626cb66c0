"""The count of launches as steps in time."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livedbg.adapters.launches.adapter import Step, Steps
from livedbg.model.launches import BEAT_NS
from livedbg.probes.launch_calls import LaunchCall

MS = 1_000_000
BEGIN = 10**12


def read_at(launched: Sequence[int], reads: Sequence[int]) -> list[Step]:
    """The steps of launches at these milliseconds, read at those, then once more after all are over."""
    steps, found, total = Steps(BEGIN), [], 0
    for before, after in itertools.pairwise([-1, *sorted(reads), 10**6]):
        calls = [_call(at) for at in launched if before < at <= after]
        total += len(calls)
        found += steps.take(calls, total, BEGIN + after * MS)
        assert steps.traced_to_ns <= BEGIN + after * MS
    return [*found, *steps.end()]


def _call(at_ms: int, *, is_lookup: bool = False) -> LaunchCall:
    at_ns = BEGIN + at_ms * MS
    return LaunchCall("launch", 1, 1, at_ns, stack=0x7000, handle=5, grid=(1, 1, 1), is_lookup=is_lookup)


moments = st.lists(st.integers(0, 9_000), max_size=40)


@given(moments.map(sorted), moments)
@pytest.mark.invariant("steps.B1")
def test_B1_steps_do_not_depend_on_when_it_is_read(launched: list[int], reads: list[int]) -> None:
    steps = read_at(launched, reads)
    assert steps == read_at(launched, [])
    if launched:
        assert steps[0] == (0, BEGIN + launched[0] * MS) and steps[-1] == (len(launched), BEGIN + launched[-1] * MS)
        assert all(after.value > before.value for before, after in itertools.pairwise(steps))
        assert len(steps) - 1 <= 1 + (launched[-1] - launched[0]) * MS // BEAT_NS


def test_three_seconds_that_are_read_at_once_are_six_steps() -> None:
    assert len(read_at(range(0, 3_000, 50), [2_999])) == 1 + 6


@pytest.mark.invariant("steps.B2")
def test_what_is_only_counted_came_by_the_time_of_the_reading() -> None:
    steps = Steps(BEGIN)
    assert list(steps.take([], 0, BEGIN + 100 * MS)) == []
    assert list(steps.take([], 70, BEGIN + 200 * MS)) == [(0, BEGIN + 100 * MS)]
    assert steps.traced_to_ns == BEGIN + 200 * MS  # the step is not over
    assert list(steps.take([], 90, BEGIN + 300 * MS)) == []
    assert list(steps.take([], 90, BEGIN + 800 * MS)) == [(90, BEGIN + 300 * MS)]
    assert steps.traced_to_ns == BEGIN + 800 * MS
    assert list(steps.take([], 95, BEGIN + 900 * MS)) == []
    assert list(steps.end()) == [(95, BEGIN + 900 * MS)]


def test_lookups_are_no_launches() -> None:
    steps = Steps(BEGIN)
    assert list(steps.take([_call(10, is_lookup=True)], 0, BEGIN + 20 * MS)) == [] == list(steps.end())
