"""What platforms that run jobs put before each line, where one line proves it: a table of patterns with named fields.

Sources of the formats: Determined (`det trial logs`), Vertex AI (`gcloud ai custom-jobs stream-logs`), TeamCity's build
log, Buildkite's agent (an APC sequence with the time in ms), `dmesg -T` (ctime in brackets).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

from livedbg.logs.clock import SourceClock
from livedbg.logs.wrapping.rows import Layer
from livedbg.logs.wrapping.tags import NO_TAG, Opened, Tag

__all__ = ["PLATFORMS", "Prefix", "month_of"]

_DAY: Final = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_MONTHS: Final = "JanFebMarAprMayJunJulAugSepOctNovDec"
_MS: Final = 1_000_000
_TAB: Final = 8  # columns


class Prefix(NamedTuple):
    """What stands before each line.

    Attributes:
        first: the characters that it begins with.
        likely: an expression that it matches, and few other texts.
        open: takes it off.
    """

    name: str
    first: str
    likely: str
    open: Layer


def month_of(name: str) -> int | None:
    """The number of a month from 1, by the three letters of its name."""
    place = _MONTHS.find(name)
    return None if place < 0 or place % 3 else place // 3 + 1


@lru_cache(maxsize=4096)
def _tag(rank: str | None, host: str | None, container: str | None) -> Tag:
    number = None if rank is None else int(rank)
    writer = f"rank {number}" if number is not None else host or container or ""
    return Tag(writer, rank=number, host=host or "", container=container or "") if writer else NO_TAG


def _by(pattern: str, behind: Callable[[str, int], int] = lambda text, end: end) -> Layer:
    """A layer by the groups of a pattern.

    Args:
        pattern: its groups `time`, `part`, `zone` (of a date and time), `ms` (since 1970), `ctime`, `rank`, `host` and
            `container` become fields, where it has them.
        behind: where the text begins, of the line and the end of the match.
    """
    compiled = re.compile(pattern)
    groups = compiled.groupindex
    names = tuple(name if name in groups else None for name in ("rank", "host", "container"))

    def wall_ns(match: re.Match[str], clock: SourceClock) -> int | None:
        if "ms" in groups:
            return int(match["ms"]) * _MS
        if "ctime" in groups:
            month = month_of(match["month"])
            second = f"{match['year']}-{month or 0:02}-{int(match['day']):02} {match['ctime']}"
            return None if month is None else clock.date_time(second, None)
        if "time" not in groups or match["time"] is None:
            return None
        return clock.date_time(match["time"], match["part"] if "part" in groups else None, match["zone"])

    def opened(text: str, clock: SourceClock) -> Opened | None:
        match = compiled.match(text)
        if match is None:
            return None
        rank, host, container = (None if name is None else match[name] for name in names)
        return Opened(text[behind(text, match.end()) :], _tag(rank, host, container), wall_ns(match, clock))

    return opened


def _to_tab(text: str, end: int) -> int:
    """Where a column ends that was filled up with blanks to the next tab stop."""
    stop = (end // _TAB + 1) * _TAB
    return end + 1 if text[end : end + 1] == "\t" else stop if text[end:stop].isspace() else end + 1


_BUILDKITE: Final = re.compile(r"\u241b_bk;t=\d{1,16}\u2407")
_buildkite = _by("\u241b_bk;t=(?P<ms>\\d{1,16})\u2407")


def _buildkite_time(text: str, clock: SourceClock) -> Opened | None:
    """The time may also stand in the line, where more was written to it later."""
    opened = _buildkite(text, clock)
    return None if opened is None else opened._replace(text=_BUILDKITE.sub("", opened.text))


PLATFORMS: Final = (
    Prefix(
        "determined",
        "[",
        r"\[(?:\d{4}-\d\d-\d\dT[\d:.]{8,18}Z\] [^|]{0,40}|rank=\d{1,6}\] )\|\|",
        _by(
            r"(?:\[(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(?P<part>\d{1,9}))?(?P<zone>Z)\] (?:[0-9a-f]{8} )?)?"
            r"(?:\[rank=(?P<rank>\d{1,6})\] )?\|\|(?: |$)"
        ),
    ),
    Prefix(
        "vertex",
        "DINWCEA",
        r"[A-Z]{4,9}(?:\t| +)\d{4}-\d\d-\d\d ",
        _by(
            r"(?:DEFAULT|DEBUG|INFO|NOTICE|WARNING|ERROR|CRITICAL|ALERT|EMERGENCY)(?:\t| {1,8})"
            r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?P<zone>[+-]\d{4})(?:\t| {1,8})"
            r"(?P<host>workerpool\d{1,2}-\d{1,6}|service)(?=\t| |$)",
            _to_tab,
        ),
    ),
    Prefix(
        "teamcity",
        "[",
        r"\[\d\d:\d\d:\d\d\][ A-Za-z]:\t",
        _by(r"\[\d\d:\d\d:\d\d\][ A-Za-z]:\t ?(?:\[[^\]]{1,200}\](?: |$))?"),
    ),
    Prefix("buildkite", "\u241b", "\u241b_bk;t=", _buildkite_time),
    Prefix(
        "ctime",
        "[",
        rf"\[{_DAY} ",
        _by(
            rf"\[{_DAY} (?P<month>[A-Z][a-z]{{2}}) (?P<day>[ \d]\d) (?P<ctime>\d\d:\d\d:\d\d)"
            r" (?P<year>\d{4})\](?: |$)"
        ),
    ),
)
"""All of them."""
