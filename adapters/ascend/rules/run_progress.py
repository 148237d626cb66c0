"""An Ascend run that has not failed: it is being prepared, it runs, or it has ended well."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from livedbg.adapters.ascend.rules.long_runs import is_long
from livedbg.adapters.ascend.rules.sentences import (
    JobDiagnostics,
    evidence,
    names_of,
    pid_of,
)
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import RuleInput
from livedbg.model import Severity, TaskState

__all__ = ["building", "goes_on", "run_complete"]

_TROUBLE: Final = (
    "cann-code",
    "core-anomaly",
    "deinit-timeout",
    "fatal",
    "operation-ended",
    "ring-full",
    "runtime-failed",
    "stall-summary",
    "tensor-wait-timeout",
    "terminate",
    "timeout-exit",
)


def building(rule: str, job: JobDiagnostics, state: RuleInput, alive: bool) -> Finding:
    """The log ends while the orchestration code runs on the host.

    Args:
        rule: name of the rule.
        job: the job.
        state: what is known.
        alive: a process is seen that may write the log.
    """
    died = "" if alive else " It hung, or died: no exit status."
    return Finding(
        rule=rule,
        state=VerdictState.STALLED if alive else VerdictState.UNKNOWN,
        decides=not alive,
        roots=(job.orchestrator,),
        severity=Severity.ERROR,
        sentence=(
            "The orchestration code has not returned, and no task has started. With host_build_graph it runs on the "
            "host while the run is prepared; the log has nothing after its begin." + died
        ),
        entities=(job.orchestrator,),
        evidence=evidence(job.state),
        next=(
            f"livedbg stacks {pid_of(job, state.snapshot)}   (the thread in aicpu_orchestration_entry)",
            "check whether it waits for a tensor's value (get_tensor_data): no task can have written it yet",
        ),
        inferred=True,
    )


def run_complete(rule: str, job: JobDiagnostics, state: RuleInput) -> Iterator[Finding]:
    """The run ended well."""
    complete = job.first("run-complete")
    if complete is not None and job.completed:
        alive = any(not process.exited for process in state.snapshot.processes.values())
        yield Finding(
            rule=rule,
            state=VerdictState.EXITED if not alive else None,  # the process may begin another run
            severity=Severity.INFO,
            sentence=complete.sentence,
            evidence=evidence(complete),
            since_wall_ns=complete.at_wall_ns,
        )


def goes_on(rule: str, job: JobDiagnostics, state: RuleInput) -> Iterator[Finding]:
    """The run has neither ended nor failed, and its log is being written."""
    if job.state.attributes.get("phase") not in {"starting", "running"} or any(job.first(code) for code in _TROUBLE):
        return
    if is_long(job, state):
        return  # long_runs says so
    roots = job.roots(state.snapshot)
    running = [task for task in roots if task.state is TaskState.RUNNING]
    if job.state.attributes.get("quiet") != "yes":
        doing = f" {names_of(running)} {'is' if len(running) == 1 else 'are'} running." if running else ""
        if not job.state.attributes.get("last_wall_ns"):
            return  # no line has a time
        verdict = VerdictState.RUNNING
        sentence = f"Running: {job.state.sentence[0].lower()}{job.state.sentence[1:]}{doing}"
    elif not roots and job.state.attributes.get("building") != "yes":
        verdict = VerdictState.UNKNOWN
        sentence = (
            "Inconclusive: the log ends before the run does, and names no running task. The run is stalled, or its log "
            "was cut off."
        )
    else:
        return
    pid = pid_of(job, state.snapshot)
    yield Finding(
        rule=rule,
        state=verdict,
        severity=Severity.INFO,
        sentence=sentence,
        evidence=evidence(*running, job.state),
        next=() if verdict is VerdictState.RUNNING else ('run it at log level "debug"', f"livedbg attach {pid}"),
    )
