"""Operations whose command buffer is known, and of which it is not known what runs of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from livedbg.adapters.iree.facts import dispatch_facts
from livedbg.adapters.iree.rules.waited import longest_wait
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.words import duration, many
from livedbg.model import Evidence, Severity, Task, TaskState

_NOTED_NS: Final = 300_000_000
_NEXT: Final = (
    "livedbg launch --recipe iree-trace-tensors -- iree-compile …   (each dispatch in a submission of its own, traced)",
    "livedbg launch --recipe iree-profile -- COMMAND   (the device's own events)",
)


class RunningSubmission:
    """A submission in flight of which one of some dispatches runs."""

    name = "iree-submission"
    doc = (
        "A queue operation of IREE is in flight, its command buffer has several commands, and which of them runs is "
        "not known: a GPU does not say so, and of lavapipe the code of the dispatch was in no sample. The commands are "
        "told in their order. `unknown` where a thread has waited for it for the threshold (10 s). Rests on the "
        "command buffer in memory."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """One finding an operation."""
        running = [task for task in state.tasks_in(TaskState.RUNNING) if task.system == "iree"]
        named = {(one.owner, dispatch_facts(one).device) for one in running if dispatch_facts(one).dispatch}
        for task in running:
            if dispatch_facts(task).one_of and task.since_mono_ns is not None:
                found = _finding(self.name, task, state)
                if found is not None and (task.owner, dispatch_facts(task).device) not in named:
                    yield found


def _finding(rule: str, task: Task, state: RuleInput) -> Finding | None:
    now = state.snapshot.now()
    seen_ns = now.mono_ns - (task.since_mono_ns or 0)
    longest = longest_wait(task.id, state)
    lasted_ns = max(seen_ns, longest[1] if longest is not None else 0)
    if lasted_ns < _NOTED_NS:
        return None
    long = lasted_ns >= state.settings.task_stall_ns
    behind = state.graph.behind(task.id)
    waits = f" {many(behind, 'task or thread waits', 'tasks and threads wait')} behind it." if behind else ""
    commands = dispatch_facts(task).one_of
    return Finding(
        rule=rule,
        severity=Severity.ERROR if long else Severity.INFO,
        sentence=(
            f"Submission {task.name} has been in flight on {dispatch_facts(task).device} for {duration(lasted_ns)} or "
            f"more; what runs of it is not known. In this order it has: {commands}.{waits}"
        ),
        entities=(task.id,),
        evidence=(Evidence(kind="memory", source=f"command buffer of {task.name}", text=commands),),
        next=_NEXT,
        inferred=True,
        since_wall_ns=now.wall_ns - lasted_ns,
        state=VerdictState.UNKNOWN,
        roots=(task.id,) if long else (),
        decides=long,
    )


def rules() -> Sequence[Rule]:
    """The rules of this module."""
    return (RunningSubmission(),)
