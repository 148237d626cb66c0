"""Chooses the exception or sanitizer report that explains how a run ended, of those caught or printed.

Invariants:
    end_cause.T1. A report with which a sanitizer ended the run takes precedence. A report after which the run continued
        counts only if nothing else explains the end; else it is a note.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec import structs

from livedbg.logs.sanitizers import ENDED, WARNED, own_frames, place_of
from livedbg.model import ExceptionHit
from livedbg.repeats.outcome import How

__all__ = ["EndCause", "end_cause"]

_ENDED: Final = f"log: {ENDED}"
_REPORTS: Final = (_ENDED, f"log: {WARNED}")


class EndCause(NamedTuple):
    """The exception or report that explains how a run ended.

    Attributes:
        what: has the type and the message.
        where: has the stack.
        reported: both are a sanitizer's report.
        note: a sanitizer's report that does not explain the end.
    """

    what: ExceptionHit | None = None
    where: ExceptionHit | None = None
    reported: bool = False
    note: str = ""


def end_cause(how: How, caught: Sequence[ExceptionHit], printed: Sequence[ExceptionHit]) -> EndCause:
    """Choose what explains how a run ended.

    Args:
        how: how the run ended.
        caught: by catchpoints, and read from its logs while it ran.
        printed: exceptions and reports in its output.
    """
    if how in ("hung", "cut"):
        return EndCause()
    report = _report((*printed, *caught))
    caught, printed = _others(caught), _others(printed)
    what = where = None
    if how == "code":
        what = where = _newest(printed, caught)
    elif how == "signal":
        named = [hit for hit in caught if hit.type not in signal.Signals.__members__]
        what, where = _newest(named, printed, caught), _newest(caught, printed)
    if report is None:
        return EndCause(what, where)
    if report.catchpoint == _ENDED or (what is None and how != "signal"):
        return EndCause(report, report, reported=True)
    place = place_of(report.stack)
    return EndCause(what, where, note=f"{report.type}, in {place}" if place else report.type)


def _others(hits: Sequence[ExceptionHit]) -> list[ExceptionHit]:
    return [hit for hit in hits if hit.catchpoint not in _REPORTS]


def _report(hits: Sequence[ExceptionHit]) -> ExceptionHit | None:
    """The first report that ended it, else the first: later ones may follow from it. Its stack is the user's code."""
    reports = [hit for hit in hits if hit.catchpoint in _REPORTS]
    hit = next((hit for hit in reports if hit.catchpoint == _ENDED), next(iter(reports), None))
    return hit if hit is None else structs.replace(hit, stack=own_frames(hit.stack) or hit.stack)


def _newest(*groups: Sequence[ExceptionHit]) -> ExceptionHit | None:
    """The last one of the first group that has any."""
    for hits in groups:
        if hits:
            return max(reversed(hits), key=lambda hit: hit.at_wall_ns or 0)
    return None
