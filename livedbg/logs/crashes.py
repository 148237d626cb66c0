"""What crashed, as the logs of any program say it: tracebacks, C++ terminate, signals, aborts.

Sources of the texts: CPython Lib/traceback.py and Python/traceback.c (faulthandler), libstdc++
libsupc++/vterminate.cc, glibc malloc/malloc.c and debug/fortify_fail.c, bash's and the kernel's
words for signals; sanitizers: see sanitizers.py.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import ClassVar, Final, NamedTuple

from ahocorasick_rs import AhoCorasick
from msgspec.structs import replace

from livedbg.logs.deaths import DEATH_WORDS, DEATHS, died
from livedbg.logs.decoder import Feed, LogDecoder
from livedbg.logs.fatal_lines import FATAL_WORDS, fatal
from livedbg.logs.java_exceptions import JAVA_WORDS, java_exception
from livedbg.logs.native_frames import native_frames
from livedbg.logs.other_languages import WORDS as OTHER_WORDS
from livedbg.logs.other_languages import ended
from livedbg.logs.sanitizers import HEADINGS as _SANITIZER_WORDS
from livedbg.logs.sanitizers import sanitizer_report
from livedbg.logs.testruns import TEST_WORDS, FailedTest, ends_tests, failures
from livedbg.logs.tracebacks import FILE, escaped_raised, innermost_raised, python_frame
from livedbg.model import ExceptionHit, Frame, LogRecord, LogSource, Severity
from livedbg.model.events import Event, ExceptionSeen, Stamp

__all__ = ["FAILED_TESTS", "FAULT", "CrashDecoder"]

FAULT: Final = "fatal-python-error"
"""What ended a process as Python's faulthandler tells it."""

FAILED_TESTS: Final = "failed-tests"
"""A test run in which tests failed."""

_MESSAGE_LIMIT = 4096
_FRAME_LIMIT = 200
_LINE = "\n"
_REMEMBERED = 10_000  # different crashes whose counts are kept

_TERMINATE = re.compile(
    r"(?:terminate called after throwing an instance of '(?P<gnu>.{1,4000}?)'$"
    r"|terminate called (?P<none>without an active exception|recursively)"
    r"|terminating (?:due to|with) uncaught exception of type (?P<llvm>[^:\n]+)(?:: (?P<llvm_what>.*))?)",
    re.MULTILINE,
)
_WHAT = re.compile(r"^[^\S\n]*what\(\): ? ?(.*)", re.MULTILINE | re.DOTALL)
_FAULT = re.compile(r"(?:Fatal Python error|Windows fatal exception): ([^\n]*)")


class CrashDecoder(LogDecoder):
    """Makes an `ExceptionSeen` of every record that reports a crash; the same crash again raises its count."""

    name = "crashes"
    triggers: ClassVar[tuple[bytes, ...]] = (
        b"Traceback (most recent call",
        b"ray::",
        b"terminate called",
        b"uncaught exception of type ",
        b"Fatal Python error",
        b"Windows fatal exception: ",
        b"Segmentation fault",
        b"Bus error",
        b"Aborted",
        b"zsh: ",
        b"terminated by signal SIG",
        b"Illegal instruction",
        b"Floating point exception",
        b"corruption",
        b"corrupted ",
        b"free(): ",
        b"alloc(): ",
        b"_consolidate(): ",
        b"_chunk(): ",
        b"detected ***",
        b"' failed.",
        b"Assertion failed: ",
        *(word.encode() for word in TEST_WORDS),
        *(word.encode() for word in _SANITIZER_WORDS),
        *(word.encode() for word in (*FATAL_WORDS, *OTHER_WORDS, *JAVA_WORDS)),
    )

    def __init__(self) -> None:
        self._process: dict[str, str | None] = {}
        self._seen: dict[str, int] = {}
        self._hits: dict[str, dict[str, ExceptionHit]] = {}
        self._failed: dict[str, FailedTest] = {}  # by log, the first test that failed

    def opened(self, source: LogSource) -> None:
        """Remember which process writes it."""
        self._process[source.id] = source.process

    def feed(self, record: LogRecord, stamp: Stamp) -> tuple[Sequence[Event], tuple[str, ...]]:
        """See LogDecoder."""
        events: list[Event] = []
        raised = ""
        for crash in _crashes(record.text):
            raised = raised or f"{crash.type}: {crash.message.partition(_LINE)[0]}"
            if crash.kind == "traceback" and record.severity.rank < Severity.ERROR.rank:
                continue  # somebody logged it as harmless
            hit = self._hit(record, crash)
            events.append(ExceptionSeen(hit=hit, **stamp))
            self._remember(hit)
        events += self._tests(record, stamp, raised)
        return events, ()

    def alone(self, trigger: bytes) -> Feed:
        """See LogDecoder: what the C library says of a heap begins a line; elsewhere it is ordinary."""
        return self._heap if trigger in _OF_HEAP else self.feed

    def _heap(self, record: LogRecord, stamp: Stamp) -> tuple[Sequence[Event], tuple[str, ...]]:
        """Take a record that says something of a heap, and nothing else that counts."""
        text = record.text
        found = _HEAP.search(text) if "\n" in text else _HEAP.match(text)
        return ((), ()) if found is None else self.feed(record, stamp)

    def _tests(self, record: LogRecord, stamp: Stamp, raised: str) -> Iterator[Event]:
        """What a run of tests says at its end; the exceptions before it were those of tests."""
        self._failed[record.source] = self._failed.get(record.source, FailedTest()).with_more(record.text, raised)
        if raised:
            return
        if ends_tests(record.text):
            for hit in self._hits.pop(record.source, {}).values():
                yield ExceptionSeen(hit=replace(hit, survived="the test run went on after it"), **stamp)
        summary = failures(record.text)
        if summary:
            first = self._failed.pop(record.source, FailedTest())
            told = (first.head, first.said, summary) if first.head else (summary, "", "")
            crash = _Crash(FAILED_TESTS, told[0], told[1], (), related=told[2])
            yield ExceptionSeen(hit=self._hit(record, crash), **stamp)

    def _remember(self, hit: ExceptionHit) -> None:
        known = self._hits.setdefault(hit.source or "", {})
        if len(known) < _REMEMBERED:
            known[hit.id] = hit

    def _hit(self, record: LogRecord, crash: _Crash) -> ExceptionHit:
        process = self._process.get(record.source)
        writer = record.writer
        places = (f"{frame.function} {frame.file} {frame.line}" for frame in crash.stack)
        parts = [record.source, writer, crash.type, crash.message, *places]
        digest = hashlib.blake2b("\n".join(parts).encode(), digest_size=6).hexdigest()
        if len(self._seen) > _REMEMBERED:
            self._seen.clear()
        count = self._seen[digest] = self._seen.get(digest, 0) + 1
        return ExceptionHit(
            id=f"exception:log/{digest}",
            type=crash.type,
            message=crash.message[:_MESSAGE_LIMIT],
            process=process,
            stack=crash.stack,
            at_wall_ns=record.wall_ns,
            catchpoint=f"log: {crash.kind}",
            count=count,
            source=record.source,
            line=record.last_line,
            first_line=record.line,
            raised_line=record.line_at(crash.raised) if crash.raised is not None else None,
            related=crash.related,
            writer=writer,
            logged=crash.kind == "traceback" and record.head > 0,
        )


_WORDS: Final = {
    "fatal": FATAL_WORDS,
    "java": JAVA_WORDS,
    "other language": OTHER_WORDS,
    "traceback": ("Traceback (most recent call last)", "ray::"),
    "sanitizer": _SANITIZER_WORDS,
    "terminate": ("terminate called ", "uncaught exception of type "),
    "fault": ("Fatal Python error: ", "Windows fatal exception: "),
    **DEATH_WORDS,
}
"""By kind, what a text must hold: searching for all words at once costs a tenth of searching for the patterns."""

_HEAP: Final = next(pattern for kind, pattern in DEATHS if kind == "glibc-abort")
_OF_HEAP: Final = (b"corruption", b"corrupted ", b"free(): ", b"alloc(): ", b"_consolidate(): ", b"_chunk(): ")
_KINDS: Final = [kind for kind, words in _WORDS.items() for _word in words]
_FINDER: Final = AhoCorasick([word for words in _WORDS.values() for word in words])


class _Crash(NamedTuple):
    """One of them."""

    kind: str
    type: str
    message: str
    stack: tuple[Frame, ...]
    raised: int | None = None  # index of the line that names it
    related: str = ""


def _crashes(text: str) -> Iterator[_Crash]:
    """The crashes that one record reports; of chained Python exceptions the one that counts (tracebacks.T1, T2)."""
    held = {_KINDS[word] for word, _, _ in _FINDER.find_matches_as_indexes(text, overlapping=True)}
    if not held:
        return
    lines = text.split("\n")
    end = fatal(lines) if "fatal" in held else None
    if end is not None:
        yield _Crash(*end)
        return
    java = java_exception(text) if "java" in held else None
    if java is not None:
        kind = "terminate" if java.thrown else "traceback"
        yield _Crash(kind, java.type, java.message, java.stack, java.raised, java.related)
        return
    other = ended(text) if "other language" in held else None
    if other is not None:
        yield _Crash(*other)
        return
    if "traceback" in held:
        raised = innermost_raised(lines) or escaped_raised(text)
        if raised is not None:
            yield _Crash("traceback", raised.type, raised.message, raised.stack, raised.index, raised.related)
            return
    report = sanitizer_report(lines) if "sanitizer" in held else None
    if report is not None:
        yield _Crash(*report)
        return
    terminate = _TERMINATE.search(text) if "terminate" in held else None
    if terminate is not None:
        yield _terminate(text, terminate)
        return
    fault = _FAULT.search(text) if "fault" in held else None
    if fault is not None:
        yield _Crash(FAULT, fault[1].strip() or "Fatal Python error", fault[0].strip(), _crashed_thread(lines))
        return
    for kind, pattern in DEATHS:
        match = pattern.search(text) if kind in held else None
        if match is not None:
            yield _Crash(kind, *died(kind, match, text))
            return


def _terminate(text: str, match: re.Match[str]) -> _Crash:
    if match["none"]:
        return _Crash("terminate", "std::terminate", f"terminate called {match['none']}", native_frames(text))
    what = _WHAT.search(text, match.end())
    message = what[1] if what is not None else match["llvm_what"] or ""
    return _Crash("terminate", match["gnu"] or match["llvm"], message.strip(), native_frames(text))


def _crashed_thread(lines: list[str]) -> tuple[Frame, ...]:
    """The frames (innermost first already) of the current thread of a faulthandler dump; without one, of the first."""
    current = next((n for n, line in enumerate(lines) if line.startswith("Current thread 0x")), None)
    frames: list[Frame] = []
    for line in lines if current is None else lines[current + 1 :]:
        match = FILE.match(line)
        if match is not None:
            frames.append(python_frame(match[1], match[2], match[3]))
        elif frames or current is not None:
            break
    return tuple(frames[:_FRAME_LIMIT])
