"""What crashed, as the logs of any program say it: tracebacks, C++ terminate, signals, aborts.

Sources of the texts: CPython Lib/traceback.py and Python/traceback.c (faulthandler), libstdc++
libsupc++/vterminate.cc, glibc malloc/malloc.c and debug/fortify_fail.c, bash's and the kernel's
words for signals; sanitizers: see sanitizers.py.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import ClassVar, Final, NamedTuple

from ahocorasick_rs import AhoCorasick
from msgspec.structs import replace

from livedbg.logs.decoder import Feed, LogDecoder
from livedbg.logs.fatal_lines import FATAL_WORDS, fatal
from livedbg.logs.native_frames import native_frames
from livedbg.logs.other_languages import WORDS as OTHER_WORDS
from livedbg.logs.other_languages import ended
from livedbg.logs.sanitizers import HEADINGS as _SANITIZER_WORDS
from livedbg.logs.sanitizers import sanitizer_report
from livedbg.logs.tracebacks import FILE, innermost_raised, python_frame
from livedbg.model import ExceptionHit, Frame, LogRecord, LogSource, Severity
from livedbg.model.events import Event, ExceptionSeen, Stamp

__all__ = ["FAILED_TESTS", "FAULT", "TESTS", "CrashDecoder"]

FAULT: Final = "fatal-python-error"
"""What ended a process as Python's faulthandler tells it."""

FAILED_TESTS: Final = "failed-tests"
"""A test run in which tests failed."""

_MESSAGE_LIMIT = 4096
_FRAME_LIMIT = 200
_REMEMBERED = 10_000  # different crashes whose counts are kept

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
    r"|\b(segfault) at [0-9a-f]{1,16} ip |(?:^|: line \d{1,9}: +\d{1,10} )(Aborted)(?: +\(core dumped\)| *$)",
    re.MULTILINE,
)
_GLIBC = re.compile(
    r"^(?:\*\*\* Error in `[^']*': )?((?:double free or corruption|free\(\): |malloc\(\): |malloc_consolidate\(\): "
    r"|realloc\(\): |munmap_chunk\(\): |corrupted (?:size|double-linked)|\*\*\* stack smashing detected"
    r"|\*\*\* buffer overflow detected)[^\n]*)",
    re.MULTILINE,
)
_ASSERT = re.compile(r"^\S+: (\S+:\d{1,18}): (.*): (Assertion `.*' failed\.)$", re.MULTILINE)
_TEST_WORDS: Final = tuple(
    f" {word} in ".encode()
    for word in ("passed", "failed", "skipped", "error", "errors", "warning", "warnings", "deselected", "xfailed")
)
TESTS: Final = re.compile(
    r"^=* ?(?:\d+ [a-z]+, )*\d+ (?:passed|failed|skipped|errors?|warnings?) in \d+\.\d+ ?s\b", re.MULTILINE
)
"""The last line of pytest (_pytest/terminal.py): the exceptions before it were those of tests."""

_TESTS_FAILED: Final = re.compile(r"\b[1-9]\d* (?:failed|errors?)\b")
_TRIGGERS: Final[Mapping[str, tuple[bytes, ...]]] = {
    "traceback": (b"Traceback (most recent call", b"ray::"),
    "terminate": (b"terminate called", b"uncaught exception of type "),
    "fault": (b"Fatal Python error",),
    "signal": (
        *(b"Segmentation fault", b"segfault at", b"Bus error", b"Aborted", b"Illegal instruction"),
        b"Floating point exception",
    ),
    "glibc-abort": (
        *(b"corruption", b"corrupted ", b"free(): ", b"alloc(): ", b"_consolidate(): ", b"_chunk(): "),
        b"detected ***",
    ),
    "assert": (b"' failed.",),
    "tests": (*_TEST_WORDS, b"FAILED "),
    "sanitizer": tuple(word.encode() for word in _SANITIZER_WORDS),
    "fatal": tuple(word.encode() for word in FATAL_WORDS),
    "other language": tuple(word.encode() for word in OTHER_WORDS),
}
"""By kind, of what one is in every record that tells of such a crash."""


class CrashDecoder(LogDecoder):
    """Makes an `ExceptionSeen` of every record that reports a crash; the same crash again raises its count."""

    name = "crashes"
    triggers: ClassVar[tuple[bytes, ...]] = tuple(dict.fromkeys(word for words in _TRIGGERS.values() for word in words))

    def __init__(self) -> None:
        self._process: dict[str, str | None] = {}
        self._seen: dict[str, int] = {}
        self._hits: dict[str, dict[str, ExceptionHit]] = {}
        self._failed: dict[str, str] = {}  # by log, the first test that failed

    def opened(self, source: LogSource) -> None:
        """Remember which process writes it."""
        self._process[source.id] = source.process

    def feed(self, record: LogRecord, stamp: Stamp) -> tuple[Sequence[Event], tuple[str, ...]]:
        """See LogDecoder."""
        held = {_KINDS[word] for word, _, _ in _FINDER.find_matches_as_indexes(record.text, overlapping=True)}
        return self._taken(held, record, stamp)

    def alone(self, trigger: bytes) -> Feed:
        """See LogDecoder."""
        kinds = {kind for kind, triggers in _TRIGGERS.items() if trigger in triggers}
        sure = all(any(word.encode() in trigger for word in _WORDS.get(kind, ())) for kind in kinds)
        if not sure:
            return self.feed
        forms = [form for form in _DEATHS if form[0] in kinds]
        if len(forms) == len(kinds):
            return partial(self._feed_death, forms)
        return partial(self._taken, kinds)

    def _feed_death(self, forms: _Forms, record: LogRecord, stamp: Stamp) -> tuple[Sequence[Event], tuple[str, ...]]:
        """Take a record that may tell of a death, and of no tests."""
        crash = _death(forms, record.text)
        return ((), ()) if crash is None else ([self._told(record, crash, stamp)], ())

    def _taken(
        self, held: AbstractSet[str], record: LogRecord, stamp: Stamp
    ) -> tuple[Sequence[Event], tuple[str, ...]]:
        """Take a record; `held` are the kinds of crashes whose words are in it."""
        events: list[Event] = []
        crash = _crash(record.text, held) if held else None
        if crash is not None and (crash.kind != "traceback" or record.severity.rank >= Severity.ERROR.rank):
            events.append(self._told(record, crash, stamp))
        if record.text.startswith("FAILED "):
            self._failed.setdefault(record.source, record.text[len("FAILED ") :].partition("\n")[0])
        summary = TESTS.search(record.text) if not events and " in " in record.text else None
        if summary is not None:
            known = self._hits.pop(record.source, {}).values()
            went_on = (replace(hit, survived="the test run went on after it") for hit in known)
            events += [ExceptionSeen(hit=hit, **stamp) for hit in went_on]
            first = self._failed.pop(record.source, "")
            if _TESTS_FAILED.search(summary[0]) is not None:
                crash = _Crash(FAILED_TESTS, summary[0].strip("= "), first, ())
                events.append(ExceptionSeen(hit=self._hit(record, crash), **stamp))
        return events, ()

    def _told(self, record: LogRecord, crash: _Crash, stamp: Stamp) -> Event:
        hit = self._hit(record, crash)
        known = self._hits.setdefault(hit.source or "", {})
        if len(known) < _REMEMBERED:
            known[hit.id] = hit
        return ExceptionSeen(hit=hit, **stamp)

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
        )


_Forms = Sequence[tuple[str, "re.Pattern[str]", bool]]
_DEATHS: Final[_Forms] = (("glibc-abort", _GLIBC, True), ("assert", _ASSERT, True), ("signal", _SIGNAL, False))
"""Kind, pattern, whether it begins where a line begins, and is searched for nowhere else."""
_GLIBC_WORDS: Final = (
    "corruption",
    "free(): ",
    "alloc(): ",
    "_consolidate(): ",
    "_chunk(): ",
    "corrupted ",
    "detected",
)
_SIGNAL_WORDS: Final = ("Segmentation fault", "Bus error", "Illegal instruction", "Floating point", "segfault at ")
_WORDS: Final = {
    "fatal": FATAL_WORDS,
    "other language": OTHER_WORDS,
    "traceback": ("Traceback (most recent call last)", "ray::"),
    "sanitizer": _SANITIZER_WORDS,
    "terminate": ("terminate called ", "uncaught exception of type "),
    "fault": ("Fatal Python error: ",),
    "glibc-abort": _GLIBC_WORDS,
    "assert": (": Assertion `",),
    "signal": (*_SIGNAL_WORDS, "Aborted"),
}
"""By kind, what a text must hold: searching for all words at once costs a tenth of searching for the patterns."""

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


def _crash(text: str, held: AbstractSet[str]) -> _Crash | None:
    """The crash that one record reports; of chained Python exceptions the one that counts (tracebacks.T1, T2)."""
    lines = text.split("\n")
    end = fatal(lines) if "fatal" in held else None
    if end is not None:
        return _Crash(*end)
    other = ended(text) if "other language" in held else None
    if other is not None:
        return _Crash(*other)
    if "traceback" in held:
        raised = innermost_raised(lines)
        if raised is not None:
            return _Crash("traceback", raised.type, raised.message, raised.stack, raised.index, raised.related)
    report = sanitizer_report(lines) if "sanitizer" in held else None
    if report is not None:
        return _Crash(*report)
    terminate = _TERMINATE.search(text) if "terminate" in held else None
    if terminate is not None:
        return _terminate(text, terminate)
    fault = _FAULT.search(text) if "fault" in held else None
    if fault is not None:
        return _Crash(FAULT, fault[1].strip() or "Fatal Python error", fault[0].strip(), _crashed_thread(lines))
    return _death([form for form in _DEATHS if form[0] in held], text)


def _death(forms: _Forms, text: str) -> _Crash | None:
    one_line = "\n" not in text
    for kind, pattern, begins_line in forms:
        match = pattern.match(text) if one_line and begins_line else pattern.search(text)
        if match is not None:
            return _died(kind, match, text)
    return None


def _died(kind: str, match: re.Match[str], text: str) -> _Crash:
    if kind == "assert":
        return _Crash(kind, "assert", f"{match[1]}: {match[2]}: {match[3]}", native_frames(text))
    if kind == "glibc-abort":
        return _Crash(kind, "SIGABRT", match[1].strip(), native_frames(text))
    word = next(group for group in match.groups() if group)
    return _Crash(kind, _SIGNALS[word], word, native_frames(text))


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
