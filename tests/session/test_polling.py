"""The loop of adapters that look again and again: how often they look, and when they are done."""

from __future__ import annotations

import asyncio
import itertools
import os
from types import SimpleNamespace
from typing import Any

import pytest

from livedbg.model.snapshot import Snapshot
from livedbg.session import polling
from livedbg.session.adapter import Request, TargetProcess, until
from livedbg.session.polling import Polled, PolledAdapter


class Looks(Polled):
    """Counts its looks; what is watched ends while it rests for the `ends`th time."""

    def __init__(self, ends: int = 3, most: int = 99) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.ends, self.most, self.naps, self.needs = ends, most, 0, 0
        self.at_once = 0

    async def begin(self, context: Any) -> bool:
        return self.most > 0

    async def look(self, context: Any) -> float | None:
        self.at_once += 1
        await asyncio.sleep(0)
        assert self.at_once == 1
        self.at_once -= 1
        self.seen.append("look")
        return 0.0 if self.seen.count("look") < self.most else None

    async def again(self, context: Any) -> bool:
        self.needs -= 1
        return self.needs >= 0

    async def rest(self, context: Any, pause_s: float) -> None:
        self.naps += 1
        self.seen.append("rest")

    def looked(self, context: Any) -> None:
        self.seen.append("settled")

    def over(self, context: Any) -> bool:
        return self.naps >= self.ends

    def context(self, *, once: bool = False) -> Any:
        return SimpleNamespace(request=SimpleNamespace(once=once))


@pytest.mark.invariant("polling.O2")
async def test_O2_the_last_look_begins_after_the_end() -> None:
    looks = Looks(ends=2)
    await looks.run(looks.context())
    assert looks.seen == ["look", "settled", "rest", "look", "rest", "look"]


@pytest.mark.invariant("polling.O2")
async def test_O2_what_ends_while_it_is_looked_at_is_looked_at_again() -> None:
    class Ends(Looks):
        def over(self, context: Any) -> bool:
            return "look" in self.seen

    looks = Ends()
    await looks.run(looks.context())
    assert looks.seen == ["look", "settled", "rest", "look"]


@pytest.mark.parametrize(("needs", "expected"), [(0, 1), (2, 3)])
async def test_a_session_that_samples_once_looks_as_often_as_it_takes(needs: int, expected: int) -> None:
    looks = Looks()
    looks.needs = needs
    await looks.run(looks.context(once=True))
    assert looks.seen == ["look"] * expected + ["settled"]


@pytest.mark.parametrize(("most", "expected"), [(0, []), (1, ["look"]), (2, ["look", "settled", "rest", "look"])])
async def test_where_there_is_nothing_more_to_see_the_loop_ends_settled(most: int, expected: list[str]) -> None:
    looks = Looks(most=most)
    await looks.run(looks.context())
    assert [one for one in looks.seen if one != "settled"] == [one for one in expected if one != "settled"]
    assert looks.seen.count("settled") == 1


@pytest.mark.invariant("polling.O1")
async def test_O1_looks_are_one_after_the_other_and_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    class Apart(Looks):
        apart_s = 0.5

    now, ended, began = itertools.count(0.0, 0.1), list[float](), list[float]()
    clock = {"now": 0.0}
    real = asyncio.sleep

    async def sleep(seconds: float) -> None:
        clock["now"] += seconds
        await real(0)

    looks = Apart()
    plain = looks.look

    async def look(context: Any) -> float | None:
        began.append(clock["now"])
        clock["now"] += next(now)
        found = await plain(context)
        ended.append(clock["now"])
        return found

    monkeypatch.setattr(looks, "look", look)
    monkeypatch.setattr(polling.time, "monotonic", lambda: clock["now"])
    monkeypatch.setattr(polling.asyncio, "sleep", sleep)
    context = looks.context()
    await asyncio.gather(looks.run(context), *(looks.turn(context) for _ in range(3)))
    assert len(began) == 7
    assert all(later - before >= 0.5 - 1e-9 for before, later in zip(ended, began[1:], strict=False))


class Standing(PolledAdapter):
    """An adapter as it is without a method of its own but `look`."""

    name = "standing"
    sees = cost = "nothing"

    async def look(self, context: Any) -> float | None:
        context.said.append("look")
        return None


class Napping:
    """A context whose state never has a process; the named one lives until the `dies`th nap."""

    def __init__(self, *pids: int, dies: int = 1_000_000) -> None:
        self.request = Request(host="box", processes=tuple(map(TargetProcess, pids)))
        self.naps, self.dies, self.said = 0, dies, list[str]()

    def snapshot(self) -> Snapshot:
        return Snapshot()

    async def sleep(self, seconds: float) -> None:
        self.naps += 1
        if self.naps == self.dies:
            self.request = Request(host="box", processes=(TargetProcess(-1),))  # there is no such process

    def settled(self) -> None:
        self.said.append(f"settled after {self.naps > 0:d}")


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ({}, ["look", "settled after 1"]),
        ({"of_logs": True}, ["look", "settled after 0"]),
        ({"awaited": False}, ["settled after 0", "look", "settled after 0"]),
    ],
)
async def test_who_waits_for_processes_and_who_for_the_adapter(declared: dict[str, bool], expected: list[str]) -> None:
    context: Any = Napping(os.getpid(), dies=3)
    await type("Declared", (Standing,), declared)().run(context)
    assert context.said == expected


@pytest.mark.parametrize(("dies", "naps"), [(7, 7), (1_000_000, 50)])
async def test_the_state_is_waited_for_a_while_and_while_a_target_lives(dies: int, naps: int) -> None:
    context: Any = Napping(os.getpid(), dies=dies)
    await until(context, lambda snapshot: snapshot.threads, 1.0)
    assert context.naps == naps
    before = context.naps
    await until(context, lambda _: True)
    assert context.naps == before
