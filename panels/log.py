"""Log records: how all panels draw and match them; the log panel of the Overview; the base of panels that follow."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from rich.style import Style

from livedbg.logs.naming import tag_of
from livedbg.logs.writers import NO_TAG, written_by
from livedbg.model import LogRecord, Severity, ids
from livedbg.panels.base import Key, LinePanel, Unfolded
from livedbg.panels.cells import Line, fit, width_of
from livedbg.panels.draw_context import SEVERITY_MARKS, DrawContext
from livedbg.panels.sheet import Sheet, SheetLine, led, link
from livedbg.text.patterns import lazy_re
from livedbg.text.quantities import clock_ms
from livedbg.text.sanitize import clean_line
from livedbg.text.wording import many
from livedbg.themes import Role

_LEVEL: Final = r"(?:DEBUG|TRACE|VERBOSE|INFO|NOTICE|TIMING|WARN|WARNING|ERROR|ERR|CRITICAL|FATAL|PANIC)"
_CLOCK: Final = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_TOLD: Final = lazy_re(
    r"\[mono_ns=\d+\]|[\[(]? {0,6}\d{1,9}\.\d{6}\] ?"
    rf"|[\[(]?(?:\d{{4}}[-/]\d\d[-/]\d\d|\d\d-\d\d|[A-Z][a-z]{{2}} +\d{{1,2}}|\d{{4}})?[T :-]?{_CLOCK}[.\d]*"
    r" ?(?:Z|[+-]\d\d:?\d\d)?[\])]?"
    rf"|[\[(<|]? ?\b{_LEVEL}\b ?[\])>|]?:?|^\[?[VIWEFC](?=\d{{4}} |\d{{8}} )(?:\d{{8}}|\d{{4}}) |^\[[VIWEF] ",
    re.IGNORECASE,
)
_FIRST_WORD: Final = lazy_re(rf"[\s\[(<|:-]*\b{_LEVEL}\b[\])>|]?[\s:|-]*")
_NAMED: Final = lazy_re(  # `name - ERROR - message`, `worker[1] INFO message`, `name | [WARNING] message`
    rf"^([^\s]{{1,80}} ?(?:[-|:]|(?<=[\])])))\s*[\[(<|]?\b{_LEVEL}\b[\])>|]?(?:\s*[-|:]+)?\s+"
)
_LOOSE: Final = lazy_re(r"^[\s|:,-]+")
_SPACES: Final = lazy_re(r" {2,}")


def message_of(record: LogRecord) -> str:
    """Return the record on one line, without time and severity, which have their own columns.

    Other parts of the header (thread, file and line, logger) stay.
    """
    text = clean_line(record.text)
    if not record.head:
        return text
    head, body = text[: record.head], text[record.head :]
    kept = _SPACES.sub(" ", _LOOSE.sub("", _TOLD.sub(" ", head))).rstrip()
    body = body.lstrip()
    level = _FIRST_WORD.match(body)
    if level is not None and level.end() < len(body):
        body = body[level.end() :]
    else:
        body = _NAMED.sub(lambda found: f"{found[1]} ", body, count=1)
    return f"{kept} {body.lstrip()}" if kept else body


_NARROW: Final = 100  # cells of a row in which the name of a writer gets fewer of them


def source_name(context: DrawContext, source: str) -> str:
    known = context.snapshot.log_sources.get(source)
    return known.name if known is not None else source.rsplit("/", 1)[-1]


def rank_of(context: DrawContext, record: LogRecord) -> int | None:
    """Return the rank that wrote a record; None if not known."""
    if record.rank is not None:
        return record.rank
    source = context.snapshot.log_sources.get(record.source)
    process = context.snapshot.processes.get(source.process or "") if source is not None else None
    return process.rank if process is not None else None


def writer_of(context: DrawContext, record: LogRecord) -> str:
    """Return the writer of a record if its lines name one other than its log."""
    source = context.snapshot.log_sources.get(record.source)
    own = tag_of(source) if source is not None else NO_TAG
    if (record.writer, record.host) == (own.writer, own.host):
        return ""
    return clean_line(written_by(record.writer, record.host, record.pid))


def concerns(record: LogRecord, entity: str) -> bool:
    """Return whether a record names an entity, or was written by that thread."""
    if entity in record.links or entity == record.source:
        return True
    if record.tid is None or not entity.startswith("thread:"):
        return False
    try:
        return ids.parse(entity).short == str(record.tid)
    except ValueError:
        return False


def draw_record(
    context: DrawContext,
    record: LogRecord,
    line: Line,
    *,
    source_width: int = 0,
    shift: int = 0,
    found: re.Pattern[str] | None = None,
    who: str = "",
) -> None:
    """Draw time, severity, source and message, with matches highlighted.

    Args:
        source_width: cells for the source's name; 0 omits it.
        shift: cells of the text that are left of the window.
        found: pattern to highlight.
        who: several writers, instead of the source's name.
    """
    ink = context.ink
    mark = SEVERITY_MARKS[record.severity]
    wide = line.width >= 60
    if wide or record.wall_ns:
        stamp = clock_ms(record.wall_ns)
        line.cell(stamp if wide else stamp[:8], 12 if wide else 8, ink.style(Role.DIM)).space()
    line.cell(mark.word, 5, ink.style(mark.role, bold=record.severity.rank >= Severity.ERROR.rank)).space()
    writer = writer_of(context, record)
    if source_width:
        line.cell(who or source_name(context, record.source), source_width, ink.style(Role.NATIVE)).space()
    elif who:
        line.add(f"{who}:", ink.style(Role.NATIVE)).space()
    marked = ink.style(Role.WARN, bold=True)
    if writer and not who:
        widest = 16 if line.width < _NARROW else 32
        shown = fit(writer, widest) if width_of(writer) > widest else writer
        _add(line, f"{shown}:", ink.style(Role.NATIVE), found, marked)
        line.space()
    text = message_of(record)[shift:]
    quiet = record.severity is Severity.DEBUG
    style = ink.style(mark.role if record.severity.rank >= Severity.ERROR.rank else Role.DIM if quiet else Role.TEXT)
    if found is None:
        line.cell(text, line.left, style)
        return
    _add(line, fit(text, line.left) if width_of(text) > line.left else text, style, found, marked)


def _add(line: Line, text: str, style: Style, found: re.Pattern[str] | None, marked: Style) -> None:
    """Add a text with highlighted matches."""
    at = 0
    for match in found.finditer(text) if found is not None else ():
        line.add(text[at : match.start()], style)
        line.add(match[0], marked)
        at = match.end()
    line.add(text[at:], style)


class FollowingPanel(LinePanel):
    """A panel that follows rows added at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.following = True

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


class LogPanel(FollowingPanel, scope="log"):
    """The newest records of all logs."""

    LABEL = "Log"
    HELP = (
        "The newest records of all logs. If records name the selected entity, only those are shown; `a` shows all. "
        "Enter shows the whole record; the Logs screen reads whole logs."
    )
    KEYS = (
        Key("a", "a", "all", "show records of the selected entity, or of all"),
        Key("f", "f", "follow", "follow the end"),
        Key("left", "←", "shift(-20)", "scroll left"),
        Key("right", "→", "shift(20)", "scroll right"),
    )

    def __init__(self) -> None:
        super().__init__()
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


def record_sheet(record: LogRecord) -> Sheet:
    line = f", line {record.line:,}" if record.line is not None else ""
    return lambda context: (
        f"Record of {source_name(context, record.source)}{line}",
        list(_record_lines(context, record)),
    )


def _record_lines(context: DrawContext, record: LogRecord) -> Iterator[SheetLine]:
    mark = SEVERITY_MARKS[record.severity]
    yield SheetLine(clock_ms(record.wall_ns) or "the record has none", Role.DIM, "time")
    yield SheetLine(mark.word, mark.role, "severity")
    yield from led("text", map(SheetLine, record.text.split("\n")))
    yield from led("speaks of", (link(context, entity) for entity in record.links))
    yield link(context, record.source, "log")
