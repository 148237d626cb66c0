"""The logs as tabs."""

from __future__ import annotations

from livedbg.panels.cells import Line, fit
from livedbg.panels.draw_context import DrawContext
from livedbg.panels.records import source_name
from livedbg.themes import Role

__all__ = ["ALL", "draw_tabs", "tab_at", "tab_beside"]

ALL = ""
"""The source that stands for the newest records of all logs."""


def _tabs(context: DrawContext) -> list[tuple[str, str]]:
    sources = context.snapshot.log_sources
    return [(ALL, "all, newest"), *((s, fit(source_name(context, s), 20).rstrip()) for s in sources)]


def draw_tabs(context: DrawContext, line: Line, chosen: str) -> None:
    """All tabs; the chosen one stands out."""
    for source, label in _tabs(context):
        style = context.ink.selected if source == chosen else context.ink.style(Role.DIM)
        line.cell(f" {label} ", len(label) + 2, style).space()


def tab_at(context: DrawContext, x: int) -> str | None:
    """The log whose tab is at a column."""
    left = 0
    for source, label in _tabs(context):
        if left <= x < left + len(label) + 3:
            return source
        left += len(label) + 3
    return None


def tab_beside(context: DrawContext, source: str, step: int) -> str:
    """The log whose tab is so many further, around the ends."""
    sources = [one for one, _label in _tabs(context)]
    return sources[(sources.index(source) + step) % len(sources)]
