"""Logs of the `simpler` runtime and of CANN: shapes of their lines, where a message begins, and where the files are.

Shapes, all with a level tag (source: simpler's log back ends, 2026-02 to 2026-08, and CANN's dlog):
    host        `[mono_ns=N][T0x…][LEVEL] func: [file:line] message` (from 2026-08-14)
    dated       `[YYYY-MM-DD HH:MM:SS.ffffff][T0x…][LEVEL] func: …` (2026-05-07 to 2026-08-14)
    bare        `[LEVEL] func: [file:line] message` (the simulator's device side; older host lines)
    CANN dlog   `[LEVEL] MODULE(pid,name):date … "message"`, or with the quoted message on the next line

A launcher may have added any prefix (`0: `, `[rank1]: `).

Files (CANN log reference): `<root>/{debug,run,security}/plog/plog-<pid>_<time>.log`, and
`device-<id>/device-<pid>_<time>.log` next to `plog`; in some versions without the first folder. The root is
ASCEND_PROCESS_LOG_PATH, else ASCEND_WORK_PATH/log, else ~/ascend/log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from glob import escape
from pathlib import PurePosixPath
from typing import Final

from msgspec import Struct

from livedbg.logs.clock import SourceClock
from livedbg.logs.shapes import Header, Shape, severity_of_word
from livedbg.model import Severity
from livedbg.text.patterns import lazy_re

_LEVEL: Final = r"DEBUG|INFO(?:_V\d)?|TIMING|WARN(?:ING)?|ERROR|ALWAYS|EVENT|CRITICAL"
_HEAD: Final = lazy_re(rf"\[(?:{_LEVEL})\] (?P<rest>.*)$", re.DOTALL)
_CANN: Final = lazy_re(r"[A-Z][A-Z0-9_]*\(\d{1,18},[^)]*\):\d{4}-\d\d-\d\d-\d\d:\d\d:\d\d[^\"]*(?P<quote>\"?)")
_SOURCE: Final = lazy_re(r"^(?P<func>[^\"\[\]]*?): (?:\[[\w.+-]+:\d{1,18}\] ?)?")
_SOURCE_ONLY: Final = lazy_re(r"^\[[\w.+-]+:\d{1,18}\] ?")
_MONO: Final = lazy_re(r"\[mono_ns=(\d{1,19})\]")
OWN_LINES: Final = lazy_re(
    rf"\[mono_ns=\d{{1,19}}\]|\]\[T0x[0-9a-f]{{1,16}}\]\[|\[(?:{_LEVEL})\] "
    r"(?:[A-Z][A-Z0-9_]{0,40}\(\d{1,18},|[^\"\[\]]{0,200}?: \[[\w.+-]{1,200}:\d{1,18}\])"
)
"""Lines of the runtime and of CANN, by their heads."""
_LINE_END: Final = lazy_re(r"\n(?! {2,8}\w{1,40}=[^\s,]{1,80}(?: \w{1,40}=[^\s,]{1,80}){0,9}\r?(?:\n|\Z))")
_HEAD_WINDOW: Final = 400  # a level tag later than this is text, not a head


class RuntimeLine(Struct, frozen=True):
    """A log line.

    Attributes:
        number: index in its record, from 0.
        tagged: it has the runtime's level tag; otherwise it is any other line of the log.
        func: the logging function, or "".
        message: text without the head; the whole line if it isn't tagged.
        mono_ns: its `mono_ns=` stamp.
    """

    number: int
    tagged: bool
    func: str
    message: str
    mono_ns: int | None
    text: str


class LineSplitter:
    """Splits the records of one log into lines; remembers a CANN head whose message follows."""

    def __init__(self) -> None:
        self._open_head = False

    def split(self, text: str) -> Iterator[RuntimeLine]:
        """Yield the non-empty lines of one record; one of values alone (`  stuck_core=24`) is of the line above it."""
        number = 0
        for line in _LINE_END.split(text):
            content = " ".join(map(str.strip, line.split("\n"))) if "\n" in line else line.rstrip("\r")
            if content:
                yield self._parse(number, content)
            number += 1 + line.count("\n")

    def _parse(self, number: int, line: str) -> RuntimeLine:
        stripped = line.lstrip()
        if self._open_head:
            self._open_head = False
            if stripped.startswith('"'):
                return RuntimeLine(number, True, "", _unquote(stripped[1:]), None, line)
        head = _HEAD.search(line, 0, len(line))
        if head is None or head.start() > _HEAD_WINDOW:
            return RuntimeLine(number, False, "", line, None, line)
        rest = head["rest"]
        mono = _MONO.search(line, 0, head.start())
        mono_ns = int(mono[1]) if mono else None
        cann = _CANN.match(rest)
        if cann is not None:
            self._open_head = not cann["quote"]
            return RuntimeLine(number, True, "", _unquote(rest[cann.end() :]), mono_ns, line)
        source = _SOURCE.match(rest)
        if source is not None:
            return RuntimeLine(number, True, source["func"], rest[source.end() :], mono_ns, line)
        return RuntimeLine(number, True, "", _SOURCE_ONLY.sub("", rest), mono_ns, line)


def _unquote(message: str) -> str:
    return _SOURCE_ONLY.sub("", message.rstrip().removesuffix('"'))


_SIMPLER_LEVEL = r"(DEBUG|INFO(?:_V\d)?|TIMING|WARN|ERROR|ALWAYS)"
_SIMPLER_HOST = lazy_re(r"\[mono_ns=(\d{1,19})\]\[T0x[0-9a-f]{1,16}\]\[" + _SIMPLER_LEVEL + r"\] ")
_SIMPLER_DATED = lazy_re(
    r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\.(\d{6})\]\[T0x[0-9a-f]{1,16}\]\[" + _SIMPLER_LEVEL + r"\] "
)
_SIMPLER_DEVICE = lazy_re(r"\[" + _SIMPLER_LEVEL + r"\] [^:\[\]\s]{1,200}(?:::[^:\[\]\s]{1,200}){0,8}: ")
_ANCHOR = lazy_re(r"\[CLOCK_ANCHOR\] v=1 .{0,400}?\bmono_ns=(\d{1,19}) wall_ns=(\d{1,19})")
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


_FOLDERS: Final = (
    *(f"{kind}/{place}" for kind in ("debug", "run", "security") for place in ("plog", "device-*")),
    "device-*",
    "plog",
)


def paths(variables: Mapping[str, str], pids: Sequence[int], hosts: Sequence[str]) -> Iterator[str]:
    """Yield the logs of a process as globs. See `LogPlaces`."""
    root = _root(variables)
    if root is None:
        return
    for folder in _FOLDERS:
        for pid in pids:
            for kind in ("plog", "device"):
                yield f"{escape(str(root))}/{folder}/{kind}-{pid}_*.log"


def _root(variables: Mapping[str, str]) -> PurePosixPath | None:
    for name, below in (("ASCEND_PROCESS_LOG_PATH", ""), ("ASCEND_WORK_PATH", "log"), ("HOME", "ascend/log")):
        value = variables.get(name)
        if value:
            return PurePosixPath(value, below)
    return None
