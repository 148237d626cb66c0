"""The log panel of the Overview, and the base of panels that follow growing records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from livedbg.model import LogRecord
from livedbg.panels.base import LinePanel
from livedbg.panels.cells import Line
from livedbg.panels.draw_context import DrawContext
from livedbg.panels.messages import Key, Unfolded, bindings
from livedbg.panels.records import concerns, draw_record, source_name
from livedbg.text.wording import many


class FollowingPanel(LinePanel):
    """A panel that follows rows added at the end."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.following = True
        self.offset_x = 0

    def stay(self) -> None:
        """Stay at the end when following, after layout."""
        if self.following:
            self.cursor = max(self.count() - 1, 0)
            self.call_after_refresh(self.to_end)

    def to_end(self) -> None:
        if self.following:
            self.cursor = max(self.count() - 1, 0)
            self.scroll_to(y=max(self.count() - self.page_rows, 0), animate=False)
            self.repaint()

    def move_to(self, index: int) -> None:
        """Move; leaving the end stops following, reaching it resumes it."""
        self.following = index >= self.count() - 1
        super().move_to(index)

    def action_follow(self) -> None:
        self.following = True
        self.to_end()
        self.refresh()

    def action_shift(self, cells: int) -> None:
        self.offset_x = max(0, self.offset_x + cells)
        self.refresh()


_KEYS = (
    Key("a", "a", "all", "show records of the selected entity, or of all"),
    Key("f", "f", "follow", "follow the end"),
    Key("left", "←", "shift(-20)", "scroll left"),
    Key("right", "→", "shift(20)", "scroll right"),
)


class LogPanel(FollowingPanel):
    """The newest records of all logs."""

    LABEL = "Log"
    HELP = (
        "The newest records of all logs. If records name the selected entity, only those are shown; `a` shows all. "
        "Enter shows the whole record; the Logs screen reads whole logs."
    )
    KEYS: ClassVar[tuple[Key, ...]] = _KEYS
    BINDINGS = bindings("log", _KEYS)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.records: Sequence[LogRecord] = ()
        self.everything = False
        self.needle = ""

    def context_changed(self, before: DrawContext) -> None:
        if (
            self.context.snapshot.recent_logs is before.snapshot.recent_logs
            and self.context.selection == before.selection
        ):
            return
        self.choose()

    def choose(self) -> None:
        """Choose the records to show."""
        context, records = self.context, self.context.snapshot.recent_logs
        what, selection = "", context.selection
        if selection is not None and not self.everything:
            own = [record for record in records if concerns(record, selection)]
            if own:
                records, what = own, "of the selected entity  (a shows all)"
        if self.needle:
            records = [record for record in records if self.needle in record.text.lower()]
        self.records = records
        self.set_class(not context.snapshot.recent_logs, "-empty")
        sources = list(context.snapshot.log_sources.values())
        right = f"{many(context.snapshot.log_count, 'record')} of {many(len(sources), 'log')}" if sources else ""
        self.title(f"{self.LABEL}  {what}".rstrip(), right)
        if self.following:
            self.resize_rows()
        self.stay()

    def count(self) -> int:
        return len(self.records)

    def entity(self, index: int) -> str | None:
        """Return the first entity that a record names, else its log."""
        if not 0 <= index < len(self.records):
            return None
        record = self.records[index]
        if self.context.selection in record.links:
            return self.context.selection
        return record.links[0] if record.links else record.source

    def draw(self, index: int, line: Line) -> None:
        names = [source_name(self.context, source) for source in self.context.snapshot.log_sources]
        widest = min(max(map(len, names), default=0), 14) if line.width >= 60 else 0
        draw_record(self.context, self.records[index], line, source_width=widest, shift=self.offset_x)

    def action_open(self) -> None:
        if self.records:
            self.post_message(Unfolded(self.records[self.cursor]))

    def filter(self, text: str) -> None:
        self.needle = text.lower()
        self.choose()
        self.refresh()

    def placeholder(self) -> str:
        if self.needle:
            return "No record matches the filter."
        return "No logs are read." if not self.context.snapshot.log_sources else "No records yet."

    def action_all(self) -> None:
        """Switch between all records and those of the selected entity."""
        self.everything = not self.everything
        self.choose()
        self.refresh()
