"""Conversion of text to screen cells, and the difference between two drawn lines.

Invariants:
    cells.C1. Every string goes through livedbg.text.sanitize.clean_line here, whatever was done before.
    cells.C2. No string is ever parsed as markup.
    cells.C3. A finished line is exactly as wide as asked for, and its background is filled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Final, Literal

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip

from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line

Align = Literal["left", "right"]

_ADDRESS: Final = lazy_re(r"\b0x[0-9a-f]{3,}([0-9a-f]{5})\b")


def width_of(text: str) -> int:
    """Return the width of `text` in cells."""
    text = clean_line(text)
    return len(text) if text.isascii() else cell_len(text)


def fit(text: str, width: int, align: Align = "left", ellipsis: str = "…") -> str:
    """Return `text`, sanitised, in exactly `width` cells; cut text ends in `ellipsis`."""
    if width <= 0:
        return ""
    text = clean_line(text)
    size = len(text) if text.isascii() else cell_len(text)
    if size > width:
        return set_cell_size(text, width - 1) + ellipsis if width > 1 else ellipsis
    return " " * (width - size) + text if align == "right" else text + " " * (width - size)


def shortened(text: str, width: int) -> str:
    """Return `text`; if wider than `width`, addresses keep only their last digits, in which they differ."""
    return _ADDRESS.sub(r"0x…\1", text) if "0x" in text and width_of(text) > width else text


def wrap(text: str, width: int, first: int | None = None) -> list[str]:
    """Return `text`, sanitised, broken at spaces (or anywhere, if a word is too long) into lines of `width` cells.

    Args:
        first: cells of the first line, if it has fewer.
    """
    lines: list[str] = []
    line = ""
    room = width if first is None else first
    text = clean_line(text)
    bare = text.lstrip(" ")
    words = bare.split(" ")
    words[0] = " " * min(len(text) - len(bare), room // 2) + words[0]
    for word in words:
        joined = f"{line} {word}" if line else word
        if cell_len(joined) <= room:
            line = joined
            continue
        if line or room < width:
            lines.append(line)
            room = width
        line = word
        while cell_len(line) > width > 0:
            part = set_cell_size(line, width).rstrip(" ") or line[:1]
            lines.append(part)
            line = line[len(part) :]
    lines.append(line)
    return lines


class Line:
    """Builds one line of a panel, left to right.

    Args:
        width: cells of the finished line.
        base: style under all of it; its background fills the line.
        flat: draw everything in `base` (a selected row).
    """

    __slots__ = ("base", "flat", "segments", "used", "width")

    def __init__(self, width: int, base: Style, *, flat: bool = False) -> None:
        self.width = width
        self.base = base
        self.flat = flat
        self.segments: list[Segment] = []
        self.used = 0

    @property
    def left(self) -> int:
        """Return the number of free cells."""
        return max(self.width - self.used, 0)

    def add(self, text: str, style: Style | None = None) -> Line:
        """Append text, cut at the end of the line."""
        size = width_of(text)
        return self.cell(text, min(size, self.left), style)

    def cell(self, text: str, width: int, style: Style | None = None, align: Align = "left") -> Line:
        """Append text in exactly `width` cells (fewer at the end of the line)."""
        width = min(width, self.left)
        if width > 0:
            full = self.base if style is None or self.flat else self.base + style
            self.segments.append(Segment(fit(text, width, align), full))
            self.used += width
        return self

    def space(self, width: int = 1) -> Line:
        """Append blanks."""
        return self.cell("", width)

    def push_right(self, width: int) -> Line:
        """Append blanks so that `width` cells are left."""
        return self.space(self.left - width)

    def strip(self) -> Strip:
        """Return the finished line."""
        if self.left:
            self.segments.append(Segment(" " * self.left, self.base))
        return Strip(self.segments, self.width)


def changed_span(old: Strip, new: Strip) -> tuple[int, int] | None:
    """Return the first changed cell and the one after the last, or None if the lines are equal."""
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
    """Return the number of equal segments from the start."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


def _cells(segments: Iterable[Segment]) -> Iterator[tuple[str, Style | None]]:
    """Yield each cell; both cells of a wide character have its content."""
    for segment in segments:
        if segment.text.isascii():
            for sign in segment.text:
                yield sign, segment.style
        else:
            for sign in segment.text:
                for _ in range(cell_len(sign)):
                    yield sign, segment.style


class Painted:
    """The lines of one widget as last drawn for the screen."""

    def __init__(self, refresh: Callable[..., object]) -> None:
        self._refresh = refresh
        self._lines: dict[int, Strip] = {}

    def drawn(self, y: int, strip: Strip) -> Strip:
        """Remember a drawn line."""
        self._lines[y] = strip
        return strip

    def repaint(self, height: int, draw: Callable[[int], Strip]) -> None:
        """Refresh the cells that `draw` would now draw differently."""
        for y in range(height):
            old = self._lines.get(y)
            if old is None:
                self._refresh()
                return
            span = changed_span(old, draw(y))
            if span is not None:
                self._refresh(Region(span[0], y, span[1] - span[0], 1))
