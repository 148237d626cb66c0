"""Rules for what other sources say of a job: Flight Recorder dumps, settings without effect, NCCL's RAS service.

Invariants:
    rules_notes.T1. Settings and RAS never claim a verdict.
    rules_notes.D1. Dumps that agree on the calls are `unknown` at most: those of a healthy job have pending
        collectives too, and the time of a file is that of its last copy.
"""

from __future__ import annotations

from collections.abc import Iterable

from livedbg.adapters.pytorch.facts import RAS_BEHIND, RAS_DEAD, RAS_MISSING, SETTING, DumpFacts
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.said import finding_about
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
            if said.system == "pytorch" and said.code.startswith("dump-"):
                facts = read_facts(said, DumpFacts)
                sure = facts.pending_ns >= state.settings.thread_stall_ns and said.code == "dump-differs"
                yield finding_about(
                    self.name,
                    said,
                    Severity.ERROR if sure else Severity.WARNING,
                    next=("livedbg attach --all-ranks PID, while the next run hangs: what the missing rank waits for",),
                    inferred=True,
                    since_wall_ns=facts.since_ns or None,
                    state=VerdictState.STALLED if sure else VerdictState.UNKNOWN,
                )


class SettingWithoutEffect:
    """Settings of torch.distributed that do nothing."""

    name = SETTING
    doc = (
        "An environment variable that begins with TORCH_NCCL_ or TORCH_FR_ does nothing in this process: no loaded "
        "library of torch has its name, it acts on NCCL only, the recorder has another size, or dumps can't be written "
        "where it says. It says nothing of the verdict."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        return _said(state, self.name, (SETTING,), "docs/systems/pytorch.md, Settings")


class RasStatus:
    """Ranks that NCCL's RAS service calls missing, dead, or behind."""

    name = "nccl-ras-asked"
    doc = (
        "NCCL's RAS service (`--ask nccl-ras`) has no data of a rank, takes a process for dead, or had a rank behind "
        "others in two queries, with an unchanged count. It says nothing of the verdict: RAS counts what was launched, "
        "not what is done, and ranks differ in a healthy job too. Rests on public texts; no NCCL was tried."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        step = "livedbg attach --all-ranks PID on the node of that rank"
        return _said(state, self.name, (RAS_BEHIND, RAS_DEAD, RAS_MISSING), step)


def _said(state: RuleInput, rule: str, codes: tuple[str, ...], step: str) -> Iterable[Finding]:
    for said in state.snapshot.diagnostics.values():
        if said.system == "pytorch" and said.code in codes and not said.resolved:
            yield finding_about(rule, said, said.severity, next=(step,), inferred=True, since_wall_ns=None)
