"""From lines to records: shape, severity, time, and what belongs together.

Invariants:
    records.R1. Whatever the lines are, nothing is raised and no line that is not blank is lost: each is
        in the text of exactly one record.
    records.R2. A record's `offset` and `line` are those of its first line.
    records.R3. Lines of several ranks that share a stream (a launcher's prefixes) are put together by rank.
"""

from __future__ import annotations

from collections.abc import Iterable

from livedbg.logs.clock import SourceClock
from livedbg.logs.formats import CORE, LogFormats
from livedbg.logs.lines import Line
from livedbg.logs.multiline import Continuation, ErrorDetails
from livedbg.logs.shapes import PLAIN, Header, Recogniser, guess_severity, split_prefix
from livedbg.model import LogRecord, Severity

__all__ = ["RECORD_LIMIT", "RecordAssembler"]

RECORD_LIMIT = 512 * 1024
"""Characters of one record; what goes on longer is cut into several."""


class _Pending:
    """A record whose end has not been seen."""

    __slots__ = ("continuation", "head", "header", "line", "size", "texts")

    def __init__(self, line: Line, message: str, header: Header | None, head: str, details: ErrorDetails) -> None:
        self.line = line
        self.header = header
        self.head = head
        self.texts = [line.text]
        self.size = len(line.text)
        if header is None:
            self.continuation = Continuation(message, PLAIN, False, details)
        else:
            severe = header.severity.rank >= Severity.WARNING.rank
            self.continuation = Continuation(message, header.shape, severe, details, header.quoted)


class RecordAssembler:
    """Puts the lines of one source together into records.

    Args:
        source: id of the LogSource.
        clock: maps its time stamps.
        formats: the shapes to recognise, and more.
    """

    def __init__(self, source: str, clock: SourceClock, formats: LogFormats = CORE) -> None:
        self.clock = clock
        self._source = source
        self._recogniser = Recogniser(formats.shapes, clock)
        self._details = formats.error_details
        self._anchors = tuple({shape.anchor for shape in formats.shapes if shape.anchor})
        self._pending: dict[str, _Pending] = {}
        self._done: list[LogRecord] = []
        self._newest = ""  # prefix of the last line

    @property
    def format(self) -> str | None:
        """The shape of most records so far."""
        return self._recogniser.format

    @property
    def waiting(self) -> bool:
        """Whether a record is held back because its end has not been seen."""
        return bool(self._pending)

    @property
    def mixed(self) -> bool:
        """Whether records of several ranks are held back at once."""
        return len(self._pending) > 1

    @property
    def anchors(self) -> tuple[bytes, ...]:
        """What lines contain that set the log's clock."""
        return self._anchors

    def recognises(self, text: str) -> bool:
        """Whether a line begins with a header of a known shape."""
        return self._recogniser.header(split_prefix(text)[1]) is not None

    def feed(self, lines: Iterable[Line]) -> list[LogRecord]:
        """Take lines in order.

        Returns:
            The records that are complete now, in the order of their first lines.
        """
        for line in lines:
            self.add(line)
        return self._take()

    def flush(self) -> list[LogRecord]:
        """End the records that are held back."""
        self.close()
        return self._take()

    def close(self) -> None:
        """End the records that are held back; they come out of the next `feed` or `flush`."""
        for pending in self._pending.values():
            self._close(pending)
        self._pending.clear()

    def drop_newest(self) -> None:
        """Forget the record that the last line began, so that the line can come again."""
        self._pending.pop(self._newest, None)

    def add(self, line: Line) -> bool:
        """Take one line; its record comes out of `feed` or `flush`.

        Returns:
            Whether it begins a record (of its rank).
        """
        prefix, body = split_prefix(line.text)
        prefix = self._newest = prefix.rstrip()
        pending = self._pending.get(prefix)
        header = self._recogniser.header(body) if body else None
        if pending is not None and pending.size < RECORD_LIMIT and _belongs(pending, header, body):
            pending.texts.append(line.text)
            pending.size += len(line.text) + 1
            return False
        if pending is not None:
            self._close(pending)
            del self._pending[prefix]
        if not body or body.isspace():
            return True
        if header is None:
            self._recogniser.plain()
            self._pending[prefix] = _Pending(line, body, None, "", self._details)
        else:
            head = body[: header.end] if header.held else ""
            self._pending[prefix] = _Pending(line, body[header.end :], header, head, self._details)
        return True

    def single(self, line: Line) -> LogRecord:
        """One line as one record, whatever comes before or after it."""
        _prefix, body = split_prefix(line.text)
        return self._record(line, self._recogniser.header(body), line.text, body)

    def _close(self, pending: _Pending) -> None:
        texts = pending.texts
        text = texts[0] if len(texts) == 1 else "\n".join(texts).rstrip("\n")
        record = self._record(pending.line, pending.header, text, text, pending.continuation.held_traceback)
        self._done.append(record)

    def _record(
        self, line: Line, header: Header | None, text: str, body: str, held_traceback: bool = False
    ) -> LogRecord:
        if header is None:
            return LogRecord(
                source=self._source,
                text=text,
                severity=guess_severity(body),
                line=line.number,
                offset=line.offset,
            )
        severity = header.severity
        if held_traceback and severity is Severity.INFO:
            severity = Severity.ERROR
        return LogRecord(
            source=self._source,
            text=text,
            severity=severity,
            wall_ns=header.wall_ns,
            mono_ns=header.mono_ns,
            line=line.number,
            offset=line.offset,
            pid=header.pid,
            tid=header.tid,
            head=header.end + len(line.text) - len(split_prefix(line.text)[1]),
        )

    def _take(self) -> list[LogRecord]:
        done, self._done = self._done, []
        done.sort(key=_offset)
        return done


def _belongs(pending: _Pending, header: Header | None, body: str) -> bool:
    """Whether a line goes on with a record that is held back."""
    if header is None:
        return pending.continuation.takes(body)
    return bool(pending.head) and body.startswith(pending.head) and pending.continuation.follows(body[header.end :])


def _offset(record: LogRecord) -> int:
    return record.offset or 0
