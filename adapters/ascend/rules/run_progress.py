"""An Ascend run that has not failed: it is being prepared, it runs, or it has ended well."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from livedbg.adapters.ascend.rules.sentences import (
    JobDiagnostics,
    evidence,
    names_of,
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


def building(rule: str, job: JobDiagnostics) -> Finding:
    """The log ends while the orchestration code runs on the host."""
    return Finding(
        rule=rule,
        state=VerdictState.STALLED,
        roots=(job.orchestrator,),
        severity=Severity.ERROR,
        sentence=(
            "The orchestration code has not returned: with host_build_graph it runs on the host while the run is "
            "prepared, and the log says nothing after its begin. No task was started yet."
        ),
        entities=(job.orchestrator,),
        evidence=evidence(job.state),
        next=(
            "livedbg stacks PID --glance   (the host's thread stands in aicpu_orchestration_entry)",
            "look for a value of a tensor that it waits for (get_tensor_data): no task can have written it then",
        ),
        inferred=True,
    )


def run_complete(rule: str, job: JobDiagnostics, state: RuleInput) -> Iterator[Finding]:
    """The run ended well."""
    complete = job.said("run-complete")
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
    """The run has neither ended nor failed, and its log was written to a moment ago."""
    if job.state.attributes.get("phase") not in {"starting", "running"} or any(job.said(code) for code in _TROUBLE):
        return
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
            "The log ends before the run does and shows no task that is under way: whether the run stands still, or "
            "its log was cut, can't be told from it."
        )
    else:
        return
    yield Finding(
        rule=rule,
        state=verdict,
        severity=Severity.INFO,
        sentence=sentence,
        evidence=evidence(*running, job.state),
        next=() if verdict is VerdictState.RUNNING else ('run it at log level "debug"', "livedbg attach PID"),
    )
