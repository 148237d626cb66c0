"""Prefixes that nobody knows, learned from a traceback: what stands before its first line stands before the next."""

from __future__ import annotations

import re
from typing import Final

from livedbg.logs.clock import SourceClock
from livedbg.logs.wrapping.heads import Watch
from livedbg.logs.wrapping.rows import BEGINS, Layer, Row
from livedbg.logs.wrapping.tags import Opened

__all__ = ["learned", "time_of"]

_HEADING: Final = "Traceback (most recent call"
_LONGEST: Final = 300
_NUMBER: Final = re.compile(r"\d+")
_OTHER: Final = re.compile(
    r"[\s|+]*(?:Exception Group )?$|\S*[VIWEFC]\d{4}(?:\d{4})? \d\d:|.*[|+] +$|.*\""
    r"|(?!.*\d\d:\d\d:\d\d)[\W\d]*$"
)
_DATE: Final = re.compile(r"\D{0,40}?(\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))? ?(Z|[+-]\d\d:?\d\d)?")

_DAY: Final = re.compile(r"\D{0,40}?\b(\d\d)-(\d\d) (\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?")


class _Learned:
    first = ""
    likely = ""
    once = True

    def __init__(self, prefix: str) -> None:
        parts = _NUMBER.split(prefix)
        self._pattern = re.compile(r"\d+".join(map(re.escape, parts)))

    def open(self, text: str, clock: SourceClock) -> Opened | None:
        match = self._pattern.match(text)
        if match is None:
            return None
        return Opened(text[match.end() :], wall_ns=time_of(match[0], clock))

    def proved(self, row: Row) -> Layer | None:
        framed = any(BEGINS.match(one.text) is not None for one in row.inner[1:])
        return self.open if framed else None


def time_of(prefix: str, clock: SourceClock) -> int | None:
    """The date and time that stand in a prefix, ns; None where there are none."""
    date = _DATE.match(prefix)
    if date is not None:
        return clock.date_time(date[1], date[2], date[3])
    day = _DAY.match(prefix)
    return None if day is None else clock.month_day(int(day[1]), int(day[2]), day[3], day[4])


def learned(text: str, watch: Watch | None) -> _Learned | None:
    """A guess from the first line of a traceback that has something before it.

    Args:
        text: the line.
        watch: for lines with a head that is known.
    """
    prefix = text.partition(_HEADING)[0] if _HEADING in text else ""
    seen = watch(text) if watch is not None else None
    if seen is not None:
        return _Learned(text[: seen.start("behind")])
    if not prefix or len(prefix) > _LONGEST or "%|" in prefix or _OTHER.match(prefix):
        return None
    return _Learned(prefix)
