"""Launches are counted once, whether by samples or by tallies."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from types import SimpleNamespace

import pytest

from livedbg.adapters.launches import tracer
from livedbg.adapters.launches.tracer import LaunchCount


class FakeTally:
    """Counts what is launched by this test."""

    @classmethod
    def of_all(cls, _sources: object, _threads: Callable[[], Iterable[int]], *, follow: bool) -> FakeTally:
        assert not follow
        return cls()

    def total(self) -> int:
        return len(LAUNCHED_NS)

    def close(self) -> None:
        pass


LAUNCHED_NS: list[int] = []
"""When somebody has launched something (CLOCK_MONOTONIC)."""


@pytest.fixture(autouse=True)
def tallies(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are made by `FakeTally`."""
    monkeypatch.setattr("livedbg.adapters.launches.tracer.Tally", FakeTally)
    LAUNCHED_NS.clear()


@pytest.mark.invariant("launches_tracer.C1")
def test_C1_who_launches_whenever_this_thread_sleeps_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a busy machine, where a thread that sleeps for a moment gets its CPU back after many launches."""

    def sleep(_seconds: float) -> None:
        LAUNCHED_NS.append(time.monotonic_ns())

    monkeypatch.setattr(tracer, "time", SimpleNamespace(sleep=sleep, monotonic_ns=time.monotonic_ns))
    count = LaunchCount()
    count.tally((), lambda: (), sampled=False)
    for _ in range(5):
        sleep(0)
        counted, cut_ns = count._cut()
        assert counted == sum(launched_ns <= cut_ns for launched_ns in LAUNCHED_NS)
