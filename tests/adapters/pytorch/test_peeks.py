"""When the rings of ranks are read: rarely while all go on, and at once when one does not."""

from __future__ import annotations

import itertools

import pytest

from livedbg.adapters.pytorch.collectives import adapter
from livedbg.adapters.pytorch.collectives.adapter import CALM_S, PEEK_S, Peeks, rest

PAUSE_S = 6.0
SOON_S = 1.0


class Job:
    """Two ranks, each of which enqueues something every `every_s` until it stops, as a context and a clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, every_s: float, stops_s: float) -> None:
        self.now_s = 0.0
        self.every_s, self.stops_s = every_s, stops_s
        self.peeks = Peeks()
        monkeypatch.setattr(adapter, "targets_ended", lambda context: False)
        monkeypatch.setattr("livedbg.adapters.pytorch.collectives.adapter.time.monotonic", lambda: self.now_s)

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    async def peek(self) -> bool:
        count = int(min(self.now_s, self.stops_s) / self.every_s)
        return self.peeks.take({"process:box/1": count, "process:box/2": int(self.now_s / self.every_s)})

    async def looks(self, until_s: float) -> list[float]:
        """When the rings are read."""
        found: list[float] = []
        stopped = False
        while self.now_s < until_s:
            stopped = await rest(self, self.peek, SOON_S if stopped else PAUSE_S)  # type: ignore[arg-type]
            found.append(self.now_s)
        return found


@pytest.mark.invariant("collectives_adapter.K1")
async def test_K1_a_rank_that_goes_on_for_a_while_and_then_hangs_is_read_twice_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = Job(monkeypatch, 0.1, 100.0)
    looks = await job.looks(200.0)
    before, after = [at for at in looks if at < 100], [at for at in looks if at > 100]
    assert all(CALM_S <= later - at <= CALM_S + PEEK_S for at, later in itertools.pairwise(before[1:]))
    assert after[0] <= 100 + 2 * PEEK_S and after[1] - after[0] <= SOON_S
    assert all(later - at <= PAUSE_S + PEEK_S for at, later in itertools.pairwise(after))


@pytest.mark.invariant("collectives_adapter.K1")
async def test_K1_ranks_with_long_steps_are_read_as_those_that_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows yet whether they go on."""
    looks = await Job(monkeypatch, 30.0, 1000.0).looks(100.0)
    assert all(later - at <= PAUSE_S + PEEK_S for at, later in itertools.pairwise(looks))


def test_all_ranks_have_to_go_on() -> None:
    counts = Peeks()
    assert not counts.take({})
    assert not counts.take({"a": 1, "b": 1})  # nobody knows what was before
    assert counts.take({"a": 2, "b": 5})
    assert not counts.take({"a": 3, "b": 5})
    assert not counts.take({"a": 4, "b": 6, "c": 9})
    assert counts.take({"a": 5, "b": 7})
