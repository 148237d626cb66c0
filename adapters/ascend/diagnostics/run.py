"""Create diagnostics of a job: progress of its run, shared logs, gaps in its task graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

from msgspec import Struct, structs

from livedbg.adapters.ascend.dumps.graphs import next_of, why_of
from livedbg.adapters.ascend.facts import JobFacts, OrderFacts, RunFacts
from livedbg.adapters.ascend.job import Job
from livedbg.adapters.ascend.messages import Mark, read_data
from livedbg.adapters.ascend.names import task_name
from livedbg.adapters.ascend.watchdogs import limit_of
from livedbg.graphs.lost import grouped
from livedbg.model import Diagnostic, Severity
from livedbg.model.facts import Facts
from livedbg.signatures.templates import names_in, render
from livedbg.text.wording import many

_LOST_SHOWN: Final = 20  # kinds of lost orders that one run reports one by one
_PLAIN: Final = JobFacts()


class _Text(Struct, frozen=True, forbid_unknown_fields=True):
    severity: Severity
    sentence: str


@cache
def _texts() -> Mapping[str, _Text]:
    return read_data("diagnostics.toml", dict[str, _Text])


def statement(
    job: Job,
    code: str,
    values: Mapping[str, object],
    *,
    entities: tuple[str, ...] = (),
    facts: Facts = _PLAIN,
    marks: tuple[Mark | None, ...] = (),
    shown_by: Mark | None = None,
    detail: object = "",
) -> Diagnostic:
    """Create a diagnostic of a job.

    Args:
        code: kind of diagnostic (data/diagnostics.toml).
        values: for its sentence; None for unknown ones.
        facts: the job is added to those that have that field.
        marks: the log lines that show it.
        shown_by: evidence other than a line: a file, memory.
        detail: distinguishes it from others of its kind.
    """
    text = _texts()[code]
    assert names_in(text.sentence) <= values.keys(), code
    sentence = render(text.sentence, {name: str(value) for name, value in values.items() if value is not None})
    if shown_by is not None:
        marks = (structs.replace(shown_by, text=sentence),)
    real = [mark for mark in marks if mark is not None and mark.name]
    return Diagnostic(
        id=job.names.diagnostic(code, detail),
        system="ascend",
        code=code,
        severity=text.severity,
        sentence=sentence,
        entities=entities,
        facts=structs.replace(facts, scope=job.names.scope) if isinstance(facts, JobFacts) else facts,
        evidence=tuple(mark.evidence() for mark in real),
        at_wall_ns=real[0].wall_ns if real else None,
    )


def run_state(job: Job) -> Diagnostic:
    """Return the phase of the run, its counts, and the blocking tasks."""
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
        runs=_runs(job),
        again=job.runs_done > 1,
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
        {"said": _complete_sentence(job) if completed else f"The run has completed {done} of {total} tasks."},
        entities=() if completed else tuple(job.names.task(raw) for raw in suspicion.tasks),
        facts=facts,
        marks=tuple(marks),
    )


def _runs(job: Job) -> str:
    """Return `9 runs`; `9 runs or more` if they are seen in memory, which may miss runs between two samples."""
    if not job.runs_done:
        return ""
    return many(job.runs_done, "run") + ("" if job.numbered else " or more")


def run_complete(job: Job) -> Diagnostic:
    return statement(job, "run-complete", {"said": _complete_sentence(job)}, marks=(job.last_mark,))


def shared_log(job: Job) -> Diagnostic:
    """Return the diagnostic for chips that share one log: which of them is stuck, as far as known."""
    at_work, stuck = sorted(job.chips_at_work & job.chips.keys()), job.stuck_chip
    if stuck is None and len(at_work) == 1 and len(job.chips_begun) > 1:
        stuck = at_work[0]
    known = stuck is not None and stuck in job.chips
    some = not known and 1 < len(at_work) < len(job.chips)
    values = {
        "chips": len(job.chips),
        "devices": ", ".join(str(device) for device in sorted(job.chips.values())),
        "stuck": job.chips.get(stuck or 0) if known else None,
        "pid": stuck,
        "unclear": None if known else "devices",
        "open": ", ".join(str(job.chips[pid]) for pid in at_work) if some else None,
    }
    return statement(job, "shared-log", values)


def _complete_sentence(job: Job) -> str:
    total = job.run.counts.total
    return f"The run completed: {total} of {total} tasks." if total else "The run completed."


def lost_orders(job: Job) -> Iterator[Diagnostic]:
    """Yield the orders that the graph lacks, grouped by kind."""
    graph = job.run.graph
    if graph is None:
        return
    for group in grouped(job.lost.sure, graph)[:_LOST_SHOWN]:
        lost = group.example
        first, second = task_name(lost.first), task_name(lost.second)
        values = {
            **structs.asdict(lost),
            "region": lost.region,
            "first": first,
            "second": second,
            "does": "reads" if lost.hazard == "read after write" else "overwrites",
        }
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
            values,
            entities=(job.names.task(lost.second), job.names.task(lost.first)),
            facts=facts,
            shown_by=Mark(job.graph_mark.name, "", job.graph_mark.wall_ns, kind="file"),
            detail=f"{first}-{second}",
        )


def flag_cycles(job: Job) -> Iterator[Diagnostic]:
    """Yield stuck tasks that may wait for a flag in memory which only a later task sets."""
    graph = job.run.graph
    if graph is None:
        return
    for raw in job.suspicion.tasks[:8]:
        for partner in graph.flag_partners(raw):
            names = task_name(raw), task_name(partner)
            yield statement(
                job,
                "flag-cycle",
                dict(zip(("task", "partner"), names, strict=True)),
                entities=(job.names.task(raw), job.names.task(partner)),
                shown_by=Mark(job.graph_mark.name, "", kind="file"),
                detail="-".join(names),
            )
