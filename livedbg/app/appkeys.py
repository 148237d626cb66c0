"""The keys that work in every screen, and those of a recording. Help and docs are made from this."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from livedbg.app.views import VIEWS, ViewSpec
from livedbg.panels.base import MOVES
from livedbg.panels.draw_context import DrawContext
from livedbg.panels.messages import Key
from livedbg.panels.sheet import Sheet, SheetLine
from livedbg.themes import Role

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
    Key(
        "q,ctrl+c",
        "q",
        "leave",
        "quit; an attached target keeps running, about a command under launch it asks",
    ),
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

    def sheet(_context: DrawContext) -> tuple[str, Sequence[SheetLine]]:
        return f"Help: {spec.key} {spec.label}", lines

    return sheet


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
