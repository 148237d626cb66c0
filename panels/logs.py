"""The Logs panel: whole logs of any size as tabs, with following, search, filters and error marks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment, Segments
from rich.style import Style
from textual.scrollbar import ScrollBarRender

from livedbg.logs.reader import LogReader
from livedbg.model import LogRecord, Severity
from livedbg.panels.base import Key, Noticed, Unfolded
from livedbg.panels.cells import Line, fit
from livedbg.panels.draw_context import DrawContext
from livedbg.panels.log import FollowingPanel, draw_record, rank_of, source_name
from livedbg.panels.logrows import (
    ChosenLines,
    LogLines,
    LogRows,
    NewestRecords,
    Said,
    by_time,
    folded,
    is_of,
    rows_about,
)
from livedbg.panels.logsearch import ErrorMarks, LogPages, LogSearch, Places
from livedbg.text.wording import many
from livedbg.themes import Role

if TYPE_CHECKING:
    from textual.widget import Widget

Marks = Callable[[int], dict[int, tuple[str, Style]]]
"""For a bar of so many cells: the sign and the colour of those that have a mark."""


def cells_of(rows: Iterable[int], count: int, size: int) -> set[int]:
    """Return the cells of a bar of `size` cells in which some of `count` rows are."""
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
    """Replace the cells with a mark; their click actions are kept."""
    cells = list(bar)
    for at, (sign, style) in marks(len(cells)).items():
        under = cells[at].style or Style()
        back = under.color if under.reverse else under.bgcolor
        cells[at] = Segment(sign, Style(color=style.color, bgcolor=back, bold=True, meta=under.meta))
    return cells


def mark_scroll_bar(widget: Widget, marks: Marks) -> None:
    """Draw marks on the vertical scroll bar of a widget.

    Textual documents `renderer` as settable for a single scroll bar (textual.scrollbar.ScrollBar).
    """
    bar = widget.vertical_scrollbar
    bar.__dict__["renderer"] = lambda *args, **kwargs: _MarkedRender(marks, *args, **kwargs)


ALL = ""
"""The source that stands for the newest records of all logs."""


def _tabs(context: DrawContext) -> list[tuple[str, str]]:
    sources = context.snapshot.log_sources
    return [(ALL, "all, newest"), *((s, fit(source_name(context, s), 20).rstrip()) for s in sources)]


def draw_tabs(context: DrawContext, line: Line, chosen: str) -> None:
    """Draw all tabs; the chosen one is highlighted."""
    for source, label in _tabs(context):
        style = context.ink.selected if source == chosen else context.ink.style(Role.DIM)
        line.cell(f" {label} ", len(label) + 2, style).space()


def tab_at(context: DrawContext, x: int) -> str | None:
    """Return the log whose tab is at a column."""
    left = 0
    for source, label in _tabs(context):
        if left <= x < left + len(label) + 3:
            return source
        left += len(label) + 3
    return None


def tab_beside(context: DrawContext, source: str, step: int) -> str:
    """Return the log of the tab `step` further, wrapping around."""
    sources = [one for one, _label in _tabs(context)]
    return sources[(sources.index(source) + step) % len(sources)]


_LEVELS = (Severity.DEBUG, Severity.WARNING, Severity.ERROR)


class LogsPanel(FollowingPanel, scope="logs"):
    """One whole log, or the newest records of all logs together."""

    LABEL = "Logs"
    HELP = (
        "The first tab merges the newest records of all logs, equal ones of several ranks as one row; each other tab is"
        " one whole log, read as it is shown. `/` searches for a regular expression: in the first tab in all logs from"
        " their beginning, and `o` goes on from a match to its log. Escape ends a search. The scroll bar shows where"
        " errors and matches are. Enter shows the whole record."
    )
    KEYS = (
        Key("left_square_bracket", "[", "source(-1)", "previous log", "source-before"),
        Key("right_square_bracket", "]", "source(1)", "next log", "source-next"),
        Key("f", "f", "follow", "follow the end"),
        Key("v", "v", "severity", "show warnings and worse, errors and worse, or all records"),
        Key("n", "n", "again(1)", "next match", "find-next"),
        Key("N", "N", "again(-1)", "previous match", "find-before"),
        Key("o", "o", "open_log", "show the record in its log", "open-log"),
        Key("left", "←", "shift(-20)", "scroll left"),
        Key("right", "→", "shift(20)", "scroll right"),
    )
    HEAD = 1

    def __init__(self) -> None:
        super().__init__()
        self.reader: LogReader | None = None
        self.source = ALL
        self.least = Severity.DEBUG
        self.only: str | None = None
        self.searching = LogSearch(self._changed_elsewhere)
        self.scan: Places | None = None
        self._marks = ErrorMarks(self._changed_elsewhere)
        self._pages: LogPages | None = None
        self._newest = NewestRecords(())
        self._goal: int | None = None  # a row to go to once the log is known to have it

    def on_mount(self) -> None:
        mark_scroll_bar(self, self._bar_marks)

    # what is shown

    @property
    def pages(self) -> LogPages | None:
        """Return the reader's pages, created on first use."""
        if self._pages is None and self.reader is not None:
            self._pages = LogPages(self.reader, self._changed_elsewhere)
        return self._pages

    @property
    def rows(self) -> LogRows:
        if self.source == ALL:
            everywhere = self.searching.places
            return self._newest if everywhere is None else ChosenLines(self.pages, everywhere)
        if self.scan is not None:
            return ChosenLines(self.pages, self.scan)
        return LogLines(self.pages, self.source, self._marks.of(self.source))

    def context_changed(self, before: DrawContext) -> None:
        if self.source and self.source not in self.context.snapshot.log_sources:
            self.source = ALL
        records: Sequence[LogRecord] = self.context.snapshot.recent_logs
        if self.least is not Severity.DEBUG:
            records = [record for record in records if record.severity.rank >= self.least.rank]
        if self.only is not None:
            records = [record for record in records if is_of(self.context, record, self.only)]
        self._newest = NewestRecords(folded(by_time(records), lambda record: rank_of(self.context, record)))
        self.renew()

    def renew(self) -> None:
        """Count again, and stay at the end when following."""
        log = self.context.snapshot.log_sources.get(self.source)
        if self.reader is not None and log is not None and self.scan is None:
            self._marks.look(self.reader, self.source, self.count(), log.size)
        self.resize_rows()
        if self._goal is not None and self._goal < self.count():
            goal, self._goal = self._goal, None
            self.move_to(goal)
            self.call_after_refresh(self.reveal)  # only then can it be scrolled so far
        self.stay()
        self._retitle()
        self.repaint()

    def count(self) -> int:
        return self.rows.count()

    def record(self, index: int) -> LogRecord | None:
        """Return the record of a row; None while it is being read."""
        return self.rows.record(index)

    def entity(self, index: int) -> str | None:
        """Return the first entity that a record names, else its log."""
        record = self.record(index)
        if record is None:
            return None
        return record.links[0] if record.links else record.source

    def action_open(self) -> None:
        record = self.record(self.cursor)
        if record is not None:
            self.post_message(Unfolded(record))

    # drawing

    def draw_head(self, index: int, line: Line) -> None:
        draw_tabs(self.context, line, self.source)

    def draw(self, index: int, line: Line) -> None:
        rows = self.rows
        record = rows.record(index)
        if record is None:
            line.add("reading", self.context.ink.style(Role.FAINT))
            return
        if self.source != ALL:
            number = record.line if record.line is not None else index + 1
            line.cell(str(number), 8, self.context.ink.style(Role.FAINT), "right").space()
        widest = 12 if self.source == ALL and line.width >= 60 else 0
        draw_record(
            self.context,
            record,
            line,
            source_width=widest,
            shift=self.offset_x,
            found=self.searching.pattern,
            who=rows.ranks(index),
        )

    def placeholder(self) -> str:
        if self.searching.pattern is not None:
            return f"No line of the logs matches {self.searching.text}"
        if self.least is not Severity.DEBUG:
            return "No records of this severity."
        return "No logs are read." if not self.context.snapshot.log_sources else "No records yet."

    def _bar_marks(self, size: int) -> dict[int, tuple[str, Style]]:
        """Return the marks of errors and matches on a scroll bar; an error hides a match."""
        rows, ink, sign = self.rows, self.context.ink, self.context.glyphs.track
        count = rows.count()
        matches: Iterator[int] = iter(())
        if isinstance(rows, LogLines) and self.searching.places is not None:
            matches = (line for _source, line in self.searching.places.found)
        marks = dict.fromkeys(cells_of(matches, count, size), (sign, ink.style(Role.WARN)))
        return marks | dict.fromkeys(cells_of(rows.errors(), count, size), (sign, ink.style(Role.BAD)))

    def _retitle(self) -> None:
        least = "" if self.least is Severity.DEBUG else f"{self.least.value} and worse"
        whole = self.source == ALL or self.pages is None or self.pages.count(self.source)[1]
        lines = f"{many(self.count(), 'line')}{'' if whole else ' so far'}"
        busy = ""
        if self.scan is not None and not self.scan.done:
            busy = f"filtering {self.scan.share:.0%} (Escape cancels)"
        only = "" if self.only is None else f"of {self.context.names.label(self.only)} (Escape shows all)"
        follow = "following" if self.following else ""
        found = self.searching.summary(self.source, self._line_at_cursor(), self.source == ALL)
        lines = found if self.source == ALL and found else f"{lines}  {found}"
        self.title("  ".join(filter(None, (self.LABEL, lines.rstrip(), only, least, busy))), follow)
        if self.is_attached and self.show_vertical_scrollbar:
            self.vertical_scrollbar.refresh()

    def _line_at_cursor(self) -> int:
        """Return the line number under the cursor in its log, from 0."""
        if self.scan is not None:
            line = self.scan.line(self.cursor)
            return 0 if line is None else line
        return self.cursor

    # what was logged about something

    def lead_to(self, entity: str, at_wall_ns: int | None) -> str:
        """Show the records of a thread around a time (or of its process, or all); return a sentence that says which."""
        self.least = Severity.DEBUG
        self.choose(ALL)
        row, sentence = rows_about(self.context, entity, at_wall_ns, self._narrow)
        if row is not None:
            self.cursor, self.following = row, False  # what is selected stays
            self.reveal()
            self._retitle()
        return sentence

    def _narrow(self, only: str | None) -> Sequence[Said]:
        """Show only the records of one thread or process; None for all."""
        if only != self.only:
            self.only = only
            self.context_changed(self.context)
        return self._newest.said

    # searching

    def filter(self, text: str) -> None:
        """Search whole logs for a regular expression; an empty one ends the search."""
        self.searching.end()
        if not text:
            self._narrow(None)
            self.renew()
            self.refresh()
            return
        sources = [self.source] if self.source != ALL else [*self.context.snapshot.log_sources]
        try:
            self.searching.begin(text, self.reader, sources)
        except ValueError as error:
            self.post_message(Noticed(str(error), "warning"))
            return
        if self.source == ALL:
            self.cursor, self.following = 0, False
            self.scroll_to(y=0, animate=False)
            self.renew()
            self.refresh()
        else:
            self.find_from(self._line_at_cursor(), 1)

    def find_from(self, line: int, step: int) -> None:
        """Go to the next match in the shown log, starting at a line."""
        if self.searching.pattern is None or self.reader is None:
            self.post_message(Noticed("Nothing to search for: press / first"))
            return
        known, found = self.searching.known(self.source, line, step)
        if known:
            self._found(found)
        else:
            self.searching.find(self.reader, self.source, line, step)
            self._retitle()

    def _found(self, line: int | None) -> None:
        if line is not None and self.scan is not None:
            line = self.scan.ordinal(self.source, line)  # a row of the filter, where it shows that line
            line = None if line is None else line - 1
        if line is None:
            self.post_message(Noticed(f"Not found in this direction: {self.searching.text}", "warning"))
        else:
            self.move_to(line)
        self.refresh()

    def give_up(self) -> bool:
        """Cancel a search; return False if none is running."""
        busy = self.searching.give_up()
        self._retitle()
        return busy

    def _changed_elsewhere(self) -> None:
        """Called from another thread."""
        loop = self.app._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._take)

    def _take(self) -> None:
        if not self.is_attached:
            return
        with self.app._context():
            step = self.searching.step
            if step is not None and step.done:
                self.searching.step = None
                if step.error:
                    self.post_message(Noticed(f"Can't search: {step.error}", "warning"))
                else:
                    self._found(step.found)
            self.renew()

    # actions

    def move_to(self, index: int) -> None:
        """Move; found rows are not followed."""
        super().move_to(index)
        self.following = self.following and not isinstance(self.rows, ChosenLines)
        self._retitle()

    def choose(self, source: str) -> None:
        """Show another log."""
        self.searching.end()
        if self.scan is not None:
            self.scan.cancel()
            self.scan = None
        self.source, self.cursor, self.following, self.only, self._goal = source, 0, True, None, None
        if source != ALL and self.reader is not None and self.least is not Severity.DEBUG:
            self.scan = Places(self.reader, self._changed_elsewhere).severe(self.least, source)
        self.context_changed(self.context)

    def action_source(self, step: int) -> None:
        self.choose(tab_beside(self.context, self.source, step))

    def action_severity(self) -> None:
        """Raise the minimum severity shown."""
        self.least = _LEVELS[(_LEVELS.index(self.least) + 1) % len(_LEVELS)]
        self.choose(self.source)

    def action_again(self, step: int) -> None:
        """Go to the next match."""
        if self.source == ALL and self.searching.places is not None:
            self.move_to(self.cursor + step)
        else:
            self.find_from(self._line_at_cursor() + step, step)

    def action_open_log(self) -> None:
        """Show the record under the cursor in its log; the search is kept."""
        record = self.record(self.cursor)
        if record is None or record.line is None or record.source not in self.context.snapshot.log_sources:
            return
        text, self.least = self.searching.text, Severity.DEBUG
        self.choose(record.source)
        if text:
            self.searching.begin(text, self.reader, [record.source])
        self.following, self._goal = False, record.line - 1
        self.renew()

    def head_clicked(self, x: int) -> None:
        source = tab_at(self.context, x)
        if source is not None:
            self.choose(source)

    def on_unmount(self) -> None:
        self.searching.end()
        if self._pages is not None:
            self._pages.close()
