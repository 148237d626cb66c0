"""What programs in Rust, Go, Fortran and Java write as they end by an error, and valgrind of a signal.

Sources: Rust library/std/src/panicking.rs; Go src/runtime/panic.go and traceback.go; libgfortran/runtime/backtrace.c,
error.c; Intel Fortran's run-time messages (`forrtl: severe (174)`); java.lang.ThreadGroup.uncaughtException; valgrind
coregrind/m_signals.c.

Invariants:
    other_languages.L1. A panic of a thread that is not the main one ends no Rust program: it is none.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from livedbg.model import Frame

__all__ = ["WORDS", "Ended", "ended"]

_LONGEST: Final = 4_000
_RUST: Final = re.compile(
    r"^thread 'main'(?: \(\d{1,19}\))? panicked at (?:'(?P<old>[^\n]{1,500})', )?"
    r"(?P<file>[^\s:,]{1,300}):(?P<line>\d{1,9})",
    re.MULTILINE,
)
_GO: Final = re.compile(
    r"^(?:panic: (?P<said>[^\n]{1,500})|fatal error: (?P<asleep>all goroutines are asleep - deadlock!))", re.MULTILINE
)
_GFORTRAN: Final = re.compile(r"^Program received signal (?P<name>SIG[A-Z]{2,6}): (?P<said>[^\n]{1,200})", re.MULTILINE)
_RUNTIME: Final = re.compile(r"^Fortran runtime error: (?P<said>[^\n]{1,500})", re.MULTILINE)
_INTEL: Final = re.compile(r"^forrtl: severe \((?P<code>\d{1,4})\): (?P<said>[^\n]{1,500})", re.MULTILINE)
_JAVA: Final = re.compile(
    r"^Exception in thread \"main\" (?P<type>[\w.$]{1,200})(?:: (?P<said>[^\n]{0,500}))?"
    r"(?:\n\s+at (?P<function>[\w.$<>]{1,200})\((?P<file>\w{1,80}\.(?:java|scala|kt)):(?P<line>\d{1,9})\))?",
    re.MULTILINE,
)
_VALGRIND: Final = re.compile(
    r"^==\d{1,10}== Process terminating with default action of signal \d{1,2} \((?P<name>SIG[A-Z]{2,6})\)", re.MULTILINE
)

WORDS: Final = (
    *(
        "thread 'main'",
        "panic: ",
        "all goroutines are asleep",
        "Program received signal SIG",
        "Fortran runtime error: ",
        "forrtl: severe ",
    ),
    *('Exception in thread "main" ', "== Process terminating with default action"),
)
"""What a text with one of them holds."""


class Ended(NamedTuple):
    """An end of a program.

    Attributes:
        kind: as other crashes have it.
        raised: index of the line that says it.
    """

    kind: str
    type: str
    message: str
    stack: tuple[Frame, ...]
    raised: int


def ended(text: str) -> Ended | None:
    """The end that a record tells."""
    text = text[:_LONGEST]
    if match := _RUST.search(text):
        frame = Frame(function="main", file=match["file"], line=int(match["line"]), language="rust")
        said = match["old"] or _next_line(text, match)
        return Ended("terminate", "Rust panicked", said.strip(), (frame,), _row(match))
    if match := _GO.search(text):
        return Ended("terminate", "Go panicked", match["said"] or match["asleep"], (), _row(match))
    if match := _GFORTRAN.search(text):
        return Ended("signal", match["name"], match["said"].rstrip("."), (), _row(match))
    if match := _RUNTIME.search(text):
        return Ended("terminate", "Fortran runtime error", match["said"], (), _row(match))
    if match := _INTEL.search(text):
        return Ended("terminate", f"forrtl: severe ({match['code']})", match["said"], (), _row(match))
    if match := _JAVA.search(text):
        frames: tuple[Frame, ...] = ()
        if match["file"]:
            frames = (Frame(function=match["function"], file=match["file"], line=int(match["line"]), language="java"),)
        return Ended("terminate", match["type"], match["said"] or "", frames, _row(match))
    if match := _VALGRIND.search(text):
        return Ended("signal", match["name"], "valgrind saw it end the program", (), _row(match))
    return None


def _next_line(text: str, match: re.Match[str]) -> str:
    """The message of a panic, which newer versions write below the place."""
    return text[match.end() :].partition("\n")[2].partition("\n")[0]


def _row(match: re.Match[str]) -> int:
    return match.string.count("\n", 0, match.start())
