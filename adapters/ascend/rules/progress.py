"""Rules for an Ascend run that has not failed: in preparation, running, without progress for long, or completed.

The scheduler's watchdog ends a stuck run. Before its limit a slow kernel and a stuck one look the same. No watchdog
observes an orchestrator that computes or loops in user code.

Invariants:
    run_progress.L1. In a run that is called running, progress seen in memory is never older than the threshold. In
        one sample the threshold is compared with the age of the run, since no task of it can have run for longer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from livedbg.adapters.ascend.facts import TaskFacts
from livedbg.adapters.ascend.rules.jobs import JobDiagnostics, evidence, name_of, names_of, place_of, where_of, written
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.said import finding_about
from livedbg.model import Severity, Task, TaskState
from livedbg.model.facts import read_facts
from livedbg.text.quantities import duration
from livedbg.text.wording import many

_TELLS_S: Final = 1.0  # that livedbg has watched for less tells nothing
_TROUBLE: Final = (
    "cann-code",
    "core-anomaly",
    "deinit-timeout",
    "fatal",
    "operation-ended",
    "ring-full",
    "runtime-failed",
    "tensor-wait-timeout",
    "terminate",
    "timeout-exit",
)


def _is_long(job: JobDiagnostics) -> bool:
    """Return whether a run has (or may have) made no progress for long, within its watchdog's limit (L1)."""
    run = job.run
    if run.phase not in {"starting", "running"}:
        return False
    still_s, known = job.quiet_for_s(), run.memory
    if run.quiet:
        roots = bool(job.roots)
        within = still_s < job.patience_s()
        return still_s >= job.long_s() and ((within and roots) or (known and not roots))
    if not known or run.moved:
        return False
    return (job.open_for_s() or still_s) >= job.long_s()


def long_run(job: JobDiagnostics) -> Iterator[Finding]:
    """A run whose scheduler's memory shows no progress for long, before the limit of its watchdog: a task that runs
    for long, or an orchestrator that submits nothing. Slow or stuck: that can't be told, so the verdict is unknown.
    """
    if not _is_long(job) or job.watchdog() is not None or job.first("fatal") is not None:
        return
    roots = job.roots
    running = [task for task in roots if task.state is TaskState.RUNNING]
    ids = tuple(task.id for task in roots) or (job.orchestrator,)
    values = {
        "claim": _tasks(running, job) if running else _ready(roots, job) or _no_progress(job),
        "still": job.sentence("scheduler-still"),
        "what": "each AICore thread" if running else "the thread in aicpu_orchestration_entry",
    }
    since_ns, proofs = job.run.last_wall_ns or None, evidence(*roots, job.said)
    yield written("long", job, values, roots=ids, entities=ids, evidence=proofs, since_wall_ns=since_ns)


def _for(job: JobDiagnostics) -> str:
    """Return ` for 12 s`; ` for 12 s or more, at most 40 s` if livedbg attached after the run's start."""
    still_s, open_s = job.quiet_for_s(), job.open_for_s()
    still, age = duration(still_s * 1e9), duration((open_s or 0.0) * 1e9)
    if job.run.moved or open_s is None or open_s <= still_s or still == age:
        return f" for {still}"
    least = f"{still} or more, " if still_s >= _TELLS_S else ""
    return f" for {least}at most {age} (the age of the run)"


def _tasks(running: Sequence[Task], job: JobDiagnostics) -> str:
    one = len(running) == 1
    who = f"task {name_of(running[0])}" if one else f"{len(running)} tasks ({names_of(running)})"
    where = f" {where_of(running[0], job)}" if one else ""
    place = place_of(running[0], job) if one else ""
    return f"{who} {'has' if one else 'have'} been running{where}{_for(job)}.{place} {_slow_or_stuck(job)}"


def _ready(roots: Sequence[Task], job: JobDiagnostics) -> str:
    """Return the claim for tasks that are ready or with deferred completion; "" if there are none."""
    if not roots:
        return ""
    waits = read_facts(roots[0], TaskFacts).waits_for if len(roots) == 1 else ""
    deferred = all(read_facts(task, TaskFacts).deferred for task in roots)
    what = "whose deferred (asynchronous) completion has not been signalled" if deferred else "on no core"
    condition = f" It waits for: {waits}." if waits else ""
    return (
        f"no task has been running{_for(job)}; {many(len(roots), 'task')} ({names_of(roots)}) "
        f"{'is' if len(roots) == 1 else 'are'} ready, {what}.{condition} {_slow_or_stuck(job)}"
    )


def _no_progress(job: JobDiagnostics) -> str:
    """Return the claim if no task can proceed."""
    waiting = job.run.waiting or 0
    if job.run.orchestrator == "submitting":
        left = f"{many(waiting, 'task')} wait" if waiting else "all submitted tasks are done"
        return (
            f"the orchestrator has submitted nothing{_for(job)}, and {left}. It computes or loops in the "
            "orchestration code; no watchdog of the runtime watches that, so livedbg can't tell slow from stuck."
        )
    return f"no task has been running or ready{_for(job)}. {_slow_or_stuck(job)}"


def _slow_or_stuck(job: JobDiagnostics) -> str:
    limit = job.limit_words()
    until = f" before the limit of the scheduler's watchdog, {limit}" if limit else ""
    return f"livedbg can't tell slow from stuck{until}."


def building(job: JobDiagnostics) -> Finding:
    """Return the finding for a log that ends in the host's orchestration code; a living process may go on."""
    values = {"died": "" if job.alive else " It hung, or died: no exit status."}
    open_ = {} if job.alive else {"state": VerdictState.UNKNOWN, "decides": True}
    ids, proofs = (job.orchestrator,), evidence(job.said)
    return written("building", job, values, roots=ids, entities=ids, evidence=proofs, **open_)


def run_complete(job: JobDiagnostics) -> Iterator[Finding]:
    """An Ascend run completed all its tasks; a living process that has completed several, the last just now, runs."""
    complete = job.first("run-complete")
    if complete is not None and job.completed:
        alive = any(not process.exited for process in job.snapshot.processes.values())
        if alive and job.run.again and not job.run.quiet:
            values = {"said": complete.sentence, "runs": job.run.runs}
            yield written("runs-again", job, values, evidence=evidence(complete))
            return
        verdict = VerdictState.EXITED if not alive else None  # the process may begin another run
        yield finding_about(job.rule, complete, Severity.INFO, state=verdict)


def goes_on(job: JobDiagnostics) -> Iterator[Finding]:
    """An Ascend run has not ended and its log is being written to (running), or its log ends before the run does and
    names no task that is under way (unknown).
    """
    if job.run.phase not in {"starting", "running"} or any(job.first(code) for code in _TROUBLE):
        return
    if job.watchdog() is not None or _is_long(job):
        return  # other rules say so
    roots = job.roots
    running = [task for task in roots if task.state is TaskState.RUNNING]
    proofs = evidence(*running, job.said)
    if not job.run.quiet and job.run.last_wall_ns:  # else no line has a time
        doing = f"{names_of(running)} {'is' if len(running) == 1 else 'are'} running." if running else ""
        values = {"state": job.said.sentence, "doing": doing, "runs": job.run.runs}
        yield written("goes-on", job, values, evidence=proofs)
    elif job.run.quiet and not roots and not job.run.building:
        yield written("cut-off", job, {}, evidence=proofs)
