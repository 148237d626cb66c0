"""Log shapes: their recognition in a source, and the words by which headers name a severity.

A shape recognises the header of a record: severity, time, process. `Recogniser` tries the shapes that a source has
shown most often first, so that each record costs about one match; every record can still have another shape than the
one before it (a job's stderr is written by many).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from msgspec import Struct

from livedbg.logs.clock import SourceClock
from livedbg.logs.error_lines import EXPLICIT
from livedbg.model import Severity
from livedbg.text.patterns import lazy_re

_D, _I, _W, _E, _C = Severity.DEBUG, Severity.INFO, Severity.WARNING, Severity.ERROR, Severity.CRITICAL

_UPPER: Final = {
    **dict.fromkeys(("DEBUG", "TRACE", "VERBOSE", "DBG", "VRB", "DEBG", "TRCE", "NOTSET"), _D),
    **dict.fromkeys(("INFO", "NOTICE", "TIMING", "ALWAYS", "EVENT", "VERSION"), _I),
    **dict.fromkeys(("WARN", "WARNING", "WRN"), _W),
    **dict.fromkeys(("ERROR", "ERR", "ERRO", "EROR", "SEVERE", "EXCEPTION", "ABORT"), _E),
    **dict.fromkeys(("CRITICAL", "CRIT", "ALERT", "EMERG", "FATAL", "FATA", "FTL", "PANIC", "PANI"), _C),
}
SEVERITY_OF_WORD: Final = _UPPER | {word.lower(): severity for word, severity in _UPPER.items()}
"""What a word of a header means."""

SEVERITY_OF_LETTER: Final = {"V": _D, "D": _D, "T": _D, "I": _I, "W": _W, "E": _E, "F": _C, "C": _C}
"""What one letter of a header means."""


def severity_of_word(word: str) -> Severity:
    """Return the severity for a word or a letter of a header; INFO if unknown."""
    known = SEVERITY_OF_WORD.get(word)
    known = SEVERITY_OF_WORD.get(word.upper()) if known is None else known
    return SEVERITY_OF_LETTER.get(word, _I) if known is None else known


_FIRSTS = 256  # first characters that are remembered

IGNORED: Final = "Exception ignored "
"""What CPython writes before a traceback that ends nothing (PyErr_WriteUnraisable): of a finaliser, a callback."""
_OWN_TROUBLE: Final = ("llvmsymbolizer: ", "llvm-symbolizer: ", "addr2line: '")
"""With these words begins what a sanitizer's helper prints that finds no symbols for a report: no error of the run."""
_HARMLESS: Final = (IGNORED.lower(), *_OWN_TROUBLE)
_OF_ERROR: Final = lazy_re(
    r"error|exception|fail|traceback|caught|retr(?:y|ie)|could|can(?:'t|not)|unable|problem|ignor|skip|crash|abort"
    r"|timed? ?out|trying|attempt|fall(?:ing)? ?back",
    re.IGNORECASE,
)
_NO_PYTHON: Final = lazy_re(r"\.(?:cc|cpp|cu|cxx|h|hpp|ts):\d{1,9}[\]:]|\w/\w{1,200}\.py:\d{1,9}\]")
"""Places in headers of C++ loggers, and of Python's that write glog's form on each line (their paths have a `/`)."""

_LOGS_FROM: Final = lazy_re(r"(?<![\w.-])(?P<file>[\w-]{1,100}\.py):\d{1,9}\b")
_FIRST_FRAME: Final = lazy_re(
    r'  File "(?P<path>[^"\n]{1,500})", line \d{1,9}, in (?:<module>|(?P<runs>_run_module_as_main))$'
)
_ENTRY: Final = lazy_re(r"/bin/[^/.]{1,100}$")
"""Where programs begin that log nothing themselves: a package's script."""
_PACKAGED: Final = lazy_re(r"/(?:site|dist)-packages/|/lib(?:64)?/python\d")
"""Modules in which no program begins: one at the head of a traceback has caught the exception."""

PLAIN = "plain"
"""Name of the shape of lines without a header."""

SYSLOG: Final = "syslog"
"""Name of the shape whose headers syslog or the journal puts before each line that a program writes."""


class Header(Struct, frozen=True, gc=False):
    """A parsed header of a record.

    Attributes:
        held: the shape prefixes each line of a record with the same header (glog and its kin).
        quoted: the message may be a text in quotes that continues in the next lines.
    """

    shape: str
    severity: Severity
    end: int
    wall_ns: int | None = None
    mono_ns: int | None = None
    pid: int | None = None
    tid: int | None = None
    held: bool = False
    quoted: bool = False


class Memory(Protocol):
    """Cache of recurring headers of one log."""

    def quick(self, line: str) -> Header | None:
        """Return the header of a line from the cache, or None."""
        ...

    def read(self, match: re.Match[str], clock: SourceClock) -> Header:
        """Read a header as Shape.read does, and cache it."""
        ...


class Shape(Struct, frozen=True):
    """A log shape.

    Attributes:
        first: the characters that a line of this shape can begin with; empty: any.
        general: it matches many things; it never comes before a shape that is not general.
        anchor: byte string of lines that set the log's clock; they are read even where others are skipped.
        holds: substring of each of its headers: a line without it is not tried.
        memory: makes a cache of recurring headers for one log.
    """

    name: str
    first: str
    pattern: re.Pattern[str]
    read: Callable[[re.Match[str], SourceClock], Header]
    general: bool = False
    anchor: bytes = b""
    holds: str = ""
    memory: Callable[[SourceClock], Memory] | None = None


class _Try(NamedTuple):
    number: int
    movable: bool
    holds: str
    quick: Callable[[str], Header | None] | None
    fits: Callable[[str], re.Match[str] | None]
    read: Callable[[re.Match[str], SourceClock], Header]


class Recogniser:
    """Finds the headers of one source's lines, by some shapes, specific ones first."""

    def __init__(self, shapes: Sequence[Shape], clock: SourceClock) -> None:
        self.clock = clock
        self.counts: defaultdict[str, int] = defaultdict(int)
        self._shapes = list(shapes)
        self._hits = [0] * len(self._shapes)
        self._of_first: dict[str, list[_Try]] = {}  # by first character: what to try, in which order
        self._memories = {shape.pattern: shape.memory(clock) for shape in self._shapes if shape.memory is not None}

    def header(self, line: str) -> Header | None:
        """Return the header that `line` begins with, or None."""
        first = line[:1]
        candidates = self._of_first.get(first)
        if candidates is None:
            candidates = self._candidates(first)
        for number, movable, holds, quick, fits, read in candidates:
            if holds and holds not in line:
                continue
            header = quick(line) if quick is not None else None
            if header is None:
                match = fits(line)
                if match is None:
                    continue
                header = read(match, self.clock)
            self.counts[header.shape] += 1
            hits = self._hits
            hits[number] += 1
            if movable and hits[number] > hits[number - 1]:
                self._move_up(number)
            return header
        return None

    def _candidates(self, first: str) -> list[_Try]:
        if len(self._of_first) >= _FIRSTS:
            self._of_first.clear()
        shapes = self._shapes
        tried = [number for number, shape in enumerate(shapes) if not shape.first or first in shape.first]
        found = self._of_first[first] = [self._try(number, shapes[number]) for number in tried]
        return found

    def _try(self, number: int, shape: Shape) -> _Try:
        movable = number > 0 and self._shapes[number - 1].general == shape.general
        memory = self._memories.get(shape.pattern)
        quick, read = (None, shape.read) if memory is None else (memory.quick, memory.read)
        return _Try(number, movable, shape.holds, quick, shape.pattern.match, read)

    def _move_up(self, number: int) -> None:
        """Swap a shape with its neighbour, which is seen less often."""
        shapes, hits, before = self._shapes, self._hits, number - 1
        shapes[before], shapes[number] = shapes[number], shapes[before]
        hits[before], hits[number] = hits[number], hits[before]
        self._of_first.clear()

    def plain(self) -> None:
        self.counts[PLAIN] += 1

    @property
    def format(self) -> str | None:
        """Return the shape of most records so far; a shape with headers wins over plain lines from a tenth on."""
        if not self.counts:
            return None
        headed = {name: count for name, count in self.counts.items() if name != PLAIN}
        if headed and sum(headed.values()) * 10 >= self.counts.get(PLAIN, 0):
            return max(headed, key=headed.__getitem__)
        return PLAIN


_GUESS = lazy_re(
    r"(?P<critical>\bterminate called|\bSegmentation fault|^Aborted\b|\bFatal Python error|\bFATAL\b|\bCRITICAL\b"
    r"|\(core dumped\)|\bdouble free or corruption|^\*\*\* stack smashing|\bXid \()"
    r"|(?P<error>Traceback \(most recent call|\bERROR\b|\b\w{0,100}(?:Error|Exception)(?::|$)"
    r"|\b[Ee]rror:(?! ?(?:None|True|False|[-+.]?\d))"
    r"|\bASSERT|[Aa]ssertion [`'\w].{0,2000} failed)"
    r"|(?P<warning>\bWARN(?:ING)?\b|\b[Ww]arning\b|\w{1,100}Warning:)"
    r"|(?P<debug>^\W{0,2}(?:DEBUG|TRACE)\b)"
)
_GUESS_CHARACTERS = 200
_HINTS = (
    *("err", "exception", "warn", "fatal", "critical", "fault", "abort", "terminate", "assert", "debug", "trace"),
    *("xid", "core dump", "double free", "smash", "fail", "panic", "status: ", "denied", "not found", "no such"),
    *("no space", "_exhausted", "internal: ", "unavailable"),
)


def guess_severity(line: str) -> Severity:
    """Guess the severity of a line without a header, by its first words."""
    start = line[:_GUESS_CHARACTERS].lower()
    if "] assertion `" in start:  # asserts of device code: they come by the hundred thousand
        return Severity.ERROR
    for hint in _HINTS:
        if hint in start:
            if start.startswith(_HARMLESS):
                return Severity.WARNING
            match = _GUESS.search(line, 0, _GUESS_CHARACTERS)
            if match is not None and match.lastgroup is not None:
                return Severity(match.lastgroup)
            return Severity.ERROR if EXPLICIT.search(line, 0, _GUESS_CHARACTERS) is not None else Severity.INFO
    return Severity.INFO


def may_hold_traceback(header: Header, text: str) -> bool:
    """Return whether a traceback below a record may belong to it: else the program ended, and Python printed it.

    C++ logs no traceback, nor do loggers with a header on each line; a warning that doesn't mention an error has none.
    """
    if _NO_PYTHON.search(text, 0, header.end) is not None:
        return False
    return header.severity is not Severity.WARNING or _OF_ERROR.search(text, header.end) is not None


def is_uncaught_below(header: Header, text: str, frame: str) -> bool:
    """Return whether a traceback below a warning is not what that logs, by the frame that its traceback begins with.

    A logged exception begins in the function that caught it, which mostly is in the file that logs; Python prints one
    that nobody caught from the program's beginning on. Without the place of the warning, that must be no user's file.
    """
    first = _FIRST_FRAME.match(frame)
    if header.severity is not Severity.WARNING or first is None:
        return False
    logs_from = _LOGS_FROM.search(text, 0, header.end)
    if first["runs"] is not None or logs_from is None:
        return first["runs"] is not None or _ENTRY.search(first["path"]) is not None
    path = first["path"].replace("\\", "/")
    return path.rpartition("/")[2] != logs_from["file"] and _PACKAGED.search(path) is None
