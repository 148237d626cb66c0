"""The exception that a runtime's error was raised as: its message and its stack are evidence of the finding too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.logged import exception_text, log_evidence
from livedbg.model import Evidence, ExceptionHit
from livedbg.model.snapshot import Snapshot

__all__ = ["exception_of", "with_exceptions"]

_MOST: Final = 200  # exceptions of logs among which is looked


def with_exceptions(found: Iterable[Finding], snapshot: Snapshot) -> Iterator[Finding]:
    """The findings, each crash that rests on a line of an exception's record with that exception's evidence."""
    hits = _logged(snapshot)
    for finding in found:
        hit = _carrying(finding, hits) if finding.state is VerdictState.CRASHED and len(hits) <= _MOST else None
        yield finding if hit is None else replace(finding, evidence=_joined(finding, hit, snapshot))


def exception_of(finding: Finding, snapshot: Snapshot) -> ExceptionHit | None:
    """The exception in whose record of a log the first evidence of a finding stands; None where it is in none."""
    return _carrying(finding, _logged(snapshot))


def _logged(snapshot: Snapshot) -> list[ExceptionHit]:
    return [hit for hit in snapshot.exceptions.values() if hit.source is not None and hit.line is not None]


def _carrying(finding: Finding, hits: Iterable[ExceptionHit]) -> ExceptionHit | None:
    """The exception in whose record the first line of a finding's evidence stands."""
    first = next(iter(finding.evidence), None)
    if first is None or first.kind != "log" or first.line is None:
        return None
    line, log = first.line, first.log
    same = (hit for hit in hits if hit.source == log)
    return next((hit for hit in same if (hit.first_line or hit.line or 0) <= line <= (hit.line or 0)), None)


def _joined(finding: Finding, hit: ExceptionHit, snapshot: Snapshot) -> tuple[Evidence, ...]:
    joined = list(finding.evidence)
    for more in log_evidence(hit, exception_text(hit), snapshot):
        begun = (n for n, one in enumerate(joined) if one.place == more.place and more.text.startswith(one.text))
        number = next(begun, None)
        if number is None:
            joined.append(more)
        else:
            joined[number] = more  # the same, whole
    return tuple(joined)
