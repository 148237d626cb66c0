"""A stalled Ascend run: which tasks hold it up, since when, who waits for them, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from livedbg.adapters.ascend.rules.failed_runs import slow
from livedbg.adapters.ascend.rules.run_progress import building
from livedbg.adapters.ascend.rules.sentences import (
    JobDiagnostics,
    clock,
    code_of,
    count_behind,
    ended_by,
    evidence,
    fired,
    masked,
    name_of,
    names_of,
    progress_of,
    quiet_for_s,
    shared,
    waiters_of,
    where_of,
)
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import RuleInput
from livedbg.model import Diagnostic, Severity, Task, TaskState

__all__ = ["stall"]

_ENTITIES: Final = 1_000  # of one finding


@dataclass(frozen=True, slots=True)
class _Blocked:
    """What reports that a run does not go on.

    Attributes:
        watchdog: the scheduler's watchdog.
        ring: the orchestrator, which can't submit because a ring is full.
        tensor: the orchestrator, which gave up waiting for a tensor.
    """

    watchdog: Diagnostic | None
    ring: Diagnostic | None
    tensor: Diagnostic | None

    @classmethod
    def of(cls, job: JobDiagnostics) -> _Blocked:
        """What the diagnostics of a job report."""
        watchdog = job.said("timeout-exit") or job.said("stall-summary")
        return cls(watchdog, job.said("ring-full"), job.said("tensor-wait-timeout"))

    @property
    def reported(self) -> bool:
        """Something reports it; else only the silence of the log shows it."""
        return self.watchdog is not None or self.ring is not None or self.tensor is not None

    @property
    def drained(self) -> bool:
        """The watchdog ended the run, and its tasks completed after that."""
        return self.watchdog is not None and self.watchdog.attributes.get("drained") == "yes"


def stall(rule: str, job: JobDiagnostics, state: RuleInput) -> Iterator[Finding]:
    """The tasks that hold a run up, if it is stalled."""
    blocked = _Blocked.of(job)
    if _explained_otherwise(job, blocked) or not (blocked.reported or _quiet_too_long(job, state)):
        return
    roots = job.roots(state.snapshot)
    if not roots:
        yield from _nobody_runs(rule, job, state)
    elif blocked.watchdog is not None and blocked.drained and all(task.state is TaskState.RUNNING for task in roots):
        yield slow(rule, blocked.watchdog, roots, job, state)
    else:
        yield _stalled(rule, job, roots, blocked, state)


def _explained_otherwise(job: JobDiagnostics, blocked: _Blocked) -> bool:
    """Another rule judges the run: it completed or crashed, or something else than a task blocks it."""
    ring = blocked.ring
    return (
        job.completed
        or any(job.said(code) is not None for code in ("terminate", "watchdog-starved", "core-anomaly"))
        or (ring is not None and "yes" in {ring.attributes.get("by_scope"), ring.attributes.get("host_built")})
    )


def _stalled(rule: str, job: JobDiagnostics, roots: Sequence[Task], blocked: _Blocked, state: RuleInput) -> Finding:
    watchdog, cycle = blocked.watchdog, job.said("flag-cycle")
    sentence = _who(roots, job, state) + _orchestrator_waits(job, blocked, state) + _behind(roots, job, state)
    sentence += progress_of(job) + ended_by(watchdog) + fired(job) + masked(job) + shared(job)
    sentence += f" {cycle.sentence}" if cycle is not None else ""
    waiters = waiters_of(roots, state)
    return Finding(
        rule=rule,
        state=VerdictState.STALLED,
        roots=tuple(task.id for task in roots),
        severity=Severity.CRITICAL,
        sentence=sentence,
        entities=_participants(job, roots, blocked, state),
        evidence=evidence(watchdog, blocked.ring, blocked.tensor, *roots, *waiters, job.state, *_failures(job)),
        next=_next(roots, job),
        inferred=job.state.attributes.get("certain") != "yes",
        since_wall_ns=min((task.since_wall_ns for task in roots if task.since_wall_ns is not None), default=None),
    )


def _orchestrator_waits(job: JobDiagnostics, blocked: _Blocked, state: RuleInput) -> str:
    """A sentence on the orchestrator where it waits for the roots, or ""."""
    if blocked.ring is not None:
        return (
            f" The runtime reports “{blocked.ring.sentence.partition(':')[0]}”{code_of(blocked.ring)}, which is the "
            "symptom: a slot comes free only when the oldest task completes, so the orchestrator waits."
        )
    if blocked.tensor is not None:
        return f" The orchestrator waited for it (tensor data) and gave up{code_of(blocked.tensor)}."
    if job.waits_for_orchestrator(state):
        return " The orchestrator has not finished submitting and waits for it."
    return ""


def _participants(job: JobDiagnostics, roots: Sequence[Task], blocked: _Blocked, state: RuleInput) -> tuple[str, ...]:
    """The roots, the cores that run them, the ring and the orchestrator."""
    found = [task.id for task in roots]
    found += [core for task in roots if task.state is TaskState.RUNNING for core in task.where]
    if blocked.ring is not None:
        found += blocked.ring.entities
    if blocked.tensor is not None or (blocked.ring is None and job.waits_for_orchestrator(state)):
        found.append(job.orchestrator)
    return tuple(dict.fromkeys(found))


def _failures(job: JobDiagnostics) -> tuple[Diagnostic | None, ...]:
    return job.said("runtime-failed"), job.said("cann-code")


def _quiet_too_long(job: JobDiagnostics, state: RuleInput) -> bool:
    """Nothing in the log for longer than a task may run (longer still for a kernel that is known to be slow)."""
    if job.state.attributes.get("quiet") != "yes":
        return False
    limit_s = state.settings.task_stall_s
    for task in job.roots(state.snapshot):
        known = state.snapshot.kernels.get(("ascend", task.kernel or ""))
        if known is not None:
            limit_s = max(limit_s, state.settings.slow_factor * known.longest_ns / 1e9)
    return quiet_for_s(job, state.snapshot) >= limit_s


def _who(roots: Sequence[Task], job: JobDiagnostics, state: RuleInput) -> str:
    """The claim itself: which task, where, since when."""
    snapshot = state.snapshot
    if len(roots) > 1:
        many = job.state.attributes.get("certain") == "yes"
        head = f"{len(roots)} tasks have not completed" if many else f"One of {len(roots)} tasks has not completed"
        return f"{head}: {names_of(roots)}."
    task = roots[0]
    since = f" since {clock(task)}" if task.since_wall_ns is not None else ""
    if task.state is TaskState.RUNNING:
        likely = "" if job.state.attributes.get("certain") == "yes" else f" ({job.state.attributes.get('reason', '')})"
        return f"Task {name_of(task)} has been running {where_of(task, snapshot)}{since} and does not complete{likely}."
    waits = task.attributes.get("waits_for", "")
    if task.state is TaskState.READY and task.attributes.get("deferred") == "yes":
        return (
            f"The kernel of task {name_of(task)} has returned, but its deferred (asynchronous) completion has not "
            f"come{since}: all cores are idle.{f' It waits for this: {waits}.' if waits else ''}"
        )
    if task.state is TaskState.READY and task.attributes.get("buffered") == "yes":
        return (
            f"Task {name_of(task)} is ready, but the scheduler gave it to no core{since}. The log shows what it "
            "gave to cores."
        )
    if task.state is TaskState.READY:
        return (
            f"Task {name_of(task)} is ready and on no core{since}. Either its kernel has returned and its asynchronous "
            "completion was never signalled, or it was never dispatched."
        )
    return f"Task {name_of(task)} has not completed{since}."


def _behind(roots: Sequence[Task], job: JobDiagnostics, state: RuleInput) -> str:
    """What waits behind the roots, in words."""
    behind, direct, known = count_behind(roots, job, state)
    if not behind:
        return ""
    tasks = "1 task waits" if behind == 1 else f"{behind} tasks wait"
    exact = f", {direct} directly" if known else ""
    return f" {tasks} behind {'it' if len(roots) == 1 else 'them'}{exact}."


def _next(roots: Sequence[Task], job: JobDiagnostics) -> tuple[str, ...]:
    steps = []
    kernel = roots[0].kernel or "its kernel"
    if roots[0].attributes.get("buffered") == "yes":
        steps.append(
            f"look whether {kernel} must start on more cores at once than are free (require_sync_start, block_num); "
            "else report the dispatch loop to the runtime's maintainers"
        )
    elif roots[0].state is TaskState.READY:
        steps.append(f"find who should signal the asynchronous completion that {kernel} registered")
    else:
        steps.append(f"look at what {kernel} waits for: a flag or signal that nobody sets, or a loop without end")
    steps.append("livedbg stacks PID --glance   (the AICore thread's frame shows the line, on the simulator)")
    if job.said("ring-full") is not None:
        steps.append("don't raise PTO2_RING_TASK_WINDOW first: it only lets more tasks queue up behind the stuck one")
    if roots[0].kernel is None:
        steps.append("livedbg launch --recipe ascend-log -- COMMAND   (the log then names kernel, core and dispatches)")
    if job.state.attributes.get("graph") != "yes":
        steps.append(
            "livedbg launch --recipe ascend-deps=enable-dep-gen -- COMMAND   (on an input that is well: what waits for "
            "what)"
        )
    return tuple(steps)


def _nobody_runs(rule: str, job: JobDiagnostics, state: RuleInput) -> Iterator[Finding]:
    """A stall with no task that could complete: only waiting tasks, or none at all."""
    told = job.said("timeout-exit") or job.said("stall-summary")
    if told is None and job.state.attributes.get("building") == "yes":
        yield building(rule, job)
    if told is None:
        return
    waiting = job.tasks_in(TaskState.SUBMITTED, state)
    steps: tuple[str, ...]
    sub_class, counted = told.attributes.get("sub_class", ""), progress_of(job)
    listed = not sub_class and any(task.attributes.get("evidence") for task in waiting)  # by an old dump
    if waiting and (listed or sub_class.startswith("S4")):
        sentence = (
            f"{job.state.attributes.get('waiting', len(waiting))} tasks wait and none is running or ready: their "
            f"dependencies can never be met ({names_of(waiting[:8])})."
        )
        entities = tuple(task.id for task in waiting[:_ENTITIES])
        steps = ("look for a cycle, or for a producer that was never submitted, in the orchestration code",)
    elif sub_class.startswith("S5"):
        sentence = "All submitted tasks are done, and the orchestrator submits no more: it is what hangs."
        entities = (job.orchestrator,)
        steps = ("look at what the orchestration code waits for on its AICPU thread",)
    else:
        sentence = f"{told.sentence} The log does not name the task that is stuck (levels info and debug have more)."
        entities, counted = (), ""  # its sentence has the counts
        steps = (
            *filter(None, (told.attributes.get("advice", ""),)),
            "livedbg attach PID   (while it hangs; of a simulator's process the memory says which task it is)",
            "livedbg launch --recipe ascend-log -- COMMAND   (the log then names kernel, core and dispatches)",
        )
    yield Finding(
        rule=rule,
        state=VerdictState.STALLED,
        severity=Severity.CRITICAL,
        sentence=sentence + counted + fired(job) + masked(job),
        entities=entities,
        evidence=evidence(told, *waiting[:8]),
        next=steps,
    )
