"""Keys that come faster than the screen: what a prompt opens for is the prompt's, and no key of it is a command."""

from __future__ import annotations

import pytest
from textual import events
from textual.command import CommandPalette
from textual.pilot import Pilot

from livedbg.app.overlays import Prompt, SheetScreen
from livedbg.model.intents import Catch
from livedbg.panels.logs import LogsPanel
from livedbg.panels.threads import ThreadsPanel
from tests.app.apps import make_app, ready, until, view_of
from tests.app.terminal import PROGRAM, Terminal

_NAMED = {"/": "slash", ":": "colon", "\r": "enter", " ": "space", "?": "question_mark", "\x1b": "escape"}


def burst(pilot: Pilot[int], typed: str, *then: events.Event) -> None:
    """Everything arrives before the app has done anything with the first key, as from one read of the terminal."""
    driver = pilot.app._driver
    assert driver is not None
    for sign in typed:
        driver.send_message(events.Key(_NAMED.get(sign, sign), sign if sign.isprintable() else None))
    for event in then:
        driver.send_message(event)


async def on_threads(pilot: Pilot[int]) -> ThreadsPanel:
    app = await ready(pilot)
    await pilot.press("4")
    await until(pilot, lambda: app.focused_panel is app.query_one("#threads ThreadsPanel"))
    return app.query_one("#threads ThreadsPanel", ThreadsPanel)


@pytest.mark.invariant("basics.H1")
async def test_H1_a_filter_that_is_pasted_as_keys_is_text_and_stops_nothing() -> None:
    app = make_app("deadlock")
    async with app.run_test(size=(100, 30)) as pilot:
        panel = await on_threads(pilot)
        before = len(panel.rows.order)
        burst(pilot, "/Sched")
        await until(pilot, lambda: app.main.query_one(Prompt).value == "Sched")
        await until(pilot, lambda: panel.needle == "sched")
        assert view_of(app).sent == [] and app.screen is app.main
        assert len(panel.rows.order) < before


@pytest.mark.invariant("basics.H1")
@pytest.mark.parametrize(("typed", "needle"), [("/teller\r", "teller"), ("/teller\x1b", "")])
async def test_H1_the_end_of_what_is_typed_ends_the_prompt(typed: str, needle: str) -> None:
    app = make_app("deadlock")
    async with app.run_test(size=(100, 30)) as pilot:
        panel = await on_threads(pilot)
        burst(pilot, typed + "/zz")
        await until(pilot, lambda: app.main.query_one(Prompt).value == "zz")
        burst(pilot, "\x1b" + typed)
        await until(pilot, lambda: app.main.query_one(Prompt).has_class("-open") is False and panel.needle == needle)
        assert view_of(app).sent == []


@pytest.mark.invariant("basics.H1")
async def test_H1_a_search_and_its_next_match_are_typed_at_once() -> None:
    app = make_app("deadlock")
    async with app.run_test(size=(100, 30)) as pilot:
        await ready(pilot)
        burst(pilot, "6/deposit\rn")
        panel = None

        def searched() -> bool:
            nonlocal panel
            panel = app.query("#logs LogsPanel").first(LogsPanel) if app.query("#logs LogsPanel") else None
            return panel is not None and panel.searching.text == "deposit"

        await until(pilot, searched)
        assert not app.main.query_one(Prompt).has_class("-open")


@pytest.mark.invariant("basics.H1")
async def test_H1_a_catchpoint_is_typed_at_once() -> None:
    app = make_app("deadlock")
    async with app.run_test(size=(100, 30)) as pilot:
        await on_threads(pilot)
        burst(pilot, "cSRtError\r")
        await until(pilot, lambda: bool(view_of(app).sent))
        (intent,) = view_of(app).sent
        assert isinstance(intent, Catch) and intent.pattern == "SRtError"


@pytest.mark.invariant("basics.H1")
async def test_H1_the_palette_runs_the_best_match_of_what_was_typed_at_once() -> None:
    app = make_app("deadlock")
    async with app.run_test(size=(100, 30)) as pilot:
        await on_threads(pilot)
        burst(pilot, ":theme contrast\r")
        await until(pilot, lambda: app.context.ink.palette.name == "contrast")
        assert app.screen is app.main and view_of(app).sent == []


@pytest.mark.invariant("basics.H1")
async def test_H1_escape_closes_a_palette_that_still_searches() -> None:
    app = make_app("deadlock")
    async with app.run_test(size=(100, 30)) as pilot:
        await on_threads(pilot)
        burst(pilot, ":Sched\r\x1b")
        await until(pilot, lambda: not isinstance(app.screen, CommandPalette))
        burst(pilot, "/Sx")
        await until(pilot, lambda: app.main.query_one(Prompt).value == "Sx")
        assert view_of(app).sent == []


@pytest.mark.invariant("basics.H1")
@pytest.mark.parametrize("opens", ["?", "e", "\r"])
async def test_H1_a_sheet_owns_the_keys_that_follow(opens: str) -> None:
    app = make_app("deadlock")
    async with app.run_test(size=(100, 30)) as pilot:
        await on_threads(pilot)
        burst(pilot, opens + "S" + opens.replace("\r", "") + "q")
        await until(pilot, lambda: app.screen is app.main and not app._ahead)
        burst(pilot, opens)
        await until(pilot, lambda: isinstance(app.screen, SheetScreen))
        assert app.is_running and view_of(app).sent == []


@pytest.mark.invariant("basics.H2")
async def test_H2_a_paste_is_text_in_a_prompt_and_nothing_elsewhere() -> None:
    app = make_app("deadlock")
    async with app.run_test(size=(100, 30)) as pilot:
        panel = await on_threads(pilot)
        burst(pilot, "", events.Paste("/Sq\r"))
        burst(pilot, "?", events.Paste("q"))
        await until(pilot, lambda: isinstance(app.screen, SheetScreen))
        burst(pilot, "\x1b/", events.Paste("Sq\nS"))
        await until(pilot, lambda: app.main.query_one(Prompt).value == "Sq")
        assert view_of(app).sent == [] and panel.needle == "sq"


@pytest.mark.invariant("basics.H1")
async def test_H1_a_prompt_is_left_by_its_own_keys_only() -> None:
    app = make_app("deadlock")
    async with app.run_test(size=(100, 30)) as pilot:
        await on_threads(pilot)
        prompt = app.main.query_one(Prompt)
        burst(pilot, "/a")
        for key in ("tab", "shift+tab", "f2", "up", "pagedown", "ctrl+p", "ctrl+g"):
            await pilot.press(key)
        await pilot.press("b")
        await until(pilot, lambda: prompt.value == "ab")
        assert app.screen is app.main and app.current.id == "threads"


_TOLD = PROGRAM.replace("sys.exit(run(", "code = (run(") + "\nprint('SENT', view.sent, 'DONE')\nsys.exit(code)\n"


@pytest.mark.invariant("basics.H1")
@pytest.mark.parametrize(
    "typed",
    [
        b"4/Sched\r",
        b"4/SSS\x1b[27u",
        b"4cSfoo\x1b[27u",
        b"4:Sched\x1b[27u",
        b"4:next theme\r",
        b"4\x1b[200~S\rSq\x1b[201~",
        b"4/\x1b[200~S\rSq\x1b[201~\r",
        b"4?S\x1b[27ueS\x1b[27u",
    ],
)
def test_H1_bursts_on_a_real_terminal_do_nothing_to_the_target(typed: bytes) -> None:
    with Terminal("deadlock", program=_TOLD) as terminal:
        terminal.until(b"DEADLOCK")
        terminal.type(typed + b"q")
        assert terminal.wait() == 0
        assert b"SENT [] DONE" in terminal.output


@pytest.mark.invariant("basics.H1")
async def test_H1_keys_are_taken_though_the_terminal_has_said_that_it_lost_the_focus() -> None:
    app = make_app("deadlock")
    async with app.run_test(size=(100, 30)) as pilot:
        await on_threads(pilot)
        await pilot.press("?")
        await until(pilot, lambda: isinstance(app.screen, SheetScreen) and app.screen.focused is not None)
        app.post_message(events.AppBlur())
        await until(pilot, lambda: not app.app_focus)
        burst(pilot, "q/S")
        await until(pilot, lambda: app.main.query_one(Prompt).value == "S")
