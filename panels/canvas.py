"""A grid of cells for line drawing: lines that meet become the right corner or crossing."""

from __future__ import annotations

from typing import Final

from rich.style import Style

from livedbg.panels.cells import Line, fit

__all__ = ["Canvas"]

_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8
_LINES: Final = {
    0: " ", 1: "│", 2: "│", 3: "│", 4: "─", 8: "─", 12: "─", 5: "╯", 9: "╰", 6: "╮", 10: "╭",
    7: "┤", 11: "├", 13: "┴", 14: "┬", 15: "┼",
}  # fmt: skip
_ASCII: Final = {"│": "|", "─": "-", " ": " "}


class Canvas:
    """Cells of `width` x `height`; what is drawn later lies on top.

    Args:
        ascii_only: draw with ASCII signs.
    """

    def __init__(self, width: int, height: int, *, ascii_only: bool = False) -> None:
        self.width, self.height = width, height
        self._ascii = ascii_only
        self._lines: dict[tuple[int, int], tuple[int, Style]] = {}
        self._texts: dict[int, list[tuple[int, str, int, Style]]] = {}

    def wire(self, x0: int, y0: int, x1: int, y1: int, style: Style) -> None:
        """A straight line, ends included; it joins the lines that it meets."""
        if x0 == x1:
            low, high = sorted((y0, y1))
            for y in range(low, high + 1):
                self._mark(x0, y, (_UP if y > low else 0) | (_DOWN if y < high else 0), style)
        else:
            low, high = sorted((x0, x1))
            for x in range(low, high + 1):
                self._mark(x, y0, (_LEFT if x > low else 0) | (_RIGHT if x < high else 0), style)

    def box(self, x: int, y: int, width: int, height: int, style: Style) -> None:
        """A frame; what is under it is gone."""
        for row in range(y, y + height):
            for column in range(x, x + width):
                self._lines.pop((column, row), None)
        right, bottom = x + width - 1, y + height - 1
        for row in (y, bottom):
            self.wire(x, row, right, row, style)
        for column in (x, right):
            self.wire(column, y, column, bottom, style)

    def text(self, x: int, y: int, text: str, width: int, style: Style) -> None:
        """Text in exactly `width` cells."""
        self._texts.setdefault(y, []).append((x, text, width, style))

    def sign(self, column: int, row: int) -> str:
        """The line sign of a cell."""
        mask, _style = self._lines.get((column, row), (0, None))
        sign = _LINES[mask]
        return _ASCII.get(sign, "+") if self._ascii else sign

    def draw(self, y: int, left: int, line: Line) -> None:
        """One row of the canvas, from column `left` on."""
        texts = sorted(self._texts.get(y, ()), key=lambda item: item[0])
        column = left
        for x, text, width, style in texts:
            if x + width <= column or x >= left + line.width:
                continue
            self._draw_lines(y, column, x, line)
            cut = max(column - x, 0)
            line.add(fit(text, width)[cut:], style)
            column = max(x, column) + width - cut
        self._draw_lines(y, column, left + line.width, line)

    def _draw_lines(self, y: int, start: int, end: int, line: Line) -> None:
        for column in range(start, end):
            cell = self._lines.get((column, y))
            line.cell(self.sign(column, y), 1, cell[1] if cell else None)

    def _mark(self, x: int, y: int, mask: int, style: Style) -> None:
        old = self._lines.get((x, y))
        self._lines[x, y] = (mask | (old[0] if old else 0), style)
