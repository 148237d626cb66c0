"""What could not be read: without it, no finding does not mean that all is well."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from livedbg.analysis.diagnosis import Finding
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.model import Evidence, Severity, SourceHealth

__all__ = ["CantSee", "rules"]


class CantSee:
    """A source that shows nothing or only a part."""

    name = "cant-see"
    doc = (
        "A source can't be read, or only in part (no permission, gdb missing, an unknown C library): the "
        "verdict lacks what it would show. Gives the command that fixes it."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """One finding a status."""
        for status in state.snapshot.statuses.values():
            if status.health not in (SourceHealth.DEGRADED, SourceHealth.FAILED) or not status.sentence:
                continue
            yield Finding(
                rule=self.name,
                severity=Severity.WARNING if status.health is SourceHealth.FAILED else Severity.INFO,
                sentence=status.sentence,
                entities=(status.target,) if status.target in state.snapshot.processes else (),
                evidence=(Evidence(kind="proc", source=status.source, text=f"{status.health} {status.code}".strip()),),
                next=(status.remedy,) if status.remedy else (),
            )


def rules() -> Sequence[Rule]:
    """The rules of this module."""
    return (CantSee(),)
