"""The help of a screen and the key reference of the documentation, from what panels declare."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from livedbg.app.appkeys import APP_KEYS, GUIDE_KEYS, REPLAY_KEYS
from livedbg.app.views import VIEWS, ViewSpec
from livedbg.panels.base import MOVES
from livedbg.panels.draw_context import DrawContext
from livedbg.panels.messages import Key
from livedbg.panels.sheet import Sheet, SheetLine
from livedbg.themes import Role


def help_sheet(spec: ViewSpec, *, replay: bool, guide: bool = False) -> Sheet:
    """The sheet of help for one screen."""
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
    """All screens, panels and keys as Markdown, for docs/."""
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
