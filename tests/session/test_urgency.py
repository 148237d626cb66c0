"""What is published at once, and what with the next tick."""

from __future__ import annotations

import itertools

import pytest

from livedbg.analysis.diagnosis import Verdict, VerdictState
from livedbg.model import Edge, EdgeKind, Process, Thread, ThreadState
from livedbg.model.events import EdgesReplaced, Event, ProcessSeen, Stamper, ThreadsSeen, Tick
from livedbg.model.snapshot import Snapshot
from livedbg.session import urgency
from livedbg.session.urgency import LASTING_S, NUMBERS_S, Urgency
from livedbg.state.store import Store

STAMP = Stamper("box")()
PROCESS = "process:box/7"
RUNNING = Verdict(state=VerdictState.RUNNING, sentence="It runs.")


def process(number: int = 7, state: ThreadState = ThreadState.RUNNING) -> ProcessSeen:
    return ProcessSeen(process=Process(id=f"process:box/{number}", host="box", pid=number, state=state), **STAMP)


def thread(number: int, cpu_ns: int = 0, state: ThreadState = ThreadState.RUNNING) -> ThreadsSeen:
    seen = Thread(id=f"thread:box/7/{number}", process=PROCESS, tid=number, state=state, cpu_ns=cpu_ns)
    return ThreadsSeen(threads=(seen,), **STAMP)


def known() -> Snapshot:
    store = Store()
    store.apply_all([process(), thread(7), thread(8)])
    return store.snapshot()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(urgency.time, "monotonic", lambda: now[0])
    return now


def lasting(clock: list[float]) -> Urgency:
    """After a verdict that has lasted."""
    made = Urgency()
    made.published(RUNNING)
    clock[0] += LASTING_S
    return made


NUMBERS: tuple[Event, ...] = (Tick(**STAMP), thread(7, 5), thread(8, 0, ThreadState.WAITING), process())
EDGE = Edge(kind=EdgeKind.WAITS_FOR, source="thread:box/7/7", target="thread:box/7/8")
NEWS: tuple[Event, ...] = (thread(9), process(8), EdgesReplaced(scope="s", edges=(EDGE,), **STAMP))


@pytest.mark.parametrize("news", NEWS)
@pytest.mark.invariant("urgency.Q1")
def test_Q1_news_does_not_wait_whatever_comes_with_it(clock: list[float], news: Event) -> None:
    shown = known()
    for batches in itertools.permutations([NUMBERS, (news,), NUMBERS]):
        state = lasting(clock)
        for batch in batches:
            state.folded(batch, shown)
        assert state.pause_s() == 0.0
        state.published(RUNNING)
        assert state.pause_s() == NUMBERS_S  # it was in that update


def test_numbers_of_what_is_known_wait_for_the_tick(clock: list[float]) -> None:
    state = lasting(clock)
    state.folded(NUMBERS, known())
    assert state.pause_s() == NUMBERS_S


@pytest.mark.invariant("urgency.Q2")
def test_Q2_nothing_waits_until_a_verdict_has_lasted(clock: list[float]) -> None:
    state = Urgency()
    state.folded(NUMBERS, known())
    assert state.pause_s() == 0.0  # there is none
    state.published(RUNNING)
    clock[0] += LASTING_S - 0.1
    state.published(Verdict(state=VerdictState.RUNNING, sentence="It runs, still."))  # other words of the same
    assert state.pause_s() == 0.0
    clock[0] += 0.1
    assert state.pause_s() == NUMBERS_S
    state.published(Verdict(state=VerdictState.DEADLOCK, sentence="It hangs.", roots=("thread:box/7/7",)))
    assert state.pause_s() == 0.0
    clock[0] += LASTING_S
    assert state.pause_s() == NUMBERS_S
    state.published(Verdict(state=VerdictState.DEADLOCK, sentence="It hangs.", roots=("thread:box/7/8",)))
    assert state.pause_s() == 0.0
