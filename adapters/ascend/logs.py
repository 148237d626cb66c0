"""Line prefixes of the logs of the `simpler` runtime and of CANN."""

from __future__ import annotations

import re
from typing import Final

from livedbg.logs.clock import SourceClock
from livedbg.logs.shapes import Header, Shape, severity_of_word
from livedbg.model import Severity
from livedbg.text.patterns import lazy_re

# The `simpler` runtime: host lines since August 2026, host lines of May to August 2026, and the
# device lines of its simulator (which have no time, process or device).
_SIMPLER_LEVEL = r"(DEBUG|INFO(?:_V\d)?|TIMING|WARN|ERROR|ALWAYS)"
_SIMPLER_HOST = lazy_re(r"\[mono_ns=(\d{1,19})\]\[T0x[0-9a-f]{1,16}\]\[" + _SIMPLER_LEVEL + r"\] ")
_SIMPLER_DATED = lazy_re(
    r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\.(\d{6})\]\[T0x[0-9a-f]{1,16}\]\[" + _SIMPLER_LEVEL + r"\] "
)
_SIMPLER_DEVICE = lazy_re(r"\[" + _SIMPLER_LEVEL + r"\] [^:\[\]\s]{1,200}(?:::[^:\[\]\s]{1,200}){0,8}: ")
_ANCHOR = lazy_re(r"\[CLOCK_ANCHOR\] v=1 .{0,4000}?\bmono_ns=(\d{1,19}) wall_ns=(\d{1,19})")
_PID = lazy_re(r"\[(?:STRACE|CLOCK_ANCHOR)\] v=1 pid=(\d{1,10})(?: tid=(\d{1,10}))?")


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
    return Header(
        "simpler-host", severity_of_word(match[2]), match.end(), clock.wall_of_mono(mono_ns), mono_ns, pid, tid
    )


def _simpler_dated(match: re.Match[str], clock: SourceClock) -> Header:
    return Header("simpler-host", severity_of_word(match[3]), match.end(), clock.date_time(match[1], match[2]))


def _simpler_device(match: re.Match[str], clock: SourceClock) -> Header:
    return Header("simpler-device", severity_of_word(match[1]), match.start(1) + len(match[1]) + 2)


# CANN's dlog: `[LEVEL] MODULE(pid,pname):YYYY-MM-DD-HH:MM:SS.mmm.uuu [file:line]tid function: …`.
_DLOG = lazy_re(
    r"\[(DEBUG|INFO|WARNING|WARN|ERROR|EVENT|TRACE|OPLOG|NULL|CRITICAL)\] ?(\w{1,40})\((\d{1,10}),([^)]{0,200})\):"
    r"(\d{4}-\d\d-\d\d-\d\d:\d\d:\d\d)\.(\d{3})\.(\d{3}) ?(?:\[[^\]]{0,300}\](\d{1,10})?)?"
)


def _dlog(match: re.Match[str], clock: SourceClock) -> Header:
    severity = severity_of_word(match[1])
    if severity is Severity.WARNING and "[TIMING]" in match.string:
        severity = Severity.INFO  # the simpler runtime writes its TIMING level as WARN on a device
    wall_ns = clock.date_time(match[5], match[6] + match[7])
    tid = int(match[8]) if match[8] else None
    return Header("cann-dlog", severity, match.end(), wall_ns, None, int(match[3]), tid, quoted=True)


SHAPES: Final = (
    Shape("simpler-host", "[", _SIMPLER_HOST, _simpler_host, anchor=b"[CLOCK_ANCHOR]"),
    Shape("simpler-host", "[", _SIMPLER_DATED, _simpler_dated),
    Shape("cann-dlog", "[", _DLOG, _dlog),
    Shape("simpler-device", "[", _SIMPLER_DEVICE, _simpler_device),
)
"""The specific ones first."""
