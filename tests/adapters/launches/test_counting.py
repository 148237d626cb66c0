"""Tallies of launches: which threads are in them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from types import SimpleNamespace

import pytest

from livedbg.adapters.launches import counting
from livedbg.adapters.launches.counting import _ROUNDS, LaunchCount


class FakeTally:
    """Remembers of which threads it is."""

    made: list[FakeTally]

    def __init__(self, _sources: object, threads: Iterable[int], *, follow: bool) -> None:
        assert not follow
        self.threads = set(threads)
        self.closed = False
        self.made.append(self)

    def total(self) -> int:
        return len(self.threads) + len(LAUNCHED_NS)

    def close(self) -> None:
        self.closed = True


LAUNCHED_NS: list[int] = []
"""When somebody has launched something (CLOCK_MONOTONIC)."""


@pytest.fixture(autouse=True)
def tallies(monkeypatch: pytest.MonkeyPatch) -> list[FakeTally]:
    """Those that are made."""
    monkeypatch.setattr("livedbg.adapters.launches.counting.Tally", FakeTally)
    FakeTally.made = []
    LAUNCHED_NS.clear()
    return FakeTally.made


@pytest.mark.invariant("counting.C1")
def test_C1_who_launches_whenever_this_thread_sleeps_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a busy machine, where a thread that sleeps for a moment gets its CPU back after many launches."""

    def sleep(_seconds: float) -> None:
        LAUNCHED_NS.append(time.monotonic_ns())

    monkeypatch.setattr(counting, "time", SimpleNamespace(sleep=sleep, monotonic_ns=time.monotonic_ns))
    count = LaunchCount()
    count.tally((), lambda: (), sampled=False)
    for _ in range(5):
        sleep(0)
        counted, cut_ns = count._cut()
        assert counted == sum(launched_ns <= cut_ns for launched_ns in LAUNCHED_NS)


@pytest.mark.invariant("counting.C2")
def test_C2_threads_born_meanwhile_are_in_the_tally(tallies: list[FakeTally]) -> None:
    looks = iter([{1}, {1, 2}, {1, 2}, {1, 2, 3}, {1, 2, 3}, {1, 3}])  # before and after each tally is made
    count = LaunchCount()
    count.tally((), lambda: next(looks), sampled=False)
    assert [tally.threads for tally in tallies] == [{1}, {1, 2}, {1, 2, 3}]
    assert [tally.closed for tally in tallies] == [True, True, False]
    assert count.total() == 3
    count.end()
    assert tallies[-1].closed


@pytest.mark.invariant("counting.C2")
def test_C2_where_threads_are_born_each_time_there_is_a_tally_all_the_same(tallies: list[FakeTally]) -> None:
    born: list[int] = []

    def threads() -> list[int]:
        born.append(len(born))
        return list(born)

    count = LaunchCount()
    count.tally((), threads, sampled=False)
    assert [tally.closed for tally in tallies] == [True] * (_ROUNDS - 1) + [False]
    assert count.total() == len(tallies[-1].threads) > 0
