"""Rules for notes next to a verdict: settings without effect, statuses of NCCL's RAS service.

Invariants:
    rules_notes.T1. These findings never claim a verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from livedbg.adapters.pytorch.ras.compared import BEHIND, DEAD, MISSING
from livedbg.adapters.pytorch.settings.notes import SETTING
from livedbg.analysis.diagnosis import Finding
from livedbg.analysis.rules.base import Rule, RuleInput


class SettingWithoutEffect:
    """Settings of torch.distributed that do nothing."""

    name = SETTING
    doc = (
        "An environment variable that begins with TORCH_NCCL_ or TORCH_FR_ does nothing in this process: no loaded "
        "library of torch has its name, it acts on NCCL only, the recorder has another size, or dumps can't be written "
        "where it says. It says nothing of the verdict."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        return _said(state, self.name, (SETTING,), ("docs/systems/pytorch.md, Settings",))


class RasStatus:
    """Ranks that NCCL's RAS service calls missing, dead, or behind."""

    name = "nccl-ras-asked"
    doc = (
        "NCCL's RAS service (`--ask nccl-ras`) has no data of a rank, takes a process for dead, or had a rank behind "
        "others in two queries, with an unchanged count. It says nothing of the verdict: RAS counts what was launched, "
        "not what is done, and ranks differ in a healthy job too. Rests on public texts; no NCCL was tried."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        return _said(
            state, self.name, (BEHIND, DEAD, MISSING), ("livedbg attach --all-ranks PID on the node of that rank",)
        )


def _said(state: RuleInput, rule: str, codes: tuple[str, ...], steps: tuple[str, ...]) -> Iterable[Finding]:
    for said in state.snapshot.diagnostics.values():
        if said.system == "pytorch" and said.code in codes and not said.resolved:
            yield Finding(
                rule=rule,
                severity=said.severity,
                sentence=said.sentence,
                entities=said.entities,
                evidence=said.evidence,
                next=steps,
                inferred=True,
            )


def rules() -> Sequence[Rule]:
    """Return the rules of this module."""
    return (SettingWithoutEffect(), RasStatus())
