"""Whole logs, however big: follow, jump, search with progress, by source and severity."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar, Final

from livedbg.logs.reader import LogReader
from livedbg.model import LogRecord, Severity, ids
from livedbg.panels.base import LinePanel
from livedbg.panels.cells import Line, fit
from livedbg.panels.draw_context import DrawContext
from livedbg.panels.keys import Key, bindings
from livedbg.panels.messages import Noticed, Unfolded
from livedbg.panels.pages import LogPages, Search
from livedbg.panels.records import concerns, draw_record, source_name
from livedbg.text.wording import many
from livedbg.themes import Role

__all__ = ["LogsPanel"]

_KEYS = (
    Key("left_square_bracket", "[", "source(-1)", "previous log", "source-before"),
    Key("right_square_bracket", "]", "source(1)", "next log", "source-next"),
    Key("f", "f", "follow", "follow the end"),
    Key("v", "v", "severity", "show warnings and worse, errors and worse, or all records"),
    Key("n", "n", "again(1)", "next match", "find-next"),
    Key("N", "N", "again(-1)", "previous match", "find-before"),
    Key("left", "←", "shift(-20)", "scroll left"),
    Key("right", "→", "shift(20)", "scroll right"),
)
_LEVELS = (Severity.DEBUG, Severity.WARNING, Severity.ERROR)
_NEAR_NS: Final = 10_000_000_000
"""So much before or after a moment is around it."""
ALL = ""
"""The source that stands for the newest records of all logs."""


class LogsPanel(LinePanel):
    """One log from its first line to its last, or the newest records of all logs together."""

    LABEL = "Logs"
    HELP = (
        "The first tab merges the newest records of all logs; each other tab is one whole log, read as it is shown."
        " `/` searches for a regular expression, Escape cancels a search. Enter shows the whole record."
    )
    KEYS: ClassVar[tuple[Key, ...]] = _KEYS
    BINDINGS = bindings("logs", _KEYS)
    HEAD = 1

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.reader: LogReader | None = None
        self.source = ALL
        self.least = Severity.DEBUG
        self.only: str | None = None
        self.following = True
        self.offset_x = 0
        self.pattern: re.Pattern[str] | None = None
        self.search: Search | None = None
        self.scan: Search | None = None
        self._pages: LogPages | None = None
        self._recent: Sequence[LogRecord] = ()
        self._wanted: str = ""

    # what is shown

    @property
    def pages(self) -> LogPages | None:
        """Pages of the reader, made when they are first needed."""
        if self._pages is None and self.reader is not None:
            self._pages = LogPages(self.reader, self._changed_elsewhere)
        return self._pages

    def context_changed(self, before: DrawContext) -> None:
        """Take new records."""
        if self.source and self.source not in self.context.snapshot.log_sources:
            self.source = ALL
        self._recent = self.context.snapshot.recent_logs
        if self.least is not Severity.DEBUG and self.source == ALL:
            self._recent = [record for record in self._recent if record.severity.rank >= self.least.rank]
        if self.only is not None:
            self._recent = [record for record in self._recent if self._is_of(record, self.only)]
        self.renew()

    def renew(self) -> None:
        """Count again, and stay at the end when following."""
        self.resize_rows()
        if self.following:
            self.call_after_refresh(self.to_end)
        self._retitle()
        self.repaint()

    def to_end(self) -> None:
        """Show the last line."""
        if self.following:
            self.cursor = max(self.count() - 1, 0)
            self.scroll_to(y=max(self.count() - self.page_rows, 0), animate=False)
            self.repaint()

    def count(self) -> int:
        """Lines."""
        if self.source == ALL:
            return len(self._recent)
        if self.scan is not None:
            return len(self.scan.matches)
        return self.pages.count(self.source)[0] if self.pages is not None else 0

    def record(self, index: int) -> LogRecord | None:
        """The record of a row; None while it is being read."""
        if self.source == ALL:
            return self._recent[index] if 0 <= index < len(self._recent) else None
        if self.scan is not None:
            index = self.scan.matches[index] if 0 <= index < len(self.scan.matches) else 0
        return self.pages.line(self.source, index) if self.pages is not None else None

    def entity(self, index: int) -> str | None:
        """The first entity that a record speaks of, else its log."""
        record = self.record(index)
        if record is None:
            return None
        return record.links[0] if record.links else record.source

    def action_open(self) -> None:
        """All of the record."""
        record = self.record(self.cursor)
        if record is not None:
            self.post_message(Unfolded(record))

    # drawing

    def draw_head(self, index: int, line: Line) -> None:
        """The logs as tabs."""
        ink = self.context.ink
        for source, label in self._tabs():
            here = source == self.source
            line.cell(f" {label} ", len(label) + 2, ink.selected if here else ink.style(Role.DIM)).space()

    def draw(self, index: int, line: Line) -> None:
        """One record."""
        record = self.record(index)
        if record is None:
            line.add("reading", self.context.ink.style(Role.FAINT))
            return
        if self.source != ALL:
            number = record.line if record.line is not None else index + 1
            line.cell(str(number), 8, self.context.ink.style(Role.FAINT), "right").space()
        widest = 12 if self.source == ALL and line.width >= 60 else 0
        draw_record(self.context, record, line, source_width=widest, shift=self.offset_x, found=self.pattern)

    def placeholder(self) -> str:
        """Nothing to show."""
        if self.least is not Severity.DEBUG:
            return "No records of this severity."
        return "No logs are read." if not self.context.snapshot.log_sources else "No records yet."

    def _tabs(self) -> list[tuple[str, str]]:
        sources = self.context.snapshot.log_sources
        return [(ALL, "all, newest"), *((s, fit(source_name(self.context, s), 20).rstrip()) for s in sources)]

    def _retitle(self) -> None:
        least = "" if self.least is Severity.DEBUG else f"{self.least.value} and worse"
        whole = self.source == ALL or self.pages is None or self.pages.count(self.source)[1]
        lines = f"{many(self.count(), 'line')}{'' if whole else ' so far'}"
        busy = ""
        for job, word in ((self.search, "searching"), (self.scan, "filtering")):
            if job is not None and not job.done:
                busy = f"{word} {job.share:.0%} (Escape cancels)"
        only = "" if self.only is None else f"of {self.context.names.label(self.only)} (Escape shows all)"
        follow = "following" if self.following else ""
        self.title("  ".join(filter(None, (self.LABEL, lines, only, least, busy))), follow)

    # what was logged about something

    def lead_to(self, entity: str, at_wall_ns: int | None) -> str:
        """Show what a thread logged around a time; where it logged nothing, its process, or anybody.

        Returns:
            What is shown, in a sentence.
        """
        self.least = Severity.DEBUG
        self.choose(ALL)
        parts = ids.parse(entity).parts if entity.startswith("thread:") else ()
        whose = [entity, ids.process(parts[0], int(parts[1]))] if parts else [entity]

        def near(only: str | None) -> list[int]:
            self._narrow(only)
            if at_wall_ns is None:
                return []
            away = ((abs(r.wall_ns - at_wall_ns), n) for n, r in enumerate(self._recent) if r.wall_ns is not None)
            return [row for distance, row in sorted(away) if distance <= _NEAR_NS]

        for only in (*whose, None):
            rows = near(only)
            if rows:
                self.cursor, self.following = rows[0], False  # what is selected stays
                self.reveal()
                self._retitle()
                who = "all logs" if only is None else self.context.names.label(only)
                return f"Records around that time: {who}"
        for only in whose:
            self._narrow(only)
            if self._recent:
                timed = any(record.wall_ns is not None for record in self._recent)
                why = "none are from around that time" if timed else "without time stamps"
                return f"Newest records of {self.context.names.label(only)}: {why}"
        self._narrow(None)
        return "No records around that time; these are the newest of all logs"

    def _narrow(self, only: str | None) -> None:
        """Show what one thread or process logged only; None: all."""
        if only != self.only:
            self.only = only
            self.context_changed(self.context)

    def _is_of(self, record: LogRecord, entity: str) -> bool:
        if concerns(record, entity):
            return True
        log = self.context.snapshot.log_sources.get(record.source)
        if log is not None and log.process == entity:
            return True
        process = self.context.snapshot.processes.get(entity)
        return process is not None and record.pid == process.pid

    # searching

    def filter(self, text: str) -> None:
        """Search for a regular expression from here on; an empty one ends the search."""
        self.pattern = None
        self._wanted = text
        if not text:
            self._narrow(None)
            self.refresh()
            return
        try:
            self.pattern = re.compile(text, 0 if any(c.isupper() for c in text) else re.IGNORECASE)
        except re.error as error:
            self.post_message(Noticed(f"Not a regular expression: {error}", "warning"))
            return
        self.find_from(self.cursor, 1)

    def find_from(self, start: int, step: int) -> None:
        """Go to the next match from a row on."""
        if self.pattern is None:
            self.post_message(Noticed("Nothing to search for: press / first"))
        elif self.source == ALL or self.scan is not None:
            rows = range(start, self.count()) if step > 0 else range(start, -1, -1)
            match = next((n for n in rows if (r := self.record(n)) and self.pattern.search(r.text)), None)
            self._found(match)
        elif self.reader is not None:
            self.give_up()
            self.search = Search(self.reader, self.source, self._changed_elsewhere)
            self.search.find(self._wanted, max(start, 0), backwards=step < 0)
            self._retitle()

    def _found(self, row: int | None) -> None:
        if row is None:
            self.post_message(Noticed(f"Not found in this direction: {self._wanted}", "warning"))
        else:
            self.move_to(row)
        self.refresh()

    def give_up(self) -> bool:
        """Give up a search; False when none is running."""
        busy = self.search is not None and not self.search.done
        if self.search is not None:
            self.search.cancel()
        self.search = None
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
            if self.search is not None and self.search.done:
                search, self.search = self.search, None
                if search.error:
                    self.post_message(Noticed(f"Can't search: {search.error}", "warning"))
                else:
                    self._found(search.found)
            self.renew()

    # actions

    def move_to(self, index: int) -> None:
        """Leaving the end stops following; reaching it starts again."""
        self.following = index >= self.count() - 1
        super().move_to(index)
        self._retitle()

    def choose(self, source: str) -> None:
        """Show another log."""
        self.give_up()
        if self.scan is not None:
            self.scan.cancel()
            self.scan = None
        self.source, self.cursor, self.following, self.only = source, 0, True, None
        if source != ALL and self.least is not Severity.DEBUG and self.reader is not None:
            self.scan = Search(self.reader, source, self._changed_elsewhere)
            self.scan.scan(self.least)
        self.context_changed(self.context)

    def action_source(self, step: int) -> None:
        """The next log."""
        sources = [source for source, _label in self._tabs()]
        self.choose(sources[(sources.index(self.source) + step) % len(sources)])

    def action_severity(self) -> None:
        """Raise the least severity that is shown."""
        self.least = _LEVELS[(_LEVELS.index(self.least) + 1) % len(_LEVELS)]
        self.choose(self.source)

    def action_follow(self) -> None:
        """Follow the end."""
        self.following = True
        self.renew()

    def action_again(self, step: int) -> None:
        """Find the next match."""
        self.find_from(self.cursor + step, step)

    def action_shift(self, cells: int) -> None:
        """Shift long lines."""
        self.offset_x = max(0, self.offset_x + cells)
        self.refresh()

    def head_clicked(self, x: int) -> None:
        """Choose a log by mouse."""
        left = 0
        for source, label in self._tabs():
            if left <= x < left + len(label) + 3:
                self.choose(source)
                return
            left += len(label) + 3

    def on_unmount(self) -> None:
        """Close the pages."""
        if self._pages is not None:
            self._pages.close()
