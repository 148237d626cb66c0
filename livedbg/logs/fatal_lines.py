"""What libraries of C++ write as they end a process: fatal lines of glog and absl, handlers of signals, LLVM's dump.

Sources: google/glog src/logging.cc, signalhandler.cc and symbolize; abseil absl/log and
absl/debugging/failure_signal_handler.cc (`*** SIGSEGV received at time=…`); LLVM lib/Support/Signals.cpp and
PrettyStackTrace.cpp (`Stack dump:`).

Invariants:
    fatal_lines.D1. A signal that asks a process to end (SIGTERM, SIGINT, SIGHUP) is no crash.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from typing import Final, NamedTuple

from livedbg.model import Frame

__all__ = ["FATAL_WORDS", "Fatal", "fatal"]

_LONGEST: Final = 2_000
_FRAMES: Final = 200
_LINE: Final = re.compile(
    r"^(?:\[?F(?:[01]?\d{3}|\d{8}) ?\d\d:\d\d:\d\d(?:\.\d{1,9})? {1,8}(?:\d{1,19} )?"
    r"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{1,9}: F )"
    r"(?P<place>[\w./+-]{1,200}:\d{1,9})\] ?(?P<said>.*)$"
)
_CHECK: Final = re.compile(r"^Check fail(?:ed|ure)(?: stack trace)?: ?")
_SIGNAL: Final = re.compile(
    r"\*\*\* (?P<name>SIG[A-Z]{2,6}) (?:\((?:@0x[0-9a-f]{1,16}|[^)\n]{1,40})\) )?received (?:by PID |at time=)\d"
)
_DUMP: Final = re.compile(r"^(?:Stack dump:|0\.\s{1,8}Program arguments: )", re.MULTILINE)
_AT: Final = re.compile(r"^ {2,8}@ +0x(?P<address>[0-9a-f]{1,16}) +(?:\d{1,9} +)?(?P<function>\S.*)$")
_NUMBERED: Final = re.compile(
    r"^ *#(?P<number>\d{1,4}) 0x(?P<address>[0-9a-f]{1,16}) (?:(?P<function>\S.*?) )?"
    r"(?:(?P<file>[^\s:()]{1,300}):(?P<line>\d{1,9}):\d{1,9}|\((?P<module>[^\s()]{1,300})\+0x[0-9a-f]{1,16}\))$"
)
_MACHINERY: Final = re.compile(
    r"^(?:google::|absl::|llvm::sys::|\(unknown\)|SignalHandler|CrashHandler|__restore_rt|_*raise$|gsignal$|_*abort$"
    r"|__GI_|__assert|__pthread_kill|pthread_kill|__cxa_|std::terminate|ray::TerminateHandler)"
)
"""Functions of the report itself, and of what ends a process."""

_ASKED: Final = ("SIGTERM", "SIGINT", "SIGHUP")

FATAL_WORDS: Final = ("Check fail", "Non-OK-status", "*** SIG", "Stack dump:", "Program arguments: ")
"""What a text holds that says so: glog and absl write `Check failure stack trace` below every fatal line."""


class Fatal(NamedTuple):
    """One end of a process.

    Attributes:
        kind: `assert` or `signal`, as other crashes have.
        type: what it is called in a sentence.
        message: what the line says.
        stack: innermost first, without the functions of the report itself.
        raised: of the line of the record that says it.
    """

    kind: str
    type: str
    message: str
    stack: tuple[Frame, ...]
    raised: int


def fatal(lines: Sequence[str]) -> Fatal | None:
    """The end that the lines of one record tell."""
    dumped = False
    for index, line in enumerate(lines):
        text = line[:_LONGEST]
        if (text[:2] in ("F0", "F1", "F2", "[F") or ": F " in text[:40]) and (match := _LINE.match(text)) is not None:
            said = match["said"].strip()
            check = _CHECK.match(said)
            what = "check failed" if check is not None else "fatal error"
            message = said[check.end() :] if check is not None else said
            return Fatal("assert", f"{what} at {match['place']}", message.strip(), _frames(lines), index)
        if "*** SIG" in text and (match := _SIGNAL.search(text)) is not None:
            name = match["name"]
            frames = _frames(lines)
            where = f", in {frames[0].function}" if frames and not frames[0].file else ""
            return None if name in _ASKED else Fatal("signal", name, _words(name) + where, frames, index)
        dumped = dumped or _DUMP.match(text) is not None
    frames = _frames(lines) if dumped else ()
    if not frames:
        return None
    aborted = any(re.search(r" _*(?:abort|raise|gsignal|pthread_kill) ", line) for line in lines)
    name = "SIGABRT" if aborted else "a signal"
    return Fatal("signal", f"{name}, after which LLVM wrote its stack", "", frames, 0)


def _words(name: str) -> str:
    number = getattr(signal, name, None)
    return (signal.strsignal(number) if number is not None else None) or name


def _frames(lines: Sequence[str]) -> tuple[Frame, ...]:
    found: list[Frame] = []
    for line in lines:
        text = line[:_LONGEST]
        match = _AT.match(text) or _NUMBERED.match(text)
        if match is None:
            continue
        parts = match.groupdict()
        function = (parts["function"] or "").strip()
        module = (parts.get("module") or "").rpartition("/")[2]
        if not function or _MACHINERY.match(function) is not None:
            continue
        number = parts.get("line")
        found.append(
            Frame(
                function=function,
                file=parts.get("file"),
                line=int(number) if number else None,
                module=module or None,
                address=int(parts["address"], 16),
            )
        )
        if len(found) == _FRAMES:
            break
    return tuple(found)
