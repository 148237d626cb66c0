"""The command palette: every command of the app, by the same declarations as keys and help, and fitting recipes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from functools import partial

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.widget import Widget

from livedbg.app.appkeys import APP_KEYS, GUIDE_KEYS, REPLAY_KEYS
from livedbg.app.guiding import GuideActions
from livedbg.app.overlays import SheetScreen
from livedbg.app.prompting import PromptingApp
from livedbg.panels.base import LinePanel
from livedbg.panels.draw_context import DrawContext
from livedbg.panels.messages import Key
from livedbg.panels.sheet import Sheet, SheetLine
from livedbg.recipes import recipes
from livedbg.recipes.fitting import Again, chosen_process, facts_of_rerun, fitting
from livedbg.session.hostinfo import host_name
from livedbg.session.recognition import by_snapshot, of_running
from livedbg.text.sanitize import clean_line
from livedbg.text.wording import sentence_case
from livedbg.themes import PALETTES, Role


def offered(context: DrawContext, *, live: bool) -> list[Again]:
    """Return the recipes that fit the selected process, the closest first; a `live` one may be read."""
    process = chosen_process(context.snapshot, context.selection)
    if process is None:
        return []
    systems = by_snapshot(context.snapshot, process)
    if live and process.host == host_name() and not process.exited:
        with contextlib.suppress(OSError):  # it has ended, or is somebody else's
            systems |= of_running(process.pid, languages=True)
    known, _ = recipes()
    return list(fitting(known, systems, process.command, process.cwd))


def recipe_sheet(again: Again) -> Sheet:
    """Return all about a recipe, the command first."""
    lines = [
        SheetLine(
            clean_line(text), Role.HEADING if name == "run again" else Role.TEXT, lead=name, bold=name == "run again"
        )
        for name, text in facts_of_rerun(again)
    ]

    def sheet(_context: DrawContext) -> tuple[str, Sequence[SheetLine]]:
        return f"Recipe {again.name}: {again.recipe.question}", lines

    return sheet


class Commands(Provider):
    """The keys of the app, of the focused panel and of a recording; exports, themes and recipes by name."""

    _offers: asyncio.Task[Sequence[Again]] | None = None

    async def startup(self) -> None:
        """Start to find the fitting recipes, once a palette.

        Nothing is awaited here: a key that is pressed meanwhile cancels the search that waits for this method, and this
        method with it; the palette would then find nothing at all.
        """
        app = self.app
        if isinstance(app, PromptingApp):
            fitting = asyncio.to_thread(offered, app.context, live=app.view.timeline is None)
            self._offers = asyncio.create_task(fitting)

    async def shutdown(self) -> None:
        if self._offers is not None:
            self._offers.cancel()

    async def _fitting(self) -> Sequence[Again]:
        """Wait for the fitting recipes; a cancelled search does not cancel that of others."""
        return await asyncio.shield(self._offers) if self._offers is not None else ()

    async def discover(self) -> Hits:
        """Yield all commands, before anything is typed."""
        for title, action, scope in self._all():
            yield DiscoveryHit(title, partial(self._run, action, scope))
        for again in await self._fitting():
            yield DiscoveryHit(_offer(again), partial(self._show, again), help=again.command)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for title, action, scope in self._all():
            score = matcher.match(title)
            if score > 0:
                yield Hit(score, matcher.highlight(title), partial(self._run, action, scope))
        for again in await self._fitting():
            score = matcher.match(_offer(again))
            if score > 0:
                yield Hit(score, matcher.highlight(_offer(again)), partial(self._show, again), help=again.command)

    def _all(self) -> Iterator[tuple[str, str, Widget | None]]:
        focused = self.screen.focused
        if isinstance(focused, LinePanel):
            for key in focused.KEYS:
                yield f"{focused.LABEL}: {_title(key)}", key.action, focused
        for key in APP_KEYS:
            if key.action != "command_palette":
                yield _title(key), key.action, None
        if getattr(self.app, "timeline", None) is not None:
            for key in REPLAY_KEYS:
                yield f"Recording: {_title(key)}", key.action, None
        if isinstance(self.app, GuideActions) and self.app.options.guide is not None:
            for key in GUIDE_KEYS:
                yield f"Guide: {_title(key)}", key.action, None
        for suffix, what in (("json", "report as JSON"), ("md", "report as Markdown"), ("svg", "picture as SVG")):
            yield f"Export the {what}", f"export_as('{suffix}')", None
        for palette in PALETTES.values():
            yield f"Theme {palette.name}: {palette.title}", f"use_theme('{palette.name}')", None

    async def _show(self, again: Again) -> None:
        app = self.app
        if isinstance(app, PromptingApp):
            app.push_screen(SheetScreen(recipe_sheet(again), app.context))
            app.copy_text(again.command)

    async def _run(self, action: str, scope: Widget | None) -> None:
        await self.app.run_action(action, scope)


def _title(key: Key) -> str:
    return f"{sentence_case(key.help)}  ({key.shown})"


def _offer(again: Again) -> str:
    return f"Recipe {again.name}: {again.recipe.question}"
