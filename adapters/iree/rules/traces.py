"""What traced tensors say: the dispatch that has not returned, and the first one that made NaN."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from livedbg.adapters.iree.facts import dispatch_facts
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.words import many
from livedbg.model import Evidence, Severity, Task, TaskState

_SYSTEM: Final = "iree"
_CODE: Final = "made-nan"
_TRACE: Final = (
    "livedbg diff-run MODULE.mlir --device local-task --device local-sync   (the dispatch alone, with its inputs)"
)


class MadeNaN:
    """The first dispatch that made NaN of inputs that have none."""

    name = "iree-made-nan"
    doc = (
        "A module that traces the tensors of its dispatches printed NaN in the outputs of a dispatch, and its inputs, "
        "all of which were read, have neither NaN nor infinity: that dispatch made it. The first one of a log is told. "
        "Rests on the printed values."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """One finding a log."""
        for said in state.snapshot.diagnostics.values():
            if said.system == _SYSTEM and said.code == _CODE:
                facts = dispatch_facts(said)
                yield Finding(
                    rule=self.name,
                    severity=Severity.ERROR,
                    sentence=f"{said.sentence} Inputs: {facts.inputs}. Outputs: {facts.outputs}.",
                    entities=said.entities,
                    evidence=said.evidence,
                    next=(
                        _TRACE,
                        "check it for 0/0, a logarithm or root of a negative number, or a sum that overflows",
                    ),
                    topic="precision",
                )


class TracedDispatch:
    """The dispatch whose inputs were traced, and whose outputs were not."""

    name = "iree-traced-dispatch"
    doc = (
        "The log of a module that traces its dispatches ends with the inputs of one and without its outputs: it runs, "
        "or it hung or died there. A note, with its inputs; what the process does is said by other rules."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """One finding a log."""
        for task in state.tasks_in(TaskState.RUNNING):
            if task.system == _SYSTEM and dispatch_facts(task).traced:
                yield self._finding(task, state)

    def _finding(self, task: Task, state: RuleInput) -> Finding:
        facts = dispatch_facts(task)
        inputs = facts.inputs
        behind = state.graph.behind(task.id)
        waits = f" {many(behind, 'dispatch waits', 'dispatches wait')} for its results." if behind else ""
        alone = not any(process.target and not process.exited for process in state.snapshot.processes.values())
        return Finding(
            rule=self.name,
            severity=Severity.ERROR if alone else Severity.INFO,
            sentence=(
                f"The trace has the inputs of dispatch {facts.traced}{_source(task)} and not its outputs: "
                f"it runs, or hung or died there.{waits}{f' Inputs: {inputs}.' if inputs else ''}"
            ),
            entities=(task.id,),
            evidence=(Evidence(kind="log", source=f"trace of {task.name}", text=inputs or "inputs"),),
            next=("livedbg launch --recipe iree-executables -- COMMAND   (source and code of each dispatch)",),
            state=VerdictState.UNKNOWN if alone else None,
            decides=alone,
            roots=(task.id,) if alone else (),
        )


def _source(task: Task) -> str:
    """Where its dumped source is, and for what it was compiled."""
    backend = dispatch_facts(task).backend
    told = ", ".join(filter(None, (dispatch_facts(task).source, f"compiled for {backend}" if backend else "")))
    return f" ({told})" if told else ""


def rules() -> Sequence[Rule]:
    """The rules of this module."""
    return (MadeNaN(), TracedDispatch())
