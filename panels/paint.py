"""Painting only what changed: which cells of a line differ from what is on the screen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip


def changed_span(old: Strip, new: Strip) -> tuple[int, int] | None:
    """First changed cell and the one behind the last, or None when the lines are equal."""
    if old == new:
        return None
    if old.cell_length != new.cell_length:
        return 0, max(old.cell_length, new.cell_length)
    were, are = list(old), list(new)
    begin = _same(were, are)
    end = min(_same(were[::-1], are[::-1]), len(were) - begin, len(are) - begin)
    start = sum(segment.cell_length for segment in are[:begin])
    before, after = list(_cells(were[begin : len(were) - end])), list(_cells(are[begin : len(are) - end]))
    changed = [place for place in range(len(after)) if before[place] != after[place]]
    return (start + changed[0], start + changed[-1] + 1) if changed else None


def _same(first: Sequence[Segment], second: Sequence[Segment]) -> int:
    """How many segments are alike from the start."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


def _cells(segments: Iterable[Segment]) -> Iterator[tuple[str, Style | None]]:
    """The content of each cell; the second cell of a wide character is as its first one."""
    for segment in segments:
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
