"""Numbers and times as people read them: durations, clocks, counts, rates."""

from __future__ import annotations

import time

from livedbg.text.wording import many as plural

__all__ = ["clock", "clock_ms", "count", "duration", "milliseconds", "percent", "plural", "rate", "stopwatch"]

_S = 1_000_000_000


def duration(ns: float | None) -> str:
    """`0.4 ms`, `43.1 s`, `5 m 02 s`, `3 h 07 m`, `2 d 04 h`; empty when not known."""
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


def stopwatch(ns: int | None) -> str:
    """`00:43`, `1:02:09`; empty when not known."""
    if ns is None:
        return ""
    whole = max(ns, 0) // _S
    if whole < 3600:
        return f"{whole // 60:02d}:{whole % 60:02d}"
    if whole < 360_000:
        return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"
    return duration(ns)


def clock(wall_ns: int | None) -> str:
    """Local time of day, `12:03:54`."""
    if not wall_ns:
        return "--:--:--"
    return time.strftime("%H:%M:%S", time.localtime(wall_ns // _S))


def clock_ms(wall_ns: int | None) -> str:
    """Local time of day with milliseconds, `12:03:54.211`."""
    if not wall_ns:
        return ""
    return f"{clock(wall_ns)}.{wall_ns % _S // 1_000_000:03d}"


def count(number: int) -> str:
    """`4,201`."""
    return f"{number:,}"


def rate(per_second: float) -> str:
    """`12.1k`, `3`, `0`."""
    if per_second >= 1_000_000:
        return f"{per_second / 1_000_000:.1f}M"
    if per_second >= 10_000:
        return f"{per_second / 1000:.1f}k"
    return f"{per_second:,.0f}"


def milliseconds(ns: int) -> str:
    """`0.0 ms`."""
    return f"{ns / 1_000_000:,.1f} ms"


def percent(share: float | None) -> str:
    """A share of one core: `0 %`, `12 %`, `100 %`."""
    return "" if share is None else f"{100 * share:.0f} %"
