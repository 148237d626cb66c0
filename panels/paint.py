"""Painting only what changed: which cells of a line differ from what stands on the screen."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.cells import cell_len
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip

__all__ = ["Painted", "changed_span"]


def changed_span(old: Strip, new: Strip) -> tuple[int, int] | None:
    """First changed cell and the one behind the last, or None when the lines are equal."""
    if old == new:
        return None
    before, after = list(_cells(old)), list(_cells(new))
    width = max(len(before), len(after))
    if len(before) != len(after):
        return 0, width
    changed = [place for place in range(width) if before[place] != after[place]]
    return (changed[0], changed[-1] + 1) if changed else None


def _cells(strip: Strip) -> Iterator[tuple[str, Style | None]]:
    """What stands in each cell; the second cell of a wide character is as its first one."""
    for segment in strip:
        if segment.text.isascii():
            for sign in segment.text:
                yield sign, segment.style
        else:
            for sign in segment.text:
                for _ in range(cell_len(sign)):
                    yield sign, segment.style


class Painted:
    """The lines of one widget as they were last drawn for the screen.

    Args:
        refresh: the widget's `refresh`.
    """

    def __init__(self, refresh: Callable[..., object]) -> None:
        self._refresh = refresh
        self._lines: dict[int, Strip] = {}

    def drawn(self, y: int, strip: Strip) -> Strip:
        """Remember a line that is drawn for the screen."""
        self._lines[y] = strip
        return strip

    def repaint(self, height: int, draw: Callable[[int], Strip]) -> None:
        """Ask for a repaint of the cells that `draw` would draw otherwise now."""
        for y in range(height):
            old = self._lines.get(y)
            if old is None:
                self._refresh()
                return
            span = changed_span(old, draw(y))
            if span is not None:
                self._refresh(Region(span[0], y, span[1] - span[0], 1))
