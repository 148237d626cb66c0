"""Recognise the `simpler` runtime's log lines, and where their message begins.

Shapes, all with a level tag (source: simpler's log back ends, 2026-02 to 2026-08, and CANN's dlog):
    host        `[mono_ns=N][T0x…][LEVEL] func: [file:line] message` (from 2026-08-14)
    dated       `[YYYY-MM-DD HH:MM:SS.ffffff][T0x…][LEVEL] func: …` (2026-05-07 to 2026-08-14)
    bare        `[LEVEL] func: [file:line] message` (the simulator's device side; older host lines)
    CANN dlog   `[LEVEL] MODULE(pid,name):date … "message"`, or with the quoted message on the next line

A launcher may have added any prefix (`0: `, `[rank1]: `).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

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
    message = message.rstrip()
    message = message.removesuffix('"')
    return _SOURCE_ONLY.sub("", message)
