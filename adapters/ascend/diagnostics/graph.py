"""What the declared task graph shows: orders that it lacks, and flags that may close a cycle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from livedbg.adapters.ascend.diagnostics.statement import statement
from livedbg.adapters.ascend.dumps.terms import next_of, why_of
from livedbg.adapters.ascend.job import Job
from livedbg.adapters.ascend.marks import Mark
from livedbg.adapters.ascend.names import task_name
from livedbg.graphs.lost import grouped
from livedbg.model import Diagnostic, Severity

__all__ = ["flag_cycles", "lost_orders"]

_LOST_SHOWN: Final = 20  # kinds of lost orders that one run reports one by one


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
        attributes = {
            "tensor": str(lost.tensor),
            "first": lost.first_mode,
            "second": lost.second_mode,
            "region": lost.region,
            "hazard": lost.hazard,
            "why": why_of(lost),
            "next": "\n".join(next_of(lost)),
            "count": str(group.count),
        }
        yield statement(
            job,
            "missing-edge",
            Severity.ERROR,
            sentence,
            entities=(job.names.task(lost.second), job.names.task(lost.first)),
            attributes=attributes,
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
