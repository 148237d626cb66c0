"""Apps over scripted sessions, with a fixed clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from textual.pilot import Pilot

from livedbg.app.application import LivedbgApp
from livedbg.app.options import AppOptions, Colours
from tests.app.fakes import T0_WALL, FakeView, S
from tests.app.scenarios import scenario


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
    return LivedbgApp(view, options, interval_s=interval_s, ascii_only=ascii_only, colours=colours)


def view_of(app: LivedbgApp) -> FakeView:
    """The scripted view of an app."""
    assert isinstance(app.view, FakeView)
    return app.view


async def until(pilot: Pilot[int], true: Callable[[], object], seconds: float = 20) -> None:
    """Wait until something is true."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not become true in time"
        await pilot.pause()
        await asyncio.sleep(0.01)
    await pilot.pause()


async def ready(pilot: Pilot[int]) -> LivedbgApp:
    """Wait for the first state on the screen."""
    app = pilot.app
    assert isinstance(app, LivedbgApp)
    await until(pilot, lambda: app.look.update.snapshot.revision == app.view.latest().snapshot.revision > 0)
    return app


def text_of(app: LivedbgApp) -> str:
    """The screen as text."""
    width, height = app.size
    lines = app.screen._compositor.render_strips()
    assert len(lines) == height, (width, height)
    return "\n".join(strip.text for strip in lines)
