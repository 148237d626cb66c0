"""One clock for all logs: every kind of time stamp becomes nanoseconds on the wall clock.

Missing parts of a stamp are taken from the reference of its source (the modification time of the file): the year of a
glog stamp, unless the log has that day with its year, the day of a time of day. Stamps without a zone are in the local
time of this host. CLOCK_MONOTONIC becomes wall time by an anchor line if the log has one (both clocks read at one
moment), otherwise by the clocks of this host, as long as that is plausible.

Invariants:
    clock.G1. A year, or the boot of a time since it, that nobody wrote down is a guess, unless the file was last
        written about when its newest record was: within a day, or a minute.
"""

from __future__ import annotations

import calendar
import time
from collections.abc import Iterable
from typing import Final

from livedbg.text.patterns import lazy_re

NS: Final = 1_000_000_000
"""Nanoseconds of a second."""

_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"
_CACHE_SIZE = 4096
_SLACK_NS = 5 * NS  # how far a record may be ahead of its file's modification time
_DAY_S = 86_400
_BOOT_WITHIN_NS: Final = 60 * NS
_YEAR_WITHIN_NS: Final = _DAY_S * NS
_DATED: Final = lazy_re(r"(?<!\d)(20\d\d)[-/](\d\d)[-/](\d\d)[-T ]\d\d:\d\d:\d\d")
_POWERS = tuple(10**power for power in range(10))


def month_of(name: str) -> int | None:
    """Return the number of a month from 1, by the three letters of its name, or None."""
    place = _MONTHS.find(name)
    return None if place < 0 or place % 3 else place // 3 + 1


class SourceClock:
    """Maps the time stamps of one source. Not thread-safe.

    Args:
        reference_ns: a wall-clock time at or after the newest record (the file's mtime); now if None.
        host_offset_ns: wall clock minus CLOCK_MONOTONIC of this host; read from the clocks if None.
    """

    def __init__(self, reference_ns: int | None = None, host_offset_ns: int | None = None) -> None:
        self.reference_ns = time.time_ns() if reference_ns is None else reference_ns
        self._host_offset_ns = time.time_ns() - time.monotonic_ns() if host_offset_ns is None else host_offset_ns
        self._anchor_offset_ns: int | None = None
        self._guessed: tuple[int, int] | None = None  # the last time that was, and how near to the reference proves it
        self._seconds: dict[str, int | None] = {}
        self._years: dict[tuple[int, int], int] = {}  # by month and day

    def learn(self, texts: Iterable[str]) -> None:
        """Note the years of the days that the first lines of the source name."""
        for text in texts:
            for year, month, day in _DATED.findall(text):
                self._years[int(month), int(day)] = int(year)

    def anchor(self, mono_ns: int, wall_ns: int) -> None:
        """Set the offset of the clocks of the source's host, both read at one moment, from the log."""
        self._anchor_offset_ns = wall_ns - mono_ns

    def wall_of_mono(self, mono_ns: int) -> int | None:
        """Return the wall clock of a CLOCK_MONOTONIC stamp, or None."""
        if self._anchor_offset_ns is not None:
            return mono_ns + self._anchor_offset_ns
        wall_ns = mono_ns + self._host_offset_ns
        if wall_ns > self.reference_ns + _SLACK_NS:
            return None
        self._guessed = wall_ns, _BOOT_WITHIN_NS
        return wall_ns

    def is_guess(self, newest_ns: int | None) -> bool:
        """Return whether the times of the source are a guess (G1); `newest_ns` is that of its newest record."""
        if self._guessed is None or newest_ns is None:
            return False
        guessed_ns, within_ns = self._guessed
        own = abs(guessed_ns - newest_ns) <= _YEAR_WITHIN_NS  # else its records have other times than those
        return own and abs(self.reference_ns - newest_ns) > within_ns

    def date_time(self, second: str, fraction: str | None, zone: str | None = None) -> int | None:
        """Parse `YYYY?MM?DD?HH:MM:SS`, with any one separator between the fields.

        Args:
            second: the 19 characters; 17 of `YY/MM/DD HH:MM:SS`.
            fraction: digits of the fraction, any number of them.
            zone: `Z`, `UTC`, `+HH:MM` or `+HHMM`.
        """
        key = second if zone is None else second + zone
        try:
            found = self._seconds[key]
        except KeyError:
            found = self._second(key, second, zone)
        if found is None or not fraction or len(fraction) > 9:
            return _with_fraction(found, fraction)
        nanoseconds: int = int(fraction) * _POWERS[9 - len(fraction)]
        return found * NS + nanoseconds

    def month_day(self, month: int, day: int, clock: str, fraction: str | None) -> int | None:
        """Parse a stamp without a year: that day as the source names it, or the newest one not after the reference."""
        key = f"{month:02}{day:02}{clock}"
        if key not in self._seconds:
            known = self._years.get((month, day))
            year = known or time.localtime(self.reference_ns / NS).tm_year
            found = self._second(f"{year}{key}", f"{year}-{month:02}-{day:02} {clock}", None)
            if known is None and found is not None and found > self.reference_ns // NS + _DAY_S:
                found = self._second(f"{year - 1}{key}", f"{year - 1}-{month:02}-{day:02} {clock}", None)
            if known is None and found is not None:
                self._guessed = found * NS, _YEAR_WITHIN_NS
            self._remember(key, found)
        return _with_fraction(self._seconds[key], fraction)

    def time_of_day(self, clock: str, fraction: str | None) -> int | None:
        """Parse a stamp without a day: the newest such time that is not after the reference."""
        today = time.strftime("%Y-%m-%d", time.localtime(self.reference_ns / NS))
        found = self._second(today + clock, f"{today} {clock}", None)
        if found is not None and found > self.reference_ns // NS + _SLACK_NS // NS:
            found -= _DAY_S
        return _with_fraction(found, fraction)

    def _second(self, key: str, second: str, zone: str | None) -> int | None:
        if key not in self._seconds:
            self._remember(key, _epoch(second, zone))
        return self._seconds[key]

    def _remember(self, key: str, value: int | None) -> None:
        if len(self._seconds) >= _CACHE_SIZE:
            self._seconds.clear()
        self._seconds[key] = value


def _with_fraction(seconds: int | None, fraction: str | None) -> int | None:
    if seconds is None:
        return None
    if not fraction:
        return seconds * NS
    digits = len(fraction)
    return seconds * NS + (int(fraction) * _POWERS[9 - digits] if digits <= 9 else int(fraction[:9]))


def _epoch(second: str, zone: str | None) -> int | None:
    if second[2:3] == "/":  # Spark writes years without the century
        second = f"20{second}"
    try:
        year, month, day = int(second[:4]), int(second[5:7]), int(second[8:10])
        hours, minutes, seconds = int(second[11:13]), int(second[14:16]), int(second[17:19])
        if not (year >= 1970 and 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year, month)[1]):
            return None
        if hours > 23 or minutes > 59 or seconds > 60:
            return None
        fields = (year, month, day, hours, minutes, seconds, 0, 0, -1)
        if zone is None:
            return int(time.mktime(fields))
        return calendar.timegm(fields) - _zone_offset_s(zone)
    except (ValueError, OverflowError):
        return None


def _zone_offset_s(zone: str) -> int:
    if zone in ("Z", "z", "UTC"):
        return 0
    digits = zone[1:].replace(":", "")
    offset = int(digits[:2]) * 3600 + int(digits[2:4] or 0) * 60
    return -offset if zone[0] == "-" else offset
