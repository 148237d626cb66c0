"""The session and its live view, with small adapters of the test's own."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Sequence

import pytest

from livedbg.analysis import VerdictState
from livedbg.analysis.diagnosis import Diagnosis
from livedbg.model import Process, SourceHealth
from livedbg.model.errors import ToolMissing
from livedbg.model.events import CounterSeen, Event, ProcessSeen
from livedbg.model.intents import Intent, OpenLog, Refresh
from livedbg.model.snapshot import CounterKey, Snapshot
from livedbg.session.adapter import Adapter, Context, Request, TargetProcess
from livedbg.session.live import LiveView
from livedbg.session.view import Update
from tests.waiting import WALL_S, until

REQUEST = Request(host="box")


class Counting(Adapter):
    """Emits a counter, settles, goes on until it is cancelled."""

    name = "counting"
    sees = "numbers"
    cost = "none"
    handles = (OpenLog,)

    def __init__(self, first: int = 1000) -> None:
        self.first = first
        self.cancelled = False
        self.opened: list[str] = []
        self.wakes = 0

    async def run(self, context: Context) -> None:
        for value in range(self.first):
            context.emit(CounterSeen(entity="x", name="n", value=value, **context.stamp()))
            await context.drain()
        context.settled()
        try:
            while True:
                await context.sleep(3600)
                self.wakes += 1
        finally:
            self.cancelled = True

    async def handle(self, intent: Intent, context: Context) -> None:
        assert isinstance(intent, OpenLog)
        if intent.path == "missing":
            raise ToolMissing("no opener", remedy="install one")
        if intent.path == "hostile":
            raise ToolMissing("no \x1b]0;title\x07opener")
        if intent.path == "broken":
            raise ValueError("\x1b]0;title\x07oops")
        self.opened.append(intent.path)


class Broken(Adapter):
    """Fails at once."""

    name = "broken"
    sees = "nothing"
    cost = "none"

    async def run(self, context: Context) -> None:
        await asyncio.sleep(0)
        raise ValueError("\x1b]0;title\x07oops")


class FromThread(Adapter):
    """Emits from a worker thread, then ends."""

    name = "thread"
    sees = "numbers"
    cost = "none"

    async def run(self, context: Context) -> None:
        def work() -> None:
            for value in range(100):
                context.emit_threadsafe(CounterSeen(entity="t", name="n", value=value, **context.stamp()))

        await asyncio.to_thread(work)


class Last(Adapter):
    """Reads what the others have said once they have settled."""

    name = "last"
    sees = "what others say"
    cost = "none"

    def __init__(self) -> None:
        self.read: float | None = None

    async def run(self, context: Context) -> None:
        await context.others_settled()
        self.read = context.snapshot().counters[CounterKey("x", "n")].value
        context.settled()


def test_who_waits_for_the_others_sees_what_they_said_and_two_do_not_wait_for_each_other() -> None:
    last = [Last(), Last()]
    view = LiveView(Request(host="box", once=True), adapters=[last[0], Counting(20_000), last[1]])
    view.start()
    assert view.wait_settled(WALL_S)
    view.stop()
    assert [one.read for one in last] == [19_999, 19_999]


@pytest.mark.invariant("session.N1")
def test_N1_the_sink_sees_every_event_once_and_in_order() -> None:
    seen: list[Event] = []

    def sink(events: Sequence[Event]) -> None:
        seen.extend(events)

    view = LiveView(REQUEST, sink=sink, adapters=[Counting(20_000)])
    view.start()
    assert view.wait_settled(WALL_S)
    view.stop()
    values = [event.value for event in seen if isinstance(event, CounterSeen)]
    assert values == list(range(20_000))
    assert view.latest().snapshot.counters[CounterKey("x", "n")].value == 19_999


@pytest.mark.invariant("session.N2", "adapter.A4")
def test_N2_a_failing_adapter_becomes_a_status_and_the_others_go_on() -> None:
    view = LiveView(REQUEST, adapters=[Broken(), Counting()])
    view.start()
    assert view.wait_settled(WALL_S)
    snapshot = view.latest().snapshot
    view.stop()
    (status,) = snapshot.statuses.values()
    assert status.health is SourceHealth.FAILED
    assert status.source == "broken"
    assert "oops" in status.sentence and status.remedy
    assert "\x1b" not in status.sentence
    assert snapshot.counters[CounterKey("x", "n")].value == 999


@pytest.mark.invariant("session.N3", "view.V1")
def test_N3_an_update_holds_the_diagnosis_of_its_own_snapshot() -> None:
    updates: list[Update] = []
    view = LiveView(REQUEST, adapters=[Counting()])
    view.subscribe(updates.append)
    view.start()
    assert view.wait_settled(WALL_S)
    view.stop()
    assert updates[-1].ended
    assert all(update.diagnosis.revision == update.snapshot.revision for update in updates)


@pytest.mark.invariant("session.N4")
def test_N4_stop_lets_go_of_everything() -> None:
    adapter = Counting()
    threads = set(threading.enumerate())
    view = LiveView(REQUEST, adapters=[adapter])
    view.start()
    assert view.wait_settled(WALL_S)
    view.stop()
    view.stop()
    assert adapter.cancelled
    assert set(threading.enumerate()) <= threads
    assert view.wait_ended(0)


@pytest.mark.invariant("session.N5")
def test_N5_time_goes_on_while_nobody_speaks() -> None:
    view = LiveView(REQUEST, adapters=[Counting(1)])
    view.start()
    assert view.wait_settled(WALL_S)
    before = view.latest().snapshot.now().mono_ns
    until(lambda: view.latest().snapshot.now().mono_ns > before + 1_000_000_000)
    view.stop()


@pytest.mark.invariant("session.N11")
def test_N11_a_session_ends_where_its_state_cannot_be_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unjudged:
        def diagnose(self, snapshot: Snapshot) -> Diagnosis:
            raise ValueError(f"no \x1b[1msuch thing in {snapshot.revision}")

    monkeypatch.setattr("livedbg.session.session.diagnostician", Unjudged)
    adapter = Counting()
    view = LiveView(REQUEST, adapters=[adapter])
    view.start()
    assert view.wait_ended(WALL_S)
    last = view.latest()
    assert last.ended and last.diagnosis.verdict.state is VerdictState.UNKNOWN and adapter.cancelled
    assert "ValueError: no such thing" in last.diagnosis.verdict.sentence


class Moving(Adapter):
    """Says what moves all the time, and after a while news."""

    name = "moving"
    sees = "numbers"
    cost = "none"

    def __init__(self) -> None:
        self.published: list[float] = []

    async def run(self, context: Context) -> None:
        def say(value: int) -> None:
            context.emit(CounterSeen(entity="x", name="n", value=value, **context.stamp()))

        async def shown(value: int) -> None:
            seen = None
            while seen is None or seen.value != value:
                await asyncio.sleep(0.001)
                seen = context.snapshot().counters.get(CounterKey("x", "n"))

        say(0)
        context.settled()
        await shown(0)
        say(1)
        await shown(1)
        for value in range(2, 22):
            say(value)
            await asyncio.sleep(0.02)
        self.published.append(context.snapshot().counters[CounterKey("x", "n")].value)
        context.emit(ProcessSeen(process=Process(id="process:box/7", host="box", pid=7), **context.stamp()))
        await shown(21)
        self.published.append(context.snapshot().counters[CounterKey("x", "n")].value)


@pytest.mark.invariant("session.N10")
def test_N10_what_moves_all_the_time_waits_for_the_next_update_and_news_brings_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("livedbg.session.session._SHARE", 1e-9)
    monkeypatch.setattr("livedbg.session.session._BURST_S", 0.0)
    monkeypatch.setattr("livedbg.session.session._PUBLISH_CALM_S", 3600.0)
    moving = Moving()
    view = LiveView(REQUEST, adapters=[moving, Counting(0)])
    view.start()
    until(lambda: len(moving.published) == 2)
    view.stop()
    assert moving.published == [1, 21]


def test_a_session_ends_when_all_its_adapters_have() -> None:
    view = LiveView(REQUEST, adapters=[FromThread()])
    view.start()
    assert view.wait_ended(60)
    assert view.latest().ended
    assert view.latest().snapshot.counters[CounterKey("t", "n")].value == 99


def test_a_session_without_adapters_ends() -> None:
    view = LiveView(REQUEST, adapters=[])
    view.start()
    assert view.wait_ended(60)


@pytest.mark.parametrize(
    ("path", "notice"),
    [
        ("missing", "no opener\ninstall one"),
        ("hostile", "no opener"),
        ("broken", "The counting source failed: ValueError: oops"),
        ("log", ""),
    ],
)
def test_intents_reach_their_adapter_and_errors_become_notices(path: str, notice: str) -> None:
    adapter = Counting()
    notices: list[str] = []
    view = LiveView(REQUEST, adapters=[adapter])
    view.subscribe(lambda update: notices.append(update.notice) if update.notice else None)
    view.start()
    assert view.wait_settled(WALL_S)
    view.send(OpenLog(path=path))
    until(lambda: adapter.opened == ["log"] if not notice else notices == [notice])
    view.stop()


def test_refresh_wakes_sleepers() -> None:
    adapter = Counting()
    view = LiveView(REQUEST, adapters=[adapter])
    view.start()
    assert view.wait_settled(WALL_S)
    for wakes in (1, 2, 3):
        view.send(Refresh())
        until(lambda least=wakes: adapter.wakes >= least)
    view.stop()
    assert adapter.wakes == 3, "one refresh wakes once"


class Ends(Adapter):
    """Says that some processes have ended."""

    name = "ends"
    sees = "ends"
    cost = "none"

    def __init__(self, *pids: int) -> None:
        self.pids = pids

    async def run(self, context: Context) -> None:
        for pid in self.pids:
            process = Process(id=f"process:box/{pid}", host="box", pid=pid, target=True, exited=True)
            context.emit(ProcessSeen(process=process, **context.stamp()))


@pytest.mark.invariant("session.N6")
@pytest.mark.parametrize(("ended", "wakes"), [((), 0), ((1,), 0), ((1, os.getpid()), 1)])
def test_N6_the_end_of_all_targets_wakes_sleepers_once(ended: tuple[int, ...], wakes: int) -> None:
    sleeper = Counting(0)
    request = Request(host="box", processes=(TargetProcess(1), TargetProcess(os.getpid())))
    view = LiveView(request, adapters=[sleeper, Ends(*ended)])
    view.start()
    until(lambda: len(view.latest().snapshot.processes) == len(ended) and sleeper.wakes >= wakes)
    later = view.latest().snapshot.revision + 2
    until(lambda: view.latest().snapshot.revision >= later)
    view.stop()
    assert sleeper.wakes == wakes


@pytest.mark.invariant("view.V2")
def test_V2_callbacks_are_called_one_after_the_other_in_the_sessions_thread() -> None:
    threads: set[int] = set()
    notices: list[str] = []
    inside = overlaps = 0

    def note(update: Update) -> None:
        nonlocal inside, overlaps
        inside += 1
        overlaps += inside > 1
        threads.add(threading.get_ident())
        notices.append(update.notice)
        time.sleep(0.01)
        inside -= 1

    view = LiveView(REQUEST, adapters=[Counting()])
    ends = [view.subscribe(note) for _ in range(2)]
    view.start()
    assert view.wait_settled(WALL_S)
    for _ in range(5):
        view.send(OpenLog(path="missing"))  # its error is an update's notice
    until(lambda: any(notices))
    view.stop()
    for end in ends:
        end()
    assert len(threads) == 1 and threading.get_ident() not in threads
    assert overlaps == 0
