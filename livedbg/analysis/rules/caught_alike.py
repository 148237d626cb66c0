"""How often the same code caught exceptions and logged them: a traceback that is logged begins in the function that
handles it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct, field

from livedbg.model import ExceptionHit

__all__ = ["CaughtAlike"]

_Place = tuple[str | None, str, str | None]


class _Counts(Struct):
    """Of one place, by writer: how many it logged, and how many of these its program is seen to have survived."""

    logged: dict[str, int] = field(default_factory=dict)
    survived: dict[str, int] = field(default_factory=dict)


class CaughtAlike:
    """The exceptions of some logs, by the place that caught them.

    Args:
        hits: of all logs.
        survived: whether a log shows that its program went on after one.
    """

    def __init__(self, hits: Iterable[ExceptionHit], survived: Callable[[ExceptionHit], bool]) -> None:
        self._counts: dict[_Place, _Counts] = {}
        for hit in hits:
            place = _place(hit)
            if place is None:
                continue
            counts = self._counts.setdefault(place, _Counts())
            counts.logged[hit.writer] = counts.logged.get(hit.writer, 0) + hit.count
            if survived(hit):
                counts.survived[hit.writer] = counts.survived.get(hit.writer, 0) + hit.count

    def others(self, hit: ExceptionHit) -> int:
        """How many others the same code caught, after which its program went on; `hit` itself was not survived.

        After all others of its own process it went on: they were logged one after the other.
        """
        place = _place(hit)
        counts = self._counts.get(place) if place is not None else None
        if counts is None:
            return 0
        if not hit.writer:
            return sum(counts.survived.values())
        elsewhere = sum(count for writer, count in counts.survived.items() if writer != hit.writer)
        return counts.logged[hit.writer] - 1 + elsewhere


def _place(hit: ExceptionHit) -> _Place | None:
    """The log, and the outermost function; None for what no logger wrote."""
    if not hit.logged or not hit.stack or hit.line is None:
        return None
    return hit.source, hit.stack[-1].function, hit.stack[-1].file
