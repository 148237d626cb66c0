"""Rules for AOTInductor models: the kernel or custom operator a thread is in, and bad printed values.

Invariants:
    aoti_rules.K1. Being in one kernel is no stall: the finding claims no verdict.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from livedbg.adapters.pytorch.aoti.log_decoder import INFINITE, NAN
from livedbg.adapters.pytorch.aoti.tasks import PREFIX, ModelCallFacts
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.said import finding_of
from livedbg.analysis.rules.words import duration, name_of, thread_evidence
from livedbg.model import Evidence, Severity, Task, TaskState, Thread
from livedbg.model.facts import read_facts
from livedbg.text.shell import shell_word


class InKernel:
    """Threads in a call of a model."""

    name = "aoti-kernel"
    doc = (
        "A thread is in a call of the generated code of an AOTInductor model: the kernel or custom operator is named, "
        "with the line of the model where it was compiled with INDUCTOR_PROVENANCE=1, and with what waits for its "
        "buffers. It says nothing of the verdict: a long kernel looks the same as one that never returns. Rests on the "
        "thread's native stack and on the generated code beside the model's library."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield one finding for each thread."""
        for task in state.tasks_in(TaskState.RUNNING):
            thread = state.snapshot.threads.get(task.where[0]) if task.where else None
            if not task.id.startswith(PREFIX) or thread is None or thread.exited:
                continue
            yield Finding(
                rule=self.name,
                severity=Severity.INFO,
                sentence=_sentence(task, state),
                entities=(thread.id, task.id),
                evidence=(
                    thread_evidence(thread, state),
                    Evidence(kind="stack", source=_facts(task).generated, text=_evidence(task)),
                ),
                next=(f"livedbg aoti -- {_command(thread, state)}   (in steps, with the values of its inputs)",),
            )


def _command(thread: Thread, state: RuleInput) -> str:
    process = state.snapshot.processes.get(thread.process)
    return " ".join(map(shell_word, process.command)) if process is not None and process.command else "CMD"


def _facts(task: Task) -> ModelCallFacts:
    return read_facts(task, ModelCallFacts)


def _sentence(task: Task, state: RuleInput) -> str:
    told = _facts(task)
    since = task.since_mono_ns
    lasts = f", at every look for {duration(max(0, state.snapshot.now().mono_ns - since))}" if since else ""
    where = f" ({told.model})" if told.model else ""
    behind = told.waiting
    waits = f"; {behind} wait{'' if ', ' in behind else 's'} for what it writes" if behind else ""
    name = name_of(task.where[0], state.snapshot)
    now = "" if since else "now "
    return (
        f"{name[:1].upper()}{name[1:]} is {now}in {task.kernel}, call {told.call} of an AOTInductor "
        f"model{where}{lasts}{waits}."
    )


def _evidence(task: Task) -> str:
    told = _facts(task)
    return f"{task.kernel} reads {told.reads or 'nothing'}, writes {told.writes or 'nothing'}"


class PrintedValues:
    """The first NaN among printed values."""

    name = "aoti-values"
    doc = (
        "AOTInductor's value printer shows a NaN: the first one, and the kernel after which it is there. Which kernel "
        "made it is said only where what it reads was printed too. What an output buffer holds before a launch is "
        "uninitialised memory, and does not count. Infinity alone is a note, for models mean theirs."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield one finding for each writer and kind of value."""
        for said in state.snapshot.diagnostics.values():
            if said.system == "pytorch" and said.code == NAN:
                yield replace(finding_of(self.name, said, state, VerdictState.DIVERGED), topic="precision")
            elif said.system == "pytorch" and said.code == INFINITE:
                yield finding_of(self.name, said, state, None)
