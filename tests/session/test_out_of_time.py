"""A time limit that ends the first look: the state so far, of the target, and what is missing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from livedbg.adapters.logfiles import LogAdapter, feed
from livedbg.analysis.diagnosis import VerdictState
from livedbg.cli.report import time_limits
from livedbg.commands.output import TIME_LIMIT, code_of
from livedbg.model import OUT_OF_TIME, SourceHealth, SourceStatus
from livedbg.model.events import StatusSeen
from livedbg.report.build import build
from livedbg.session.adapter import Adapter, Context, Request, TargetProcess
from livedbg.session.live import LiveView
from livedbg.session.session import Session
from livedbg.session.view import NOTHING_YET, Update
from tests.analysis.world import World, two_locks
from tests.conftest import Target

CRASH = (
    'Traceback (most recent call last):\n  File "/srv/train.py", line 7, in <module>\n    run()\nRuntimeError: last\n'
)
STEP = "12:00:00 INFO step {} done, and on it goes with the next one after it\n"


class Endless(Adapter):
    """Has never looked at all."""

    name = title = "endless"
    sees = cost = ""

    async def run(self, context: Context) -> None:
        await asyncio.Event().wait()


class Blocking(Adapter):
    """Keeps the whole session from doing anything."""

    name = "blocking"
    sees = cost = ""

    def __init__(self) -> None:
        self.begun, self.release = threading.Event(), threading.Event()

    async def run(self, context: Context) -> None:
        self.begun.set()
        self.release.wait()


class Cut:
    """Reading that blocks at its second step until it is released."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.there, self.go_on = threading.Event(), threading.Event()
        self.steps = 0
        step = feed.SourceFeed.step

        def slow(one: feed.SourceFeed, stamp: Any) -> Any:
            self.steps += 1
            if self.steps > 1:
                self.there.set()
                self.go_on.wait()
            return step(one, stamp)

        monkeypatch.setattr(feed, "SLICE", 1000)
        monkeypatch.setattr(feed, "_SKIM_SLICE", 1000)
        monkeypatch.setattr(feed.SourceFeed, "step", slow)


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cut]:
    made = Cut(monkeypatch)
    yield made
    made.go_on.set()


class Newest:
    """The newest update."""

    def __init__(self) -> None:
        self._update, self._came = NOTHING_YET, asyncio.Event()

    def take(self, update: Update) -> None:
        self._update = update
        self._came.set()

    def __call__(self) -> Update:
        return self._update

    async def with_records(self, count: int) -> None:
        """Wait until so many records of logs were taken in."""
        while self._update.snapshot.log_count < count:
            self._came.clear()
            await self._came.wait()


@asynccontextmanager
async def session(*adapters: Adapter, **request: Any) -> AsyncIterator[tuple[Session, Newest]]:
    """A session that runs, and its newest update."""
    newest = Newest()
    made = Session(Request(host="box", once=True, **request), adapters, newest.take)
    running = asyncio.create_task(made.run())
    try:
        await asyncio.sleep(0)
        yield made, newest
    finally:
        made.stop()
        await asyncio.wait_for(running, 100)


def limits(update: Update) -> str:
    """What the JSON says could not be seen."""
    return " ".join(limit.sentence for limit in build(update).limits)


@pytest.mark.invariant("session.N8")
async def test_N7_a_log_is_never_the_verdict_of_a_process_that_lives(
    tmp_path: Path, spawn: Callable[..., Target]
) -> None:
    target = spawn(["/bin/sh", "-c", "echo READY; sleep 1000"])
    log = tmp_path / "worker.log"
    log.write_text(STEP.format(1))
    processes = (TargetProcess(target.pid),)
    async with session(LogAdapter(), Endless(), processes=processes, logs=(str(log),)) as (made, latest):
        await latest.with_records(1)
        made.out_of_time()
        verdict = latest().diagnosis.verdict
    assert verdict.state is VerdictState.UNKNOWN
    assert verdict.sentence.startswith(f"Process {target.pid} (/bin/sh -c echo")
    assert "1 thread" in verdict.sentence and "endless had not finished" in verdict.sentence
    assert "log" not in verdict.sentence and "No error" not in verdict.sentence
    assert code_of(latest(), in_time=False) == TIME_LIMIT
    assert "The endless source had not finished" in limits(latest())
    assert time_limits(latest(), in_time=False) == ()


@pytest.mark.invariant("out_of_time.O1")
def test_O1_what_was_seen_by_then_decides_with_its_exit_code() -> None:
    def with_limit(world: World) -> Update:
        status = SourceStatus(source="native", target="", health=SourceHealth.DEGRADED, code=OUT_OF_TIME, sentence="x.")
        world.store.apply_all([StatusSeen(status=status, **world.stamp())])
        return Update(world.snapshot(), world.diagnosis())

    before = two_locks().diagnosis().verdict
    after = with_limit(two_locks())
    verdict = after.diagnosis.verdict
    assert verdict.state is before.state is VerdictState.DEADLOCK
    assert verdict.sentence == f"{before.sentence} Out of time: native had not finished."
    assert code_of(after, in_time=False) == 10


@pytest.mark.invariant("logfiles_feed.G4")
@pytest.mark.parametrize("lines", [800, 100_000])
async def test_G4_the_end_of_a_log_is_known_whatever_its_size_and_what_is_missing_is_said(
    tmp_path: Path, cut: Cut, lines: int
) -> None:
    log = tmp_path / "raw.log"
    log.write_text("".join(map(STEP.format, range(lines))) + CRASH)
    async with session(LogAdapter(), logs=(str(log),)) as (made, latest):
        await asyncio.to_thread(cut.there.wait)
        made.out_of_time()
        update = latest()
        cut.go_on.set()
    assert update.diagnosis.verdict.state is VerdictState.CRASHED
    assert "RuntimeError: last" in update.diagnosis.verdict.sentence
    assert "of raw.log was not read" in update.diagnosis.verdict.sentence
    assert "raw.log was not read to its end in time" in limits(update)
    assert code_of(update, in_time=False) == 11
    assert latest().snapshot.log_count == update.snapshot.log_count  # what came out later does not count


@pytest.mark.invariant("last_lines.E4")
async def test_E4_without_an_error_in_what_was_read_nothing_is_said_of_the_rest(tmp_path: Path, cut: Cut) -> None:
    log = tmp_path / "raw.log"
    log.write_text("".join(map(STEP.format, range(800))) + "12:00:09 INFO the very last\n")
    async with session(LogAdapter(), logs=(str(log),)) as (made, latest):
        await asyncio.to_thread(cut.there.wait)
        ends = [f.sentence for f in latest().diagnosis.findings.values() if f.rule == "last-lines"]
        made.out_of_time()
        update = latest()
        cut.go_on.set()
    assert ends == []
    assert update.diagnosis.verdict.state is VerdictState.UNKNOWN
    sentence = update.diagnosis.verdict.sentence
    assert sentence.startswith("The outcome is unknown: ") and "of raw.log was not read" in sentence
    (end,) = [f.sentence for f in update.diagnosis.findings.values() if f.rule == "last-lines"]
    assert end == "raw.log ends with: 12:00:09 INFO the very last."
    assert code_of(update, in_time=False) == TIME_LIMIT


async def test_a_log_that_was_read_is_not_missing(tmp_path: Path) -> None:
    """logfiles_feed: `pending` is 0 as soon as there is nothing more."""
    log = tmp_path / "raw.log"
    log.write_text("".join(map(STEP.format, range(800))))
    async with session(LogAdapter(), Endless(), logs=(str(log),)) as (made, latest):
        await latest.with_records(800)
        made.out_of_time()
        (source,) = latest().snapshot.log_sources.values()
    assert source.pending == 0
    assert "raw.log" not in limits(latest())


def test_where_the_session_does_not_answer_the_target_is_unknown(spawn: Callable[..., Target]) -> None:
    """session.N8: a machine that gives livedbg no time at all."""
    target = spawn(["/bin/sh", "-c", "echo READY; sleep 1000"])
    adapter = Blocking()
    view = LiveView(Request(host="box", processes=(TargetProcess(target.pid),), once=True), adapters=[adapter])
    view.start()
    try:
        adapter.begun.wait()
        update = view.out_of_time(0.01)
    finally:
        adapter.release.set()
        view.stop()
    assert update.diagnosis.verdict.state is VerdictState.UNKNOWN
    assert update.diagnosis.verdict.sentence.startswith("Out of time: nothing is known of /bin/sh")
    assert [limit.code for limit in time_limits(update, in_time=False)] == [OUT_OF_TIME]
    assert code_of(update, in_time=False) == TIME_LIMIT
