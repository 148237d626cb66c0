"""What the scheduler's watchdog reports: a round without progress, the end of the run, and whether it was starved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from livedbg.adapters.ascend.codes import error_code, stall_class
from livedbg.adapters.ascend.diagnostics.statement import statement
from livedbg.adapters.ascend.job import Job
from livedbg.adapters.ascend.names import task_name
from livedbg.adapters.ascend.stalls import Stall
from livedbg.model import Diagnostic, Severity

__all__ = ["STARVED_BELOW", "stall_diagnostics"]

STARVED_BELOW: Final = 300
"""A scheduler thread that runs turns its idle loop more often than this in a second (measured on the simulator: 1,261
to 40,000 when it ran, 87 when it was stopped)."""


def stall_diagnostics(job: Job, stall: Stall) -> Iterator[Diagnostic]:
    """The watchdog's last round."""
    counts = job.run.counts
    done = (
        f"{counts.completed} of {counts.total} tasks are done"
        if counts.completed is not None
        else "its line has no counts"
    )
    if stall.exit:
        yield _watchdog_exit(job, stall, done)
        yield from _doubts(job, stall)
    else:
        yield _no_progress(job, stall, done)
    yield from _core_anomalies(job, stall)


def _attributes(job: Job, stall: Stall) -> dict[str, str]:
    sub_class = _sub_class(job, stall)
    attributes = {
        "idle_iterations": str(stall.idle),
        "sub_class": sub_class,
        "sub_class_by": "counts" if sub_class and not stall.sub_class else "",
        "code": f"code 100, {error_code(100).name}",
        "advice": stall_class(sub_class).advice if sub_class else "",
        "drained": "yes" if stall.drained is not None else "no",
    }
    if stall.orchestrator_done is not None:
        attributes["orch_done"] = "yes" if stall.orchestrator_done else "no"
    return attributes


def _sub_class(job: Job, stall: Stall) -> str:
    return stall.sub_class or stall.class_by(job.run.counts)


def _suspects(job: Job) -> tuple[str, ...]:
    return tuple(job.names.task(raw) for raw in job.suspicion.tasks)


def _no_progress(job: Job, stall: Stall, done: str) -> Diagnostic:
    return statement(
        job,
        "stall-summary",
        Severity.WARNING,
        f"The scheduler reports no progress for {stall.idle} idle iterations; {done}.",
        entities=_suspects(job),
        attributes=_attributes(job, stall),
        marks=(stall.mark,),
    )


def _watchdog_exit(job: Job, stall: Stall, done: str) -> Diagnostic:
    sub_class = _sub_class(job, stall)
    why = f" ({sub_class}: {stall_class(sub_class).meaning})" if sub_class else ""
    return statement(
        job,
        "timeout-exit",
        Severity.ERROR,
        f"The scheduler's watchdog ended the run{why}; {done}.",
        entities=_suspects(job),
        attributes=_attributes(job, stall),
        marks=(stall.mark, stall.drained),
    )


def _doubts(job: Job, stall: Stall) -> Iterator[Diagnostic]:
    """Why the watchdog may have fired without a stall."""
    hung = job.trouble.unacknowledged or any(core.stuck for core in job.run.cores.values())
    load = job.loads.around(stall.mark.wall_ns)
    if job.starved(stall.idle, STARVED_BELOW) and not hung:
        sentence = (
            f"The watchdog fired after only {stall.idle} idle iterations: the scheduler was paused or got no "
            "processor time, so this time-out does not show a stall."
        )
        attributes = _attributes(job, stall) | {"load": load.words() if load is not None else ""}
        yield statement(job, "watchdog-starved", Severity.WARNING, sentence, attributes=attributes, marks=(stall.mark,))
    elif load is not None and load.crowded:
        sentence = f"The machine was busy when the watchdog fired: {load.words()}."
        yield statement(job, "machine-busy", Severity.INFO, sentence, attributes={"load": load.words()})


def _core_anomalies(job: Job, stall: Stall) -> Iterator[Diagnostic]:
    """Cores that have finished, while the scheduler counts them as busy."""
    for core, task in sorted(stall.anomalies.items()):
        sentence = (
            f"Core {core} has finished task {task_name(task)} (its register says fin), but the scheduler has not "
            "collected it."
        )
        yield statement(
            job,
            "core-anomaly",
            Severity.ERROR,
            sentence,
            entities=(job.names.core(core), job.names.task(task)),
            marks=(stall.mark,),
            detail=core,
        )
