"""Which of the exceptions that were caught or printed tells of a run's end, and a sanitizer's report of it.

Invariants:
    telling.T1. A report with which a sanitizer ended the run counts before all else. One after which the run went on
        counts only where nothing else tells how the run ended; else it is a note.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec import structs

from livedbg.logs.sanitizers import ENDED, TOLD, own_frames, place_of
from livedbg.model import ExceptionHit
from livedbg.repeats.outcome import How

__all__ = ["Told", "told_of"]

_ENDED: Final = f"log: {ENDED}"
_REPORTS: Final = (_ENDED, f"log: {TOLD}")


class Told(NamedTuple):
    """What exceptions and reports tell of a run's end.

    Attributes:
        what: has the type and the message.
        where: has the stack.
        reported: both are a sanitizer's report.
        note: a sanitizer's report that does not tell how the run ended.
    """

    what: ExceptionHit | None = None
    where: ExceptionHit | None = None
    reported: bool = False
    note: str = ""


def told_of(how: How, caught: Sequence[ExceptionHit], printed: Sequence[ExceptionHit]) -> Told:
    """What tells of a run's end.

    Args:
        how: it ended.
        caught: by catchpoints, and read from its logs while it ran.
        printed: what its output tells of.
    """
    if how in ("hung", "cut"):
        return Told()
    report = _report((*printed, *caught))
    caught, printed = _others(caught), _others(printed)
    what = where = None
    if how == "code":
        what = where = _newest(printed, caught)
    elif how == "signal":
        named = [hit for hit in caught if hit.type not in signal.Signals.__members__]
        what, where = _newest(named, printed, caught), _newest(caught, printed)
    if report is None:
        return Told(what, where)
    if report.catchpoint == _ENDED or (what is None and how != "signal"):
        return Told(report, report, reported=True)
    place = place_of(report.stack)
    return Told(what, where, note=f"{report.type}, in {place}" if place else report.type)


def _others(hits: Sequence[ExceptionHit]) -> list[ExceptionHit]:
    return [hit for hit in hits if hit.catchpoint not in _REPORTS]


def _report(hits: Sequence[ExceptionHit]) -> ExceptionHit | None:
    """The first report that ended it, else the first: later ones may follow from it. Its stack is the user's code."""
    told = [hit for hit in hits if hit.catchpoint in _REPORTS]
    hit = next((hit for hit in told if hit.catchpoint == _ENDED), next(iter(told), None))
    return hit if hit is None else structs.replace(hit, stack=own_frames(hit.stack) or hit.stack)


def _newest(*groups: Sequence[ExceptionHit]) -> ExceptionHit | None:
    """The last one of the first group that has any."""
    for hits in groups:
        if hits:
            return max(reversed(hits), key=lambda hit: hit.at_wall_ns or 0)
    return None
