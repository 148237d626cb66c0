"""Tallies: which threads are in them, and from when on they are whole."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable

import pytest

from livedbg.probes import perf_count
from livedbg.probes.perf_count import _ROUNDS, Tally
from livedbg.probes.perf_event import Source

SOURCES = (Source(2, 1),)


class Kernel:
    """Stands for the kernel's events."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened: list[int] = []
        self.closed: list[int] = []
        self.enabled_ns: list[int] = []
        monkeypatch.setattr(perf_count, "open_to_count", self._open)
        monkeypatch.setattr(perf_count, "enable", lambda _file: self.enabled_ns.append(time.monotonic_ns()))
        monkeypatch.setattr(perf_count.os, "close", self.closed.append)

    def _open(self, _source: Source, tid: int, *, follow: bool) -> int:
        assert not follow
        self.opened.append(tid)
        return tid


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    return Kernel(monkeypatch)


def of(threads: Callable[[], Iterable[int]]) -> Tally:
    return Tally.of_all(SOURCES, threads, follow=False)


@pytest.mark.invariant("perf_count.T1")
def test_T1_threads_born_meanwhile_are_in_the_tally(kernel: Kernel) -> None:
    looks = iter([{1}, {1, 2}, {1, 2}, {1, 2, 3}, {1, 2, 3}, {1, 3}])  # before and after each tally is made
    tally = of(lambda: next(looks))
    assert sorted(kernel.opened) == [1, 1, 1, 2, 2, 3]
    assert sorted(kernel.closed) == [1, 1, 2]
    kernel.closed.clear()
    tally.close()
    assert sorted(kernel.closed) == [1, 2, 3]


@pytest.mark.invariant("perf_count.T1")
def test_T1_where_threads_are_born_each_time_there_is_a_tally_all_the_same(kernel: Kernel) -> None:
    born = itertools.count(1)
    of(lambda: range(next(born)))
    assert len(kernel.opened) - len(kernel.closed) == 2 * _ROUNDS - 1  # those of the last look before a tally


def iter_then_gone() -> Callable[[], Iterable[int]]:
    """A process that ends after the first look."""
    looks = iter([{7}])

    def threads() -> Iterable[int]:
        for look in looks:
            return look
        raise ProcessLookupError("gone")

    return threads


@pytest.mark.invariant("perf_count.T1")
def test_T1_who_cannot_list_the_threads_leaves_nothing_open(kernel: Kernel) -> None:
    with pytest.raises(OSError, match="gone"):
        of(iter_then_gone())
    assert kernel.opened == kernel.closed == [7]


@pytest.mark.invariant("perf_count.T2")
def test_T2_a_call_at_which_the_kernel_was_as_the_tally_began_is_the_samples(kernel: Kernel) -> None:
    """It has passed by the tally, but its sample is of up to some tens of microseconds later."""
    tally = of(lambda: {1, 2})
    assert tally.since_ns >= max(kernel.enabled_ns) + 200_000
