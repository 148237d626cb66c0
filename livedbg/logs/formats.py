"""Log shapes that any program may write, each with its source, and the formats known to a reader of logs.

A shape is a pattern and a function that reads its match. Systems declare shapes of their own (`System.shapes`); the
samples in tests/logs/test_records.py say what each must make of real lines.

Invariant:
    formats.H1. `DatedHeads.quick` of a line equals `read_dated` of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from livedbg.logs.clock import NS, SourceClock, month_of
from livedbg.logs.multiline import ErrorDetails, error_details
from livedbg.logs.shapes import SEVERITY_OF_LETTER, SYSLOG, Header, Shape, guess_severity, severity_of_word
from livedbg.model import Severity
from livedbg.text.patterns import lazy_re

DATED: Final = lazy_re(
    r"[\[(]?(\d{4}[-/.]\d\d[-/.]\d\d[T ]\d\d:\d\d:\d\d)(?:([.,])(\d{1,9}))?(?!\d) ?(Z|[+-]\d\d:?\d\d)?[\])]?[\s|:,-]*"
)
_LEVEL: Final = lazy_re(
    r"[DTVINWECFPl\[|<(]"  # one set of characters, which is searched for faster than words
    r"(?:(?<!\w.)(?:(?<=D)(?:EBUG|BG)|(?<=T)RACE|(?<=V)ERBOSE|(?<=I)NFO|(?<=N)OTICE|(?<=W)(?:ARN(?:ING)?|RN)|(?<=E)(?:RR(?:OR)?|XCEPTION)"
    r"|(?<=C)RITICAL|(?<=F)(?:ATAL|TL)|(?<=P)ANIC)\b"
    r"|(?:(?<=l)evel=|(?<=[\[|<(]) ?)"
    r"((?i:trace|debug|info(?:rmation)?|notice|warn|warning|error|crit|critical|alert|emerg|fatal|panic)\b"
    r"|[VDIWEF](?=\])))"
    r"|(?<=: ([IWEF])) [\w./+-]{1,200}:\d{1,9}\]"  # XLA's and TensorFlow's (tsl/platform/default/logging.cc)
)
_LEVEL_CHARACTERS: Final = 120
_KEPT: Final = 256
_RENEWED: Final = 16  # times that what is remembered was no use: then nothing is remembered any more


def read_dated(match: re.Match[str], clock: SourceClock) -> Header:
    """Return the header of a line that DATED matches."""
    second, point, fraction, zone = match.groups()
    level = _level(match)
    severity = Severity.INFO if level is None else severity_of_word(level[1] or level[2] or level[0])
    name = "python" if point == "," else "dated"
    end = level.end() if level is not None and level[2] else match.end()  # the place belongs to the header
    return Header(name, severity, end, clock.date_time(second, fraction, zone))


def _level(match: re.Match[str]) -> re.Match[str] | None:
    end = match.end()
    return _LEVEL.search(match.string, end, end + _LEVEL_CHARACTERS)


class DatedHeads:
    """Cache of one log's heads: the same second and the same words recur, with another fraction."""

    __slots__ = ("_begin", "_clock", "_form", "_left", "_length", "_power", "_rests", "_seconds", "_width")

    def __init__(self, clock: SourceClock) -> None:
        self._clock = clock
        self._left = _RENEWED
        self._form: tuple[int, int, str | None] | None = None
        self._width = self._begin = self._length = 0  # of the second, of what is behind the fraction, of that
        self._power = 0  # nanoseconds of the last digit of the fraction
        self._seconds: dict[str, int] = {}  # by what stands before the fraction: nanoseconds
        self._rests: dict[str, tuple[str, Severity, int]] = {}  # by what stands behind it up to the level

    def quick(self, line: str) -> Header | None:
        wall_ns = self._seconds.get(line[: self._width])
        if wall_ns is None:
            return None
        begin = self._begin
        rest = self._rests.get(line[begin : begin + self._length])
        if rest is None:
            return None
        fraction = line[self._width : begin]
        if not fraction.isdecimal():
            return None
        return Header(rest[0], rest[1], rest[2], wall_ns + int(fraction) * self._power)

    def read(self, match: re.Match[str], clock: SourceClock) -> Header:
        header = read_dated(match, clock)
        if self._left > 0:
            self._remember(match, header)
        return header

    def _remember(self, match: re.Match[str], header: Header) -> None:
        second, _, fraction, zone = match.groups()
        level = _level(match)
        if level is None or not fraction or header.wall_ns is None:
            return
        line, width, begin = match.string, match.start(3), match.end(3)
        length = level.end() + 1 - begin  # with the character that ends the word
        whole_ns = self._clock.date_time(second, None, zone)
        if whole_ns is None or begin + length > min(len(line), match.end() + _LEVEL_CHARACTERS):
            return
        if (width, begin, zone) != self._form or len(self._rests) >= _KEPT:
            self._left -= 1
            self._form = (width, begin, zone)
            self._width, self._begin, self._power = width, begin, NS // 10 ** len(fraction)
            self._rests.clear()
            self._seconds.clear()
        if len(self._seconds) >= _KEPT:
            self._seconds.clear()
        self._length = length
        self._seconds[line[:width]] = whole_ns
        self._rests[line[begin : begin + length]] = (header.shape, header.severity, header.end)


# glog and absl (google/glog src/logging.cc), Python loggers like it (`W1121 03:11:22.333000 PID file:line]`), those
# of Go with a short year and tags behind the place, and the form in brackets (`[W1121 03:11:22.333 file:line]`; once
# without the time).
_GLOG = lazy_re(
    r"([VIWEFC])(\d{4}|\d\d)?(\d\d)(\d\d) (\d\d:\d\d:\d\d)\.(\d{3,9})\s+"
    r"(?:(\d{1,19})|[A-Za-z][\w/-]{1,30} {0,8}) ([^\s:]{1,300}):(\d{1,18})"
    r"(?:\] ?| \u22ee (?:\[[^\]\n]{1,100}\] {1,2}(?:\d{1,12} {1,2})?)?)"
    r"(?:\[!?(?:[-\d]{1,6}/){1,2}\d{1,9}(?:_\d{1,9})?\](?: |$)"  # of a compilation, before the lines of a traceback
    r"(?=$| {2,}\S|Traceback |[A-Za-z_][\w.]*(?:Error|Exception)\b))?"
)
# absl's before its start, with the seconds since 1970; XLA's without a time.
_EARLY = lazy_re(
    r"([VIWEF])(?:0000 00:00:(?P<since>\d{10})\.(?P<part>\d{1,9})\s+\d{1,10} | {1,4}(?=\S{1,300}/))"
    r"[^\s:]{1,300}:\d{1,9}\] ?"
)
_IN_BRACKETS = lazy_re(r"\[([VIWEF])(?:(\d\d?)(\d\d) (\d\d:\d\d:\d\d)\.(\d{3,9}))? ?([\w./+-]{1,300}):(\d{1,18})\] ?")


def _glog(match: re.Match[str], clock: SourceClock) -> Header:
    year, month, day = match[2], match[3], match[4]
    number = int(match[7]) if match[7] else None  # else the thread has a name
    if year:
        wall_ns = clock.date_time(f"{year if len(year) == 4 else f'20{year}'}-{month}-{day} {match[5]}", match[6])
    else:
        wall_ns = clock.month_day(int(month), int(day), match[5], match[6])
    pid, tid = (number, None) if match[8].endswith(".py") else (None, number)
    return Header("glog", SEVERITY_OF_LETTER[match[1]], match.end(), wall_ns, None, pid, tid, held=True)


def _glog_in_brackets(match: re.Match[str], clock: SourceClock) -> Header:
    since = match.groupdict().get("since")
    wall_ns = clock.month_day(int(match[2]), int(match[3]), match[4], match[5]) if match[2] and not since else None
    wall_ns = int(since) * NS + int(match["part"].ljust(9, "0")) if since else wall_ns
    return Header("glog", SEVERITY_OF_LETTER[match[1]], match.end(), wall_ns, held=since is not None)


# logging.basicConfig: `LEVEL:logger:message`; uvicorn: `INFO:     message`.
_BASIC = lazy_re(r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL):(?:[\w.-]{1,100}:| {3,8}|(?<=WARNING:) {2})")

# Formatters that put the level before asctime: `ERROR:2026-03-26 21:59:41,526:message`, `[INFO] 2026-03-26 21:59:41 …`.
_LEVEL_DATED = lazy_re(
    r"\[?(DEBUG|INFO|WARNING|ERROR|CRITICAL)\]? {0,4}[:|-]? ?"
    r"\[?(\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?(?!\d)"
    r"\]?[\s|:,-]*"
)


# Tornado's, optuna's and Jupyter's: `[I 2026-03-26 21:59:41,526] message`, `[E 260326 21:59:41 web:2271] message`.
_LETTER_DATED = lazy_re(
    r"\[([DIWEC]) ((?:\d{4}-\d\d-\d\d|\d{6}) \d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?(?: [\w.:-]{1,60})?\] "
)


# spdlog's with the process and the thread: `[2026-03-26 21:59:41,526 E 77 81] file.cc:9: text`.
_LETTER_BEHIND = lazy_re(
    r"\[(?=.{23,29} ([DTIWEFC]) )(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)[.,](\d{3,9}) [A-Z] "
    r"(?P<pid>\d{1,10}) (?P<tid>\d{1,10})\] (?:\(\w{1,40}\) )?(?:[\w./+-]{1,200}:\d{1,9}: {1,2})?"
)


def _level_dated(match: re.Match[str], clock: SourceClock) -> Header:
    level, second = match[1], match[2]
    if second[6] == " ":
        second = f"20{second[:2]}-{second[2:4]}-{second[4:]}"
    severity = SEVERITY_OF_LETTER[level] if len(level) == 1 else severity_of_word(level)
    by = {name: int(number) for name, number in match.groupdict().items()}
    wall_ns, name = clock.date_time(second, match[3], None), "dated" if by else "python"
    return Header(name, severity, match.end(), wall_ns, None, by.get("pid"), by.get("tid"))


# vLLM and friends: `INFO 11-21 03:11:22 [file.py:12] message`, workers' prefix in parentheses.
_LEVEL_FIRST = lazy_re(
    r"(?:\([^()]{1,60}\) )?(DEBUG|INFO|WARNING|ERROR|CRITICAL) (\d\d)-(\d\d) (\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))? "
    r"(?:\[?[\w./-]{1,100}:\d{1,6}\] )?"
)


# The date alone, without a year: `11/21 03:11:22.333 …`, with the level behind it.
_DAY = lazy_re(
    r"(?P<level>)(\d\d)/(\d\d) (\d\d:\d\d:\d\d)\.(\d{3,9}) |\d\d/\d\d/\d{4} -- \d\d:\d\d:\d\d - (?=<)"
    r"|\[[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d\] (?=[A-Z]{4,8}\[)"
)


def _month_dated(match: re.Match[str], clock: SourceClock) -> Header:
    level = match[1] or (found[1] or found[2] or found[0] if (found := _level(match)) is not None else "")
    wall_ns = clock.month_day(int(match[2]), int(match[3]), match[4], match[5]) if match[2] else None
    severity = severity_of_word(level)
    return Header("python" if match[1] else "dated", severity, match.end(), wall_ns, held=bool(match[1]))


# syslog (RFC 3164) and the kernel's ring buffer with its times since boot.
_SYSLOG = lazy_re(
    r"([A-Z][a-z]{2}) +(\d{1,2}) (\d\d:\d\d:\d\d) ([\w.-]{1,255}) ([^\s:\[]{1,100})(?:\[(?P<pid>\d{1,10})\])?: "
)
_TERMINAL = lazy_re(  # Go's and Rust's loggers for a terminal: `Nov 21 03:11:22.250 CRIT text`, `FATA[0003] text`
    r"(?:([A-Z][a-z]{2}) +(\d{1,2}) (\d\d:\d\d:\d\d)(?:\.(?P<fraction>\d{1,9}))?"
    r" (?P<level>TRCE|DEBG|INFO|WARN|ERRO|CRIT) "
    r"|(?P<word>TRAC|DEBU|INFO|WARN|ERRO|FATA|PANI)\[\d{4,9}\] )"
)
_KERNEL = lazy_re(r"\[ {0,6}(\d{1,9})\.(\d{6})\] (?:kernel:\s)?")  # the word: `journalctl -o short-monotonic`
_EPOCH = lazy_re(r"\[(1\d{9})(?:\.(\d{1,9}))?\] ")


def _syslog(match: re.Match[str], clock: SourceClock) -> Header:
    month, names = month_of(match[1]) if match[1] else None, match.groupdict()
    wall_ns = clock.month_day(month, int(match[2]), match[3], names.get("fraction")) if month is not None else None
    if "pid" not in names:
        return Header("dated", severity_of_word(names["level"] or names["word"]), match.end(), wall_ns)
    pid = int(names["pid"]) if names["pid"] else None
    return Header(SYSLOG, Severity.INFO, match.end(), wall_ns, None, pid, held=True)


def _seconds(match: re.Match[str], clock: SourceClock) -> Header:
    counted_ns = int(match[1]) * NS + int((match[2] or "0").ljust(9, "0"))
    if len(match[1]) > 9:
        return Header("dated", guess_severity(match.string[match.end() :]), match.end(), counted_ns)
    return Header("kernel", Severity.INFO, match.end(), clock.wall_of_mono(counted_ns), counted_ns)


# The rest: `[LEVEL] message`.
_BRACKETED = lazy_re(
    r"\[ ?(?P<level>DEBUG|TRACE|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL|debug|info|warn|error) ?\](?=[\s:\[-])"
    r"| {0,4}\*\* {0,3}(?P<word>Severe|Fatal|Warning) {0,3}\*\* "
)

# Serilog's console: `[11:04:35 FTL] message`; parts in brackets, the level last: `[11:04:35.250][pump ][E] text`.
_CLOCKED = lazy_re(
    r"\[\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?: (?P<level>VRB|DBG|INF|WRN|ERR|FTL)\] "
    r"|\] ?(?:\[[\w ./:-]{1,40}\] ?){0,2}\[(?P<word>TRACE|DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|FATAL|trace|debug|info"
    r"|warn(?:ing)?|error|critical|fatal|[VDIWEF]) ?\] ?)"
)

# logfmt, up to the message: logrus, slog and go-kit of Go, Prometheus, Grafana and Loki.
_LOGFMT = lazy_re(
    r"(?:[\w.@-]{1,30}=(?:\"(?:[^\"\\\n]|\\.){0,300}\"|[^\s\"]{0,100}) ){0,8}?"
    r"level=(?P<quote>\"?)(?P<level>[A-Za-z]{3,9})(?P=quote)(?: |$)"
    r"(?:(?:source|caller)=\S{1,100} )?(?:msg=(?=\"))?"
)
_LOGFMT_TIME = lazy_re(r"\b(?:t|ts|time)=\"?(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)?")


def _level_alone(match: re.Match[str], clock: SourceClock) -> Header:
    name = "bracketed" if match[0][0] in "[ *" else "logfmt" if "=" in match[0] else "python"
    when = _LOGFMT_TIME.search(match[0]) if name == "logfmt" else None
    wall_ns = clock.date_time(when[1], when[2], when[3]) if when is not None else None
    groups = match.groupdict()
    return Header(name, severity_of_word(groups["level"] or groups["word"]), match.end(), wall_ns)


SHAPES: Final = (
    Shape("glog", "VIWEFC", _GLOG, _glog),
    Shape("glog", "VIWEF", _EARLY, _glog_in_brackets),
    Shape("glog", "[", _IN_BRACKETS, _glog_in_brackets),
    Shape("dated", "[", _LETTER_BEHIND, _level_dated),
    Shape("dated", "[(0123456789", DATED, read_dated, general=True, memory=DatedHeads),
    Shape("python", "DIWEC", _BASIC, _level_alone, general=True),
    Shape("python", "[DIWEC", _LEVEL_DATED, _level_dated, general=True),
    Shape("python", "[", _LETTER_DATED, _level_dated, general=True),
    Shape("python", "(DIWEC", _LEVEL_FIRST, _month_dated, general=True),
    Shape(SYSLOG, "JFMASOND", _SYSLOG, _syslog, general=True),
    Shape("dated", "JFMASONDTIWEP", _TERMINAL, _syslog, general=True),
    Shape("kernel", "[", _KERNEL, _seconds, general=True),
    Shape("dated", "[", _EPOCH, _seconds, general=True),
    Shape("dated", "[0123", _DAY, _month_dated, general=True),
    Shape("logfmt", "abcdefghijklmnopqrstuvwxyz", _LOGFMT, _level_alone, general=True, holds="level="),
    Shape("bracketed", "[", _CLOCKED, _level_alone, general=True),
    Shape("bracketed", "[ *", _BRACKETED, _level_alone, general=True),
)
"""The core's shapes; where two can match one line, the more specific one comes first."""


class LogFormats(Struct, frozen=True):
    """The shapes of headers, specific ones first, and of lines that continue an error. Made by `log_formats`."""

    shapes: tuple[Shape, ...]
    error_details: ErrorDetails


def log_formats(shapes: Iterable[Shape] = (), continuations: Iterable[str] = ()) -> LogFormats:
    """Return the core's formats and some more. Raises ValueError as `error_details` does."""
    ordered = sorted((*shapes, *SHAPES), key=lambda shape: shape.general)
    return LogFormats(tuple(ordered), error_details(continuations))


CORE: Final = log_formats()
"""The formats of the core alone."""
