"""The screen Ledger, where the state keeps the newest touches and exited processes only."""

from __future__ import annotations

from livedbg.model import Intrusion, Process
from livedbg.model import events as ev
from livedbg.panels.ledger import LedgerPanel
from livedbg.state.retention import EXITED_PROCESSES, TOUCH_WINDOW
from tests.app.apps import make_app, ready, text_of, until
from tests.app.fakes import stamp
from tests.app.scenarios import scenario

PROCESS = "process:box/4711"


def touch(number: int) -> ev.Touched:
    what = Intrusion(target=PROCESS, what=f"glance {number}", why="asked", paused_ns=1_000_000, stops=1)
    return ev.Touched(intrusion=what, **stamp(50))


async def test_the_totals_count_touches_that_are_no_longer_listed() -> None:
    view = scenario("deadlock")
    before = view.latest().snapshot.touches
    app = make_app(view)
    async with app.run_test(size=(200, 60)) as pilot:
        await ready(pilot)
        view.feed([touch(number) for number in range(TOUCH_WINDOW)])
        await pilot.press("9")
        panel = app.query_one(LedgerPanel)
        await until(pilot, lambda: f"glance {TOUCH_WINDOW - 1}" in text_of(app))
        await pilot.press("G")  # the oldest row that is kept
        view.feed([touch(number) for number in range(TOUCH_WINDOW, TOUCH_WINDOW + 100)])
        count = before.count + TOUCH_WINDOW + 100
        await until(pilot, lambda: f"{count:,} actions" in text_of(app))
        text = text_of(app)
        assert f"{before.stops + TOUCH_WINDOW + 100:,} stops" in text
        assert f"the oldest {count - TOUCH_WINDOW:,} are not listed" in text
        assert panel.count() == TOUCH_WINDOW
        await pilot.press("g")
        await until(pilot, lambda: f"glance {TOUCH_WINDOW + 99}" in text_of(app))
        assert panel.entity(0) == panel.entity(TOUCH_WINDOW - 1) == PROCESS


async def test_exited_processes_that_are_no_longer_listed_are_counted() -> None:
    view = scenario("deadlock")
    app = make_app(view)
    async with app.run_test(size=(200, 60)) as pilot:
        await ready(pilot)
        for pid in range(10_000, 10_001 + EXITED_PROCESSES):
            process = Process(id=f"process:box/{pid}", host="box", pid=pid, exited=True)
            view.feed([ev.ProcessSeen(process=process, **stamp(50))])
        await pilot.press("9")
        forgotten = 1 + EXITED_PROCESSES // 8
        await until(pilot, lambda: f"{forgotten} exited processes no longer listed" in text_of(app))
