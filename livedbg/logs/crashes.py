"""What crashed, as the logs of any program say it: tracebacks, C++ terminate, signals, aborts.

Sources of the texts: CPython Lib/traceback.py and Python/traceback.c (faulthandler), libstdc++
libsupc++/vterminate.cc, glibc malloc/malloc.c and debug/fortify_fail.c, bash's and the kernel's
words for signals; sanitizers: see sanitizers.py.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

from msgspec.structs import replace

from livedbg.logs.decoder import LogDecoder
from livedbg.logs.sanitizers import HEADINGS as _SANITIZER_WORDS
from livedbg.logs.sanitizers import sanitizer_report
from livedbg.model import ExceptionHit, Frame, LogRecord, LogSource, Severity
from livedbg.model.events import Event, ExceptionSeen, Stamp

__all__ = ["FAULT", "TESTS", "CrashDecoder"]

FAULT: Final = "fatal-python-error"
"""What ended a process as Python's faulthandler tells it."""

_MESSAGE_LIMIT = 4096
_FRAME_LIMIT = 200
_REMEMBERED = 10_000  # different crashes whose counts are kept

_FILE = re.compile(r'^\s*(?:[|+] *)*File "([^"]+)", line (\d{1,18})(?:, in | in )?(.*)$')
_RAISED = re.compile(r"^(?:[|+ ]*)((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?:: ?(.*))?$", re.DOTALL)
_TRACEBACK = re.compile(r"Traceback \(most recent call last\):")
_TERMINATE = re.compile(
    r"(?:terminate called after throwing an instance of '(?P<gnu>.+?)'$"
    r"|terminate called (?P<none>without an active exception|recursively)"
    r"|terminating (?:due to|with) uncaught exception of type (?P<llvm>[^:\n]+)(?:: (?P<llvm_what>.*))?)",
    re.MULTILINE,
)
_WHAT = re.compile(r"^\s*what\(\): ? ?(.*)", re.MULTILINE | re.DOTALL)
_FAULT = re.compile(r"Fatal Python error: ([^\n]*)")
_SIGNAL_NAMES = r"(Segmentation fault|Bus error|Illegal instruction|Floating point exception)"
_SIGNAL = re.compile(  # as a shell, UCX's handler or the kernel's log say it
    rf"(?:^|[:\d]) *{_SIGNAL_NAMES}(?: +\(core dumped\)| *$|  )|Caught signal \d{{1,18}} \({_SIGNAL_NAMES}"
    r"|\b(segfault) at [0-9a-f]{1,16} ip |^(Aborted)(?: \(core dumped\)| *$)",
    re.MULTILINE,
)
_GLIBC = re.compile(
    r"^(?:\*\*\* Error in `[^']*': )?((?:double free or corruption|free\(\): |malloc\(\): |malloc_consolidate\(\): "
    r"|realloc\(\): |munmap_chunk\(\): |corrupted (?:size|double-linked)|\*\*\* stack smashing detected"
    r"|\*\*\* buffer overflow detected)[^\n]*)",
    re.MULTILINE,
)
_ASSERT = re.compile(r"^\S+: (\S+:\d{1,18}): (.*): (Assertion `.*' failed\.)$", re.MULTILINE)
_NATIVE_FRAME = re.compile(
    r"^\s*(?:frame )?#(\d{1,18}):? +(?:0x([0-9a-f]{1,16}) in )?(.+?)(?: \+ 0x[0-9a-f]+)?"
    r"(?: \(0x([0-9a-f]{1,16}) in ([^)]+)\)"
    r"| (?:at|from) ([^\s:]+)(?::(\d{1,18}))?(?::\d{1,18})?)?$",
    re.MULTILINE,
)


_TEST_WORDS: Final = tuple(
    f" {word} in ".encode()
    for word in ("passed", "failed", "skipped", "error", "errors", "warning", "warnings", "deselected", "xfailed")
)
TESTS: Final = re.compile(
    r"^=* ?(?:\d+ [a-z]+, )*\d+ (?:passed|failed|skipped|errors?|warnings?) in \d+\.\d+ ?s\b", re.MULTILINE
)
"""The last line of pytest (_pytest/terminal.py): the exceptions before it were those of tests."""


class CrashDecoder(LogDecoder):
    """Makes an `ExceptionSeen` of every record that reports a crash; the same crash again raises its count."""

    name = "crashes"
    triggers: ClassVar[tuple[bytes, ...]] = (
        b"Traceback (most recent call",
        b"terminate called",
        b"uncaught exception of type ",
        b"Fatal Python error",
        b"Segmentation fault",
        b"segfault at",
        b"Bus error",
        b"Aborted",
        b"Illegal instruction",
        b"Floating point exception",
        b"corruption",
        b"corrupted ",
        b"free(): ",
        b"alloc(): ",
        b"_chunk(): ",
        b"detected ***",
        b"' failed.",
        *_TEST_WORDS,
        *(word.encode() for word in _SANITIZER_WORDS),
    )

    def __init__(self) -> None:
        self._process: dict[str, str | None] = {}
        self._seen: dict[str, int] = {}
        self._hits: dict[str, dict[str, ExceptionHit]] = {}

    def opened(self, source: LogSource) -> None:
        """Remember which process writes it."""
        self._process[source.id] = source.process

    def feed(self, record: LogRecord, stamp: Stamp) -> tuple[Sequence[Event], tuple[str, ...]]:
        """See LogDecoder."""
        events: list[Event] = []
        for kind, type_name, message, stack in _crashes(record.text):
            if kind == "traceback" and record.severity.rank < Severity.ERROR.rank:
                continue  # somebody logged it as harmless
            hit = self._hit(record, kind, type_name, message, stack)
            events.append(ExceptionSeen(hit=hit, **stamp))
            self._remember(hit)
        if not events and " in " in record.text and TESTS.search(record.text):
            known = self._hits.pop(record.source, {}).values()
            went_on = (replace(hit, survived="the test run went on after it") for hit in known)
            events += [ExceptionSeen(hit=hit, **stamp) for hit in went_on]
        return events, ()

    def _remember(self, hit: ExceptionHit) -> None:
        known = self._hits.setdefault(hit.source or "", {})
        if len(known) < _REMEMBERED:
            known[hit.id] = hit

    def _hit(
        self, record: LogRecord, kind: str, type_name: str, message: str, stack: tuple[Frame, ...]
    ) -> ExceptionHit:
        process = self._process.get(record.source)
        parts = [record.source, type_name, message, *(f"{f.function} {f.file} {f.line}" for f in stack)]
        digest = hashlib.blake2b("\n".join(parts).encode(), digest_size=6).hexdigest()
        if len(self._seen) > _REMEMBERED:
            self._seen.clear()
        count = self._seen[digest] = self._seen.get(digest, 0) + 1
        return ExceptionHit(
            id=f"exception:log/{digest}",
            type=type_name,
            message=message[:_MESSAGE_LIMIT],
            process=process,
            stack=stack,
            at_wall_ns=record.wall_ns,
            catchpoint=f"log: {kind}",
            count=count,
            source=record.source,
            line=record.line + record.text.count("\n") if record.line is not None else None,
        )


# What a text must hold for a pattern to match: looking for words is ten times as fast as searching for the pattern.
_TERMINATE_WORDS: Final = ("terminate called ", "uncaught exception of type ")
_DEATHS: Final = (
    (
        "glibc-abort",
        _GLIBC,
        ("corruption", "free(): ", "alloc(): ", "_consolidate(): ", "_chunk(): ", "corrupted ", "detected"),
    ),
    ("assert", _ASSERT, (": Assertion `",)),
    (
        "signal",
        _SIGNAL,
        ("Segmentation fault", "Bus error", "Illegal instruction", "Floating point", "segfault at ", "Aborted"),
    ),
)


_WORDS: Final = (
    *("Traceback (most recent call last)", "Fatal Python error: ", *_TERMINATE_WORDS, *_SANITIZER_WORDS),
    *(word for _kind, _pattern, words in _DEATHS for word in words),
)


def _holds(text: str, words: Sequence[str]) -> bool:
    for word in words:  # noqa: SIM110 (`any` of a generator takes twice as long)
        if word in text:
            return True
    return False


_Crash = tuple[str, str, str, tuple[Frame, ...]]
"""Kind, type, message, stack."""


def _crashes(text: str) -> Iterator[_Crash]:
    """The crashes that one record reports; of chained Python exceptions the last one."""
    if not _holds(text, _WORDS):
        return
    lines = text.split("\n")
    if "Traceback (most recent call last)" in text:
        found = _python(lines)
        if found is not None:
            yield found
            return
    report = sanitizer_report(lines) if _holds(text, _SANITIZER_WORDS) else None
    if report is not None:
        yield report
        return
    terminate = _TERMINATE.search(text) if _holds(text, _TERMINATE_WORDS) else None
    if terminate is not None:
        yield _terminate(text, terminate)
        return
    fault = _FAULT.search(text) if "Fatal Python error: " in text else None
    if fault is not None:
        yield FAULT, fault[1].strip() or "Fatal Python error", fault[0].strip(), _crashed_thread(lines)
        return
    for kind, pattern, words in _DEATHS:
        match = pattern.search(text) if _holds(text, words) else None
        if match is not None:
            yield _died(kind, match, text)
            return


def _died(kind: str, match: re.Match[str], text: str) -> _Crash:
    if kind == "assert":
        return kind, "assert", f"{match[1]}: {match[2]}: {match[3]}", _native_frames(text)
    if kind == "glibc-abort":
        return kind, "SIGABRT", match[1].strip(), _native_frames(text)
    word = next(group for group in match.groups() if group)
    return kind, _SIGNALS[word], word, _native_frames(text)


_SIGNALS: Final = {
    "Segmentation fault": "SIGSEGV",
    "Bus error": "SIGBUS",
    "Illegal instruction": "SIGILL",
    "Floating point exception": "SIGFPE",
    "segfault": "SIGSEGV",
    "Aborted": "SIGABRT",
}


def _terminate(text: str, match: re.Match[str]) -> _Crash:
    if match["none"]:
        return "terminate", "std::terminate", f"terminate called {match['none']}", _native_frames(text)
    what = _WHAT.search(text, match.end())
    message = what[1] if what is not None else match["llvm_what"] or ""
    return "terminate", match["gnu"] or match["llvm"], message.strip(), _native_frames(text)


def _python(lines: list[str]) -> _Crash | None:
    """The exception of the last traceback of a record."""
    begin = max((n for n, line in enumerate(lines) if _TRACEBACK.search(line)), default=None)
    if begin is None:
        return None
    cut = lines[begin].index("Traceback")  # some glog-like lines have the header on every line
    repeated = lines[begin][:cut] if cut and not lines[begin][:cut].isspace() else ""
    frames: list[Frame] = []
    end = len(lines)
    for number in range(begin + 1, len(lines)):
        line = lines[number].removeprefix(repeated)
        match = _FILE.match(line)
        if match is not None:
            frames.append(_python_frame(match[1], match[2], match[3]))
        elif line[:1] not in " \t|+" and line:
            end = number
            break
    if end == len(lines):
        return ("traceback", "unknown", "the traceback is cut off", _innermost(frames)) if frames else None
    body = [line.removeprefix(repeated) for line in lines[end:]]
    match = _RAISED.match(body[0])
    if match is None:
        return "traceback", "unknown", body[0], _innermost(frames)
    more = [line for line in body[1:] if not _NATIVE_FRAME.match(line)]
    message = "\n".join([match[2] or "", *more]).strip()
    return "traceback", match[1], message, (*_innermost(frames), *_native_frames("\n".join(body[1:])))[:_FRAME_LIMIT]


def _innermost(frames: list[Frame]) -> tuple[Frame, ...]:
    """Frames of a traceback (outermost first) in the order of the model."""
    return tuple(reversed(frames[-_FRAME_LIMIT:]))


def _python_frame(file: str, line: str, function: str) -> Frame:
    return Frame(function=function or "<module>", file=file, line=int(line), language="python")


def _crashed_thread(lines: list[str]) -> tuple[Frame, ...]:
    """The frames (innermost first already) of the current thread of a faulthandler dump; without one, of the first."""
    current = next((n for n, line in enumerate(lines) if line.startswith("Current thread 0x")), None)
    frames: list[Frame] = []
    for line in lines if current is None else lines[current + 1 :]:
        match = _FILE.match(line)
        if match is not None:
            frames.append(_python_frame(match[1], match[2], match[3]))
        elif frames or current is not None:
            break
    return tuple(frames[:_FRAME_LIMIT])


def _native_frames(text: str) -> tuple[Frame, ...]:
    """The C++ frames of a listing (`#0  0x… in f () at a.cpp:3`, `frame #1: f + 0x1c (0x… in lib.so)`)."""
    frames: list[Frame] = []
    for match in _NATIVE_FRAME.finditer(text):
        address = match[2] or match[4]
        frames.append(
            Frame(
                function=match[3],
                file=match[6],
                line=int(match[7]) if match[7] else None,
                module=match[5].rpartition("/")[2] if match[5] else None,
                address=int(address, 16) if address else None,
            )
        )
        if len(frames) == _FRAME_LIMIT:
            break
    return tuple(frames)
