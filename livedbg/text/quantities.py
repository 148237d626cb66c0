"""Formatting of numbers, sizes and times, for every front end and every sentence.

A number is rounded before its unit is chosen: there is no `1,024.0 KiB`.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Final

_S: Final = 1_000_000_000
_UNITS: Final = ("KiB", "MiB", "GiB", "TiB", "PiB")


def duration(nanoseconds: float) -> str:
    """Format a time for sentences: `4.2 ms`, `0.3 s`, `43 s`, `12 min`, `3.5 h`, `2.1 d`."""
    seconds = max(nanoseconds, 0) / _S
    for limit, unit, decimals, name in (
        (0.0995, 0.001, 1, "ms"),
        (9.95, 1, 1, "s"),
        (119.5, 1, 0, "s"),
        (119.5 * 60, 60, 0, "min"),
        (47.95 * 3600, 3600, 1, "h"),
    ):
        if seconds < limit:
            return f"{seconds / unit:.{decimals}f} {name}"
    return f"{seconds / 86_400:,.1f} d"


def elapsed(ns: float | None) -> str:
    """Format a time for columns: `0.4 ms`, `43.1 s`, `5 m 02 s`, `3 h 07 m`, `2 d 04 h`; empty if unknown."""
    if ns is None:
        return ""
    seconds = max(ns, 0) / _S
    if seconds < 0.0995:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    if whole < 3600:
        return f"{whole // 60} m {whole % 60:02d} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} m"
    return f"{whole // 86_400} d {whole % 86_400 // 3600:02d} h"


def short_age(seconds: float) -> str:
    """Format a time for narrow columns: `43s`, `12m`, `5h`, `3d`."""
    whole = int(max(seconds, 0))
    for unit, sign in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if whole >= unit:
            return f"{whole // unit}{sign}"
    return f"{whole}s"


def stopwatch(ns: int | None) -> str:
    """Format a time as `00:43`, `1:02:09`; empty if unknown."""
    if ns is None:
        return ""
    whole = max(ns, 0) // _S
    if whole < 3600:
        return f"{whole // 60:02d}:{whole % 60:02d}"
    if whole < 360_000:
        return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"
    return elapsed(ns)


def clock(wall_ns: int | None) -> str:
    """Format the local time of day, `12:03:54`."""
    if not wall_ns:
        return "--:--:--"
    return time.strftime("%H:%M:%S", time.localtime(wall_ns // _S))


def clock_ms(wall_ns: int | None) -> str:
    """Format the local time of day with milliseconds, `12:03:54.211`; empty if unknown."""
    if not wall_ns:
        return ""
    return f"{clock(wall_ns)}.{wall_ns % _S // 1_000_000:03d}"


def timestamp(wall_ns: int) -> str:
    """Format a time for programs: `2026-01-01T00:00:00.000Z`, UTC, to the millisecond; 1970 for an invalid one."""
    seconds, rest = divmod(wall_ns, _S)
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):  # of a damaged recording
        moment, rest = datetime.fromtimestamp(0, UTC), 0
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest // 1_000_000:03d}Z"


def count(number: int) -> str:
    """Format a number as `4,201`."""
    return f"{number:,}"


def rate(per_second: float) -> str:
    """Format a rate as `12.1k`, `3`, `0`."""
    if per_second >= 999_950:
        return f"{per_second / 1_000_000:.1f}M"
    if per_second >= 10_000:
        return f"{per_second / 1000:.1f}k"
    return f"{per_second:,.0f}"


def milliseconds(ns: float) -> str:
    """Format a pause as `0.0 ms`, `1,234.5 ms`: pauses are compared with one another."""
    return f"{ns / 1_000_000:,.1f} ms"


def percent(share: float | None) -> str:
    """Format a share: `0 %`, `12 %`, `100 %`; empty if unknown."""
    return "" if share is None else f"{100 * share:.0f} %"


def byte_size(octets: float) -> str:
    """Format a size as `0 B`, `1,023 B`, `1.0 KiB`, `79.2 GiB`, `512 GiB`."""
    if octets < 1023.5:
        return f"{octets:,.0f} B"
    value = octets / 1024
    for unit in _UNITS:
        if value < 1023.5 or unit == _UNITS[-1]:
            return f"{value:,.1f} {unit}" if value < 99.95 else f"{value:,.0f} {unit}"
        value /= 1024
    raise AssertionError("the last unit has no limit")
