"""Unreadable sources: without them, no finding does not mean that all is well.

Invariants:
    sight.S1. A source that failed, and a named process that may not be inspected, give `unknown`: no verdict of
        progress, idleness or a good end is combined with them.
    sight.S2. One reason is one finding, however many sources it blinds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.model import NO_ACCESS, SOURCE_FAILED, Evidence, Severity, SourceHealth, SourceStatus
from livedbg.model.snapshot import Snapshot

CANT_SEE: Final = "cant-see"
"""Name of the rule."""


def blinds(status: SourceStatus, snapshot: Snapshot) -> bool:
    """Return whether a status makes the verdict uncertain (S1).

    True for an adapter or a decoder that failed, and for a named process that may not be inspected.
    """
    if status.health is SourceHealth.FAILED and status.code == SOURCE_FAILED:
        return True
    process = snapshot.processes.get(status.target)
    named = process is not None and process.named and not process.exited
    return status.health is SourceHealth.DEGRADED and status.code in NO_ACCESS and named


class CantSee:
    """Rule for a source that shows nothing or only a part."""

    name = CANT_SEE
    doc = (
        "A source can't be read, or only in part (no permission, a missing tool, an unknown C library): the "
        "verdict lacks what it would show. Gives the command that fixes it. A source that failed, and a process that "
        "the user named and that livedbg may not look into, make the verdict `unknown`, unless another source shows a "
        "hang or a crash."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield a finding for each reason."""
        snapshot = state.snapshot
        bad = [
            status
            for status in snapshot.statuses.values()
            if status.health in (SourceHealth.DEGRADED, SourceHealth.FAILED) and status.sentence
        ]
        reasons: set[tuple[str, str]] = set()
        for status in sorted(bad, key=lambda status: not blinds(status, snapshot)):
            if (status.target, status.sentence) in reasons:
                continue
            reasons.add((status.target, status.sentence))
            blind = blinds(status, snapshot)
            failed = blind or status.health is SourceHealth.FAILED
            yield Finding(
                rule=self.name,
                severity=Severity.WARNING if failed else Severity.INFO,
                sentence=status.sentence,
                entities=(status.target,) if status.target in snapshot.processes else (),
                evidence=(Evidence(kind="proc", source=status.source, text=f"{status.health} {status.code}".strip()),),
                next=(status.remedy,) if status.remedy else (),
                state=VerdictState.UNKNOWN if blind else None,
            )


def rules() -> Sequence[Rule]:
    return (CantSee(),)
