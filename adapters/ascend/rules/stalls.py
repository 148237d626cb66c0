"""A stalled Ascend run: which tasks block it, since when, which tasks wait for them, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from livedbg.adapters.ascend.facts import RingFacts, StallFacts, TaskFacts, facts
from livedbg.adapters.ascend.resources import FREED, Full
from livedbg.adapters.ascend.rules.failed_runs import slow
from livedbg.adapters.ascend.rules.jobs import (
    JobDiagnostics,
    clock,
    code_of,
    ended_by,
    evidence,
    name_of,
    names_of,
    waiters_of,
    where_of,
)
from livedbg.adapters.ascend.rules.progress import building
from livedbg.adapters.ascend.rules.rings import ring_variable, scopes_of
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import RuleInput
from livedbg.model import Diagnostic, Severity, Task, TaskState

__all__ = ["stall", "who_blocks"]

_ENTITIES: Final = 1_000  # of one finding


class _Blocked(Struct, frozen=True):
    """The reports that a run makes no progress.

    Attributes:
        watchdog: the scheduler's watchdog.
        ring: the orchestrator, which can't submit because a ring is full.
        tensor: the orchestrator, which gave up waiting for a tensor.
        latched: the watchdog's error code, latched in memory, where no log tells of it.
    """

    watchdog: Diagnostic | None
    ring: Diagnostic | None
    tensor: Diagnostic | None
    latched: Diagnostic | None

    @classmethod
    def of(cls, job: JobDiagnostics) -> _Blocked:
        """What the diagnostics of a job report."""
        watchdog = job.first("timeout-exit") or job.first("stall-summary")
        return cls(watchdog, job.first("ring-full"), job.first("tensor-wait-timeout"), job.latched_timeout())

    @property
    def reported(self) -> bool:
        """Something reports it; else only the silence of the log shows it."""
        return any(said is not None for said in self.said)

    @property
    def said(self) -> tuple[Diagnostic | None, ...]:
        """All of them."""
        return self.watchdog, self.ring, self.tensor, self.latched

    @property
    def drained(self) -> bool:
        """The watchdog ended the run, and its tasks completed after that."""
        return self.watchdog is not None and facts(self.watchdog, StallFacts).drained


def stall(rule: str, job: JobDiagnostics, state: RuleInput) -> Iterator[Finding]:
    """A task of an Ascend run does not complete, and others wait for it.

    The evidence is the scheduler's watchdog ([STALL …], TIMEOUT_EXIT), a full ring's oldest task, a tensor that the
    orchestrator waits for, or (inferred) the quiet log of a living process with tasks in flight. Without a process, a
    log that ends with tasks in flight is inconclusive. The finding names the cause, not the symptom.
    """
    blocked = _Blocked.of(job)
    if _explained_otherwise(job, blocked) or not (blocked.reported or _quiet_too_long(job, state)):
        return
    roots = job.roots(state.snapshot)
    if not roots:
        yield from _nobody_runs(rule, job, state)
    elif blocked.watchdog is not None and blocked.drained and all(task.state is TaskState.RUNNING for task in roots):
        yield slow(rule, blocked.watchdog, roots, job, state)
    elif not blocked.reported and not _alive(state):
        yield _ends_open(rule, job, roots, state)
    else:
        yield _stalled(rule, job, roots, blocked, state)


def _alive(state: RuleInput) -> bool:
    """A process is seen that may write the log."""
    return any(process.target and not process.exited for process in state.snapshot.processes.values())


def _ends_open(rule: str, job: JobDiagnostics, roots: Sequence[Task], state: RuleInput) -> Finding:
    """The log ends with tasks in flight, no watchdog has fired, and no process is seen."""
    running = all(task.state is TaskState.RUNNING for task in roots)
    one = len(roots) == 1
    verb = ("was running" if one else "were running") if running else "had not completed"
    subject = f"Task {name_of(roots[0])}" if one else f"{len(roots)} tasks ({names_of(roots)})"
    where = f" {where_of(roots[0], state.snapshot)}" if one and running else ""
    return Finding(
        rule=rule,
        state=VerdictState.UNKNOWN,
        decides=True,
        roots=tuple(task.id for task in roots),
        severity=Severity.ERROR,
        sentence=(
            f"{subject} {verb}{where} where the log ends: hung, or died: no exit status. If the log still grows, it "
            f"runs.{_behind(roots, job, state)}{job.progress()}{job.sentence('shared-log')}"
        ),
        entities=_participants(job, roots, _Blocked.of(job), state),
        evidence=evidence(*roots, *waiters_of(roots, state), job.state),
        next=_next(roots, job, job.pid(state.snapshot)),
        inferred=True,
        since_wall_ns=min((task.since_wall_ns for task in roots if task.since_wall_ns is not None), default=None),
    )


def _explained_otherwise(job: JobDiagnostics, blocked: _Blocked) -> bool:
    """Another rule judges the run: it completed or crashed, or something else than a task blocks it."""
    ring = facts(blocked.ring, RingFacts) if blocked.ring is not None else RingFacts()
    return (
        job.completed
        or any(job.first(code) is not None for code in ("terminate", "watchdog-starved", "core-anomaly"))
        or ring.by_scope
        or ring.host_built
        or ring.never_fits
    )


def _stalled(rule: str, job: JobDiagnostics, roots: Sequence[Task], blocked: _Blocked, state: RuleInput) -> Finding:
    watchdog = blocked.watchdog
    sentence = who_blocks(roots, job, state) + _orchestrator_waits(job, blocked, state) + _behind(roots, job, state)
    sentence += (
        job.progress() + ended_by(watchdog or blocked.latched) + job.fired() + job.masked() + job.sentence("shared-log")
    )
    sentence += job.sentence("flag-cycle")
    waiters = waiters_of(roots, state)
    return Finding(
        rule=rule,
        state=VerdictState.STALLED,
        roots=tuple(task.id for task in roots),
        severity=Severity.CRITICAL,
        sentence=sentence,
        entities=_participants(job, roots, blocked, state),
        evidence=evidence(*blocked.said, *roots, *waiters, job.state, *_failures(job)),
        next=_next(roots, job, job.pid(state.snapshot)),
        inferred=not job.run.certain,
        since_wall_ns=min((task.since_wall_ns for task in roots if task.since_wall_ns is not None), default=None),
    )


def _orchestrator_waits(job: JobDiagnostics, blocked: _Blocked, state: RuleInput) -> str:
    """A sentence on the orchestrator where it waits for the roots, or ""."""
    if blocked.ring is not None:
        ring = facts(blocked.ring, RingFacts)
        return (
            f" The runtime reports “{ring.full}”{code_of(blocked.ring)}. That is a symptom: {FREED[Full(ring.what)]} "
            f"freed only when the oldest task completes, so the orchestrator waits.{scopes_of(ring)}"
        )
    if blocked.tensor is not None:
        return f" The orchestrator waited for its output until a time-out{code_of(blocked.tensor)}."
    if job.waits_for_orchestrator(state):
        return " The orchestrator waits for it, and has more tasks to submit."
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
    return job.first("runtime-failed"), job.first("cann-code")


def _quiet_too_long(job: JobDiagnostics, state: RuleInput) -> bool:
    """Nothing has happened for longer than the watchdog's limit, or than a task may run where no limit is known."""
    if not job.run.quiet:
        return False
    return job.quiet_for_s(state.snapshot) >= job.patience_s(state)


def who_blocks(roots: Sequence[Task], job: JobDiagnostics, state: RuleInput) -> str:
    """The claim itself: which task, where, since when."""
    snapshot = state.snapshot
    if len(roots) > 1:
        many = job.run.certain
        head = f"{len(roots)} tasks have not completed" if many else f"One of {len(roots)} tasks has not completed"
        return f"{head}: {names_of(roots)}."
    task = roots[0]
    since = f" since {clock(task)}" if task.since_wall_ns is not None else ""
    if task.state is TaskState.RUNNING:
        likely = "" if job.run.certain else f" It is suspected: {job.run.reason}."
        return f"Task {name_of(task)} has been running {where_of(task, snapshot)}{since}.{likely}"
    known = facts(task, TaskFacts)
    if task.state is TaskState.READY and known.deferred:
        waits = f" It waits for: {known.waits_for}." if known.waits_for else ""
        return (
            f"The kernel of task {name_of(task)} has returned, but its deferred (asynchronous) completion has not "
            f"been signalled{since}. All cores are idle.{waits}"
        )
    if task.state is TaskState.READY and known.buffered:
        return (
            f"Task {name_of(task)} is ready, but the scheduler has not dispatched it{since}. The log shows all "
            "dispatches."
        )
    if task.state is TaskState.READY:
        return (
            f"Task {name_of(task)} is ready and on no core{since}. Either its kernel has returned and its asynchronous "
            "completion was never signalled, or it was never dispatched."
        )
    return f"Task {name_of(task)} has not completed{since}."


def _behind(roots: Sequence[Task], job: JobDiagnostics, state: RuleInput) -> str:
    """How many tasks wait behind the roots, in a sentence."""
    behind, direct, known = job.count_behind(roots, state)
    if not behind:
        return ""
    tasks = "1 task waits" if behind == 1 else f"{behind} tasks wait"
    exact = f", {direct} directly" if known else ""
    return f" {tasks} behind {'it' if len(roots) == 1 else 'them'}{exact}."


def _next(roots: Sequence[Task], job: JobDiagnostics, pid: str) -> tuple[str, ...]:
    steps = []
    kernel = roots[0].kernel or "its kernel"
    if facts(roots[0], TaskFacts).buffered:
        steps.append(
            f"check whether {kernel} must start on more cores at once than are free (require_sync_start, block_num); "
            "else report the dispatch loop to the runtime's maintainers"
        )
    elif roots[0].state is TaskState.READY:
        steps.append(f"find what should signal the asynchronous completion that {kernel} registered")
    else:
        steps.append(f"check {kernel} for an endless loop, or a wait for a flag or signal that is never set")
    steps.append(f"livedbg stacks {pid}   (on the simulator: the stack of the AICore thread shows the line)")
    full = job.first("ring-full")
    if full is not None:
        variable = ring_variable(facts(full, RingFacts))
        steps.append(f"do not raise {variable} first: more tasks would only queue behind the stuck one")
    if roots[0].kernel is None:
        steps.append("livedbg launch --recipe ascend-log -- COMMAND   (to log kernels, cores and dispatches)")
    if not job.run.graph:
        steps.append(
            "livedbg launch --recipe ascend-deps=enable-dep-gen -- COMMAND   (on a passing input: records all "
            "dependencies)"
        )
    return tuple(steps)


def _nobody_runs(rule: str, job: JobDiagnostics, state: RuleInput) -> Iterator[Finding]:
    """A stall with no task that could complete: only waiting tasks, or none at all."""
    report = job.first("timeout-exit") or job.first("stall-summary")
    if report is None and job.run.building:
        yield building(rule, job, state, _alive(state))
    if report is None:
        return
    waiting = job.tasks_in(TaskState.SUBMITTED, state)
    steps: tuple[str, ...]
    said, counted = facts(report, StallFacts), job.progress()
    sub_class = said.sub_class
    listed = not sub_class and any(facts(task, TaskFacts).evidence for task in waiting)  # by an old dump
    if waiting and (listed or sub_class.startswith("S4")):
        sentence = (
            f"{len(waiting) if job.run.waiting is None else job.run.waiting} tasks wait, and none is running or ready: "
            f"their dependencies can never be met ({names_of(waiting)})."
        )
        entities = tuple(task.id for task in waiting[:_ENTITIES])
        steps = ("check the orchestration code for a cycle, or for a producer that it never submits",)
    elif sub_class.startswith("S5"):
        sentence = "The orchestrator hangs: all submitted tasks are done, and it submits no more."
        entities = (job.orchestrator,)
        steps = ("find what the orchestration code waits for on its AICPU thread",)
    else:
        sentence = f"{report.sentence} The log does not name the stuck task (log levels info and debug have more)."
        entities, counted = (), ""  # its sentence has the counts
        steps = (
            *filter(None, (said.advice,)),
            f"livedbg attach {job.pid(state.snapshot)}   (while it hangs: a simulator's memory shows the task)",
            "livedbg launch --recipe ascend-log -- COMMAND   (to log kernels, cores and dispatches)",
        )
    yield Finding(
        rule=rule,
        state=VerdictState.STALLED,
        severity=Severity.CRITICAL,
        sentence=sentence + counted + job.fired() + job.masked(),
        entities=entities,
        evidence=evidence(report, *waiting[:8]),
        next=steps,
    )
