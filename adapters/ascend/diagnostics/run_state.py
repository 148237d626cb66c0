"""How far a run is, and whose log it writes."""

from __future__ import annotations

from livedbg.adapters.ascend.diagnostics.statement import statement
from livedbg.adapters.ascend.job import Job
from livedbg.adapters.ascend.marks import NOWHERE, Mark
from livedbg.adapters.ascend.watchdogs import limit_of
from livedbg.model import Diagnostic, Severity

__all__ = ["run_complete", "run_state", "shared_log"]


def run_state(job: Job) -> Diagnostic:
    """The phase of the run, its counts, and the tasks that hold it up."""
    run, counts, suspicion = job.run, job.run.counts, job.suspicion
    numbers = {
        name: str(value)
        for name in ("completed", "total", "running", "ready", "waiting")
        if (value := getattr(counts, name)) is not None
    }
    attributes = {
        "phase": run.phase,
        "place": job.place,
        "orchestrator": run.orchestrator,
        "building": "yes" if run.building else "no",
        "certain": "yes" if suspicion.certain else "no",
        "reason": suspicion.reason,
        "quiet": "yes" if job.quiet else "no",
        "last_wall_ns": str(job.still_since_wall_ns or ""),
        "process": job.process,
        "status": str(job.trouble.status or ""),
        "graph": "yes" if run.graph is not None or (job.live is not None and job.live.speaks) else "no",
        **_by_memory(job),
        **_limit(job),
        **numbers,
    }
    marks = [_task_mark(job, raw) for raw in suspicion.tasks[:8]] if run.phase != "completed" else []
    if not suspicion.certain:
        marks.append(job.last_mark)
    return statement(
        job,
        "run-state",
        Severity.INFO,
        _complete_sentence(job) if run.phase == "completed" else _progress_sentence(job),
        entities=tuple(job.names.task(raw) for raw in suspicion.tasks) if run.phase != "completed" else (),
        attributes=attributes,
        marks=tuple(marks),
    )


def _by_memory(job: Job) -> dict[str, str]:
    """What only the memory of the job's process shows."""
    if job.live is None or not job.live.speaks:
        return {}
    began = job.live.began_wall_ns
    return {"memory": "yes", "moved": "yes" if job.live.moved else "no", "began_wall_ns": str(began or "")}


def _limit(job: Job) -> dict[str, str]:
    """The limit of the scheduler's watchdog, where the environment of the job's process is known."""
    if job.environment is None:
        return {}
    limit = limit_of("scheduler", job.environment)
    return {"limit_s": f"{limit.seconds:g}", "limit_by": limit.by}


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
        return statement(
            job,
            "shared-log",
            Severity.WARNING,
            sentence,
            attributes={"device": str(job.chips[stuck]), "pid": str(stuck)},
        )
    sentence = f"{head}: livedbg can't assign task ids to devices."
    if 1 < len(at_work) < len(job.chips):
        open_ones = ", ".join(str(job.chips[pid]) for pid in at_work)
        sentence += f" By their spans the runs of devices {open_ones} have not ended."
    return statement(job, "shared-log", Severity.WARNING, sentence)


def _task_mark(job: Job, raw: int) -> Mark:
    record = job.run.tasks.get(raw)
    if record is None or not record.evidence:
        return NOWHERE
    at = record.evidence_wall_ns
    return Mark(record.evidence, record.evidence_text, at, at is not None)


def _complete_sentence(job: Job) -> str:
    total = job.run.counts.total
    return f"The run completed: {total} of {total} tasks." if total else "The run completed."


def _progress_sentence(job: Job) -> str:
    counts = job.run.counts
    done = counts.completed if counts.completed is not None else job.run.done
    return (
        f"The run has completed {done} of {counts.total if counts.total is not None else 'an unknown number of'} tasks."
    )
