"""Rules for a stalled Ascend run: the blocking tasks, since when, the waiting tasks, and remedies; cores that it waits
for, since their kernels have not returned, or were not collected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from livedbg.adapters.ascend.facts import CoreFacts, RingFacts, StallFacts, TaskFacts
from livedbg.adapters.ascend.names import task_name
from livedbg.adapters.ascend.rules.failed_runs import ring_values, scopes_of, slow
from livedbg.adapters.ascend.rules.jobs import (
    JobDiagnostics,
    clock,
    code_of,
    ended_by,
    evidence,
    flag,
    name_of,
    names_of,
    place_of,
    waiters_of,
    where_of,
    written,
)
from livedbg.adapters.ascend.rules.progress import building
from livedbg.adapters.ascend.trouble import FREED, Full
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.words import duration, since_wall_ns, waited_ns
from livedbg.model import Diagnostic, Severity, Task, TaskState, Thread, ids
from livedbg.model.facts import read_facts
from livedbg.text.wording import listing, sentence_case, spans

_ENTITIES: Final = 1_000  # of one finding
_SHOWN: Final = 3  # cores that the sentence names


class _Blocked(Struct, frozen=True):
    """The reports that a run makes no progress.

    Attributes:
        watchdog: from the scheduler's watchdog.
        ring: from the orchestrator, which can't submit because a ring is full.
        tensor: from the orchestrator, which gave up waiting for a tensor.
        latched: the watchdog's error code in memory, if no log has it.
    """

    watchdog: Diagnostic | None
    ring: Diagnostic | None
    tensor: Diagnostic | None
    latched: Diagnostic | None

    @classmethod
    def of(cls, job: JobDiagnostics) -> _Blocked:
        return cls(job.watchdog(), job.first("ring-full"), job.first("tensor-wait-timeout"), job.latched_timeout())

    @property
    def reported(self) -> bool:
        """Return whether there is a report; if not, only the log's silence shows the stall."""
        return any(said is not None for said in self.said)

    @property
    def said(self) -> tuple[Diagnostic | None, ...]:
        return self.watchdog, self.ring, self.tensor, self.latched

    @property
    def drained(self) -> bool:
        """Return whether the tasks completed after the watchdog had ended the run."""
        return self.watchdog is not None and read_facts(self.watchdog, StallFacts).drained


def stall(job: JobDiagnostics) -> Iterator[Finding]:
    """A task of an Ascend run does not complete, and others wait for it.

    The evidence is the scheduler's watchdog ([STALL …], TIMEOUT_EXIT), a full ring's oldest task, a tensor that the
    orchestrator waits for, or (inferred) the quiet log of a living process with tasks in flight. Without a process, a
    log that ends with tasks in flight is inconclusive. The finding names the cause, not the symptom.
    """
    blocked = _Blocked.of(job)
    if _explained_otherwise(job, blocked) or not (blocked.reported or _quiet_too_long(job)):
        return
    roots = job.roots
    if not roots:
        yield from _nobody_runs(job)
    elif blocked.watchdog is not None and blocked.drained and all(task.state is TaskState.RUNNING for task in roots):
        yield slow(blocked.watchdog, roots, job)
    elif not blocked.reported and not job.alive:
        yield _ends_open(job, roots)
    else:
        yield _stalled(job, roots, blocked)


def _ends_open(job: JobDiagnostics, roots: Sequence[Task]) -> Finding:
    """Return the finding for a log that ends with tasks in flight, without a watchdog or process."""
    running = all(task.state is TaskState.RUNNING for task in roots)
    one = len(roots) == 1
    verb = ("was running" if one else "were running") if running else "had not completed"
    subject = f"Task {name_of(roots[0])}" if one else f"{len(roots)} tasks ({names_of(roots)})"
    where = f" {where_of(roots[0], job)}" if one and running else ""
    values = {"who": f"{subject} {verb}{where}", "behind": _behind(roots, job), **_steps(roots, job)}
    return written(
        "ends-open",
        job,
        values,
        roots=tuple(task.id for task in roots),
        entities=_participants(job, roots, _Blocked.of(job)),
        evidence=evidence(*roots, *waiters_of(roots, job), job.said),
        since_wall_ns=_since_ns(roots),
    )


def _since_ns(roots: Sequence[Task]) -> int | None:
    return min((task.since_wall_ns for task in roots if task.since_wall_ns is not None), default=None)


def _explained_otherwise(job: JobDiagnostics, blocked: _Blocked) -> bool:
    """Return whether another rule judges the run: it completed, crashed, or is not blocked by a task."""
    ring = read_facts(blocked.ring, RingFacts) if blocked.ring is not None else RingFacts()
    return (
        job.completed
        or any(job.first(code) is not None for code in ("terminate", "watchdog-starved", "core-anomaly"))
        or ring.by_scope
        or ring.host_built
        or ring.never_fits
    )


def _stalled(job: JobDiagnostics, roots: Sequence[Task], blocked: _Blocked) -> Finding:
    values = {
        "claim": who_blocks(roots, job),
        "orchestrator": _orchestrator_waits(job, blocked),
        "behind": _behind(roots, job),
        "ended_by": ended_by(blocked.watchdog or blocked.latched),
        "cycle": job.sentence("flag-cycle"),
        **_steps(roots, job),
    }
    failures = job.first("runtime-failed"), job.first("cann-code")
    return written(
        "stall",
        job,
        values,
        roots=tuple(task.id for task in roots),
        entities=_participants(job, roots, blocked),
        evidence=evidence(*blocked.said, *roots, *waiters_of(roots, job), job.said, *failures),
        inferred=not job.run.certain,
        since_wall_ns=_since_ns(roots),
    )


def _orchestrator_waits(job: JobDiagnostics, blocked: _Blocked) -> str:
    """Return a sentence on the orchestrator if it waits for the roots, or ""."""
    if blocked.ring is not None:
        ring = read_facts(blocked.ring, RingFacts)
        return (
            f" The runtime reports “{ring.full}”{code_of(blocked.ring)}. That is a symptom: {FREED[Full(ring.what)]} "
            f"freed only when the oldest task completes, so the orchestrator waits.{scopes_of(ring)}"
        )
    if blocked.tensor is not None:
        return f" The orchestrator waited for its output until a time-out{code_of(blocked.tensor)}."
    if job.waits_for_orchestrator():
        return " The orchestrator waits for it, and has more tasks to submit."
    return ""


def _participants(job: JobDiagnostics, roots: Sequence[Task], blocked: _Blocked) -> tuple[str, ...]:
    """Return the roots, the cores that run them, the ring and the orchestrator."""
    found = [task.id for task in roots]
    found += [core for task in roots if task.state is TaskState.RUNNING for core in task.where]
    if blocked.ring is not None:
        found += blocked.ring.entities
    if blocked.tensor is not None or (blocked.ring is None and job.waits_for_orchestrator()):
        found.append(job.orchestrator)
    return tuple(dict.fromkeys(found))


def _quiet_too_long(job: JobDiagnostics) -> bool:
    """Return whether nothing has happened for longer than the watchdog's limit, or than a task may run."""
    if not job.run.quiet:
        return False
    return job.quiet_for_s() >= job.patience_s()


def who_blocks(roots: Sequence[Task], job: JobDiagnostics) -> str:
    """Return the claim: which task, where, since when."""
    if len(roots) > 1:
        return _several(roots, job)
    task = roots[0]
    since = f" since {clock(task)}" if task.since_wall_ns is not None else ""
    if task.state is TaskState.RUNNING:
        likely = "" if job.run.certain else f" It is suspected: {job.run.reason}."
        place = place_of(task, job)
        return f"Task {name_of(task)} has been running {where_of(task, job)}{since}.{likely}{place}"
    known = read_facts(task, TaskFacts)
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


def _several(roots: Sequence[Task], job: JobDiagnostics) -> str:
    """Return how many tasks block, and which: by the runtime's count, if a report names only a part of them."""
    run, states, busy, names = job.run, {task.state for task in roots}, _busy(roots, job), names_of(roots)
    counted = run.running if states == {TaskState.RUNNING} else run.ready if states == {TaskState.READY} else None
    if counted is not None and counted > len(roots):
        ready = f" {run.ready} more are ready." if run.ready and states == {TaskState.RUNNING} else ""
        where = f": {busy}" if busy else ""
        return f"{counted} tasks have not completed{where}. {len(roots)} of them are named: {names}.{ready}"
    many = len(roots) if run.certain else counted or 1
    head = f"{many} of {len(roots)}" if 1 < many < len(roots) else f"{many}" if many > 1 else f"One of {len(roots)}"
    verb = "have" if many > 1 else "has"
    return f"{head} tasks {verb} not completed: {names}.{f' {sentence_case(busy)}.' if busy else ''}"


def _busy(roots: Sequence[Task], job: JobDiagnostics) -> str:
    """Return `func 3 is busy on cores 28-29,34`: the kernels and cores of tasks that a report names; "" if none."""
    on: dict[str, set[int]] = {}
    for task in roots if job.run.certain else ():
        cores = (core.rpartition("/")[2] for core in task.where if task.state is TaskState.RUNNING)
        on.setdefault(task.kernel or "a kernel", set()).update(int(core) for core in cores if core.isdecimal())
    of = {kernel: f"core{'s' if len(cores) > 1 else ''} {spans(cores)}" for kernel, cores in on.items() if cores}
    return listing(f"{kernel} is busy on {cores}" for kernel, cores in of.items())


def _behind(roots: Sequence[Task], job: JobDiagnostics) -> str:
    """Return a sentence on the number of tasks behind the roots."""
    behind, direct, known = job.count_behind(roots)
    if not behind:
        return ""
    tasks = "1 task waits" if behind == 1 else f"{behind} tasks wait"
    exact = f", {direct} directly" if known else ""
    return f" {tasks} behind {'it' if len(roots) == 1 else 'them'}{exact}."


def _steps(roots: Sequence[Task], job: JobDiagnostics) -> Mapping[str, str]:
    """Return the template values that select remedies."""
    ring = job.known("ring-full", RingFacts)
    return {
        "kernel": roots[0].kernel or "its kernel",
        "nameless": flag(roots[0].kernel is None),
        "buffered": flag(read_facts(roots[0], TaskFacts).buffered),
        "ready": flag(roots[0].state is TaskState.READY),
        "variable": ring_values(ring)["variable"] if ring is not None else "",
        "graph": flag(job.run.graph),
    }


def _nobody_runs(job: JobDiagnostics) -> Iterator[Finding]:
    """Yield the findings for a stall without a task that could complete."""
    report = job.watchdog()
    if report is None and job.run.building:
        yield building(job)
    if report is None:
        return
    waiting, said = job.tasks_in(TaskState.SUBMITTED), read_facts(report, StallFacts)
    listed = not said.sub_class and any(read_facts(task, TaskFacts).evidence for task in waiting)  # by an old dump
    name: str = "nameless"
    entities: tuple[str, ...] = ()
    if waiting and (listed or said.sub_class.startswith("S4")):
        name, entities = "never-met", tuple(task.id for task in waiting[:_ENTITIES])
    elif said.sub_class.startswith("S5"):
        name, entities = "orchestrator-hangs", (job.orchestrator,)
    if name == "nameless" and said.core is not None:
        entities = (f"core:{job.scope}/{said.core}",)
    values = {
        "said": report.sentence,
        "core": str(said.core) if said.core is not None else "",
        "waiting": str(len(waiting) if job.run.waiting is None else job.run.waiting),
        "names": names_of(waiting),
        "advice": said.advice,
    }
    yield written(name, job, values, entities=entities, evidence=evidence(report, *waiting[:8]))


def unreturned(job: JobDiagnostics) -> Iterator[Finding]:
    """The scheduler has ended the run, and the host waits for the thread of a core whose kernel has not returned.

    The simulator's host joins the threads of all cores before it reports anything.
    """
    left = job.unresolved("core-unreturned")
    process = job.snapshot.processes.get(job.run.process)
    if not left or process is None or process.exited or job.first("timeout-exit") is not None:
        return
    cores = [read_facts(said, CoreFacts) for said in left]
    threads = [core.tid for core in cores]
    waiter = _waiter({ids.thread(process.host, process.pid, tid) for tid in threads}, job)
    if waiter is None:
        return  # the run is being set up, or ends
    waited = waited_ns(waiter, job.snapshot) or 0
    stalled = waited >= job.state.settings.thread_stall_ns
    many = len(left) > 1
    more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
    names = ", ".join(_core(core, job) for core in cores[:_SHOWN]) + more
    names = f"The kernels of {len(left)} cores ({names}) have" if many else f"{sentence_case(names)} has"
    yield written(
        "unreturned",
        job,
        {
            "names": names,
            "waited": duration(waited),
            "these": "these cores" if many else "this core",
            "call": waiter.waits_in or "a join",
        },
        **({} if stalled else {"state": VerdictState.UNKNOWN, "decides": True, "severity": Severity.WARNING}),
        roots=tuple(_root(core, job) for core in cores),
        entities=(
            *(_root(core, job) for core in cores),
            *(ids.thread(process.host, process.pid, tid) for tid in threads),
            waiter.id,
        ),
        evidence=evidence(*left, job.first("runtime-failed")),
        since_wall_ns=since_wall_ns(waiter, job.snapshot),
    )


def _waiter(threads: set[str], job: JobDiagnostics) -> Thread | None:
    names = (waiter for thread in sorted(threads) for waiter in job.state.graph.waiters_of(thread))
    return next((job.snapshot.threads[name] for name in names if name in job.snapshot.threads), None)


def _core(left: CoreFacts, job: JobDiagnostics) -> str:
    """Return `task r1t2 (func 2) on core 10`, `the kernel on core 10`."""
    name = job.snapshot.resources.get(f"core:{job.scope}/{left.core}")
    place = name.name if name is not None else f"core {left.core}"
    if left.task is None:
        return f"the kernel on {place}" if left.func is None else f"kernel func {left.func} on {place}"
    task = job.snapshot.tasks.get(_root(left, job))
    kernel = (task.kernel if task is not None else None) or (f"func {left.func}" if left.func is not None else "")
    return f"task {task_name(left.task)}{f' ({kernel})' if kernel else ''} on {place}"


def _root(left: CoreFacts, job: JobDiagnostics) -> str:
    """Return the task that the core was given, or the core if not known."""
    prefix = job.task_prefix.removesuffix("r")
    return f"{prefix}{task_name(left.task)}" if left.task is not None else f"core:{job.scope}/{left.core}"


def core_anomaly(job: JobDiagnostics) -> Iterator[Finding]:
    """An AI core has finished a task, but the scheduler still counts it as busy. The kernel is not stuck."""
    if job.completed:
        return
    for anomaly in job.unresolved("core-anomaly"):
        values, since_ns = {"said": anomaly.sentence}, anomaly.at_wall_ns
        proofs, who = evidence(anomaly), anomaly.entities
        yield written("core-anomaly", job, values, entities=who, evidence=proofs, since_wall_ns=since_ns)
