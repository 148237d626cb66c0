"""A run that makes no progress for long, before the limit of its watchdog: slow or stuck, that can't be told.

The scheduler's watchdog is what ends a stuck run. Before its limit a kernel that is slow and one that is stuck look the
same. An orchestrator that computes or loops in user code is seen by no watchdog at all.

Invariants:
    long_runs.L1. Progress that memory showed is never older than the threshold in a run that is called running. In one
        sample the threshold is compared with the age of the run, for no task of it can run for longer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from livedbg.adapters.ascend.rules.sentences import (
    JobDiagnostics,
    evidence,
    limit_words,
    long_s,
    name_of,
    names_of,
    open_for_s,
    patience_s,
    pid_of,
    progress_of,
    quiet_for_s,
    where_of,
)
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import RuleInput
from livedbg.model import Severity, Task, TaskState
from livedbg.text.quantities import duration
from livedbg.text.wording import many

__all__ = ["is_long", "long_run"]


def is_long(job: JobDiagnostics, state: RuleInput) -> bool:
    """True if a run has made no progress for long, or may have, and its watchdog's limit has not passed (L1)."""
    said = job.state.attributes
    if said.get("phase") not in {"starting", "running"}:
        return False
    still_s, known = quiet_for_s(job, state.snapshot), said.get("memory") == "yes"
    if said.get("quiet") == "yes":
        roots = bool(job.roots(state.snapshot))
        within = still_s < patience_s(job, state)
        return still_s >= long_s(job, state) and ((within and roots) or (known and not roots))
    if not known or said.get("moved") == "yes":
        return False
    return (open_for_s(job, state.snapshot) or still_s) >= long_s(job, state)


def long_run(rule: str, job: JobDiagnostics, state: RuleInput) -> Iterator[Finding]:
    """What such a run does, and what is not known of it."""
    if not is_long(job, state) or any(job.first(code) for code in ("timeout-exit", "stall-summary", "fatal")):
        return
    roots = job.roots(state.snapshot)
    running = [task for task in roots if task.state is TaskState.RUNNING]
    claim = _tasks(running, job, state) if running else _ready(roots, job, state) or _nobody(job, state)
    yield Finding(
        rule=rule,
        state=VerdictState.UNKNOWN,
        decides=True,
        roots=tuple(task.id for task in roots) or (job.orchestrator,),
        severity=Severity.WARNING,
        sentence=claim + progress_of(job),
        entities=tuple(task.id for task in roots) or (job.orchestrator,),
        evidence=evidence(*roots, job.state),
        next=tuple(_next(job, state, running)),
        since_wall_ns=int(job.state.attributes.get("last_wall_ns") or 0) or None,
    )


def _for(job: JobDiagnostics, state: RuleInput) -> str:
    """` for 12 s`; ` for 0.6 s or more, at most 40 s`, where livedbg came after it began."""
    still_s, open_s = quiet_for_s(job, state.snapshot), open_for_s(job, state.snapshot)
    if job.state.attributes.get("moved") == "yes" or open_s is None or open_s <= still_s:
        return f" for {duration(still_s * 1e9)}"
    return f" for {duration(still_s * 1e9)} or more, at most {duration(open_s * 1e9)} (the age of the run)"


def _tasks(running: Sequence[Task], job: JobDiagnostics, state: RuleInput) -> str:
    one = len(running) == 1
    who = f"task {name_of(running[0])}" if one else f"{len(running)} tasks ({names_of(running)})"
    where = f" {where_of(running[0], state.snapshot)}" if one else ""
    return f"Long: {who} {'has' if one else 'have'} been running{where}{_for(job, state)}. {_slow_or_stuck(job)}"


def _ready(roots: Sequence[Task], job: JobDiagnostics, state: RuleInput) -> str:
    """The same of tasks that are ready or whose completion is deferred; "" if there are none."""
    if not roots:
        return ""
    waits = roots[0].attributes.get("waits_for", "") if len(roots) == 1 else ""
    deferred = all(task.attributes.get("deferred") == "yes" for task in roots)
    what = "whose deferred (asynchronous) completion has not been signalled" if deferred else "on no core"
    condition = f" It waits for: {waits}." if waits else ""
    return (
        f"Long: no task has been running{_for(job, state)}; {many(len(roots), 'task')} ({names_of(roots)}) "
        f"{'is' if len(roots) == 1 else 'are'} ready, {what}.{condition} {_slow_or_stuck(job)}"
    )


def _nobody(job: JobDiagnostics, state: RuleInput) -> str:
    """The same where no task could go on."""
    waiting = int(job.state.attributes.get("waiting", "0") or 0)
    if job.state.attributes.get("orchestrator") == "submitting":
        left = f"{many(waiting, 'task')} wait" if waiting else "all submitted tasks are done"
        return (
            f"Long: the orchestrator has submitted nothing{_for(job, state)}, and {left}. It computes or loops in the "
            "orchestration code; no watchdog of the runtime watches that, so livedbg can't tell slow from stuck."
        )
    return f"Long: no task has been running or ready{_for(job, state)}. {_slow_or_stuck(job)}"


def _slow_or_stuck(job: JobDiagnostics) -> str:
    limit = limit_words(job)
    until = f" before the limit of the scheduler's watchdog, {limit}" if limit else ""
    return f"livedbg can't tell slow from stuck{until}."


def _next(job: JobDiagnostics, state: RuleInput, running: Sequence[Task]) -> Iterator[str]:
    pid = pid_of(job, state.snapshot)
    what = "each AICore thread" if running else "the thread in aicpu_orchestration_entry"
    yield f"livedbg stacks {pid}   (twice: whether {what} is at the same line)"
    yield f"livedbg watch {pid}   (reports when a task completes, or the watchdog's limit passes)"
