"""How a diagnostic of a job is made; how far a run is, whose log it writes, and what its task graph lacks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import structs

from livedbg.adapters.ascend.dumps.graphs import next_of, why_of
from livedbg.adapters.ascend.facts import JobFacts, OrderFacts, RunFacts
from livedbg.adapters.ascend.job import Job
from livedbg.adapters.ascend.marks import Mark
from livedbg.adapters.ascend.names import task_name
from livedbg.adapters.ascend.watchdogs import limit_of
from livedbg.graphs.lost import grouped
from livedbg.model import Diagnostic, Severity

__all__ = ["flag_cycles", "lost_orders", "run_complete", "run_state", "shared_log", "statement"]

_LOST_SHOWN: Final = 20  # kinds of lost orders that one run reports one by one
_PLAIN: Final = JobFacts()


def statement(
    job: Job,
    code: str,
    severity: Severity,
    sentence: str,
    *,
    entities: tuple[str, ...] = (),
    facts: JobFacts = _PLAIN,
    attributes: dict[str, str] | None = None,
    marks: tuple[Mark | None, ...] = (),
    detail: object = "",
) -> Diagnostic:
    """A statement about a job.

    Args:
        job: the job.
        code: the kind of statement.
        severity: how bad it is.
        sentence: what it means.
        entities: what it is about.
        facts: its fields; the job is added.
        attributes: fields that the core asks for.
        marks: the lines that show it.
        detail: tells it from others of its kind.
    """
    real = [mark for mark in marks if mark is not None and mark.name]
    return Diagnostic(
        id=job.names.diagnostic(code, detail),
        system="ascend",
        code=code,
        severity=severity,
        sentence=sentence,
        entities=entities,
        facts=structs.replace(facts, scope=job.names.scope),
        attributes=attributes or {},
        evidence=tuple(mark.evidence() for mark in real),
        at_wall_ns=real[0].wall_ns if real else None,
    )


def run_state(job: Job) -> Diagnostic:
    """The phase of the run, its counts, and the tasks that hold it up."""
    run, counts, suspicion = job.run, job.run.counts, job.suspicion
    live = job.live
    limit = limit_of("scheduler", job.environment) if job.environment is not None else None
    facts = RunFacts(
        phase=run.phase,
        place=job.place,
        orchestrator=run.orchestrator,
        building=run.building,
        certain=suspicion.certain,
        reason=suspicion.reason,
        quiet=job.quiet,
        last_wall_ns=job.still_since_wall_ns or 0,
        process=job.process,
        graph=run.graph is not None or live.speaks,
        memory=live.speaks,
        moved=live.speaks and live.progress.moved,
        began_wall_ns=(live.progress.began_wall_ns if live.speaks else None) or 0,
        limit_s=limit.seconds if limit is not None else 0.0,
        limit_by=limit.by if limit is not None else "",
        **structs.asdict(counts),
    )
    completed = run.phase == "completed"
    records = [] if completed else [run.tasks.get(raw) for raw in suspicion.tasks[:8]]
    marks = [record.said for record in records if record is not None]
    if not suspicion.certain:
        marks.append(job.last_mark)
    done = counts.completed if counts.completed is not None else run.done
    total = counts.total if counts.total is not None else "an unknown number of"
    return statement(
        job,
        "run-state",
        Severity.INFO,
        _complete_sentence(job) if completed else f"The run has completed {done} of {total} tasks.",
        entities=() if completed else tuple(job.names.task(raw) for raw in suspicion.tasks),
        facts=facts,
        marks=tuple(marks),
    )


def run_complete(job: Job) -> Diagnostic:
    """The run completed."""
    return statement(job, "run-complete", Severity.INFO, _complete_sentence(job), marks=(job.last_mark,))


def shared_log(job: Job) -> Diagnostic:
    """Several chips write into one log: which of them is stuck, by their spans, or that nothing tells."""
    devices = ", ".join(str(device) for device in sorted(job.chips.values()))
    head = f"{len(job.chips)} chip processes (devices {devices}) write into this one log without marking its lines"
    at_work = sorted(job.chips_at_work & job.chips.keys())
    stuck = job.stuck_chip
    if stuck is None and len(at_work) == 1 and len(job.chips_begun) > 1:
        stuck = at_work[0]
    if stuck is not None and stuck in job.chips:
        sentence = f"{head}. By their spans it is device {job.chips[stuck]} (pid {stuck}): the others had ended."
        return statement(job, "shared-log", Severity.WARNING, sentence)
    sentence = f"{head}: livedbg can't assign task ids to devices."
    if 1 < len(at_work) < len(job.chips):
        open_ones = ", ".join(str(job.chips[pid]) for pid in at_work)
        sentence += f" By their spans the runs of devices {open_ones} have not ended."
    return statement(job, "shared-log", Severity.WARNING, sentence)


def _complete_sentence(job: Job) -> str:
    total = job.run.counts.total
    return f"The run completed: {total} of {total} tasks." if total else "The run completed."


def lost_orders(job: Job) -> Iterator[Diagnostic]:
    """Orders that the graph lacks, those alike together."""
    graph = job.run.graph
    if graph is None:
        return
    for group in grouped(job.lost.sure, graph)[:_LOST_SHOWN]:
        lost = group.example
        first, second = task_name(lost.first), task_name(lost.second)
        does = "reads" if lost.hazard == "read after write" else "overwrites"
        sentence = (
            f"Task {second} {does} {lost.region}, of tensor {lost.tensor} ({lost.second_mode}, argument "
            f"{lost.second_arg}) that task {first} writes ({lost.first_mode}, argument {lost.first_arg}), and nothing "
            "orders them."
        )
        evidence = Mark(job.graph_mark.name, sentence, job.graph_mark.wall_ns, kind="file")
        facts = OrderFacts(
            tensor=lost.tensor,
            first=lost.first_mode,
            second=lost.second_mode,
            region=lost.region,
            hazard=lost.hazard,
            why=why_of(lost),
            next="\n".join(next_of(lost)),
            count=group.count,
        )
        yield statement(
            job,
            "missing-edge",
            Severity.ERROR,
            sentence,
            entities=(job.names.task(lost.second), job.names.task(lost.first)),
            facts=facts,
            marks=(evidence,),
            detail=f"{first}-{second}",
        )


def flag_cycles(job: Job) -> Iterator[Diagnostic]:
    """Stuck tasks that may wait for a flag in memory which only a task behind them sets."""
    graph = job.run.graph
    if graph is None:
        return
    for raw in job.suspicion.tasks[:8]:
        for partner in graph.flag_partners(raw):
            sentence = (
                f"Task {task_name(raw)} names a tensor without dependency (NO_DEP) that task {task_name(partner)}, "
                "which depends on it, names too. If it waits for a flag there, they wait for each other."
            )
            yield statement(
                job,
                "flag-cycle",
                Severity.WARNING,
                sentence,
                entities=(job.names.task(raw), job.names.task(partner)),
                marks=(Mark(job.graph_mark.name, sentence, kind="file"),),
                detail=f"{task_name(raw)}-{task_name(partner)}",
            )
