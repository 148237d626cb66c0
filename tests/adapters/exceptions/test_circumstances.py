"""What is read of a thread when something is thrown on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest
from msgspec import structs

from livedbg.adapters.exceptions import catchpoint
from livedbg.adapters.exceptions.catchpoint import Circumstances
from livedbg.model import ExceptionHit, Frame

HIT = ExceptionHit(id="exception:box/C1/1", type="E", message="", process="process:box/7", first_wall_ns=5)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The threads that were read."""
    found: list[int] = []

    def read(pid: int, tid: int) -> Callable[[Sequence[Frame]], tuple[int | None, str]] | None:
        found.append(tid)
        if tid == 404:
            raise ProcessLookupError
        number = len(found)
        return lambda frames: (3, f"step #{number}")

    monkeypatch.setattr(catchpoint, "declared", lambda part: iter([("x", read)]))
    return found


@pytest.mark.invariant("circumstances.B1")
def test_B1_a_hit_keeps_what_was_read_first(reads: list[int]) -> None:
    async def thrown() -> None:
        seen = Circumstances("box")
        seen.read(7, 8, "one", 5)
        await seen.settled()
        first = seen.with_them(HIT)
        assert (first.rank, first.operation) == (3, "step #1")
        seen.read(7, 8, "other", 6)
        await seen.settled()
        assert seen.with_them(structs.replace(HIT, count=9)).operation == "step #1"
        unread = structs.replace(HIT, id="exception:box/C1/2", first_wall_ns=4)
        assert (seen.with_them(unread).rank, seen.with_them(unread).operation) == (3, "")
        seen.read(9, 404, "gone", 7)
        await seen.settled()
        assert seen.with_them(structs.replace(unread, process="process:box/9")).rank is None

    asyncio.run(thrown())


@pytest.mark.invariant("circumstances.B2")
def test_B2_reads_are_few(reads: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catchpoint, "_MOST_A_SECOND", 20)
    monkeypatch.setattr(catchpoint.time, "monotonic", lambda: 1.5)

    async def thrown() -> None:
        seen = Circumstances("box")
        for _ in range(100):
            seen.read(7, 8, "same", 5)
        await seen.settled()
        assert len(reads) == 1
        for kind in range(1000):
            seen.read(7, 8, kind, 5)
        await seen.settled()
        assert len(reads) == 20

    asyncio.run(thrown())
