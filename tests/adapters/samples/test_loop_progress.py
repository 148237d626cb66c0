"""When readings of loops prove that one progresses."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from livedbg.adapters.samples.loop_progress import LoopHistory, LoopProgress, StepHistory
from livedbg.cpython.for_loops import ForLoop
from livedbg.cpython.objects import Code

CODE = Code(0x1000, "train", "/job/train.py", 1, 8, 2, 0x1100, b"", b"")
STEP_NS = 10_000_000


def loop(position: int, total: int | None = 10**9, iterator: int = 0x2000) -> ForLoop:
    return ForLoop(CODE, iterator, position, total)


def proof(readings: Sequence[Sequence[ForLoop]]) -> LoopProgress | None:
    """What the last of some readings proves, taken 10 ms apart."""
    history, found = LoopHistory(), None
    for number, loops in enumerate(readings):
        found = history.add(number * STEP_NS, loops)
    return found


def one(positions: Sequence[int], total: int | None = 10**9) -> list[list[ForLoop]]:
    return [[loop(position, total)] for position in positions]


@pytest.mark.invariant("loop_progress.G1")
def test_five_rises_are_a_proof_and_four_are_none() -> None:
    found = proof(one([0, 10, 20, 30, 40, 50]))
    assert found is not None and found.loop.position == 50 and found.per_s == pytest.approx(1000)
    assert proof(one([0, 10, 20, 30, 40])) is None


@pytest.mark.invariant("loop_progress.G1")
def test_of_a_thread_that_sleeps_three_rises_are_enough() -> None:
    history = LoopHistory(3)
    readings = [history.add(number * STEP_NS, [loop(number)]) for number in range(4)]
    assert readings[:3] == [None] * 3 and readings[3] is not None


@pytest.mark.invariant("loop_progress.G1")
def test_who_fell_begins_anew() -> None:
    assert proof(one([0, 10, 20, 30, 40, 5, 15, 25, 35, 45])) is None
    assert proof(one([0, 10, 20, 30, 40, 5, 15, 25, 35, 45, 55])) is not None


@pytest.mark.invariant("loop_progress.G1")
def test_a_loop_that_stands_still_proves_nothing_any_more() -> None:
    assert proof(one([0, 10, 20, 30, 40, 50, 50])) is None


@pytest.mark.invariant("loop_progress.G1")
def test_another_iterator_is_another_loop() -> None:
    readings = [[loop(10 * number, iterator=0x2000 + 64 * (number // 3))] for number in range(9)]
    assert proof(readings) is None


def nest(outer: Sequence[int], inner: Sequence[int]) -> list[list[ForLoop]]:
    pairs = zip(outer, inner, strict=True)
    return [[loop(first, 10**6), loop(second, 100, 0x3000)] for first, second in pairs]


@pytest.mark.invariant("loop_progress.G1")
def test_nested_loops_count_like_an_odometer() -> None:
    found = proof(nest([1, 1, 1, 2, 2, 3], [10, 50, 90, 20, 60, 5]))
    assert found is not None and found.loop.total == 10**6 and found.loop.position == 3
    assert proof(nest([1, 1, 1, 1, 2, 2], [10, 50, 90, 20, 60, 95])) is None  # the inner one fell alone


@pytest.mark.invariant("loop_progress.G2")
def test_an_inner_loop_that_is_short_proves_nothing() -> None:
    """`for test in tests: while not done: for one in workers`: the outer one does not move."""
    assert proof(nest([1] * 6, [10, 20, 30, 40, 50, 60])) is None


@pytest.mark.invariant("loop_progress.G2")
@pytest.mark.parametrize(
    ("total", "proves"), [(9_999, False), (10_000, True), (365 * 86_400_000, True), (366 * 86_400_000, False)]
)
def test_a_pass_takes_ten_seconds_at_least_and_a_year_at_most(total: int, proves: bool) -> None:
    """At 1,000 iterations a second."""
    assert (proof(one([0, 10, 20, 30, 40, 50], total)) is not None) == proves


@pytest.mark.invariant("loop_progress.G2")
@pytest.mark.parametrize(("first", "proves"), [(9_949, False), (9_950, True)])
def test_without_an_end_what_is_done_counts(first: int, proves: bool) -> None:
    positions = [first + 10 * number for number in range(6)]
    assert (proof(one(positions, None)) is not None) == proves


def test_a_range_that_falls_counts_what_is_left() -> None:
    assert proof([[loop(-50_000 + 10 * number, 0)] for number in range(6)]) is not None
    assert proof([[loop(-500 + 10 * number, 0)] for number in range(6)]) is None


@pytest.mark.invariant("loop_progress.G4")
def test_five_steps_in_steady_loops_are_a_proof_and_four_are_none() -> None:
    history = StepHistory()
    found = [history.add(number * STEP_NS, (CODE, (number // 2,))) for number in range(11)]
    assert found[:10] == [None] * 10
    assert found[10] is not None and found[10].steps and found[10].loop.position == 5


@pytest.mark.invariant("loop_progress.G4")
def test_one_reading_elsewhere_begins_anew() -> None:
    history = StepHistory()
    for number in range(5):
        assert history.add(number * STEP_NS, (CODE, (number,))) is None
    assert history.add(5 * STEP_NS, None) is None
    assert [history.add(number * STEP_NS, (CODE, (number,))) for number in range(6, 11)] == [None] * 5


@pytest.mark.invariant("loop_progress.G4")
def test_who_stands_still_makes_no_step() -> None:
    history = StepHistory()
    assert [history.add(number * STEP_NS, (CODE, (7,))) for number in range(50)] == [None] * 50
