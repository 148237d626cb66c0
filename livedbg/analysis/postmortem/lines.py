"""The known lines of logs: their meaning for how the run ended, and the lines shown as evidence."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from livedbg.logs.last_words import (
    begins,
    ends_tests,
    is_aside,
    message_of,
    names_process,
    printed_at_an_end,
    restarts,
    serves,
    shuts_down,
    step_of,
    traced_command,
    without_numbers,
)
from livedbg.logs.naming import older_attempts, series_of
from livedbg.model import Evidence, LogRecord, LogSource, Severity
from livedbg.model.snapshot import Snapshot
from livedbg.text.commands import program_of

_LAST: Final = 3  # records of which one is the error that output ends with
_BESIDE: Final = 4  # records before and after one
_TEXT: Final = 600
_SECTION: Final = 60  # records in which a heading is looked for
_SEEN: Final = 20_000  # records that are searched
_APART_NS: Final = 60_000_000_000
_HEAD: Final = 3
"""So many first lines that come again, one after the other, are the beginning of another run."""
_COLUMNS: Final = 4  # gaps of three blanks in a row of a table
_TELLING: Final = 12  # characters of one of them that are no chance


class KnownLine(Struct, frozen=True):
    """The relevant facts of a known record.

    Attributes:
        writer: the rank or worker that wrote it, or "".
        ordinary: no crash leaves such a line behind.
        tests: a test run ends here.
        step: number of the step that it reports.
        restarts: a launcher starts the workers again.
        begins: something begins or is waited for.
        shuts_down: the program ends.
        serves: a server answered a request.
        anew: the log begins again, after an error: a further run was written to the same file.
    """

    number: int
    numbers: Sequence[int]
    wall_ns: int | None
    writer: str
    ordinary: bool
    tests: bool
    text: str
    step: float | None = None
    restarts: bool = False
    begins: bool = False
    shuts_down: bool = False
    serves: bool = False
    anew: bool = False


class _Known:
    """Cache of each log's records and known lines, kept while the records stay the same; a record is read once."""

    def __init__(self) -> None:
        self._all: Sequence[LogRecord] = ()
        self._records: dict[str, list[LogRecord]] = {}
        self._lines: dict[tuple[str, int | None], tuple[KnownLine, ...]] = {}
        self._read: dict[int, tuple[LogRecord, KnownLine]] = {}  # by the identity of records, which it keeps alive

    def records(self, log: str, snapshot: Snapshot) -> Sequence[LogRecord]:
        if self._all is not snapshot.recent_logs:
            self._all, self._records, self._lines = snapshot.recent_logs, {}, {}
            self._read = {id(one): self._read[id(one)] for one in self._all if id(one) in self._read}
            for record in self._all:
                self._records.setdefault(record.source, []).append(record)
        return self._records.get(log, ())

    def lines(self, source: LogSource, snapshot: Snapshot) -> tuple[KnownLine, ...]:
        records, key = self.records(source.id, snapshot), (source.id, source.lines)
        if key not in self._lines:
            self._lines[key] = _lines(records, source, self._line)
        return self._lines[key]

    def _line(self, record: LogRecord, number: int) -> KnownLine:
        known = self._read.get(id(record))
        if known is None or known[1].number != number:
            known = self._read[id(record)] = (record, _line(record, number))
        return known[1]


_KNOWN: Final = _Known()


def known_lines(source: LogSource, snapshot: Snapshot) -> tuple[KnownLine, ...]:
    """Return the known lines of a log, in order."""
    return _KNOWN.lines(source, snapshot)


def first_after(number: int, lines: Sequence[KnownLine]) -> int:
    """Return the index of the first of a log's known lines after a line."""
    return bisect_right(lines, number, key=lambda line: line.number)


def steps_on(lines: Iterable[KnownLine]) -> bool:
    """Return whether a writer reports a step after a lower one."""
    reached: dict[str, float] = {}
    steps = ((line.writer, line.step) for line in lines if line.step is not None)
    return any(step > reached.setdefault(writer, step) for writer, step in steps)


def _lines(
    records: Iterable[LogRecord], source: LogSource, line_of: Callable[[LogRecord, int], KnownLine]
) -> tuple[KnownLine, ...]:
    """Return the records of a log with their numbers.

    A big log's newest records come without numbers, which are counted from its end.
    """
    records = list(records)
    found = sorted((line_of(one, one.line) for one in records if one.line is not None), key=lambda line: line.number)
    severe = {one.line for one in records if one.severity.rank >= Severity.ERROR.rank}
    for at in _begun_anew(found, severe):
        found[at] = replace(found[at], anew=True)
    number = found[0].number if found else source.lines + 1 if source.lines is not None else None
    if number is None:
        return ()
    before: list[KnownLine] = []
    for record in reversed([one for one in records if one.line is None]):
        number -= record.text.count("\n") + 1
        before.append(line_of(record, max(number, 1)))
    return (*reversed(before), *found)


def _begun_anew(lines: Sequence[KnownLine], severe: Container[int | None]) -> Iterator[int]:
    """Yield where the first lines of a log come again, after an error: not where other ranks begin as one did."""
    own = [at for at, line in enumerate(lines) if line.text.strip() and line.writer == lines[0].writer]
    head = [without_numbers(lines[at].text) for at in own[:_HEAD]]
    if len(own) < 2 * _HEAD or lines[0].number > 1 or max(map(len, head)) < _TELLING:
        return
    if any(lines[at].number in severe for at in own[:_HEAD]):
        return
    failed = False
    for number, at in enumerate(own):
        failed |= lines[at].number in severe
        if failed and number >= _HEAD and without_numbers(lines[at].text) == head[0]:
            again = [without_numbers(lines[other].text) for other in own[number : number + _HEAD]]
            if again == head and number + _HEAD < len(own):  # with no more than that nothing is known of it
                failed = False
                yield at


def _line(record: LogRecord, number: int) -> KnownLine:
    text = record.text.partition("\n")[0]
    plain = record.severity.rank <= Severity.INFO.rank and "\n" not in record.text
    return KnownLine(
        number,
        record.lines or range(number, number + record.text.count("\n") + 1),
        record.wall_ns,
        record.writer,
        plain and not printed_at_an_end(message_of(record)),
        ends_tests(record.text),
        text,
        step_of(text) if plain else None,
        restarts(text),
        begins(text),
        shuts_down(text),
        serves(text),
    )


def newest(source: LogSource, snapshot: Snapshot, most: int) -> list[LogRecord]:
    """Return the newest records of a log that are not empty, in order."""
    found: list[LogRecord] = []
    for record in reversed(_KNOWN.records(source.id, snapshot)):
        if len(found) == most:
            break
        if record.text.strip():
            found.append(record)
    return found[::-1]


def last_error(process: str, snapshot: Snapshot) -> tuple[LogSource, LogRecord] | None:
    """Return the error with which a process's own output ends, but for a line or two, and its log; None for none."""
    for source in snapshot.log_sources.values():
        if source.process == process and source.errors and not source.unread:
            for record in reversed(newest(source, snapshot, _LAST)):
                if record.severity.rank >= Severity.ERROR.rank:
                    return source, record
    return None


def around(record: LogRecord, source: LogSource, snapshot: Snapshot) -> tuple[Evidence, ...]:
    """Return a record as evidence, then its known neighbours."""
    own = [one for one in _KNOWN.records(source.id, snapshot) if one.text.strip()]
    at = next((number for number, one in enumerate(own) if one is record), None)
    beside = () if at is None else (*own[max(0, at - _BESIDE) : at], *own[at + 1 : at + 1 + _BESIDE])
    return (proof_of(record, source), *(proof_of(one, source) for one in beside))


def shown(first: Iterable[Evidence], source: LogSource, line: int | None, snapshot: Snapshot) -> tuple[Evidence, ...]:
    """Return some lines of a log, then the neighbours of `line` and the end of the log, without duplicates."""
    found = {(proof.kind, proof.place): proof for proof in first}
    for proof in _more(source, line, snapshot):
        found.setdefault((proof.kind, proof.place), proof)
    return tuple(found.values())


def _more(source: LogSource, line: int | None, snapshot: Snapshot) -> Iterator[Evidence]:
    records = _KNOWN.records(source.id, snapshot) if line is not None else ()
    at = next((one for one in records if one.line == line), None)
    if at is not None:
        yield from around(at, source, snapshot)
    yield from (proof_of(record, source) for record in newest(source, snapshot, _BESIDE))


def below_heading(title: str, log: str, line: int, snapshot: Snapshot) -> str:
    """Return the text below the next heading of that title in a log, from a line on, or ""; quoted headings don't
    count.
    """
    own = [one for one in _KNOWN.records(log, snapshot) if one.line is not None and (one.last_line or 0) >= line]
    texts = [text.strip() for one in own[:_SECTION] for text in one.text[one.head :].split("\n")]
    heads = (number for number, text in enumerate(texts) if title in text and not _is_quoted(title, text))
    at = next(heads, len(texts))
    return next((text for text in texts[at + 1 :] if any(map(str.isalpha, text))), "")


def _is_quoted(title: str, text: str) -> bool:
    at = text.find(title)
    return text[at - 1 : at] in tuple("'\"`") and at > 0


def proof_of(record: LogRecord, source: LogSource) -> Evidence:
    """Return a record as evidence."""
    return Evidence.of_record(record, source.name, record.text.strip()[:_TEXT])


def named_elsewhere(pid: int, log: str, snapshot: Snapshot) -> bool | None:
    """Return whether another log names a process, as the kernel's log does; None if there is no other log."""
    if all(source.id == log for source in snapshot.log_sources.values()):
        return None
    others = (one for one in list(snapshot.recent_logs)[-_SEEN:] if one.source != log)
    return any(one.pid == pid or names_process(one.text, str(pid)) for one in others)


def begun_before(log: str, line: int, writer: str, snapshot: Snapshot) -> str:
    """Return the line right before one, if it says that something begins, which then was not over; else ""."""
    text = said_before(log, line, writer, snapshot)
    return text if begins(text) else ""


def said_before(log: str, line: int, writer: str, snapshot: Snapshot) -> str:
    """Return the line of a writer right before one, as `lines_before` does; "" without one."""
    return next(iter(lines_before(log, line, writer, snapshot, 1)), "")


def traced_before(log: str, line: int, writer: str, snapshot: Snapshot) -> str:
    """Return the program of the last command before a line that a shell traced (`set -x`: `+ ./fill -n 3`), or "".

    One of the shell's own commands leaves nobody to say it of.
    """
    for one in reversed(_KNOWN.records(log, snapshot)):
        if one.line is None or one.line >= line or one.writer != writer:
            continue
        traced = traced_command(one.text[one.head :])
        if traced is not None:
            return program_of(traced) if traced else ""
    return ""


def lines_before(log: str, line: int, writer: str, snapshot: Snapshot, most: int, *, after: int = 0) -> list[str]:
    """Return the lines of a writer right before one, and after another one, the nearest first.

    It is "" for a record of several lines, for a row of a table, and for one without words.
    """
    found: list[str] = []
    for one in reversed(_KNOWN.records(log, snapshot)):
        if len(found) == most or (one.line or after + 1) <= after:
            break
        text = one.text[one.head :].strip()
        if one.line is None or one.line >= line or one.writer != writer or not text or is_aside(text):
            continue
        is_row = text.count("   ") >= _COLUMNS or not any(char.isalnum() for char in text)
        found.append("" if "\n" in text or is_row else text.rstrip(". "))
    return found


def heading_of(log: str, line: int, snapshot: Snapshot) -> str:
    """Return what a logger wrote above the traceback of the record that begins at a line; "" if nothing."""
    record = next((one for one in _KNOWN.records(log, snapshot) if one.line == line), None)
    heading, traced, _ = (
        record.text[record.head :].partition("\nTraceback (most recent call last)") if record else ("", "", "")
    )
    return heading.strip().rstrip(". ") if traced and "\n" not in heading else ""


def older_logs(snapshot: Snapshot) -> dict[str, str]:
    """Return by id the logs of older runs than the newest one, and the proof of that (causes.C4)."""
    sources = [source for source in snapshot.log_sources.values() if source.path]
    return dict(_older_by_time(sources, snapshot)) | older_attempts(sources) if len(sources) > 1 else {}


def _older_by_time(sources: Iterable[LogSource], snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    series: dict[str, list[LogSource]] = {}
    for source in sources:
        if name := series_of(source.path or ""):
            series.setdefault(name, []).append(source)
    for alike in series.values():
        begins = {one.id: _begins_ns(one, snapshot) or 0 for one in alike} if len(alike) > 1 else {}
        newest_id = max(begins, key=begins.__getitem__, default="")
        for source in alike:
            last_ns = source.last_wall_ns
            if newest_id and last_ns is not None and last_ns + _APART_NS < begins[newest_id]:
                yield source.id, f"{snapshot.log_sources[newest_id].name} begins after its end"


def _begins_ns(source: LogSource, snapshot: Snapshot) -> int | None:
    times = (record.wall_ns for record in _KNOWN.records(source.id, snapshot))
    return min((time for time in times if time is not None), default=None)
