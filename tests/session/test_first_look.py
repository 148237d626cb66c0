"""Before everything was looked at once, nothing is said but what is being looked at."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ClassVar

import pytest

from livedbg.analysis.diagnosis import VerdictState
from livedbg.analysis.out_of_time import looking
from livedbg.model import Process, SourceHealth, SourceStatus, Thread, ThreadState
from livedbg.model.events import ProcessSeen, StatusSeen, ThreadsSeen
from livedbg.model.snapshot import EMPTY
from livedbg.session.adapter import Adapter, Context, Request, TargetProcess
from livedbg.session.session import Session
from livedbg.session.view import Update

PROCESS = "process:box/1"


def _thread(number: int) -> Thread:
    return Thread(id=f"thread:box/1/{number}", process=PROCESS, tid=number, name="t", state=ThreadState.WAITING)


class _Slow(Adapter):
    """Sees two threads of a process at once, and has looked at everything when it is told so."""

    name: ClassVar[str] = "slow"
    title: ClassVar[str] = "slow stacks"
    sees: ClassVar[str] = "two threads"
    cost: ClassVar[str] = "none"

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def run(self, context: Context) -> None:
        process = Process(id=PROCESS, host="box", pid=1, named=True, state=ThreadState.WAITING)
        context.emit(
            ProcessSeen(process=process, **context.stamp()),
            ThreadsSeen(threads=(_thread(1), _thread(2)), **context.stamp()),
        )
        await self.go.wait()
        status = SourceStatus(source=self.name, target=PROCESS, health=SourceHealth.OK)
        context.emit(StatusSeen(status=status, **context.stamp()))
        context.settled()
        await asyncio.sleep(3600)


class _Updates(list[Update]):
    """The updates of a session, and a wait for one of a kind."""

    def __init__(self) -> None:
        super().__init__()
        self._more = asyncio.Event()

    def take(self, update: Update) -> None:
        self.append(update)
        self._more.set()

    async def first(self, when: Callable[[Update], bool]) -> Update:
        while (found := next(filter(when, self), None)) is None:
            self._more.clear()
            await asyncio.wait_for(self._more.wait(), 100)
        return found


@pytest.mark.invariant("session.N9")
@pytest.mark.invariant("out_of_time.E1")
async def test_N7_E1_before_the_first_full_look_the_verdict_says_what_is_looked_at() -> None:
    adapter, updates = _Slow(), _Updates()
    session = Session(Request(host="box", processes=(TargetProcess(1),)), (adapter,), updates.take)
    running = asyncio.create_task(session.run())
    early = await updates.first(lambda update: len(update.snapshot.threads) == 2)
    assert early.diagnosis.is_looking and early.diagnosis.verdict.state is VerdictState.UNKNOWN
    assert early.diagnosis.verdict.sentence == "Looking: 0 of 2 threads. Still to come: slow stacks."
    assert not early.diagnosis.findings and not early.diagnosis.graph.roots
    assert early.part is not None and early.so_far().diagnosis is early.part  # for a command that is out of time
    adapter.go.set()
    await asyncio.wait_for(session.settled.wait(), 60)
    late = updates[-1]  # the update of what made it settled is out when it is
    assert not late.diagnosis.is_looking and late.part is None and late.so_far() is late
    assert not late.diagnosis.verdict.sentence.startswith("Looking")
    session.stop()
    await running


@pytest.mark.invariant("session.N9")
async def test_N7_a_session_that_is_stopped_before_it_has_looked_says_no_more_than_before() -> None:
    adapter, updates = _Slow(), _Updates()
    session = Session(Request(host="box", processes=(TargetProcess(1),)), (adapter,), updates.take)
    running = asyncio.create_task(session.run())
    await updates.first(lambda update: bool(update.snapshot.threads))
    session.stop()
    await running
    assert updates[-1].ended and updates[-1].diagnosis.is_looking


@pytest.mark.invariant("out_of_time.E1")
def test_E1_of_nothing_and_of_many_sources() -> None:
    said = looking(EMPTY, [f"s{n}" for n in range(6)], stacks=True).verdict.sentence
    assert said == "Looking: nothing was read yet. Still to come: s0, s1, s2, s3 and 2 more."
