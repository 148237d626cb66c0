"""The one place where text becomes screen cells.

Invariants:
    cells.C1. Every string goes through livedbg.text.sanitize.clean_line here, whatever was done before.
    cells.C2. No string is ever parsed as markup.
    cells.C3. A finished line is exactly as wide as asked for, and its background is filled.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from livedbg.text.sanitize import clean_line

Align = Literal["left", "right"]

_ADDRESS: Final = re.compile(r"\b0x[0-9a-f]{3,}([0-9a-f]{5})\b")


def width_of(text: str) -> int:
    """How many cells `text` takes once drawn."""
    text = clean_line(text)
    return len(text) if text.isascii() else cell_len(text)


def fit(text: str, width: int, align: Align = "left", ellipsis: str = "…") -> str:
    """`text`, sanitised, in exactly `width` cells; what is cut ends in `ellipsis`."""
    if width <= 0:
        return ""
    text = clean_line(text)
    size = len(text) if text.isascii() else cell_len(text)
    if size > width:
        return set_cell_size(text, width - 1) + ellipsis if width > 1 else ellipsis
    return " " * (width - size) + text if align == "right" else text + " " * (width - size)


def shortened(text: str, width: int) -> str:
    """`text`; where it is wider than `width`, addresses keep only their last digits, in which they differ."""
    return _ADDRESS.sub(r"0x…\1", text) if "0x" in text and width_of(text) > width else text


def wrap(text: str, width: int, first: int | None = None) -> list[str]:
    """`text`, sanitised, broken at spaces (or anywhere, when a word is too long) into lines of `width` cells.

    Args:
        text: what to break.
        width: cells of a line.
        first: cells of the first line, where it has fewer.
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
        """Cells that are still free."""
        return max(self.width - self.used, 0)

    def add(self, text: str, style: Style | None = None) -> Line:
        """Append text, cut where the line ends."""
        size = width_of(text)
        return self.cell(text, min(size, self.left), style)

    def cell(self, text: str, width: int, style: Style | None = None, align: Align = "left") -> Line:
        """Append text in exactly `width` cells (fewer where the line ends)."""
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
        """The finished line."""
        if self.left:
            self.segments.append(Segment(" " * self.left, self.base))
        return Strip(self.segments, self.width)
