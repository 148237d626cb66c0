"""Error lines that nobody understands: their patterns, the search for them in a big log, and what some only name.

Invariants:
    error_lines.L1. Whatever EXPLICIT matches has one of ALARMS in it, as EXACT wants it; an alarm that must begin a
        line is listed with a newline before it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from livedbg.model import Frame, LogRecord
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line

_NO_ERROR: Final = r"None|True|False|null|nil|no\b|ok\b|OK\b|[-+.]?\d"
_VALUE: Final = rf"(?! {{0,4}}(?:{_NO_ERROR}|$))"
"""Not after a word that calls itself an error: then it is the name of a number, or of a setting."""

_STATUSES: Final = (
    *("INTERNAL", "RESOURCE_EXHAUSTED", "UNAVAILABLE", "ABORTED", "DATA_LOSS", "DEADLINE_EXCEEDED"),
    *("FAILED_PRECONDITION", "INVALID_ARGUMENT", "UNIMPLEMENTED", "PERMISSION_DENIED", "OUT_OF_RANGE"),
)
_STATUS: Final = rf"(?:{'|'.join(_STATUSES)})"
_LEVEL: Final = "(?:ERROR|FATAL|CRITICAL|PANIC|EMERG|ALERT)"
EXPLICIT: Final = lazy_re(
    r"(?<![\w=`'\"$/.-])(?<!level )(?<!level: )(?<!level=)(?<!ignoring )" + _LEVEL + r"\b(?![=`'\".-])(?! SUMMARY: 0 )"
    r"|(?<![\w<-])(?:[Ee]rror|[Ff]atal|panic)(?:\[\w{1,12}\])? {0,4}:(?= )" + _VALUE + r"|^[EF][01]\d{3} "
    r"|^\S+(?:Error|Exception): |\bException in thread "
    r"|\b[Uu]n(?:handled|caught) exception\b|\bpanicked at |^(?:\[ERR\]|<ERR>|ERR!)|^[Ee]rror(?: -|,) \w"
    r"|\bFAILED: |\*\*\* \[.{1,200}\] Error \d|^Error \d{1,9} |\bcore dumped\)|\bcore dumped$"
    r"|\b[Ee]rror code(?:[ :=]| is )\s?(?!0\b)[-\dx]|\blevel=\"?(?:error|fatal|critical|panic|crit|emerg)\b"
    r"|\"(?:level|severity|lvl)\" ?: ?\"(?:[Ee]rror|ERROR|[Ff]atal|FATAL|[Cc]ritical|CRITICAL)\""
    rf"|\bstatus: {_STATUS}(?:[;:,(]|$)|(?:^|[;:] ){_STATUS}: |\b[A-Z]{{2,12}}_ERROR_[A-Z]"
    r"|: (?:command not found|Permission denied|No such file or directory|No space left on device)$",
)
"""What calls itself an error. A line that merely names a class of exceptions is none, nor a number of that name."""

ERROR_CHARACTERS: Final = 200
"""So far into a record is looked for that."""

_NAMED: Final = tuple(
    f"{word}{colon}".encode() for word in ("rror", "atal", "anic") for colon in (":", " :", "  :", "   :", "    :", "[")
)
_NAMED_EXACT: Final = lazy_re(
    rf"(?:rror|atal|anic)(?:\[\w{{1,12}}\])? {{0,4}}:(?! {{1,4}}(?:{_NO_ERROR}))|(?<=[^ \t\r\n]E)rror: ".replace(
        r"\b", r"(?![\w\x80-\xff])"
    ).encode()
)
_LEVELS: Final = ("error", "fatal", "crit", "panic", "emerg")
_JSON_LEVELS: Final = ("error", "Error", "fatal", "Fatal", "critical", "Critical")
ALARMS: Final = (
    *(b"ERROR", b"FATAL", b"CRITICAL", b"PANIC", b"EMERG", b"ALERT", b"Exception: ", b"Exception in thread"),
    *(b"nhandled exception", b"ncaught exception", b"panicked at "),
    *_NAMED,
    *(b"\nE0", b"\nE1", b"\nF0", b"\nF1", b"\n[ERR]", b"\n<ERR>", b"\nERR!", b"rror - ", b"rror, "),
    *(b"FAILED: ", b"] Error ", b"rror code", b"\nError ", b"core dumped", b"_ERROR_", b"command not found"),
    *(f"level={quote}{level}".encode() for quote in ("", '"') for level in _LEVELS),
    *(f'{colon}"{level}"'.encode() for colon in (":", ": ") for level in _JSON_LEVELS),
    *(b"Permission denied", b"No such file", b"No space left"),
    *(f"{status}: ".encode() for status in _STATUSES),
    *(f"status: {status}".encode() for status in _STATUSES),
)
"""What is searched for in those parts of a log that are not read line by line."""

EXACT: Final[Mapping[bytes, re.Pattern[bytes]]] = MappingProxyType(dict.fromkeys(_NAMED, _NAMED_EXACT))
"""Of alarms that stand in many ordinary lines: what must begin where they do."""

ALARMS_READ: Final = 20_000
"""After so many of these, a big log is not searched for them any more: each costs reading a record."""


_SHOWN: Final = 200  # characters of an error line that nobody understands
_KEPT: Final = 4_096  # characters of one that may be understood later
_WAITING: Final = 256


class ErrorLines(Struct):
    """The error lines of one log that no decoder understands: their number, the first, and the last."""

    count: int = 0
    first: int | None = None
    first_text: str = ""
    last: str = ""


class UnreadErrors:
    """Error records of one log that led to no event: some are understood only by later records (`LogDecoder.knows`)."""

    def __init__(self, knows: Callable[[LogRecord], bool]) -> None:
        self._knows = knows
        self._counted = ErrorLines()
        self._waiting: deque[LogRecord] = deque()

    def add(self, record: LogRecord) -> None:
        """Add a record; if there are many, the oldest are decided on."""
        self._waiting.append(record if len(record.text) <= _KEPT else replace(record, text=record.text[:_KEPT]))
        if len(self._waiting) > _WAITING:
            oldest = self._waiting.popleft()
            if not self._knows(oldest):
                _count(self._counted, oldest)

    def lines(self) -> ErrorLines:
        """Return those that nobody understands so far."""
        found = replace(self._counted)
        for record in self._waiting:
            if not self._knows(record):
                _count(found, record)
        return found


def _count(lines: ErrorLines, record: LogRecord) -> None:
    lines.first = lines.first if lines.count else record.line
    lines.count += 1
    lines.last = clean_line(record.text.partition("\n")[0])[:_SHOWN]
    lines.first_text = lines.first_text or lines.last


class NamedAbove(NamedTuple):
    """What an exception says that a line only names, and the stack below its message, innermost first."""

    said: str = ""
    stack: tuple[Frame, ...] = ()


_NAMED_AT: Final = lazy_re(r"\S{1,300}:\d{1,9}: (?P<type>[A-Z]\w{1,80})")
"""The last line of pytest's report of a test."""
_ASSERTED: Final = lazy_re(r"E {3,40}(?P<said>assert [^\n]{1,300})")
"""What pytest says of an `assert` without a message."""
_FRAME: Final = lazy_re(r'File "(?P<file>[^"\n]{1,400})", line (?P<line>\d{1,9}), in (?P<function>\S{1,200})')


def named_above(line: str, above: Sequence[str]) -> NamedAbove:
    """Return what the nearest line above says of the exception that `line` names by a place and its class alone."""
    named = _NAMED_AT.fullmatch(line.strip())
    for at in range(len(above) - 1, -1, -1) if named is not None else ():
        asserted = _ASSERTED.match(above[at]) if named is not None and named["type"] == "AssertionError" else None
        if asserted is not None:
            return NamedAbove(asserted["said"].strip())
        if named is not None and (said := above[at].partition(f"{named['type']}: ")[2].strip()):
            frames = [found for text in above[at + 1 :] if (found := _FRAME.search(text)) is not None]
            return NamedAbove(
                said,
                tuple(
                    Frame(function=one["function"], file=one["file"], line=int(one["line"]), language="python")
                    for one in reversed(frames)
                ),
            )
    return NamedAbove()
