"""From lines to records: shape, severity, time, and what belongs together.

Invariants:
    records.R1. Whatever the lines are, nothing is raised and no line that is not blank is lost: each is
        in the text of exactly one record, without its wrappings (livedbg.logs.wrapping): these are fields of it.
    records.R2. A record's `offset` and `line` are those of its first line.
    records.R3. Lines of several ranks, hosts, containers or streams that share a log are put together by these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from livedbg.logs.clock import SourceClock
from livedbg.logs.formats import CORE, LogFormats
from livedbg.logs.lines import Line
from livedbg.logs.pending import Pending, belongs
from livedbg.logs.shapes import IGNORED, Header, Recogniser, guess_severity
from livedbg.logs.wrapping.door import FrontDoor
from livedbg.logs.wrapping.tags import NO_TAG, Tag, merged
from livedbg.model import LogRecord, Severity

__all__ = ["RECORD_LIMIT", "RecordAssembler"]

RECORD_LIMIT = 512 * 1024
"""Characters of one record; what goes on longer is cut into several."""


class RecordAssembler:
    """Puts the lines of one source together into records.

    Args:
        source: id of the LogSource.
        clock: maps its time stamps.
        formats: the shapes to recognise, and more.
        ended: called with each record and the numbers of its lines.
        own: who writes the log, where its lines don't say otherwise.

    Attributes:
        door: takes the wrappings off its lines.
    """

    def __init__(
        self,
        source: str,
        clock: SourceClock,
        formats: LogFormats = CORE,
        ended: Callable[[LogRecord, list[int | None]], None] | None = None,
        *,
        own: Tag = NO_TAG,
    ) -> None:
        self.clock = clock
        self.door = FrontDoor(clock)
        self._source = source
        self._recogniser = Recogniser(formats.shapes, clock)
        self._details = formats.error_details
        self._anchors = tuple({shape.anchor for shape in formats.shapes if shape.anchor})
        self._pending: dict[Tag, Pending] = {}
        self._done: list[LogRecord] = []
        self._newest = NO_TAG  # of the last line
        self._tagged = False  # records may end in another order than they began
        self._ended = ended
        self._own = own

    @property
    def format(self) -> str | None:
        """The shape of most records so far."""
        return self._recogniser.format

    @property
    def waiting(self) -> bool:
        """Whether a record is held back because its end has not been seen."""
        return bool(self._pending) or self.door.waiting

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
        texts = (text,) if self.door.bare(text) else self.door.peek(text)
        return any(self._recogniser.header(said) is not None for said in texts)

    def feed(self, lines: Iterable[Line]) -> list[LogRecord]:
        """Take lines in order.

        Returns:
            The records that are complete now, in the order of their first lines.
        """
        bare, take, add = self.door.bare, self.door.take, self._add
        if not self.door.looked:
            lines = list(lines)
            self.door.see(lines)
        for line in lines:
            text = line.text
            if bare(text):
                add(line, text, NO_TAG, None)
                continue
            for plain in take(line):
                add(plain.line, plain.text, plain.tag, plain.wall_ns)
        return self._take()

    def flush(self) -> list[LogRecord]:
        """End the records that are held back."""
        self.close()
        return self._take()

    def close(self) -> None:
        """End the records that are held back; they come out of the next `feed` or `flush`."""
        for plain in self.door.release():
            self._add(plain.line, plain.text, plain.tag, plain.wall_ns)
        for pending in self._pending.values():
            self._close(pending)
        self._pending.clear()

    def drop_newest(self) -> None:
        """Forget the record that the last line began, so that the line can come again."""
        self._pending.pop(self._newest, None)

    def add(self, line: Line) -> bool:
        """Take one line; its record comes out of `feed` or `flush`. Wrappings are those that are known by now.

        Returns:
            Whether it begins a record (of its writer).
        """
        if self.door.bare(line.text):
            return self._add(line, line.text, NO_TAG, None)
        began = False
        for plain in self.door.open(line):
            began = self._add(plain.line, plain.text, plain.tag, plain.wall_ns) or began
        return began

    def learn(self, lines: Iterable[Line]) -> None:
        """See which wrappings and shapes the log has, from lines that come again."""
        for plain in self.door.learn(lines):
            self._recogniser.header(plain.text)

    def single(self, line: Line) -> LogRecord:
        """One line as one record, whatever comes before or after it."""
        plains = self.door.alone(line)
        body = plains[-1].text
        text = body if len(plains) == 1 else "\n".join(plain.text for plain in plains)
        last = plains[-1]
        return self._record(last.line, last.tag, last.wall_ns, self._recogniser.header(body), text)

    def _add(self, line: Line, body: str, tag: Tag, wall_ns: int | None) -> bool:
        if tag is not NO_TAG:
            self._tagged = True
        header = self._recogniser.header(body) if body else None
        if header is None and self._newest.rank is not None and self._goes_on(line, body, tag):
            return False
        self._newest = tag
        pending = self._pending.get(tag)
        if pending is not None:
            if (header is None or pending.head) and pending.size < RECORD_LIMIT and belongs(pending, header, body):
                pending.texts.append(body)
                pending.numbers.append(line.number)
                pending.size += len(body) + 1
                return False
            self._close(pending)
        if header is None:
            if not body or body.isspace():
                self._pending.pop(tag, None)
                return True
            self._recogniser.plain()
        self._pending[tag] = Pending(line, body, tag, wall_ns, header, details=self._details)
        return True

    def _goes_on(self, line: Line, body: str, tag: Tag) -> bool:
        """Take a line without a rank that goes on with the record above it, whose writer tags only its first line."""
        if tag.rank is not None or tag[2:] != self._newest[2:]:
            return False
        above = self._pending.get(self._newest)
        number = above.numbers[-1] if above is not None else None
        if above is None or above.tag.rank is None or number is None or line.number != number + 1:
            return False
        if not body or above.size >= RECORD_LIMIT or not belongs(above, None, body):
            return False
        above.texts.append(body)
        above.numbers.append(line.number)
        above.size += len(body) + 1
        return True

    def _close(self, pending: Pending) -> None:
        texts = pending.texts
        text = texts[0] if len(texts) == 1 else "\n".join(texts).rstrip("\n")
        held = pending.held_traceback
        record = self._record(pending.line, pending.tag, pending.wall_ns, pending.header, text, held_traceback=held)
        if len(texts) > 1:
            record = _with_lines(record, pending.numbers)
        self._done.append(record)
        if self._ended is not None:
            numbers = zip(pending.numbers, texts, strict=True)
            self._ended(record, [number for number, line in numbers if line and not line.isspace()])

    def _record(
        self,
        line: Line,
        tag: Tag,
        wall_ns: int | None,
        header: Header | None,
        text: str,
        *,
        held_traceback: bool = False,
    ) -> LogRecord:
        if header is None:
            record = LogRecord(
                source=self._source,
                text=text,
                severity=guess_severity(text),
                wall_ns=wall_ns,
                line=line.number,
                offset=line.offset,
            )
        else:
            severity = header.severity
            if held_traceback and severity is Severity.INFO:
                ignored = text.startswith(IGNORED, header.end)
                severity = Severity.WARNING if ignored else Severity.ERROR
            record = LogRecord(
                source=self._source,
                text=text,
                severity=severity,
                wall_ns=header.wall_ns if wall_ns is None else wall_ns,  # one clock for all lines of a log
                mono_ns=header.mono_ns,
                line=line.number,
                offset=line.offset,
                pid=header.pid,
                tid=header.tid,
                head=header.end,
            )
        whose = self._own if tag is NO_TAG else merged(self._own, tag)
        return record if whose is NO_TAG else _with_tag(record, whose)

    def _take(self) -> list[LogRecord]:
        done, self._done = self._done, []
        if self._tagged:
            done.sort(key=_offset)
        return done


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


def _with_lines(record: LogRecord, numbers: list[int | None]) -> LogRecord:
    """A record of several lines with their numbers, where these are not in a row."""
    first = record.line
    if first is None or all(number == first + below for below, number in enumerate(numbers)):
        return record
    known = [first if number is None else number for number in numbers]
    return replace(record, lines=tuple(known[: record.text.count("\n") + 1]))


def _offset(record: LogRecord) -> int:
    return record.offset or 0
