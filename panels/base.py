"""The base of all panels: virtual lines, a cursor, the shared selection, declared keys, and what panels tell the app.

Bindings, the help screen and the documentation are made from the declared keys.

Invariants:
    panels.P1. Only the lines on screen are drawn, whatever the number of rows.
    panels.P2. Every line is drawn through livedbg.panels.cells.Line, so it is sanitised and filled.
    panels.P3. The cursor stays on its row's identity when rows come, go and are sorted anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Final

from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from livedbg.model import LogRecord
from livedbg.model.intents import Intent
from livedbg.panels.cells import Line, Painted
from livedbg.panels.draw_context import EMPTY_CONTEXT, DrawContext
from livedbg.text.sanitize import clean_line
from livedbg.themes import Role


@dataclass
class Picked(Message):
    """The user moved to a row: every panel follows to `entity`."""

    entity: str


@dataclass
class Pointed(Message):
    """The user moved to a hit or device state: its detail panel follows."""

    hit: str | None


@dataclass
class Opened(Message):
    """The user wants the details of `entity`."""

    entity: str


@dataclass
class Led(Message):
    """The user wants to see `entity` on the screen `view`; on the logs screen, the records around a time."""

    view: str
    entity: str
    at_wall_ns: int | None = None


@dataclass
class Unfolded(Message):
    """The user wants to read all of a log record."""

    record: LogRecord


@dataclass
class Asked(Message):
    """The user requests something from the session."""

    intent: Intent
    notice: str = ""


@dataclass
class FunctionsAsked(Message):
    """The user switches between threads and the functions that use CPU time."""


@dataclass
class Noticed(Message):
    """A notice for the user."""

    text: str
    severity: str = "information"


@dataclass(frozen=True, slots=True)
class Key:
    """A key binding of a panel or the app.

    Attributes:
        keys: as Textual spells them, comma separated: `slash`, `ctrl+d`, `s,o`.
        shown: as a user reads them: `/`, `^d`, `s`.
        help: a few words.
        name: stable name for keymaps; by default made from the action.
    """

    keys: str
    shown: str
    action: str
    help: str
    name: str = ""

    @property
    def id(self) -> str:
        """Return the stable name of the binding."""
        return self.name or self.action.replace("('", "-").replace("')", "").replace("_", "-")


def bindings(scope: str, keys: Iterable[Key], *, priority: bool = False) -> list[BindingType]:
    """Return Textual's bindings for declared keys; `scope` makes their names unique."""
    return [
        Binding(key.keys, key.action, key.help, show=False, priority=priority, id=f"{scope}.{key.id}") for key in keys
    ]


MOVES: Final = (
    Key("up,k", "↑ k", "move(-1)", "row up"),
    Key("down,j", "↓ j", "move(1)", "row down"),
    Key("pageup,ctrl+u", "PgUp ^u", "page(-1)", "page up"),
    Key("pagedown,ctrl+d", "PgDn ^d", "page(1)", "page down"),
    Key("home,g", "Home g", "edge(-1)", "first row"),
    Key("end,G", "End G", "edge(1)", "last row"),
    Key("enter", "Enter", "open", "details of the selected row"),
)
"""What every panel with rows can do."""


class LinePanel(ScrollView, can_focus=True):
    """A panel of rows drawn line by line; subclasses implement `count` and `draw`.

    Class attributes:
        LABEL: title.
        HELP: its content, in one or two sentences.
        KEYS: key bindings besides MOVES.
        HEAD: number of fixed lines above the rows.
        CURSOR: rows can be selected; if not, the keys scroll.
    """

    LABEL: ClassVar[str] = ""
    HELP: ClassVar[str] = ""
    KEYS: ClassVar[tuple[Key, ...]] = ()
    HEAD: ClassVar[int] = 0
    CURSOR: ClassVar[bool] = True
    BINDINGS: ClassVar[list[BindingType]] = bindings("panel", MOVES)

    def __init_subclass__(cls, *, scope: str = "", **options: bool) -> None:
        """Bind the keys of a subclass; `scope` makes their names unique."""
        if scope:
            cls.BINDINGS = bindings(scope, cls.KEYS)
        super().__init_subclass__(**options)

    def __init__(self) -> None:
        super().__init__()
        self.context: DrawContext = EMPTY_CONTEXT
        self.cursor = 0
        self.offset_x = 0
        self._painted = Painted(self.refresh)
        self._showing = False
        self._titles = ("", "")
        self.title(self.LABEL)

    # what subclasses say

    def count(self) -> int:
        """Return the number of rows."""
        return 0

    def draw(self, index: int, line: Line) -> None:
        """Draw one row."""

    def draw_head(self, index: int, line: Line) -> None:
        """Draw one of the HEAD fixed lines."""

    def entity(self, index: int) -> str | None:
        """Return the entity of a row."""
        return None

    def find(self, entity: str) -> int | None:
        """Return the row of an entity."""
        return None

    def context_changed(self, before: DrawContext) -> None:
        """Rebuild the rows for a new state or selection."""

    def filter(self, text: str) -> None:
        """Show only rows with `text`; every row if it is empty."""

    def placeholder(self) -> str:
        """Return the text to show when there are no rows."""
        return ""

    @property
    def has_cursor(self) -> bool:
        """Return whether a row is selected; if not, the keys scroll."""
        return self.CURSOR

    # what the app calls

    def show(self, context: DrawContext) -> None:
        """Draw another state, selection or theme."""
        before, self.context = self.context, context
        self._showing = True  # one repaint in the end is enough
        try:
            self.context_changed(before)
            if context.selection is not None and context.selection != before.selection:
                self.follow(context.selection)
            self.resize_rows()
        finally:
            self._showing = False
        self.repaint()

    def repaint(self) -> None:
        """Repaint cells that are out of date."""
        if not self._showing:
            region = self.scrollable_content_region
            self._painted.repaint(region.height, partial(self.screen_line, width=region.width))

    @property
    def max_lines(self) -> int:
        """Return how many lines the style sheet gives it at most."""
        most = self.styles.max_height
        return most.cells - 2 if most is not None and most.cells else 99

    def follow(self, entity: str) -> None:
        """Move to the row of the selected entity, if there is one."""
        row = self.find(entity)
        if row is not None and row != self.cursor:
            self.cursor = row
            self.reveal()

    def copy_text(self) -> str:
        """Return the selected row as text."""
        return self.line(self.cursor, 400).strip().text.strip() if self.count() else ""

    def title(self, text: str, right: str = "") -> None:
        """Set the title and the text on the lower border."""
        if (text, right) == self._titles:
            return  # a title that is set is painted, and all of the panel with it
        self._titles = (text, right)
        self.border_title = Text(clean_line(text))
        self.border_subtitle = Text(clean_line(right)) if right else None

    # drawing

    def resize_rows(self) -> None:
        """Set the number of lines of the scroll view."""
        count = self.count()
        self.cursor = max(0, min(self.cursor, count - 1))
        size = Size(self.scrollable_content_region.width, count + self.HEAD)
        if size != self.virtual_size:
            self.virtual_size = size

    def line(self, index: int, width: int) -> Line:
        """Return one drawn row."""
        ink = self.context.ink
        mine = self.has_cursor and index == self.cursor
        if mine and self.has_focus:
            drawn = Line(width, ink.selected, flat=True)
        elif mine and self.entity(index) == self.context.selection:
            drawn = Line(width, ink.followed)
        else:
            drawn = Line(width, self.base_style)
        self.draw(index, drawn)
        return drawn

    @property
    def base_style(self) -> Style:
        """Return the style under the lines."""
        return self.context.ink.base

    def render_line(self, y: int) -> Strip:
        return self._painted.drawn(y, self.screen_line(y, self.scrollable_content_region.width))

    def screen_line(self, y: int, width: int) -> Strip:
        """Return a line of the screen in its current state."""
        if y < self.HEAD:
            head = Line(width, self.context.ink.base)
            self.draw_head(y, head)
            return head.strip()
        index = y - self.HEAD + self.scroll_offset.y
        if index < self.count():
            return self.line(index, width).strip()
        blank = Line(width, self.base_style)
        if index == 0:
            words = "Looking." if self.context.diagnosis.is_looking else self.placeholder()
            blank.add(words, self.context.ink.style(Role.DIM))
        return blank.strip()

    # moving

    @property
    def page_rows(self) -> int:
        """Return how many rows fit."""
        return max(self.scrollable_content_region.height - self.HEAD, 1)

    def reveal(self) -> None:
        """Scroll so that the cursor is on screen."""
        top, rows = int(self.scroll_target_y), self.page_rows
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False)
        elif self.cursor >= top + rows:
            self.scroll_to(y=self.cursor - rows + 1, animate=False)

    def move_to(self, index: int) -> None:
        """Put the cursor on a row and notify the app."""
        count = self.count()
        if not self.has_cursor:
            self.cursor = max(0, min(index, count - self.page_rows))
            self.scroll_to(y=self.cursor, animate=False)
            return
        if not count:
            return
        before, self.cursor = self.cursor, max(0, min(index, count - 1))
        self.reveal()
        for row in {before, self.cursor}:
            self.refresh_row(row)
        entity = self.entity(self.cursor)
        if entity is not None:
            self.post_message(Picked(entity))

    def refresh_row(self, index: int) -> None:
        y = index - int(self.scroll_offset.y) + self.HEAD
        if self.HEAD <= y < self.size.height:
            self.refresh(Region(0, y, self.size.width, 1))

    def action_move(self, rows: int) -> None:
        self.move_to(self.cursor + rows)

    def action_page(self, pages: int) -> None:
        self.move_to(self.cursor + pages * self.page_rows)

    def action_edge(self, side: int) -> None:
        """Move to the first or the last row."""
        self.move_to(0 if side < 0 else self.count() - 1)

    def action_shift(self, cells: int) -> None:
        """Scroll the text of the rows left or right."""
        self.offset_x = max(0, self.offset_x + cells)
        self.refresh()

    def action_open(self) -> None:
        """Ask for the details of the row."""
        entity = self.entity(self.cursor) if self.count() else None
        if entity is not None:
            self.post_message(Opened(entity))

    def on_click(self, event: events.Click) -> None:
        """Select by mouse; a double click opens."""
        offset = event.get_content_offset(self)
        if offset is None:
            return
        index = offset.y - self.HEAD + int(self.scroll_offset.y)
        if offset.y < self.HEAD:
            self.head_clicked(offset.x)
        elif index < self.count():
            self.move_to(index)
            if event.chain == 2:
                self.action_open()

    def head_clicked(self, x: int) -> None:
        """Handle a click on the fixed lines."""

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def on_resize(self) -> None:
        self.resize_rows()
        self.refresh()
