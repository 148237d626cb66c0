"""The keys of every screen, and those of a recording; help, docs and the command palette are made from them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.widget import Widget

from livedbg.app.overlays import GuideActions, PromptingApp, SheetScreen
from livedbg.app.views import VIEWS, ViewSpec
from livedbg.panels.base import MOVES, Key, LinePanel
from livedbg.panels.draw_context import DrawContext
from livedbg.panels.sheet import Sheet, SheetLine
from livedbg.recipes import recipes
from livedbg.recipes.fitting import Again, chosen_process, facts_of_rerun, fitting
from livedbg.session.hostinfo import host_name
from livedbg.session.recognition import by_snapshot, of_running
from livedbg.text.sanitize import clean_line
from livedbg.text.wording import sentence_case
from livedbg.themes import PALETTES, Role

SCREEN_KEYS: Final = tuple(
    Key(f"{spec.key},f{number}", f"{spec.key} F{number}", f"view('{spec.name}')", f"screen {spec.label}")
    for spec, number in ((spec, int(spec.key) or 10) for spec in VIEWS)
)

APP_KEYS: Final = (
    *SCREEN_KEYS,
    Key("e", "e", "evidence", "show the evidence of the verdict"),
    Key("escape", "Esc", "go_back", "go back, or clear the filter"),
    Key("slash", "/", "prompt", "filter rows by a text; in Logs: search"),
    Key("c", "c", "catch", "set a catchpoint: exception type, preset, or function"),
    Key("tab", "Tab", "app.focus_next", "next panel"),
    Key("shift+tab", "Shift+Tab", "app.focus_previous", "previous panel"),
    Key("y", "y", "copy", "copy the selected row"),
    Key("space", "Space", "freeze", "freeze the view; events are still read"),
    Key("R", "R", "resume_thread", "resume the thread that stopped at a catchpoint (asks first)"),
    Key("r", "r", "refresh_now", "scan all sources now"),
    Key("x", "x", "export", "export the report (JSON, Markdown) and a picture"),
    Key("t", "t", "next_theme", "next theme"),
    Key("question_mark", "?", "help", "show help for this screen"),
    Key("ctrl+p,colon", "^p :", "command_palette", "find any command"),
    Key("q,ctrl+c", "q", "leave", "quit; an attached target keeps running, about a command under launch it asks"),
)

GUIDE_KEYS: Final = (
    Key("ctrl+n", "^n", "next_step", "end the command, and run it again with the next step's settings"),
    Key("ctrl+g", "^g", "step_found", "show what this step found so far"),
)

REPLAY_KEYS: Final = (
    Key("p", "p", "play", "play or pause"),
    Key("full_stop", ".", "step(1)", "step forward", "step-on"),
    Key("comma", ",", "step(-1)", "step back", "step-back"),
    Key("greater_than_sign", ">", "seek(1)", "seek forward by 5 %", "seek-on"),
    Key("less_than_sign", "<", "seek(-1)", "seek back by 5 %", "seek-back"),
    Key("b", "b", "rewind", "go to the beginning"),
    Key("circumflex_accent,underscore", "^", "speed(0.5)", "half speed", "slower"),
    Key("asterisk,dollar_sign", "*", "speed(2)", "double speed", "faster"),
)


def help_sheet(spec: ViewSpec, *, replay: bool, guide: bool = False) -> Sheet:
    """Return the help of one screen."""
    lines = list(_lines(spec, replay=replay, guide=guide))
    return lambda _context: (f"Help: {spec.key} {spec.label}", lines)


def _lines(spec: ViewSpec, *, replay: bool, guide: bool) -> Iterator[SheetLine]:
    yield SheetLine(spec.question, Role.HEADING)
    for panel in spec.kinds:
        yield SheetLine()
        yield SheetLine(panel.HELP, lead=panel.LABEL, role=Role.DIM)
        yield from _keys(panel.KEYS)
    shown = [("all panels", MOVES), ("all screens", APP_KEYS)]
    shown += [("guides", GUIDE_KEYS)] if guide else []
    shown += [("recordings", REPLAY_KEYS)] if replay else []
    for heading, keys in shown:
        yield SheetLine()
        yield SheetLine(f"keys in {heading}", Role.HEADING)
        yield from _keys(keys)


def _keys(keys: Sequence[Key]) -> Iterator[SheetLine]:
    return (SheetLine(key.help, lead=f"  {key.shown}") for key in keys)


def key_reference() -> str:
    """Return all screens, panels and keys as Markdown, for docs/."""
    parts = ["## All screens\n", _table(APP_KEYS), "## All panels\n", _table(MOVES)]
    parts += ["## Recordings\n", _table(REPLAY_KEYS)]
    parts += ["## Guides\n", _table(GUIDE_KEYS)]
    for spec in VIEWS:
        parts.append(f"## {spec.key} {spec.label}\n\n{spec.question}\n")
        for panel in spec.kinds:
            parts.append(f"### {panel.LABEL}\n\n{panel.HELP}\n")
            if panel.KEYS:
                parts.append(_table(panel.KEYS))
    return "\n".join(parts)


def _table(keys: Sequence[Key]) -> str:
    rows = [f"| `{key.shown}` | {key.help} |" for key in keys]
    return "\n".join(["| key | action |", "| --- | --- |", *rows, ""])


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
    return lambda _context: (_offer(again), lines)


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
                yield f"{focused.LABEL}: {_command_title(key)}", key.action, focused
        for key in APP_KEYS:
            if key.action != "command_palette":
                yield _command_title(key), key.action, None
        if getattr(self.app, "timeline", None) is not None:
            for key in REPLAY_KEYS:
                yield f"Recording: {_command_title(key)}", key.action, None
        if isinstance(self.app, GuideActions) and self.app.options.guide is not None:
            for key in GUIDE_KEYS:
                yield f"Guide: {_command_title(key)}", key.action, None
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


def _command_title(key: Key) -> str:
    return f"{sentence_case(key.help)}  ({key.shown})"


def _offer(again: Again) -> str:
    return f"Recipe {again.name}: {again.recipe.question}"
