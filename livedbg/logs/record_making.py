"""The record that one or more lines of a log make."""

from __future__ import annotations

from msgspec.structs import replace

from livedbg.logs.shapes import IGNORED, Header, guess_severity
from livedbg.logs.wrapping.tags import NO_TAG, Tag
from livedbg.model import LogRecord, Severity

__all__ = ["made", "with_lines"]


def made(
    source: str,
    text: str,
    offset: int,
    number: int | None,
    header: Header | None,
    *,
    whose: Tag,
    wall_ns: int | None = None,
    held_traceback: bool = False,
) -> LogRecord:
    """A record.

    Args:
        source: id of the log.
        text: its lines.
        offset: where the first one begins.
        number: of the first one.
        wall_ns: when it was written, as a wrapping says: one clock for all lines of a log.
        header: of the first one, if it has one.
        whose: who wrote it.
        held_traceback: there is a traceback in it.
    """
    if header is None:
        severity = guess_severity(text)
        record = LogRecord(source=source, text=text, severity=severity, wall_ns=wall_ns, line=number, offset=offset)
        return record if whose is NO_TAG else _with_tag(record, whose)
    severity = header.severity
    if held_traceback and severity is Severity.INFO:
        severity = Severity.WARNING if text.startswith(IGNORED, header.end) else Severity.ERROR
    record = LogRecord(
        source=source,
        text=text,
        severity=severity,
        wall_ns=header.wall_ns if wall_ns is None else wall_ns,
        mono_ns=header.mono_ns,
        line=number,
        offset=offset,
        pid=header.pid,
        tid=header.tid,
        head=header.end,
    )
    return record if whose is NO_TAG else _with_tag(record, whose)


def _with_tag(record: LogRecord, tag: Tag) -> LogRecord:
    """A record with what its wrappings say."""
    return replace(
        record,
        pid=tag.pid if record.pid is None else record.pid,
        writer=tag.writer,
        rank=tag.rank,
        host=tag.host,
        stream=tag.stream,
        container=tag.container,
    )


def with_lines(record: LogRecord, numbers: list[int | None]) -> LogRecord:
    """A record of several lines with their numbers, where these are not in a row."""
    first = record.line
    if first is None or all(number == first + below for below, number in enumerate(numbers)):
        return record
    known = [first if number is None else number for number in numbers]
    return replace(record, lines=tuple(known[: record.text.count("\n") + 1]))
