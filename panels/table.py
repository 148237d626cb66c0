"""A table of entities: columns that give way when it is narrow, filter, sort, a cursor that stays.

Many rows are sorted in another thread (memray's rule: one result a tick, the newest wins); only the visible rows are
drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

from rich.style import Style
from textual.geometry import Size

from livedbg.panels.base import Key, LinePanel, Noticed, Picked, bindings
from livedbg.panels.cells import Align, Line, shortened
from livedbg.panels.draw_context import DrawContext
from livedbg.themes import Role

MANY: Final = 4_000
"""From so many entities on, rows are ordered in another thread."""

SORT_KEY: Final = Key("s,o", "s o", "sort", "sort by the next column")

_orderer = ThreadPoolExecutor(1, thread_name_prefix="livedbg-rows")


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        width: in cells; a minimum with `stretch`.
        stretch: weight of its share of the remaining width.
        keep: columns with the lowest `keep` are dropped first when it is narrow.
        sort: name of its order, or "".
    """

    title: str
    width: int
    stretch: int = 0
    keep: int = 5
    sort: str = ""
    align: Align = "left"


@dataclass(frozen=True, slots=True)
class Cell:
    """The content of one column of one row."""

    text: str
    style: Style | None = None


@dataclass(frozen=True, slots=True)
class Rows:
    """The ids of the rows, in order; `total` includes rows hidden by the filter.

    Attributes:
        members: for rows of several entities, all of these, the row's own first.
        note: for the lower border.
    """

    order: Sequence[str] = ()
    total: int = 0
    title: str = ""
    members: Mapping[str, Sequence[str]] = field(default_factory=dict)
    note: str = ""

    def of(self, row: str) -> Sequence[str]:
        """Return the entities of a row."""
        return self.members.get(row, (row,))

    @property
    def shown(self) -> int:
        """Return the total number of entities in the rows."""
        return sum(len(self.of(row)) for row in self.order) if self.members else len(self.order)


def layout(columns: Sequence[Column], width: int, gap: int = 2) -> list[int]:
    """Return the width of each column, 0 for dropped ones."""
    shown = [place for place, column in enumerate(columns) if column.width]
    while len(shown) > 1 and sum(columns[i].width for i in shown) + gap * (len(shown) - 1) > width:
        shown.remove(min(shown, key=lambda i: (columns[i].keep, -i)))
    widths = [columns[i].width if i in shown else 0 for i in range(len(columns))]
    left = width - sum(widths) - gap * (len(shown) - 1)
    shares = sum(columns[i].stretch for i in shown)
    for i in shown:
        if shares and columns[i].stretch:
            part = left * columns[i].stretch // shares
            widths[i] += part
            left, shares = left - part, shares - columns[i].stretch
    return widths


class TablePanel(LinePanel):
    """A table; subclasses define columns, rows and cells."""

    HEAD = 1
    COLUMNS: ClassVar[tuple[Column, ...]] = ()
    SORTS: ClassVar[tuple[str, ...]] = ()
    KEYS: ClassVar[tuple[Key, ...]] = (SORT_KEY,)
    BINDINGS = bindings("table", (SORT_KEY,))

    def __init__(self) -> None:
        super().__init__()
        self.columns = self.COLUMNS
        self.rows = Rows()
        self.needle = ""
        self.sort = self.SORTS[0] if self.SORTS else ""
        self._index: dict[str, int] | None = None
        self._key: object = None
        self._waiting: Future[Rows] | None = None
        self._narrowed = False

    # what subclasses say

    def source(self, context: DrawContext) -> object:
        """Return what the rows depend on; an equal value means that nothing changed."""
        return context.update.snapshot.revision

    def size_of(self, context: DrawContext) -> int:
        """Return how many entities `make_rows` has to process."""
        return 0

    def make_rows(self, context: DrawContext, needle: str, sort: str) -> Rows:
        """Return the rows; may run in another thread, so it reads its arguments only."""
        return Rows()

    def cells(self, identity: str) -> Sequence[Cell]:
        """Return the content of a row, by column."""
        return ()

    def hidden(self, width: int) -> Set[str]:
        """Return the titles of columns that have nothing to show."""
        return frozenset()

    # rows

    def widths(self, width: int) -> list[int]:
        """Return the width of each column, 0 for dropped ones."""
        hidden = self.hidden(width)
        return layout([replace(one, width=0) if one.title in hidden else one for one in self.columns], width)

    def context_changed(self, before: DrawContext) -> None:
        self.rearrange()

    def rearrange(self) -> None:
        """Recompute the rows if anything that decides them changed."""
        key = (self.source(self.context), self.needle, self.sort)
        if key == self._key:
            return
        if self.size_of(self.context) < MANY or not self.is_attached:
            self._key = key
            self.set_rows(self.make_rows(self.context, self.needle, self.sort))
        elif self._waiting is None:
            self._key = key
            self._waiting = _orderer.submit(self.make_rows, self.context, self.needle, self.sort)
            self._waiting.add_done_callback(self._arranged)

    def _arranged(self, done: Future[Rows]) -> None:
        loop = self.app._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._take, done)

    def _take(self, done: Future[Rows]) -> None:
        self._waiting = None
        if self.is_attached and not done.cancelled():
            with self.app._context():
                self.set_rows(done.result())
                self.rearrange()

    def set_rows(self, rows: Rows) -> None:
        """Show these rows; the cursor stays on its row."""
        at = self.rows.order[self.cursor] if self.cursor < len(self.rows.order) else None
        self.rows, self._index = rows, None
        wanted = self.context.selection if not self.has_focus else at
        row = self._row(wanted) if wanted is not None else None
        if row is None and at is not None:
            row = self._row(at)
        if row is not None or self._narrowed:
            self.cursor = row or 0
        self.resize_rows()
        if self._narrowed:
            self._narrowed = False
            chosen = self.entity(self.cursor)
            if chosen is not None and chosen != self.context.selection:
                self.post_message(Picked(chosen))
                self.reveal()
        hidden = f"{rows.shown:,} of {rows.total:,} match" if self.needle else ""
        order = f"by {self.sort}" if self.sort and self.sort != self.SORTS[0] else ""
        self.title(f"{self.LABEL}  {rows.title}".rstrip(), "  ".join(filter(None, (hidden, order, rows.note))))
        self.repaint()

    def _row(self, identity: str) -> int | None:
        if self._index is None:
            self._index = {one: at for at, row in enumerate(self.rows.order) for one in self.rows.of(row)}
        return self._index.get(identity)

    def count(self) -> int:
        return len(self.rows.order)

    def entity(self, index: int) -> str | None:
        return self.rows.order[index] if 0 <= index < len(self.rows.order) else None

    def find(self, entity: str) -> int | None:
        return self._row(entity)

    def filter(self, text: str) -> None:
        """Show only rows with `text`; the cursor moves to one of them."""
        if text.lower() != self.needle:
            self.needle, self._narrowed = text.lower(), True
        self.rearrange()
        self.refresh()

    # drawing

    def draw_head(self, index: int, line: Line) -> None:
        """Draw the column titles; the sorted one is marked."""
        ink = self.context.ink
        for column, width in zip(self.COLUMNS, self.widths(line.width), strict=True):
            if width:
                line.space(2 if line.used else 0)
                marked = bool(column.sort) and column.sort == self.sort
                role = Role.ACCENT if marked else Role.DIM
                arrow = self.context.glyphs.down if marked and len(column.title) + 1 < width else ""
                line.cell(column.title + arrow, width, ink.style(role, bold=marked), column.align)

    def draw(self, index: int, line: Line) -> None:
        cells = self.cells(self.rows.order[index])
        for column, width, cell in zip(self.COLUMNS, self.widths(line.width), cells, strict=True):
            if width:
                line.space(2 if line.used else 0).cell(shortened(cell.text, width), width, cell.style, column.align)

    def action_sort(self) -> None:
        if self.SORTS:
            self.sort_by(self.SORTS[(self.SORTS.index(self.sort) + 1) % len(self.SORTS)])

    def sort_by(self, sort: str) -> None:
        self.sort = sort
        self.rearrange()
        self.post_message(Noticed(f"{self.LABEL}: sorted by {sort}"))
        self.refresh()

    def head_clicked(self, x: int) -> None:
        left = 0
        for column, width in zip(self.COLUMNS, self.widths(self.scrollable_content_region.width), strict=True):
            if width and left <= x < left + width + 2 and column.sort:
                self.sort_by(column.sort)
            left += width + 2 if width else 0


class GrowingTablePanel(TablePanel):
    """A table as high as its rows, `MOST_ROWS` at most."""

    MOST_ROWS: ClassVar[int] = 99

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self.HEAD + min(max(self.count(), 1), self.MOST_ROWS)

    def set_rows(self, rows: Rows) -> None:
        before = len(self.rows.order)
        super().set_rows(rows)
        if len(rows.order) != before:
            self.refresh(layout=True)
