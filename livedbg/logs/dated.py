"""Lines that begin with a date and a time: Python logging with %(asctime)s, loguru, hydra, Go, …

Invariant:
    dated.H1. What `DatedHeads.quick` says of a line is what `read_dated` says of it.
"""

from __future__ import annotations

import re
from typing import Final

from livedbg.logs.clock import NS, SourceClock
from livedbg.logs.severity_words import SEVERITY_OF_WORD
from livedbg.logs.shapes import Header
from livedbg.model import Severity

__all__ = ["DATED", "DatedHeads", "read_dated"]

DATED: Final = re.compile(
    r"[\[(]?(\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d)(?:([.,])(\d{1,9}))?(?!\d) ?(Z|[+-]\d\d:?\d\d)?[\])]?[\s|:,-]*"
)
_LEVEL: Final = re.compile(
    r"[DTVINWECFPl\[|<(]"  # one set of characters, which is searched for faster than words
    r"(?:(?<!\w.)(?:(?<=D)EBUG|(?<=T)RACE|(?<=V)ERBOSE|(?<=I)NFO|(?<=N)OTICE|(?<=W)ARN(?:ING)?|(?<=E)(?:RR(?:OR)?|XCEPTION)"
    r"|(?<=C)RITICAL|(?<=F)ATAL|(?<=P)ANIC)\b"
    r"|(?:(?<=l)evel=|(?<=[\[|<(]) ?)(trace|debug|info|notice|warn|warning|error|fatal|critical|panic)\b)"
)
_LEVEL_CHARACTERS: Final = 120
_KEPT: Final = 256
_RENEWED: Final = 16  # times that what is remembered was no use: then nothing is remembered any more


def read_dated(match: re.Match[str], clock: SourceClock) -> Header:
    """The header of a line that DATED matches."""
    second, point, fraction, zone = match.groups()
    level = _level(match)
    severity = Severity.INFO if level is None else SEVERITY_OF_WORD[level[1] or level[0]]
    name = "python" if point == "," else "dated"
    return Header(name, severity, match.end(), clock.date_time(second, fraction, zone))


def _level(match: re.Match[str]) -> re.Match[str] | None:
    end = match.end()
    return _LEVEL.search(match.string, end, end + _LEVEL_CHARACTERS)


class DatedHeads:
    """The heads of one log: the same second and the same words come again and again, with another fraction.

    Args:
        clock: of the log.
    """

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
        """The header of a line, if it is known; None for what is to be read."""
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
        """See `read_dated`; remembers what can come again."""
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
