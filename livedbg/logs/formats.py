"""The log shapes that any program may write, each with its source, and what a reader of logs knows in all.

A shape is a pattern and a function that reads its match. Systems declare shapes of their own (`System.shapes`); the
samples in tests/logs/test_records.py say what each must make of real lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from livedbg.logs.clock import SourceClock
from livedbg.logs.dated import DATED, DatedHeads, read_dated
from livedbg.logs.multiline import ErrorDetails, error_details
from livedbg.logs.severity_words import SEVERITY_OF_LETTER, severity_of_word
from livedbg.logs.shapes import Header, Shape
from livedbg.model import Severity

__all__ = ["CORE", "SHAPES", "LogFormats", "log_formats"]

_MONTHS: Final = {
    name: number
    for number, name in enumerate("JanFebMarAprMayJunJulAugSepOctNovDec"[i : i + 3] for i in range(0, 36, 3))
}


# glog and absl (google/glog src/logging.cc), Python loggers like it (`W1121 03:11:22.333000 PID file:line]`), and the
# form in brackets (`[W1121 03:11:22.333 file:line]`; once without the time).
_GLOG = re.compile(
    r"([VIWEFC])(\d{4})?(\d\d)(\d\d) (\d\d:\d\d:\d\d)\.(\d{3,9})\s+(\d{1,10}) ([^\s:]{1,300}):(\d{1,18})\] ?"
    r"(?:\[!?(?:[-\d]{1,6}/){1,2}\d{1,9}(?:_\d{1,9})?\](?: |$)"  # of a compilation, before the lines of a traceback
    r"(?=$| {2,}\S|Traceback |[A-Za-z_][\w.]*(?:Error|Exception)\b))?"
)
_IN_BRACKETS = re.compile(
    r"\[([VIWEF])(?:(\d\d?)(\d\d) (\d\d:\d\d:\d\d)\.(\d{3,9}))? ?([\w./+-]{1,300}):(\d{1,18})\] ?"
)


def _glog(match: re.Match[str], clock: SourceClock) -> Header:
    year, month, day, number = match[2], match[3], match[4], int(match[7])
    if year:
        wall_ns = clock.date_time(f"{year}-{month}-{day} {match[5]}", match[6])
    else:
        wall_ns = clock.month_day(int(month), int(day), match[5], match[6])
    pid, tid = (number, None) if match[8].endswith(".py") else (None, number)
    return Header("glog", SEVERITY_OF_LETTER[match[1]], match.end(), wall_ns, None, pid, tid, held=True)


def _glog_in_brackets(match: re.Match[str], clock: SourceClock) -> Header:
    wall_ns = clock.month_day(int(match[2]), int(match[3]), match[4], match[5]) if match[2] else None
    return Header("glog", SEVERITY_OF_LETTER[match[1]], match.end(), wall_ns)


# logging.basicConfig: `LEVEL:logger:message`; uvicorn: `INFO:     message`.
_BASIC = re.compile(r"(DEBUG|INFO|WARNING|ERROR|CRITICAL):(?:[\w.-]{1,100}:| {2,8})")


def _basic(match: re.Match[str], clock: SourceClock) -> Header:
    return Header("python", severity_of_word(match[1]), match.end())


# Formatters that put the level before asctime: `ERROR:2026-03-26 21:59:41,526:message`, `[INFO] 2026-03-26 21:59:41 …`.
_LEVEL_DATED = re.compile(
    r"\[?(DEBUG|INFO|WARNING|ERROR|CRITICAL)\]? {0,4}[:|-]? ?"
    r"\[?(\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?(?!\d)"
    r"\]?[\s|:,-]*"
)


def _level_dated(match: re.Match[str], clock: SourceClock) -> Header:
    return Header("python", severity_of_word(match[1]), match.end(), clock.date_time(match[2], match[3], None))


# vLLM and friends: `INFO 11-21 03:11:22 [file.py:12] message`, workers' prefix in parentheses.
_LEVEL_FIRST = re.compile(
    r"(?:\([^()]{1,60}\) )?(DEBUG|INFO|WARNING|ERROR|CRITICAL) (\d\d)-(\d\d) (\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))? "
    r"(?:\[[\w./-]{1,100}:\d{1,6}\] )?"
)


def _level_first(match: re.Match[str], clock: SourceClock) -> Header:
    wall_ns = clock.month_day(int(match[2]), int(match[3]), match[4], match[5])
    return Header("python", severity_of_word(match[1]), match.end(), wall_ns, held=True)


# syslog (RFC 3164) and the kernel's ring buffer with its times since boot.
_SYSLOG = re.compile(
    r"([A-Z][a-z]{2}) +(\d{1,2}) (\d\d:\d\d:\d\d) ([\w.-]{1,255}) ([^\s:\[]{1,100})(?:\[(\d{1,10})\])?: "
)
_KERNEL = re.compile(r"\[ {0,6}(\d{1,9})\.(\d{6})\] ")


def _syslog(match: re.Match[str], clock: SourceClock) -> Header:
    month = _MONTHS.get(match[1])
    wall_ns = clock.month_day(month + 1, int(match[2]), match[3], None) if month is not None else None
    return Header("syslog", Severity.INFO, match.end(), wall_ns, None, int(match[6]) if match[6] else None)


def _kernel(match: re.Match[str], clock: SourceClock) -> Header:
    mono_ns = int(match[1]) * 1_000_000_000 + int(match[2]) * 1000
    return Header("kernel", Severity.INFO, match.end(), clock.wall_of_mono(mono_ns), mono_ns)


# The rest: `[LEVEL] message`.
_BRACKETED = re.compile(r"\[ ?(DEBUG|TRACE|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL) ?\](?=[\s:\[-])")


def _bracketed(match: re.Match[str], clock: SourceClock) -> Header:
    return Header("bracketed", severity_of_word(match[1]), match.end())


SHAPES: Final = (
    Shape("glog", "VIWEFC", _GLOG, _glog),
    Shape("glog", "[", _IN_BRACKETS, _glog_in_brackets),
    Shape("dated", "[(0123456789", DATED, read_dated, general=True, memory=DatedHeads),
    Shape("python", "DIWEC", _BASIC, _basic, general=True),
    Shape("python", "[DIWEC", _LEVEL_DATED, _level_dated, general=True),
    Shape("python", "(DIWEC", _LEVEL_FIRST, _level_first, general=True),
    Shape("syslog", "JFMASOND", _SYSLOG, _syslog, general=True),
    Shape("kernel", "[", _KERNEL, _kernel, general=True),
    Shape("bracketed", "[", _BRACKETED, _bracketed, general=True),
)
"""The core's shapes; where two can match one line, the more specific one comes first."""


class LogFormats(Struct, frozen=True):
    """What a reader of logs knows. Made by `log_formats`.

    Attributes:
        shapes: of headers, specific ones first.
        error_details: which lines go on with the error above them.
    """

    shapes: tuple[Shape, ...]
    error_details: ErrorDetails


def log_formats(shapes: Iterable[Shape] = (), continuations: Iterable[str] = ()) -> LogFormats:
    """The core's formats and some more.

    Args:
        shapes: of systems; they come before the core's.
        continuations: see `error_details`.

    Raises:
        ValueError: see `error_details`.
    """
    ordered = sorted((*shapes, *SHAPES), key=lambda shape: shape.general)
    return LogFormats(tuple(ordered), error_details(continuations))


CORE: Final = log_formats()
"""The formats of the core alone."""
