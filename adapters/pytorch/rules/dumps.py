"""Rule for Flight Recorder dumps of a job.

Invariants:
    rules_dumps.D1. Dumps that agree on the calls are `unknown` at most: those of a healthy job have pending
        collectives too, and the time of a file is that of its last copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from livedbg.adapters.pytorch.facts import DumpFacts
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.model import Severity
from livedbg.model.facts import read_facts


class RecorderDumps:
    """Collectives that were pending when the Flight Recorders were dumped."""

    name = "collective-dumps"
    doc = (
        "The Flight Recorder dumps of a job's ranks, compared: a rank that had not entered a collective in which "
        "others were, ranks that called different operations or in another order, or one whose dump is not there. It "
        "is `unknown`: a dump is one look, and does not say when it was taken. Where ranks called different "
        "operations, or with other sizes, as one, it is a stall once that had been pending for the threshold (10 s) "
        "when the last file was changed. It is inferred."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        for said in state.snapshot.diagnostics.values():
            if said.system != "pytorch" or not said.code.startswith("dump-"):
                continue
            pending_ns = read_facts(said, DumpFacts).pending_ns
            sure = pending_ns >= state.settings.thread_stall_ns and said.code == "dump-differs"
            yield Finding(
                rule=self.name,
                severity=Severity.ERROR if sure else Severity.WARNING,
                sentence=said.sentence,
                evidence=said.evidence,
                next=("livedbg attach --all-ranks PID, while the next run hangs: what the missing rank waits for",),
                inferred=True,
                since_wall_ns=read_facts(said, DumpFacts).since_ns or None,
                state=VerdictState.STALLED if sure else VerdictState.UNKNOWN,
            )


def rules() -> Sequence[Rule]:
    """Return the rules of this module."""
    return (RecorderDumps(),)
