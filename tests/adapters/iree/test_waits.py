"""Which queued operation will signal what is waited for, and what nobody will signal."""

from __future__ import annotations

import pytest

from livedbg.adapters.iree.live.operations import Driver, Operation, Point
from livedbg.adapters.iree.live.waits import ends_by_itself, waits_of

S, T = 100, 200


def _operations(*rows: tuple[tuple[int, int] | None, tuple[int, int]]) -> dict[int, Operation]:
    """Operations 0, 1, …: what each waits for and what it signals."""
    return {
        number: Operation(
            number, Driver.LOCAL, "execute", (Point(*signal),), (Point(*wait),) if wait is not None else ()
        )
        for number, (wait, signal) in enumerate(rows)
    }


def test_the_smallest_signal_that_is_large_enough_ends_a_wait() -> None:
    waits = waits_of(_operations((None, (S, 9)), (None, (S, 4)), ((S, 3), (T, 1))), frozenset())
    assert waits.producers == {Point(S, 3): 1} and not waits.missing


@pytest.mark.invariant("iree_waits.A1")
def test_A1_a_larger_signal_that_depends_on_the_wait_is_no_circle() -> None:
    chain = _operations(((S, 1), (S, 2)), ((S, 2), (S, 3)), ((S, 3), (S, 4)))
    waits = waits_of(chain, frozenset({Point(S, 4)}))
    assert waits.missing == {Point(S, 1)} and waits.later == {Point(S, 1): 2}
    assert waits.producers == {Point(S, 2): 0, Point(S, 3): 1, Point(S, 4): 2}


def test_a_circle_of_exact_values_stays_one() -> None:
    waits = waits_of(_operations(((T, 1), (S, 1)), ((S, 1), (T, 1))), frozenset())
    assert waits.producers == {Point(T, 1): 1, Point(S, 1): 0} and not waits.missing


def test_what_only_threads_wait_for_counts_too() -> None:
    assert waits_of({}, frozenset({Point(S, 1)})).missing == {Point(S, 1)}


def test_a_wait_ends_by_itself_only_if_all_that_it_leads_to_is_in_flight() -> None:
    operations = _operations((None, (S, 1)), ((S, 1), (S, 2)), ((T, 1), (T, 2)), ((S, 9), (S, 8)), ((S, 8), (S, 9)))
    waits = waits_of(operations, frozenset({Point(S, 2), Point(T, 2), Point(S, 9)}))
    assert ends_by_itself(Point(S, 2), waits, operations)
    assert not ends_by_itself(Point(T, 1), waits, operations)  # nobody signals it
    assert not ends_by_itself(Point(T, 2), waits, operations)
    assert not ends_by_itself(Point(S, 9), waits, operations)  # a circle
