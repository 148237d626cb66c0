"""What programs in Rust, Go, Fortran and .NET write as they end by an error, and valgrind and gdb of a signal.

Sources: Rust library/std/src/panicking.rs; Go src/runtime/panic.go and traceback.go; libgfortran/runtime/backtrace.c,
error.c; Intel Fortran's run-time messages (`forrtl: severe (174)`); valgrind
coregrind/m_signals.c; gdb's words for a stop; .NET's for an exception.

Invariants:
    other_languages.L1. A panic of a thread that is not the main one ends no Rust program: it is none.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Final, NamedTuple

from livedbg.logs.native_frames import native_frames
from livedbg.model import Frame

__all__ = ["WORDS", "Ended", "ended"]

_LONGEST: Final = 8_000
_FRAMES: Final = 100
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
_GO_FRAME: Final = re.compile(
    r"^(?P<function>[\w./*()-]{1,300}?)\((?:[^()\n]{0,300}|\{[^\n]{0,300})\)\n"
    r"\t(?P<file>/[^\s:]{1,300}):(?P<line>\d{1,9})",
    re.MULTILINE,
)
_DOTNET: Final = re.compile(
    r"^(?:Unhandled exception\.|Unhandled Exception:) (?P<type>[\w.]{1,200})(?:: (?P<said>[^\n]{0,500}))?", re.MULTILINE
)
_DOTNET_FRAME: Final = re.compile(
    r"^ {2,4}at (?P<function>[\w.<>`\[\],]{1,300})\([^\n]{0,300}?\)"
    r"(?: in (?P<file>[^\n]{1,300}?):line (?P<line>\d{1,9}))?",
    re.MULTILINE,
)
_GO_OWN: Final = re.compile(r"panic$|runtime\.|testing\.")
_GDB: Final = re.compile(
    r"^(?:Program|Thread [\d.]{1,12} (?:\"[^\"\n]{0,60}\" )?)(?: ?received| ?terminated with) signal "
    r"(?P<name>SIG(?:SEGV|ABRT|BUS|FPE|ILL)), (?P<said>[A-Z][\w ]{2,40})",
    re.MULTILINE,
)
_GDB_PLACE: Final = re.compile(
    r"^(?:#\d{1,3} +)?(?:0x[0-9a-f]{1,16} in )?(?P<function>[A-Za-z_~?][^\n]{0,300}?) \((?:[^\n]|\n {4}){0,500}?\)"
    r"(?:\s{1,8}at (?P<file>[^\s:]{1,300}):(?P<line>\d{1,9})| from (?P<module>/\S{1,300}))",
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
    *("nhandled exception. ", "nhandled Exception: ", "received signal SIG", "terminated with signal SIG"),
    "== Process terminating with default action",
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
        frames = tuple(one for one in _frames(_GO_FRAME, text, "go") if not _GO_OWN.match(one.function))
        return Ended("terminate", "Go panicked", match["said"] or match["asleep"], frames, _row(match))
    if match := _GFORTRAN.search(text):
        return Ended("signal", match["name"], match["said"].rstrip("."), (), _row(match))
    if match := _RUNTIME.search(text):
        return Ended("terminate", "Fortran runtime error", match["said"], (), _row(match))
    if match := _INTEL.search(text):
        return Ended("terminate", f"forrtl: severe ({match['code']})", match["said"], (), _row(match))
    if match := _DOTNET.search(text):
        frames = _frames(_DOTNET_FRAME, text[match.end() :], "csharp")
        return Ended("terminate", match["type"], match["said"] or "", frames, _row(match))
    if match := _GDB.search(text):
        frames = _stopped_frames(text[match.end() :])
        inside = f", in {frames[0].function} of {frames[0].module}" if frames and frames[0].module else ""
        return Ended("signal", match["name"], match["said"] + inside, frames, _row(match))
    if match := _VALGRIND.search(text):
        return Ended("signal", match["name"], "valgrind saw it end the program", (), _row(match))
    return None


def _frames(form: re.Pattern[str], text: str, language: str) -> tuple[Frame, ...]:
    """The frames of a listing, innermost first."""
    found = (one.groupdict() for one in islice(form.finditer(text), _FRAMES))
    return tuple(
        Frame(
            function=one["function"],
            file=one["file"],
            line=int(one["line"]) if one["line"] else None,
            module=(one.get("module") or "").rpartition("/")[2] or None,
            language=language,
        )
        for one in found
    )


def _stopped_frames(text: str) -> tuple[Frame, ...]:
    """Where gdb says that a program stopped."""
    found = native_frames(text)
    return found or _frames(_GDB_PLACE, text, "c++")[:1]


def _next_line(text: str, match: re.Match[str]) -> str:
    """The message of a panic, which newer versions write below the place."""
    return text[match.end() :].partition("\n")[2].partition("\n")[0]


def _row(match: re.Match[str]) -> int:
    return match.string.count("\n", 0, match.start())
