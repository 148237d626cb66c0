"""What the Flight Recorder dumps of a job say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.model import Severity

__all__ = ["rules"]


class RecorderDumps:
    """Collectives that were pending when the Flight Recorders were dumped."""

    name = "collective-dumps"
    doc = (
        "The Flight Recorder dumps of a job's ranks, compared: a rank that had not entered a collective in which "
        "others were, ranks that called different operations or in another order, or one whose dump is not there. It "
        "is a stall where the collective had stood for the threshold (10 s) when the last file was written, and "
        "`unknown` else, or where a dump is missing. It is inferred: a dump is one look, and its age is that of the "
        "file."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """One finding a statement."""
        for said in state.snapshot.diagnostics.values():
            if said.system != "pytorch" or not said.code.startswith("dump-"):
                continue
            stood = int(said.attributes.get("stood_ns", "0"))
            sure = stood >= state.settings.thread_stall_ns and said.code != "dump-unseen"
            yield Finding(
                rule=self.name,
                severity=Severity.ERROR if sure else Severity.WARNING,
                sentence=said.sentence,
                evidence=said.evidence,
                next=("livedbg attach --all-ranks PID, while the next run hangs: what the missing rank waits for",),
                inferred=True,
                since_wall_ns=int(said.attributes.get("since_ns", "0")) or None,
                state=VerdictState.STALLED if sure else VerdictState.UNKNOWN,
            )


def rules() -> Sequence[Rule]:
    """The rules of this module."""
    return (RecorderDumps(),)
