"""Samples of a profile are unwound many at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from livedbg.adapters.samples import profiling
from livedbg.adapters.samples.account import SampleAccount
from livedbg.adapters.samples.sampling import Batch, Taken
from livedbg.probes.perf_records import Sample
from livedbg.unwind.unwound import Unwound


class _Pool:
    """One whose rounds have cost so much CPU time in all."""

    def __init__(self) -> None:
        self.spent_s = 0.0

    def cpu_s(self, _pid: int) -> float:
        return self.spent_s


class _Context:
    def emit(self, *_events: object) -> None:
        pass

    def stamp(self) -> dict[str, Any]:
        return {"host": "box", "mono_ns": 1, "wall_ns": 1}


def _batch(count: int) -> Batch:
    sample = cast("Sample", type("_", (), {"pid": 7, "tid": 8, "mono_ns": 1})())
    return Batch([Taken("thread:box/7/8", sample, 1, None)] * count)


def test_after_a_costly_round_samples_wait_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, rounds = _Pool(), []

    class _Stacks:
        cpu_s = 0.0

        def __init__(self, *_: object) -> None:
            pass

        async def unwind(self, samples: Sequence[Sample], _limit_s: float) -> list[Unwound | None]:
            rounds.append(len(samples))
            pool.spent_s += 1000.0
            return [None] * len(samples)

    monkeypatch.setattr(profiling, "SampledStacks", _Stacks)
    monkeypatch.setattr(profiling, "_REST_MOST_S", 1e6)

    async def take() -> None:
        profile = profiling._Profile(cast("Any", _Context()), cast("Any", pool), SampleAccount())
        profile.take(_batch(1))
        assert profile._work is not None
        await profile._work
        assert rounds == [1] and profile.cpu_s >= 1000.0
        for _ in range(5):
            profile.take(_batch(2))
            await asyncio.sleep(0)
        assert rounds == [1]  # the next round rests until what this one has cost is little
        profile.take(_batch(profiling._TOGETHER))
        await profile._work
        assert rounds == [1, 10 + profiling._TOGETHER]  # unless much waits
        profile.take(_batch(3))
        await profile.finish()
        assert rounds[2:] == [3]
        assert profile.samples == 14 + profiling._TOGETHER

    asyncio.run(take())
