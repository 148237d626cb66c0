"""Assembly of lines to records: shape, severity, time, and continuation lines.

Invariants:
    records.R1. Whatever the lines are, nothing is raised and no line that is not blank is lost: each is in the text of
        exactly one record, without its wrappings (livedbg.logs.wrapping): these are fields of it.
    records.R2. A record's `offset` and `line` are those of its first line.
    records.R3. Lines of several ranks, hosts, containers or streams that share a log are assembled separately by these.
    records.R4. A traceback below a warning that begins with a program's first frame, which cannot have logged that
        warning, is a record of its own: it ended the program (livedbg.logs.shapes.is_uncaught_below).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from livedbg.logs.clock import SourceClock
from livedbg.logs.formats import CORE, LogFormats
from livedbg.logs.lines import Line
from livedbg.logs.multiline import Continuation, ErrorDetails
from livedbg.logs.shapes import (
    IGNORED,
    PLAIN,
    SYSLOG,
    Header,
    Recogniser,
    guess_severity,
    is_uncaught_below,
    may_hold_traceback,
)
from livedbg.logs.tracebacks import HEADER
from livedbg.logs.wrapping.door import FrontDoor, Plain
from livedbg.logs.writers import NO_TAG, Tag, merged
from livedbg.model import LogRecord, Severity

RECORD_LIMIT = 512 * 1024
"""Characters of one record; what goes on longer is cut into several."""

_MOST_BETWEEN = 30
"""So many lines of other threads, at most, stand within a report."""

_First = tuple[str, int, "int | None", Header]  # a line with a header: text, offset, number, header


class RecordAssembler:
    """Assembles the lines of one source into records; `ended` gets each with the numbers of its lines."""

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
        self._header = self._recogniser.header
        self._pending: dict[Tag, _Pending] = {}
        self._left: dict[Tag, _Pending] = {}  # reports into which other threads wrote: their frames may follow
        self._between = 0  # lines since then
        self._first: _First | None = None  # instead, a record of one line so far, where no writers are told apart
        self._done: list[LogRecord] = []
        self._newest = NO_TAG  # of the last line
        self._tagged = False  # records may end in another order than they began
        self._ended = ended
        self._own = own

    @property
    def format(self) -> str | None:
        """Return the shape of most records so far."""
        return self._recogniser.format

    @property
    def waiting(self) -> bool:
        """Return whether a record is held back because its end has not been seen."""
        return self._first is not None or bool(self._pending) or bool(self._left) or self.door.waiting

    @property
    def mixed(self) -> bool:
        """Return whether records of several ranks are held back at once."""
        return len(self._pending) > 1

    @property
    def anchors(self) -> tuple[bytes, ...]:
        """Return the byte strings of lines that set the log's clock."""
        return self._anchors

    def recognises(self, text: str) -> bool:
        """Return whether a line begins with a header of a known shape."""
        texts = (text,) if self.door.bare(text) else self.door.peek(text)
        return any(self._recogniser.header(said) is not None for said in texts)

    def feed(self, lines: Iterable[Line]) -> list[LogRecord]:
        """Take lines in order; return the records that are complete now, in the order of their first lines."""
        bare, take, add_bare, add_plain = self.door.bare, self.door.take, self._add_bare, self._add_plain
        header_of = self._header
        if not self.door.looked:
            lines = list(lines)
            self.door.see(lines)
        for line in lines:
            text = line.text
            if bare(text):
                add_bare(text, line.offset, line.number, header_of(text) if text else None)
                continue
            for plain in take(line):
                add_plain(plain)
        return self._take()

    def flush(self) -> list[LogRecord]:
        """End the records that are held back, and return them."""
        self.close()
        return self._take()

    def close(self) -> None:
        """End the records that are held back; the next `feed` or `flush` returns them."""
        for plain in self.door.release():
            self._add_plain(plain)
        self._hold_first()
        self._close_left()
        for pending in self._pending.values():
            self._close(pending)
        self._pending.clear()

    def drop_newest(self) -> None:
        """Forget the record that the last line began, so that the line can be fed again."""
        self._first = None
        self._pending.pop(self._newest, None)

    def add(self, text: str, offset: int, number: int | None) -> bool:
        """Take one line with the wrappings known so far; return True if it begins a record (of its writer).

        `feed` or `flush` returns that record.
        """
        if self.door.bare(text):
            return self._add_bare(text, offset, number, self._header(text) if text else None)
        began = False
        for plain in self.door.open(Line(text, offset, number)):
            began = self._add_plain(plain) or began
        return began

    def add_row(self, texts: Sequence[str], offsets: Sequence[int], number: int | None) -> int:
        """Take consecutive lines, none empty, up to the first one that may be wrapped; return their number."""
        taken, header_of, end = self.door.bare_row(texts), self._header, self._end
        for text, offset in zip(texts[:taken], offsets, strict=False):
            header, first = header_of(text), self._first
            if header is None or first is None or first[3].held:
                self._add_bare(text, offset, number, header)
            else:
                end(first)
                self._first = (text, offset, number, header)
            number = None if number is None else number + 1
        return taken

    def learn(self, lines: Iterable[Line]) -> None:
        """Learn the log's wrappings and shapes from lines that will be fed again."""
        for plain in self.door.learn(lines):
            self._recogniser.header(plain.text)

    def single(self, line: Line) -> LogRecord:
        """Return one line as one record, whatever comes before or after it."""
        plains = self.door.alone(line)
        body = plains[-1].text
        text = body if len(plains) == 1 else "\n".join(plain.text for plain in plains)
        last = plains[-1]
        header = self._recogniser.header(body)
        place, whose = (last.line.offset, last.line.number), self._whose(last.tag)
        return _made(self._source, text, *place, header, wall_ns=last.wall_ns, whose=whose)

    def _add_bare(self, body: str, offset: int, number: int | None, header: Header | None) -> bool:
        """Take a line without a wrapping: most are a record each, of which only the header is needed."""
        if header is None or self._tagged:
            return self._add(body, offset, number, header)
        first = self._first
        if first is not None:
            if first[3].held and body.startswith(first[0][: first[3].end]):
                return self._add(body, offset, number, header)
            self._end(first)
        elif self._pending:
            pending = self._pending[NO_TAG]
            if pending.head and body.startswith(pending.head):
                return self._add(body, offset, number, header)
            self._leave(pending)
            self._pending.clear()
        self._first = (body, offset, number, header)
        return True

    def _end(self, first: _First) -> None:
        body, offset, number, header = first
        if "(most recent call" in body or self._ended is not None:
            self._close(_Pending(body, offset, number, header, details=self._details))
            return
        self._done.append(_made(self._source, body, offset, number, header, whose=self._own))

    def _hold_first(self) -> None:
        if self._first is not None:
            body, offset, number, header = self._first
            self._first = None
            self._pending[NO_TAG] = _Pending(body, offset, number, header, details=self._details)

    def _add_plain(self, plain: Plain) -> bool:
        text, line = plain.text, plain.line
        header = self._header(text) if text else None
        return self._add(text, line.offset, line.number, header, tag=plain.tag, wall_ns=plain.wall_ns)

    def _add(
        self,
        body: str,
        offset: int,
        number: int | None,
        header: Header | None,
        *,
        tag: Tag = NO_TAG,
        wall_ns: int | None = None,
    ) -> bool:
        self._hold_first()
        if tag is not NO_TAG:
            self._tagged = True
        if header is None and self._tagged and tag.rank is None and self._goes_on(body, number, tag):
            return False
        self._newest = tag
        pending = self._pending.get(tag)
        if self._left:
            pending = self._returned(pending, body, header)
        if pending is not None:
            if header is None and pending.texts[-1] == HEADER and (begun := pending.uncaught(body)) is not None:
                self._close(pending)
                pending = self._pending[tag] = begun
            if (header is None or pending.head) and pending.size < RECORD_LIMIT and _belongs(pending, header, body):
                carried = header is not None and header.shape == SYSLOG  # no part of what the program wrote
                pending.texts.append(body[header.end :] if header is not None and carried else body)
                pending.numbers.append(number)
                pending.newest = offset
                pending.size += len(body) + 1
                return False
            self._close(pending) if header is None else self._leave(pending)
        if header is None:
            if not body or body.isspace():
                self._pending.pop(tag, None)
                return True
            self._recogniser.plain()
        self._pending[tag] = _Pending(body, offset, number, header, tag=tag, wall_ns=wall_ns, details=self._details)
        return True

    def _leave(self, pending: _Pending) -> None:
        """End a record, or keep it where a line with a header may stand within its report."""
        if not pending.in_report:
            self._close(pending)
            return
        self._close_left()
        self._left[pending.tag] = pending
        self._tagged = True

    def _close_left(self) -> None:
        for left in self._left.values():
            self._close(left)
        self._left.clear()
        self._between = 0

    def _returned(self, pending: _Pending | None, body: str, header: Header | None) -> _Pending | None:
        """Return the report that a line is a frame of, instead of the record of another thread above the line."""
        self._between += 1
        if self._between > _MOST_BETWEEN:
            self._close_left()
        if header is not None or pending is None or pending.header is None:
            return pending
        left = self._left.get(pending.tag)
        if left is None or not left.continuation.lists(body):
            return pending
        self._between = 0
        self._close(pending)
        self._pending[pending.tag] = self._left.pop(pending.tag)
        return left

    def _goes_on(self, body: str, number: int | None, tag: Tag) -> bool:
        """Take a line without a rank that continues the record above it, whose writer tags only its first line."""
        near = (one for one in self._pending.values() if one.tag[2:] == tag[2:])
        tagged = (one for one in near if one.tag.rank is not None or (one.tag.writer and not tag.writer))
        above = next((one for one in tagged if number is not None and one.numbers[-1] == number - 1), None)
        if above is None or not body or above.size >= RECORD_LIMIT or not _belongs(above, None, body):
            return False
        above.texts.append(body)
        above.numbers.append(number)
        above.size += len(body) + 1
        return True

    def _close(self, pending: _Pending) -> None:
        texts = pending.texts
        text = texts[0] if len(texts) == 1 else "\n".join(texts).rstrip("\n")
        place = pending.offset, pending.numbers[0]
        whose, held = self._whose(pending.tag), pending.held_traceback
        record = _made(
            self._source, text, *place, pending.header, whose=whose, wall_ns=pending.wall_ns, held_traceback=held
        )
        if len(texts) > 1:
            record = _with_lines(record, pending.numbers)
        self._done.append(record)
        if self._ended is not None:
            numbers = zip(pending.numbers, texts, strict=True)
            self._ended(record, [number for number, line in numbers if line and not line.isspace()])

    def _whose(self, tag: Tag) -> Tag:
        return self._own if tag is NO_TAG else merged(self._own, tag)

    def _take(self) -> list[LogRecord]:
        done, self._done = self._done, []
        if self._tagged:
            done.sort(key=_offset)
        return done


def _offset(record: LogRecord) -> int:
    return record.offset or 0


class _Pending:
    __slots__ = (
        *("_continuation", "_details", "head", "header", "newest", "numbers", "offset", "size", "tag", "texts"),
        "wall_ns",
    )

    def __init__(
        self,
        text: str,
        offset: int,
        number: int | None,
        header: Header | None,
        *,
        tag: Tag = NO_TAG,
        wall_ns: int | None = None,
        details: ErrorDetails,
    ) -> None:
        self.offset = self.newest = offset  # of its first line, and of its last one
        self.tag = tag
        self.wall_ns = wall_ns
        self.header = header
        self.head = text[: header.end] if header is not None and header.held else ""
        self.texts = [text]
        self.numbers = [number]
        self.size = len(text)
        self._details = details
        self._continuation: Continuation | None = None

    @property
    def continuation(self) -> Continuation:
        if self._continuation is None:
            header, text = self.header, self.texts[0]
            if header is None:
                self._continuation = Continuation(text, PLAIN, False, self._details)
            else:
                message = text[header.end :]
                severe = header.severity.rank >= Severity.WARNING.rank and may_hold_traceback(header, text)
                self._continuation = Continuation(message, header.shape, severe, self._details, header.quoted)
        return self._continuation

    def uncaught(self, frame: str) -> _Pending | None:
        """Return the record of a traceback, out of this one, if its first frame shows that it is none of it (R4)."""
        header, above = self.header, len(self.texts) - 1
        if header is None or not above or HEADER in self.texts[:above]:
            return None
        if not is_uncaught_below(header, self.texts[0], frame):
            return None
        number = self.numbers.pop()
        return _Pending(self.texts.pop(), self.newest, number, None, tag=self.tag, details=self._details)

    @property
    def in_report(self) -> bool:
        last = self.texts[-1]
        known = "Sanitizer: " in self.texts[0] and not last.startswith("SUMMARY: ") and "==ABORTING" not in last
        return known and self.continuation.in_report

    @property
    def held_traceback(self) -> bool:
        if self._continuation is None and "(most recent call" not in self.texts[0]:
            return False
        return self.continuation.held_traceback


def _belongs(pending: _Pending, header: Header | None, body: str) -> bool:
    if header is None:
        return pending.continuation.takes(body)
    return bool(pending.head) and body.startswith(pending.head) and pending.continuation.follows(body[header.end :])


def _made(
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
    """Make a record; `wall_ns` is a time from a wrapping."""
    if header is None:
        severity = guess_severity(text)
        if held_traceback and severity is Severity.INFO:
            severity = Severity.ERROR  # the name of the exception stands far below
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
    first = record.line
    if first is None or all(number == first + below for below, number in enumerate(numbers)):
        return record
    known = [first if number is None else number for number in numbers]
    return replace(record, lines=tuple(known[: record.text.count("\n") + 1]))
