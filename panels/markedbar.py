"""A scroll bar with marks: where in all of the rows something is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment, Segments
from rich.style import Style
from textual.scrollbar import ScrollBarRender

if TYPE_CHECKING:
    from textual.widget import Widget

Marks = Callable[[int], dict[int, tuple[str, Style]]]
"""For a bar of so many cells: the sign and the colour of those that have a mark."""


def cells_of(rows: Iterable[int], count: int, size: int) -> set[int]:
    """The cells of a bar of `size` cells in which some of `count` rows are."""
    return {min(row * size // count, size - 1) for row in rows} if count > 0 else set()


class _MarkedRender(ScrollBarRender):
    def __init__(self, marks: Marks, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._marks = marks

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for drawn in super().__rich_console__(console, options):
            yield (
                Segments(_marked(drawn.segments, self._marks), new_lines=True) if isinstance(drawn, Segments) else drawn
            )


def _marked(bar: Sequence[Segment], marks: Marks) -> list[Segment]:
    """A bar's cells, those with a mark replaced; what a click on them does stays."""
    cells = list(bar)
    for at, (sign, style) in marks(len(cells)).items():
        under = cells[at].style or Style()
        back = under.color if under.reverse else under.bgcolor
        cells[at] = Segment(sign, Style(color=style.color, bgcolor=back, bold=True, meta=under.meta))
    return cells


def mark_scroll_bar(widget: Widget, marks: Marks) -> None:
    """Draw marks on the vertical scroll bar of a widget.

    Textual documents `renderer` as something that can be set on one scroll bar (textual.scrollbar.ScrollBar).
    """
    bar = widget.vertical_scrollbar
    bar.__dict__["renderer"] = lambda *args, **kwargs: _MarkedRender(marks, *args, **kwargs)
