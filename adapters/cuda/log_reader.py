"""Pass log lines to the parsers of CUDA errors, separated by process; and make diagnostics of them, equal ones counted.

Invariants:
    error_diagnostics.B1. Equal errors of one process (or log, or rank in a log) are one Diagnostic, with their count
        and the range of threads and blocks, however many there are.
    error_diagnostics.B2. At most `MOST` different errors are kept apart; all others are counted in one more for each
        process (or log, or rank in a log).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Final

from livedbg.adapters.cuda.device_lines import CoreDump, DeviceStops, DriverLog, device_assert, torch_asserts
from livedbg.adapters.cuda.facts import CudaFacts, cuda_facts
from livedbg.adapters.cuda.sanitizer import Sanitizer
from livedbg.adapters.cuda.statement import RULE, Point, Statement
from livedbg.logs.tracebacks import plain_form
from livedbg.model import CauseClass, Diagnostic, Evidence, ExceptionHit, LogRecord, LogSource, Severity
from livedbg.model.events import DiagnosticSeen, Event, ExceptionSeen, Stamp
from livedbg.text.patterns import lazy_re

MOST: Final = 500
_ON_DEVICE: Final = frozenset({"sanitizer", "device-assert", "device-exception"})


@dataclass(frozen=True, slots=True)
class Context:
    """A group of errors: those of one process, as far as a log tells.

    Attributes:
        source: id of the log.
        owner: `rank 3` or `pid 5304` if the log has those of several, else "".
        process: id of the process, if known.
    """

    source: str
    owner: str = ""
    process: str | None = None


@dataclass(slots=True)
class _Range:
    """The smallest and the largest coordinate of each axis."""

    low: Point
    high: Point

    def add(self, point: Point) -> None:
        low, high = self.low, self.high
        if low <= point <= high and low[1] <= point[1] <= high[1] and low[2] <= point[2] <= high[2]:
            return
        self.low = (min(low[0], point[0]), min(low[1], point[1]), min(low[2], point[2]))
        self.high = (max(high[0], point[0]), max(high[1], point[1]), max(high[2], point[2]))

    def text(self) -> str:
        """Return `(0,0,0)`, or `(0,0,0) to (31,0,0)`."""
        low, high = (f"({','.join(map(str, point))})" for point in (self.low, self.high))
        return low if low == high else f"{low} to {high}"


@dataclass(slots=True)
class _Entry:
    """Equal statements."""

    digest: str
    statement: Statement
    context: Context
    place: Evidence
    order: int
    count: int = 0
    threads: _Range | None = None
    blocks: _Range | None = None
    last: Evidence | None = None
    last_wall_ns: int | None = None
    ids: tuple[str, ...] = ()


class ErrorCounts:
    """The errors of one session, counted."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._changed: dict[str, _Entry] = {}
        self._order = 0
        self.fresh = False
        """Whether something was added that had not been there."""

    def add(self, statement: Statement, context: Context, place: Evidence) -> tuple[str, ...]:
        """Count a statement; return the ids of its diagnostic and hit."""
        digest = _digest(statement, context)
        entry = self._entries.get(digest)
        if entry is None:
            if len(self._entries) >= MOST:
                statement = Statement("more", "more errors than are kept apart", statement.severity)
                digest = _digest(statement, context)
                entry = self._entries.get(digest)
            if entry is None:
                self._order += 1
                entry = _Entry(digest, statement, context, place, self._order)
                entry.ids = (f"diagnostic:cuda/{digest}", *([f"exception:cuda/{digest}"] if statement.hit else []))
                self._entries[digest] = entry
                self.fresh = True
        entry.count += 1
        entry.last = place
        entry.last_wall_ns = place.at_wall_ns or entry.last_wall_ns
        entry.threads = _widened(entry.threads, statement.thread)
        entry.blocks = _widened(entry.blocks, statement.block)
        self._changed[entry.digest] = entry
        return entry.ids

    def again(self, name: str, block: Point, thread: Point, place: Evidence) -> tuple[str, ...] | None:
        """Count a known statement (by its first id) once more: asserts come by the hundred thousand."""
        entry = self._entries.get(name.rpartition("/")[2])
        if entry is None or entry.threads is None or entry.blocks is None:
            return None
        entry.count += 1
        entry.last = place
        entry.threads.add(thread)
        entry.blocks.add(block)
        self._changed[entry.digest] = entry
        return entry.ids

    def collect(self, stamp: Stamp) -> list[Event]:
        """Return the changes since the last call."""
        self.fresh = False
        changed, self._changed = self._changed, {}
        events: list[Event] = []
        for entry in changed.values():
            events.append(DiagnosticSeen(diagnostic=_diagnostic(entry), **stamp))
            if entry.statement.hit:
                events.append(ExceptionSeen(hit=_hit(entry), **stamp))
        return events


def _widened(known: _Range | None, point: Point | None) -> _Range | None:
    if point is not None:
        known = known or _Range(point, point)
        known.add(point)
    return known


def _digest(statement: Statement, context: Context) -> str:
    parts = (context.source, context.owner, statement.code, statement.what, *statement.key)
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=6).hexdigest()


def _facts(entry: _Entry) -> CudaFacts:
    statement = entry.statement
    texts = {
        "what": statement.what,
        "kernel": statement.kernel,
        "thread": entry.threads.text() if entry.threads else "",
        "block": entry.blocks.text() if entry.blocks else "",
        "where": statement.where,
        "host": statement.host,
        "owner": entry.context.owner,
        "source": entry.context.source,
        "context": f"{entry.context.process or entry.context.source} {entry.context.owner}".strip(),
        "process": entry.context.process or "",
        "count": str(entry.count),
        "order": str(entry.place.line or entry.order),
        **statement.attributes,
    }
    return cuda_facts(texts)


def _diagnostic(entry: _Entry) -> Diagnostic:
    statement = entry.statement
    again = f" ({entry.count:,} times)" if entry.count > 1 else ""
    kernel = f" in {statement.kernel}" if statement.kernel else ""
    on_device = statement.code in _ON_DEVICE or bool(statement.attributes.get("sticky"))
    places = [entry.place, *([entry.last] if entry.last is not None and entry.last != entry.place else [])]
    return Diagnostic(
        id=entry.ids[0],
        system="cuda",
        code=statement.code,
        severity=statement.severity,
        sentence=f"{statement.what}{kernel}{again}.",
        entities=(entry.context.process,) if entry.context.process else (),
        facts=_facts(entry),
        evidence=tuple(places),
        at_wall_ns=entry.place.at_wall_ns,
        cause=CauseClass.DEVICE if on_device else CauseClass.PROCESS,
        writer=entry.context.owner,
    )


def _hit(entry: _Entry) -> ExceptionHit:
    statement = entry.statement
    who = "".join(
        f", {word} {reach.text()}" for word, reach in (("block", entry.blocks), ("thread", entry.threads)) if reach
    )
    kernel = f" in {statement.kernel}" if statement.kernel else ""
    where = f" at {statement.where}" if statement.where else ""
    return ExceptionHit(
        id=entry.ids[1],
        type=statement.hit,
        message=f"{statement.what}{kernel}{where}{who}",
        process=entry.context.process,
        stack=statement.frames,
        at_wall_ns=entry.last_wall_ns,
        first_wall_ns=entry.place.at_wall_ns,
        catchpoint=f"cuda: {statement.code}",
        count=entry.count,
    )


_REPORT_NS: Final = 1_000_000_000  # counts are reported at least this often while a large log is read
_OWNERS: Final = 256  # ranks or workers in one log that are kept apart
_LONGEST: Final = 4_000  # characters of a line that are read: patterns take too long on longer ones
_FAR: Final = 60  # characters before the rule of a sanitizer, at most
_ASSERTS: Final = 1_000  # different asserts that are counted without being understood again
_POINTS: Final = lazy_re(r"block: \[(\d{1,10}),(\d{1,10}),(\d{1,10})\], thread: \[(\d{1,10}),(\d{1,10}),(\d{1,10})\]")
_WAITS: Final = lazy_re(r"CUDA_DEVICE_WAITS_ON_EXCEPTION is set\..{0,4000}?\(PID (?P<pid>\d{1,10})\)")


_READERS: Final[Mapping[type[Sanitizer | CoreDump | DeviceStops | DriverLog], tuple[str, ...]]] = {
    DriverLog: ("[CUDA][",),
    CoreDump: ("coredump: ", "core dump"),
    DeviceStops: (
        "CUDA Exception: ",
        "CUDA_EXCEPTION_",
        "focus to CUDA kernel",
        "focus set to CUDA",
        "exception was triggered",
        "<<<(",
    ),
}
"""What reads lines with such words; the first that fits."""


@dataclass(slots=True)
class _Stream:
    """The lines of one process in one log."""

    context: Context
    readers: dict[type, Sanitizer | CoreDump | DeviceStops | DriverLog] = field(
        default_factory=lambda: {kind: kind() for kind in (Sanitizer, CoreDump, DeviceStops, DriverLog)}
    )
    begun: dict[type, Evidence] = field(default_factory=dict)  # where what is open began
    asserts: dict[tuple[str, str], str] = field(default_factory=dict)  # the text around the numbers -> its name


class CudaReader:
    """Converts CUDA errors in logs to diagnostics and exceptions (see LogDecoder)."""

    def __init__(self) -> None:
        self.errors = ErrorCounts()
        self._sources: dict[str, LogSource] = {}
        self._names: dict[str, str] = {}
        self._now_ns = self._reported_ns = 0
        self._streams: dict[tuple[str, str], _Stream] = {}

    def opened(self, source: LogSource) -> None:
        self._sources[source.id] = source
        self._names[source.id] = PurePath(source.path).name if source.path else source.name

    def feed(self, record: LogRecord, stamp: Stamp) -> tuple[Sequence[Event], tuple[str, ...]]:
        self._now_ns = stamp["mono_ns"]
        links: dict[str, None] = {}
        plain: list[str] = []
        stream = self._stream(record, _owner(record))
        taken = False
        for number, line in enumerate(record.text.split("\n")):
            body = _unruled(_bounded(line))
            plain.append(body)
            place = self._place(record, number, line)
            ids = self._again(stream, body, place) if "] Assertion " in body else None
            if ids is None:
                ids = self._line(stream, body, place)
            if ids is not None:
                taken = True
                links.update(dict.fromkeys(ids))
        if not taken:
            links.update(dict.fromkeys(self._block(stream, record, "\n".join(plain_form(plain)))))
        if not self.errors.fresh and self._now_ns - self._reported_ns < _REPORT_NS:
            return (), tuple(links)
        self._reported_ns = self._now_ns
        return self.errors.collect(stamp), tuple(links)

    def flush(self, stamp: Stamp) -> Sequence[Event]:
        """End open reports, and return the counted errors."""
        for stream in self._streams.values():
            for kind, reader in stream.readers.items():
                nowhere = Evidence(kind="log", text="", file=stream.context.source)
                self._add(stream, reader.end(), stream.begun.pop(kind, nowhere))
        return self.errors.collect(stamp)

    @staticmethod
    def is_report(text: str) -> bool:
        """Return whether a line begins a report of compute-sanitizer."""
        reader = Sanitizer()
        reader.line(text.partition("\n")[0])
        return reader.opened

    def _stream(self, record: LogRecord, owner: str) -> _Stream:
        key = (record.source, owner)
        stream = self._streams.get(key)
        if stream is None:
            if owner and sum(1 for source, _ in self._streams if source == record.source) >= _OWNERS:
                return self._stream(record, "")
            source = self._sources.get(record.source)
            process = source.process if source is not None else None
            stream = self._streams[key] = _Stream(Context(record.source, owner, process))
        return stream

    def _place(self, record: LogRecord, number: int, line: str) -> Evidence:
        name = self._names.get(record.source) or record.source.rpartition("/")[2]
        return Evidence.of_record(record, name, line[:2_000], number)

    def _line(self, stream: _Stream, line: str, place: Evidence) -> tuple[str, ...] | None:
        """Process a single line; None if no parser takes it."""
        if line.startswith(RULE):
            return self._opened(stream, Sanitizer, line, place)
        if "] Assertion " in line:
            return self._asserted(stream, line, place)
        for kind, words in _READERS.items():
            if any(word in line for word in words):
                return self._opened(stream, kind, line, place)
        waits = _WAITS.search(line)
        if waits is None:
            return None
        what = "The program stopped at a device error and waits for a debugger (CUDA_DEVICE_WAITS_ON_EXCEPTION)"
        statement = Statement("waits", what, Severity.CRITICAL, attributes={"pid": waits["pid"]})
        return self._add(stream, [statement], place)

    def _again(self, stream: _Stream, line: str, place: Evidence) -> tuple[str, ...] | None:
        """Count a known assert, of another thread: only its numbers are read."""
        points = _POINTS.search(line)
        name = stream.asserts.get((line[: points.start()], line[points.end() :])) if points is not None else None
        if points is None or name is None:
            return None
        x, y, z, tx, ty, tz = map(int, points.groups())
        return self.errors.again(name, (x, y, z), (tx, ty, tz), place)

    def _asserted(self, stream: _Stream, line: str, place: Evidence) -> tuple[str, ...] | None:
        statement = device_assert(line)
        if statement is None:
            return None
        ids, points = self._add(stream, [statement], place), _POINTS.search(line)
        if ids and points is not None and len(stream.asserts) < _ASSERTS:
            stream.asserts[line[: points.start()], line[points.end() :]] = ids[0]
        return ids

    def _opened(self, stream: _Stream, kind: type, line: str, place: Evidence) -> tuple[str, ...]:
        """Process a line of a multi-line error, whose place is its first line."""
        reader = stream.readers[kind]
        done = reader.line(line)
        begun = stream.begun.pop(kind, place) if done else place
        if reader.opened:
            stream.begun.setdefault(kind, place)
        return self._add(stream, done[:1], begun) + self._add(stream, done[1:], place)

    def _block(self, stream: _Stream, record: LogRecord, text: str) -> tuple[str, ...]:
        """Process a whole record."""
        if "GPU assertion failure message" not in text:
            return ()
        text = _headless(text)
        number = text.count("\n", 0, text.find("GPU assertion failure message"))
        return self._add(stream, torch_asserts(text), self._place(record, number, record.text.split("\n")[number]))

    def _add(self, stream: _Stream, statements: Iterable[Statement], place: Evidence) -> tuple[str, ...]:
        return tuple(name for said in statements for name in self.errors.add(said, stream.context, place))


def _bounded(line: str) -> str:
    """Shorten a long line in the middle: names are at its beginning, places at its end."""
    half = _LONGEST // 2
    return line if len(line) <= _LONGEST else f"{line[:half]}…{line[-half:]}"


def _headless(text: str) -> str:
    """Remove a logger's header from each line of a traceback."""
    found = text.find("Traceback (most recent call")
    head = text[text.rfind("\n", 0, found) + 1 : found] if found > 0 else ""
    if not head or head.isspace():
        return text
    return "\n".join(line.removeprefix(head) for line in text.split("\n"))


def _unruled(line: str) -> str:
    """Remove a prefix before the rule of a sanitizer's line."""
    ruled = line.find(f"{RULE} ", 0, _FAR)
    return line[ruled:] if ruled > 0 else line


def _owner(record: LogRecord) -> str:
    return f"pid {record.pid}" if record.writer and record.pid is not None else record.writer
