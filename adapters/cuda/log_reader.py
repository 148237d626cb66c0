"""Pass log lines to the parsers of CUDA errors, separated by process; and parse the driver's error log.

The driver's error log (CUDA 12.9 and later, environment variable CUDA_LOG_FILE): CUDA C++ Programming Guide, "Error Log
Management": `[TIME][THREAD][CUDA][LEVEL] MESSAGE`; the guides of 13.0 and 13.1 have the function in a fifth bracket.
The cause is in a line of its own, before `Returning 1 (CUDA_ERROR_INVALID_VALUE) from cuLaunchKernel` of the same
thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import ClassVar, Final

from livedbg.adapters.cuda.device_lines import CoreDump, DeviceStops, device_assert, torch_asserts
from livedbg.adapters.cuda.error_diagnostics import Context, ErrorCounts
from livedbg.adapters.cuda.sanitizer import Sanitizer
from livedbg.adapters.cuda.statement import RULE, Statement, by_name, by_number
from livedbg.logs.tracebacks import plain_form
from livedbg.model import Evidence, LogRecord, LogSource, Severity
from livedbg.model.events import Event, Stamp
from livedbg.text.patterns import lazy_re

_LINE: Final = lazy_re(
    r"\[[\d:.]+\]\[(?P<thread>\d{1,20})\]\[CUDA\]\[(?P<level>[A-Z])\](?:\[(?P<function>\w+)\])? ?(?P<text>.*)"
)
_RETURNING: Final = lazy_re(r"Returning (?P<number>\d{1,9}) \((?P<name>\w+)\) from (?P<call>\w+)")
_NUMBERS: Final = lazy_re(r"0x[0-9a-fA-F]+|\d+")
_THREADS: Final = 1_000  # whose last words are kept


class DriverLog:
    """The lines of one driver log, in order."""

    opened: ClassVar[bool] = False  # what is open has no place of its own

    def __init__(self) -> None:
        self._said: dict[str, str] = {}  # by thread: what is wrong, before the call returns

    def line(self, line: str) -> list[Statement]:
        """Process a line; return completed statements."""
        match = _LINE.search(line)
        if match is None or match["level"] not in "EW":
            return []
        thread, text = match["thread"], match["text"].strip()
        returning = _RETURNING.match(text)
        if returning is None:
            if match["function"]:
                return [_error(None, "", match["function"], text)]
            done = self._of_thread(thread)
            if len(self._said) < _THREADS:
                self._said[thread] = text
            return done
        said = self._said.pop(thread, "")
        return [_error(int(returning["number"]), returning["name"], returning["call"], said)]

    def end(self) -> list[Statement]:
        """Return causes without a following return line."""
        return [statement for thread in tuple(self._said) for statement in self._of_thread(thread)]

    def _of_thread(self, thread: str) -> list[Statement]:
        said = self._said.pop(thread, "")
        return [_error(None, "", "", said)] if said else []


def _error(number: int | None, name: str, call: str, said: str) -> Statement:
    code = (by_number(number) if number is not None else None) or by_name(name)
    words = code.text if code is not None else name
    returned = (
        f"{call} returned {name} ({number}, {words})"
        if name
        else f"The driver has a complaint{f' about {call}' if call else ''}"
    )
    attributes = {
        "error": code.name if code is not None else name,
        "number": str(number) if number is not None else "",
        "call": call,
        "said": said[:1_000],
        "text": words,
        "sticky": code is not None and code.sticky,
        "of_kernel": code is not None and code.of_kernel,
    }
    severity = Severity.ERROR if name else Severity.WARNING
    return Statement(
        "api-error",
        returned,
        severity,
        key=(_NUMBERS.sub("#", said),),
        attributes={key: value for key, value in attributes.items() if value},
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
        if waits is not None:
            what = "The program stopped at a device error and waits for a debugger (CUDA_DEVICE_WAITS_ON_EXCEPTION)"
            statement = Statement("waits", what, Severity.CRITICAL, attributes={"pid": waits["pid"]})
            return self._said(stream, statement, place)
        return None

    def _again(self, stream: _Stream, line: str, place: Evidence) -> tuple[str, ...] | None:
        """Count a known assert, of another thread: only its numbers are read."""
        points = _POINTS.search(line)
        name = stream.asserts.get((line[: points.start()], line[points.end() :])) if points is not None else None
        if points is None or name is None:
            return None
        x, y, z, tx, ty, tz = map(int, points.groups())
        return self.errors.again(name, (x, y, z), (tx, ty, tz), place)

    def _asserted(self, stream: _Stream, line: str, place: Evidence) -> tuple[str, ...] | None:
        ids = self._said(stream, device_assert(line), place)
        points = _POINTS.search(line)
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

    def _said(self, stream: _Stream, statement: Statement | None, place: Evidence) -> tuple[str, ...] | None:
        return None if statement is None else self._add(stream, [statement], place)

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
