"""The log shapes that livedbg knows, each with its source.

Add a shape by adding a pattern, a function that reads its match, and a line in `SHAPES`; the
samples in tests/logs/test_records.py say what each must make of real lines.
"""

from __future__ import annotations

import re
from typing import Final

from livedbg.logs.clock import SourceClock
from livedbg.logs.shapes import Header, Shape
from livedbg.model import Severity

__all__ = ["SHAPES"]

_D, _I, _W, _E, _C = Severity.DEBUG, Severity.INFO, Severity.WARNING, Severity.ERROR, Severity.CRITICAL

_WORDS: Final = {
    **dict.fromkeys(("DEBUG", "TRACE", "VERBOSE", "DBG", "NOTSET"), _D),
    **dict.fromkeys(("INFO", "NOTICE", "TIMING", "ALWAYS", "EVENT", "OPLOG", "NULL", "VERSION"), _I),
    **dict.fromkeys(("WARN", "WARNING"), _W),
    **dict.fromkeys(("ERROR", "ERR", "EXCEPTION", "ABORT"), _E),
    **dict.fromkeys(("CRITICAL", "FATAL", "PANIC"), _C),
}
_LETTERS: Final = {"V": _D, "D": _D, "T": _D, "I": _I, "W": _W, "E": _E, "F": _C, "C": _C}
_AMD_LEVELS: Final = {"0": _E, "1": _E, "2": _W, "3": _I}
_MONTHS: Final = {
    name: number
    for number, name in enumerate("JanFebMarAprMayJunJulAugSepOctNovDec"[i : i + 3] for i in range(0, 36, 3))
}


def _word(word: str) -> Severity:
    known = _WORDS.get(word)
    return _WORDS.get(word.upper(), _I) if known is None else known


# The `simpler` runtime: host lines since August 2026, host lines of May to August 2026, and the
# device lines of its simulator (which have no time, process or device).
_SIMPLER_LEVEL = r"(DEBUG|INFO(?:_V\d)?|TIMING|WARN|ERROR|ALWAYS)"
_SIMPLER_HOST = re.compile(r"\[mono_ns=(\d{1,19})\]\[T0x[0-9a-f]+\]\[" + _SIMPLER_LEVEL + r"\] ")
_SIMPLER_DATED = re.compile(
    r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\.(\d{6})\]\[T0x[0-9a-f]+\]\[" + _SIMPLER_LEVEL + r"\] "
)
_SIMPLER_DEVICE = re.compile(r"\[" + _SIMPLER_LEVEL + r"\] [^:\[\]\s]{1,200}(?:::[^:\[\]\s]{1,200}){0,8}: ")
_ANCHOR = re.compile(r"\[CLOCK_ANCHOR\] v=1 .*?\bmono_ns=(\d{1,19}) wall_ns=(\d{1,19})")
_PID = re.compile(r"\[(?:STRACE|CLOCK_ANCHOR)\] v=1 pid=(\d{1,10})(?: tid=(\d{1,10}))?")


def _simpler_host(match: re.Match[str], clock: SourceClock) -> Header:
    mono_ns = int(match[1])
    pid = tid = None
    if match[2] == "TIMING":
        line = match.string
        anchor = _ANCHOR.search(line, match.end())
        if anchor is not None:
            clock.anchor(int(anchor[1]), int(anchor[2]))
        who = _PID.search(line, match.end())
        if who is not None:
            pid, tid = int(who[1]), int(who[2]) if who[2] else None
    return Header("simpler-host", _word(match[2]), match.end(), clock.wall_of_mono(mono_ns), mono_ns, pid, tid)


def _simpler_dated(match: re.Match[str], clock: SourceClock) -> Header:
    return Header("simpler-host", _word(match[3]), match.end(), clock.date_time(match[1], match[2]))


def _simpler_device(match: re.Match[str], clock: SourceClock) -> Header:
    return Header("simpler-device", _word(match[1]), match.start(1) + len(match[1]) + 2)


# CANN's dlog: `[LEVEL] MODULE(pid,pname):YYYY-MM-DD-HH:MM:SS.mmm.uuu [file:line]tid function: …`.
_DLOG = re.compile(
    r"\[(DEBUG|INFO|WARNING|WARN|ERROR|EVENT|TRACE|OPLOG|NULL|CRITICAL)\] ?(\w{1,40})\((\d{1,10}),([^)]{0,200})\):"
    r"(\d{4}-\d\d-\d\d-\d\d:\d\d:\d\d)\.(\d{3})\.(\d{3}) ?(?:\[[^\]]{0,300}\](\d{1,10})?)?"
)


def _dlog(match: re.Match[str], clock: SourceClock) -> Header:
    severity = _word(match[1])
    if severity is _W and "[TIMING]" in match.string:
        severity = _I  # the simpler runtime writes its TIMING level as WARN on a device
    wall_ns = clock.date_time(match[5], match[6] + match[7])
    tid = int(match[8]) if match[8] else None
    return Header("cann-dlog", severity, match.end(), wall_ns, None, int(match[3]), tid)


# glog and absl (google/glog src/logging.cc), torch._logging (`W1121 03:11:22.333000 PID file:line]`),
# and c10 (`[W1121 03:11:22.333 file:line]`, c10/util/Logging.cpp; before 2.3 without the time).
_GLOG = re.compile(r"([VIWEFC])(\d{4})?(\d\d)(\d\d) (\d\d:\d\d:\d\d)\.(\d{3,9})\s+(\d{1,10}) ([^\s:]{1,300}):(\d+)\] ?")
_C10 = re.compile(r"\[([VIWEF])(?:(\d\d)(\d\d) (\d\d:\d\d:\d\d)\.(\d{3,9}))? ?([\w./+-]{1,300}):(\d+)\] ?")


def _glog(match: re.Match[str], clock: SourceClock) -> Header:
    year, month, day, number = match[2], match[3], match[4], int(match[7])
    if year:
        wall_ns = clock.date_time(f"{year}-{month}-{day} {match[5]}", match[6])
    else:
        wall_ns = clock.month_day(int(month), int(day), match[5], match[6])
    pid, tid = (number, None) if match[8].endswith(".py") else (None, number)
    return Header("glog", _LETTERS[match[1]], match.end(), wall_ns, None, pid, tid, held=True)


def _c10(match: re.Match[str], clock: SourceClock) -> Header:
    wall_ns = clock.month_day(int(match[2]), int(match[3]), match[4], match[5]) if match[2] else None
    return Header("glog", _LETTERS[match[1]], match.end(), wall_ns)


# NCCL (src/debug.cc): `host:pid:tid [dev] NCCL INFO …`, a time and a file in front in newer ones.
_NCCL = re.compile(
    r"(?:\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.(\d{1,9}))?\] )?([\w.-]{1,255}):(\d{1,10}):(\d{1,10}) \[-?\d{1,4}\] "
    r"(?:[\w./+-]{1,300}:\d+ )?NCCL (INFO|WARN|TRACE|ABORT|VERSION) ?"
)


def _nccl(match: re.Match[str], clock: SourceClock) -> Header:
    wall_ns = clock.date_time(match[1], match[2]) if match[1] else None
    return Header("nccl", _word(match[6]), match.end(), wall_ns, None, int(match[4]), int(match[5]))


# The driver's CUDA_LOG_FILE: `[14:38:03.928][thread][CUDA][E] …`, a fifth bracket in 13.0.
_CUDA = re.compile(r"\[(\d\d:\d\d:\d\d)\.(\d{1,9})\]\[\d+\]\[CUDA\]\[([EWID])\](?:\[\w+\])? ?")


def _cuda(match: re.Match[str], clock: SourceClock) -> Header:
    return Header("cuda-log", _LETTERS[match[3]], match.end(), clock.time_of_day(match[1], match[2]))


# ROCm's AMD_LOG_LEVEL (clr rocclr/utils/debug.cpp): microseconds of CLOCK_MONOTONIC.
_AMD = re.compile(r":(\d):[^:]{1,200}:\s*\d+\s*: (\d{1,16}) us: ?(?:\[pid:(\d{1,10}) +tid: ?0x[0-9a-f]+\])? ?")


def _amd(match: re.Match[str], clock: SourceClock) -> Header:
    mono_ns = int(match[2]) * 1000
    pid = int(match[3]) if match[3] else None
    return Header("amd-log", _AMD_LEVELS.get(match[1], _D), match.end(), clock.wall_of_mono(mono_ns), mono_ns, pid)


# Anything that begins with a date and a time: Python logging with %(asctime)s, loguru, hydra, Go, …
_DATED = re.compile(
    r"[\[(]?(\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d)(?:([.,])(\d{1,9}))?(?!\d) ?(Z|[+-]\d\d:?\d\d)?[\])]?[\s|:,-]*"
)
_LEVEL_WORD = re.compile(
    r"\b(DEBUG|TRACE|VERBOSE|INFO|NOTICE|WARN|WARNING|ERROR|ERR|CRITICAL|FATAL|PANIC|EXCEPTION)\b"
    r"|(?:level=|[\[|<(] ?)(trace|debug|info|notice|warn|warning|error|fatal|critical|panic)\b",
)
_LEVEL_CHARACTERS = 120


def _dated(match: re.Match[str], clock: SourceClock) -> Header:
    level = _LEVEL_WORD.search(match.string, match.end(), match.end() + _LEVEL_CHARACTERS)
    severity = _I if level is None else _word(level[1] or level[2])
    name = "python" if match[2] == "," else "dated"
    return Header(name, severity, match.end(), clock.date_time(match[1], match[3], match[4]))


# logging.basicConfig: `LEVEL:logger:message`; uvicorn: `INFO:     message`.
_BASIC = re.compile(r"(DEBUG|INFO|WARNING|ERROR|CRITICAL):(?:[\w.-]{1,100}:| {2,8})")


def _basic(match: re.Match[str], clock: SourceClock) -> Header:
    return Header("python", _word(match[1]), match.end())


# vLLM and friends: `INFO 11-21 03:11:22 [file.py:12] message`, workers' prefix in parentheses.
_LEVEL_FIRST = re.compile(
    r"(?:\([^()]{1,60}\) )?(DEBUG|INFO|WARNING|ERROR|CRITICAL) (\d\d)-(\d\d) (\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))? "
    r"(?:\[[\w./-]{1,100}:\d{1,6}\] )?"
)


def _level_first(match: re.Match[str], clock: SourceClock) -> Header:
    wall_ns = clock.month_day(int(match[2]), int(match[3]), match[4], match[5])
    return Header("python", _word(match[1]), match.end(), wall_ns, held=True)


# syslog (RFC 3164) and the kernel's ring buffer with its times since boot.
_SYSLOG = re.compile(
    r"([A-Z][a-z]{2}) +(\d{1,2}) (\d\d:\d\d:\d\d) ([\w.-]{1,255}) ([^\s:\[]{1,100})(?:\[(\d{1,10})\])?: "
)
_KERNEL = re.compile(r"\[ {0,6}(\d{1,9})\.(\d{6})\] ")


def _syslog(match: re.Match[str], clock: SourceClock) -> Header:
    month = _MONTHS.get(match[1])
    wall_ns = clock.month_day(month + 1, int(match[2]), match[3], None) if month is not None else None
    return Header("syslog", _I, match.end(), wall_ns, None, int(match[6]) if match[6] else None)


def _kernel(match: re.Match[str], clock: SourceClock) -> Header:
    mono_ns = int(match[1]) * 1_000_000_000 + int(match[2]) * 1000
    return Header("kernel", _I, match.end(), clock.wall_of_mono(mono_ns), mono_ns)


# The rest: `[LEVEL] message`.
_BRACKETED = re.compile(r"\[ ?(DEBUG|TRACE|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL) ?\](?=[\s:\[-])")


def _bracketed(match: re.Match[str], clock: SourceClock) -> Header:
    return Header("bracketed", _word(match[1]), match.end())


SHAPES: Final = (
    Shape("simpler-host", "[", _SIMPLER_HOST, _simpler_host),
    Shape("simpler-host", "[", _SIMPLER_DATED, _simpler_dated),
    Shape("cann-dlog", "[", _DLOG, _dlog),
    Shape("simpler-device", "[", _SIMPLER_DEVICE, _simpler_device),
    Shape("glog", "VIWEFC", _GLOG, _glog),
    Shape("glog", "[", _C10, _c10),
    Shape("nccl", "", _NCCL, _nccl),
    Shape("cuda-log", "[", _CUDA, _cuda),
    Shape("amd-log", ":", _AMD, _amd),
    Shape("dated", "[(0123456789", _DATED, _dated, general=True),
    Shape("python", "DIWEC", _BASIC, _basic, general=True),
    Shape("python", "(DIWEC", _LEVEL_FIRST, _level_first, general=True),
    Shape("syslog", "JFMASOND", _SYSLOG, _syslog, general=True),
    Shape("kernel", "[", _KERNEL, _kernel, general=True),
    Shape("bracketed", "[", _BRACKETED, _bracketed, general=True),
)
"""The known shapes; where two can match one line, the more specific one stands first."""
