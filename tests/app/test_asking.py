"""Questions before what can't be taken back."""

from __future__ import annotations

import typing
from dataclasses import replace

import pytest
from textual import events
from textual.app import App

from livedbg.app import overlays
from livedbg.app.options import LEFT_RUNNING, Started
from livedbg.app.overlays import QuestionScreen, to_ask
from livedbg.model import intents
from livedbg.model.intents import Catch, DumpDevice, Glance, Resume
from tests.app.apps import answer, make_app, ready, text_of, until, view_of
from tests.app.test_type_ahead import burst

_ASKED = (
    Glance(process="p"),
    DumpDevice(process="p"),
    Catch(process="p", pattern="x", stop=True),
    Resume(catchpoint="c"),
)
_HARMLESS = {
    "WantStacks", "SampleFaster", "Catch", "Uncatch", "WatchLaunches", "PreviewValues", "CompareValues", "Refresh",
    "OpenLog",
}  # fmt: skip


@pytest.mark.invariant("asking.K1")
def test_K1_every_intent_is_known_to_stop_threads_or_not_to() -> None:
    known = {type(one).__name__ for one in _ASKED} | _HARMLESS
    assert {kind.__name__ for kind in typing.get_args(intents.Intent)} == known
    assert all(to_ask(one, str) for one in _ASKED)
    assert to_ask(Catch(process="p", pattern="x"), str) == ""


@pytest.mark.invariant("asking.K1")
@pytest.mark.parametrize("key", ["escape", "n", "q", "enter", "S"])
async def test_K1_nothing_is_sent_without_a_yes(key: str) -> None:
    app = make_app("deadlock")
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await pilot.press("4", "S")
        await until(pilot, lambda: isinstance(app.screen, QuestionScreen))
        await pilot.press(key, "escape")
        await until(pilot, lambda: app.screen is app.main)
        assert view_of(app).sent == [] and app.is_running


@pytest.mark.invariant("asking.K1")
async def test_K1_a_catchpoint_that_stops_threads_asks_and_one_that_does_not_does_not() -> None:
    app = make_app("deadlock")
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await pilot.press("4", "c", *"int --stop", "enter")
        assert "stops each thread that throws int" in await answer(pilot)
        await until(pilot, lambda: [one.stop for one in view_of(app).sent if isinstance(one, Catch)] == [True])


@pytest.mark.invariant("asking.K2")
@pytest.mark.parametrize("typed", ["Sy", "Symyy", "Sy\r"])
async def test_K2_what_is_typed_ahead_says_no_yes(typed: str) -> None:
    app = make_app("deadlock")
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await pilot.press("4")
        burst(pilot, typed)
        await until(pilot, lambda: isinstance(app.screen, QuestionScreen) and not app._ahead)
        assert view_of(app).sent == []
        assert "stopped for about" in await answer(pilot)  # later it does
        await until(pilot, lambda: len(view_of(app).sent) == 1)


@pytest.mark.invariant("asking.K2")
async def test_K2_a_yes_on_the_heels_of_another_key_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    app = make_app("deadlock")
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await pilot.press("4", "S")
        await until(pilot, lambda: isinstance(app.screen, QuestionScreen) and app.screen._typed_s is not None)
        question = app.screen
        assert isinstance(question, QuestionScreen) and question._typed_s is not None
        monkeypatch.setattr(overlays, "PAUSE_S", 100.0)

        async def press(key: str, after_s: float) -> None:
            assert question._typed_s is not None
            event = events.Key(key, key)
            event.time = question._typed_s + after_s
            _send(app, event)
            await until(pilot, lambda: not app._ahead and app._typing is not None and app._typing.done())

        await press("a", 200.0)
        await press("y", 99.0)
        assert view_of(app).sent == []
        await press("y", 101.0)
        await until(pilot, lambda: len(view_of(app).sent) == 1)


def _send(app: App[int], event: events.Event) -> None:
    assert app._driver is not None
    app._driver.send_message(event)


@pytest.mark.parametrize("key", ["q", "ctrl+c", "ctrl+q"])
@pytest.mark.parametrize(("said", "code"), [("l", LEFT_RUNNING), ("k", 0), ("escape", None)])
async def test_who_quits_is_asked_about_a_command_that_livedbg_started(key: str, said: str, code: int | None) -> None:
    app = make_app("deadlock")
    app.options = replace(app.options, started=Started("train.py (4711)", "Its output is in /x.", lambda: True))
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await pilot.press(key)
        question = await answer(pilot, said)
        assert "train.py (4711) is still running." in question and "leave it running" in question
        assert app.is_running is (code is None) or app.return_value == code
    assert app.return_value == code


@pytest.mark.parametrize("typed", ["qk", "ql", "qqkkll"])
async def test_what_is_typed_ahead_neither_kills_nor_leaves_the_command(typed: str) -> None:
    app = make_app("deadlock")
    app.options = replace(app.options, started=Started("train.py", "", lambda: True))
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        burst(pilot, typed)
        await until(pilot, lambda: isinstance(app.screen, QuestionScreen) and not app._ahead)
        assert app.is_running and "is still running" in text_of(app)


async def test_a_command_that_has_ended_is_not_asked_about() -> None:
    app = make_app("deadlock")
    app.options = replace(app.options, started=Started("train.py", "", lambda: False))
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await pilot.press("q")
    assert app.return_value == 0
