"""The code of the culprit on the Overview: whose it is, its source and its calls, why there is none."""

from __future__ import annotations

import pytest

from livedbg.model import events as ev
from livedbg.panels.code import CodePanel
from livedbg.panels.culprit import culprit
from livedbg.panels.draw_context import DrawContext
from tests.app.apps import make_app, ready, text_of, until, view_of
from tests.app.fakes import stamp
from tests.app.scenarios import scenario
from tests.app.scenes.parts import stack, tid
from tests.app.test_thread_rows import ROOT, job


@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
async def test_source_of_the_culprit_with_its_line_marked(size: tuple[int, int]) -> None:
    app = make_app("deadlock")
    async with app.run_test(size=size) as pilot:
        await ready(pilot)
        await until(pilot, lambda: "std::lock_guard held(mutex_);" in text_of(app))
        text = text_of(app)
        (marked,) = [line for line in text.splitlines() if "▶" in line]
        assert "31 " in marked and "lock_guard" in marked
        assert "thread 4712 transfer-a at bank.cpp:31" in text
        assert ("transfer  bank.cpp:48" in text) == (size == (200, 60)), "calls where there is room"
        panel = app.query_one(CodePanel)
        panel.focus()
        await pilot.press("enter")
        await until(pilot, lambda: "thread:box/4711/4712" in text_of(app))


async def test_the_reason_where_there_is_no_source() -> None:
    app = make_app("deadlock")
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        view_of(app).feed([ev.StacksSeen(**stamp(44), stacks=(stack(4712, ("run", "bank.cpp", 31)),))])
        await until(pilot, lambda: "No source: bank.cpp was not read" in text_of(app))
        assert "0 run  bank.cpp:31" in text_of(app)


async def test_no_code_where_nothing_is_wrong() -> None:
    app = make_app("gil")
    async with app.run_test(size=(120, 50)) as pilot:
        await ready(pilot)
        running = scenario("idle")
        running.start()
        assert culprit(DrawContext(update=running.latest())) is None
        assert app.query_one(CodePanel).has_class("hidden") == (culprit(app.context) is None)


def test_the_culprit_is_the_first_root_with_a_stack() -> None:
    view = job()
    view.start()
    assert culprit(DrawContext(update=view.latest())) == ROOT
    view = scenario("deadlock")
    view.start()
    assert culprit(DrawContext(update=view.latest())) == tid(4712)
