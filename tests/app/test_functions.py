"""The functions that take the CPU time, in place of the threads."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from textual.pilot import Pilot

from livedbg.app.views import Threads
from livedbg.model import Frame
from livedbg.model import events as ev
from livedbg.model.intents import SampleFaster
from livedbg.model.launches import ProfileSlice, SampledStack
from livedbg.panels.base import Opened
from livedbg.panels.cells import wrap
from livedbg.panels.measured import FunctionsPanel
from tests.app.apps import make_app, ready, text_of, until
from tests.app.fakes import T0_MONO, S, stamp
from tests.app.scenarios import scenario

FIRST, SECOND = "thread:box/4711/4712", "thread:box/4711/4713"


def samples(thread: str, at_s: float, function: str, count: int, unknown: int = 0) -> ev.SamplesSeen:
    at_ns = T0_MONO + round(at_s * S)
    frames = (Frame(function, f"/src/{function}.cpp", 12, "a.out"), Frame("main", "/src/main.cpp", 3, "a.out"))
    stacks = (SampledStack(frames, count * S, count),)
    slices = (ProfileSlice(thread=thread, start_mono_ns=at_ns, end_mono_ns=at_ns, stacks=stacks, unknown=unknown),)
    return ev.SamplesSeen(slices=slices, **stamp(at_s))


@pytest.mark.parametrize("size", [(80, 24), (200, 60)], ids=["80x24", "200x60"])
async def test_a_key_shows_the_functions_and_the_threads_again(size: tuple[int, int]) -> None:
    view = scenario("deadlock")
    app = make_app(view)
    async with app.run_test(size=size) as pilot:
        await ready(pilot)
        await pilot.press("4", "f")
        await until(pilot, lambda: "no thread was seen running" in text_of(app))
        view.feed([samples(FIRST, 50, "past", 9), samples(FIRST, 65, "hot", 3), samples(SECOND, 66, "cold", 1)])
        await until(pilot, lambda: "cold.cpp:12" in text_of(app))
        lines = [" ".join(line.replace("│", " ").split()) for line in text_of(app).splitlines()]
        assert any("Functions 4 samples of 2 threads in 10 s" in line for line in lines)
        start = next(number for number, line in enumerate(lines) if line.startswith("OWN"))
        assert [line.partition(".cpp")[0] for line in lines[start + 1 : start + 4]] == [
            "75.0% 75.0% hot hot",
            "25.0% 25.0% cold cold",
            "0.0% 100.0% main main",
        ]
        assert "past" not in text_of(app)
        await pilot.press("f")
        await until(pilot, lambda: "WAITS FOR" in text_of(app) and "OWN" not in text_of(app))


async def test_the_shares_follow_the_samples_and_a_filter_and_an_order_are_kept() -> None:
    view = scenario("deadlock")
    app = make_app(view)
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await pilot.press("4", "f")
        panel = app.query_one(FunctionsPanel)
        view.feed([samples(FIRST, 60, "early", 2), samples(SECOND, 60, "other", 1)])
        await until(pilot, lambda: "66.7%" in text_of(app))
        await pilot.press("s", "slash", *"r", "enter")
        await until(pilot, lambda: "2 of 3 match" in str(panel.border_subtitle))
        assert "by total" in str(panel.border_subtitle)
        view.feed([samples(FIRST, 75, "later", 1, unknown=1)])
        await until(pilot, lambda: "1 without a stack" in str(panel.border_subtitle))
        assert "early" not in text_of(app) and "50.0%" in text_of(app)
        await pilot.press("escape")
        await until(pilot, lambda: "main.cpp:3" in text_of(app))
        await pilot.press("escape")
        await until(pilot, lambda: "WAITS FOR" in text_of(app))


async def test_samples_are_taken_often_while_somebody_looks() -> None:
    view = scenario("deadlock")
    app = make_app(view)
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        await pilot.press("4")
        app._beat()
        assert not any(isinstance(intent, SampleFaster) for intent in view.sent)
        await pilot.press("f")
        app._beat()
        assert view.sent[-1] == SampleFaster()
        view.feed([samples(FIRST, 60, "hot", 3)])
        await pilot.press("f")
        app.change(selection=FIRST)
        app.post_message(Opened(FIRST))
        await until(pilot, lambda: "last minute" in text_of(app))
        app._beat()
        assert view.sent[-1] == SampleFaster(of=FIRST)


async def test_from_the_overview_it_leads_there_and_who_comes_back_sees_threads() -> None:
    app = make_app("deadlock")
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(pilot)
        app.query_one("#overview ThreadsPanel").focus()
        await pilot.press("f")
        await until(pilot, lambda: app.current.id == "threads" and isinstance(app.current, Threads))
        await until(pilot, lambda: "no thread was seen running" in text_of(app))
        await pilot.press("1", "4")
        await until(pilot, lambda: "WAITS FOR" in text_of(app))


def test_a_line_that_is_wrapped_keeps_its_first_blanks() -> None:
    assert wrap("  0.0% 100.0%  main", 40) == ["  0.0% 100.0%  main"]
    assert wrap("   a bc", 5) == ["  a", "bc"]
    assert wrap("", 5) == [""]


@pytest.mark.parametrize("size", [(80, 24), (200, 60)], ids=["80x24", "200x60"])
def test_picture(size: tuple[int, int], snap_compare: Callable[..., bool]) -> None:
    view = scenario("deadlock")

    async def feed_and_press(pilot: Pilot[int]) -> None:
        await ready(pilot)
        await pilot.press("4", "f")
        view.feed([samples(FIRST, 65, "hot", 3), samples(SECOND, 66, "cold", 1, unknown=1)])
        await until(pilot, lambda: "cold.cpp:12" in text_of(app))

    app = make_app(view)
    assert snap_compare(app, terminal_size=size, run_before=feed_and_press)
