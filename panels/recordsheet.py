"""All of one log record as text for a sheet: its whole text, its place, and the entities that it names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from livedbg.model import LogRecord
from livedbg.panels.details import link
from livedbg.panels.draw_context import DrawContext
from livedbg.panels.marks import severity_mark
from livedbg.panels.records import source_name
from livedbg.panels.sheet import Sheet, SheetLine
from livedbg.text.quantities import clock_ms
from livedbg.themes import Role


def record_sheet(record: LogRecord) -> Sheet:
    """The sheet of one record."""

    def sheet(context: DrawContext) -> tuple[str, Sequence[SheetLine]]:
        line = f", line {record.line:,}" if record.line is not None else ""
        return f"Record of {source_name(context, record.source)}{line}", list(_about(context, record))

    return sheet


def _about(context: DrawContext, record: LogRecord) -> Iterator[SheetLine]:
    mark = severity_mark(record.severity)
    yield SheetLine(clock_ms(record.wall_ns) or "the record has none", Role.DIM, "time")
    yield SheetLine(mark.word, mark.role, "severity")
    for number, text in enumerate(record.text.split("\n")):
        yield SheetLine(text, Role.TEXT, "text" if number == 0 else "")
    for number, entity in enumerate(record.links):
        yield link(context, entity, "speaks of" if number == 0 else "")
    yield link(context, record.source, "log")
