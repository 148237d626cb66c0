"""Apps over scripted sessions, with a fixed clock. Pilots of those who import this wait by tests.app.rest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import textual.app
import textual.pilot
from textual.command import CommandList, CommandPalette
from textual.pilot import Pilot

from livedbg.app import overlays
from livedbg.app.application import LivedbgApp
from livedbg.app.options import AppOptions, Colours
from livedbg.app.overlays import Prompt, QuestionScreen
from livedbg.panels.logs import LogsPanel
from tests.app.fakes import T0_WALL, FakeView, S
from tests.app.rest import at_rest
from tests.app.scenarios import scenario
from tests.waiting import Bound

NOTICES_STAY_S = 3600.0
"""A notice that has gone before a slow test looks was never there."""

overlays.PAUSE_S = 0.0  # a pilot presses the next key as soon as it may

_IDLE = "wait_for_idle"
for _module in (textual.app, textual.pilot):
    assert hasattr(_module, _IDLE), "Textual's pilot waits in another way"
    setattr(_module, _IDLE, at_rest)


def make_app(
    what: str | FakeView,
    *,
    theme: str = "dark",
    ascii_only: bool = False,
    colours: Colours = Colours.FULL,
    interval_s: float = 0.0,
) -> LivedbgApp:
    """An app on a scenario (by name) or a view."""
    view = scenario(what) if isinstance(what, str) else what
    options = AppOptions(theme=theme, clock=lambda: T0_WALL + 43 * S)
    app = LivedbgApp(view, options, interval_s=interval_s, ascii_only=ascii_only, colours=colours)
    app.notice_s = NOTICES_STAY_S
    return app


def view_of(app: LivedbgApp) -> FakeView:
    """The scripted view of an app."""
    assert isinstance(app.view, FakeView)
    return app.view


async def until(pilot: Pilot[int], true: Callable[[], object]) -> None:
    """Wait until something is true."""
    bound = Bound()
    while not true():
        if pilot.app._exception is not None:
            raise pilot.app._exception
        problem = bound.problem()
        assert not problem, f"it did not become true: {problem}"
        await pilot.pause()
        await asyncio.sleep(0.01)
    await pilot.pause()


async def ready(pilot: Pilot[int]) -> LivedbgApp:
    """Wait for the first state on the screen."""
    app = pilot.app
    assert isinstance(app, LivedbgApp)
    await until(pilot, lambda: app.context.update.snapshot.revision == app.view.latest().snapshot.revision > 0)
    return app


async def answer(pilot: Pilot[int], key: str = "y") -> str:
    """Answer the question that is asked, once it is on the screen.

    Returns:
        What was asked.
    """

    def asked() -> bool:
        top = pilot.app.screen
        return isinstance(top, QuestionScreen) and top._typed_s is not None

    await until(pilot, asked)
    question = pilot.app.screen
    assert isinstance(question, QuestionScreen)
    words = question.panel.copy_text()
    await pilot.press(key)
    await until(pilot, lambda: pilot.app.screen is not question or not pilot.app.is_running)
    return words


async def read(pilot: Pilot[int]) -> None:
    """Wait until all lines of logs that the screens show have been read, which other threads do, and are drawn."""
    app = pilot.app
    assert isinstance(app, LivedbgApp)
    for panel in app.main.query(LogsPanel):
        while panel._pages is not None:
            await asyncio.wrap_future(panel._pages._pool.submit(int))  # behind all that was asked for
            await pilot.pause()
            if not panel._pages._asked:
                break
    await pilot.pause()


async def offered(pilot: Pilot[int], words: str) -> None:
    """Wait until the open palette has found all that matches what was typed, and its best match has some words."""

    def there() -> bool:
        found = pilot.app.screen.query(CommandList)
        if not found or found.first().highlighted != 0:
            return False
        busy = any(worker.group == CommandPalette._GATHER_COMMANDS_GROUP for worker in pilot.app.workers)
        return not busy and words in str(found.first().get_option_at_index(0).prompt).lower()

    await until(pilot, there)


def pressing(keys: str, sight: str) -> Callable[[Pilot[int]], object]:
    """For a picture: press keys, and wait until something is to be seen and nothing more is to come."""

    async def run(pilot: Pilot[int]) -> None:
        app = await ready(pilot)
        app.main.query_one(Prompt).cursor_blink = False
        await pilot.press(*keys.split())
        await until(pilot, lambda: sight in text_of(app))
        await read(pilot)

    return run


def text_of(app: LivedbgApp) -> str:
    """The screen as text."""
    width, height = app.size
    lines = app.screen._compositor.render_strips()
    assert len(lines) == height, (width, height)
    return "\n".join(strip.text for strip in lines)
