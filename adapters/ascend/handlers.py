"""What each kind of message changes in a job: one small function per kind (`messages` names them)."""

from __future__ import annotations

from typing import Final

from livedbg.adapters.ascend.failure_handlers import FAILURE_HANDLERS
from livedbg.adapters.ascend.handlers_before_2026_05 import OLD_HANDLERS, Handler
from livedbg.adapters.ascend.job import Job
from livedbg.adapters.ascend.marks import Mark
from livedbg.adapters.ascend.messages import Fields, number, optional_number
from livedbg.adapters.ascend.tasks import Dispatched

__all__ = ["handle"]

_PLACES: Final = ("aic", "aiv0", "aiv1")  # of a cluster's three cores, by offset


def _begin(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.begin(on_device=func == "init")
    job.run.building = fields.get("mode") == "host"
    if func == "init" and job.run.progress_wall_ns is None:
        job.run.progressed(mark)  # no task ran before
    return ()


def _span(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    name = fields["name"] or ""
    took_ns, pid = optional_number(fields, "dur"), number(fields, "pid")
    if name.startswith("chip.run.bind"):
        within = took_ns is not None and job.trouble.since(mark, took_ns)  # a span is written when it ends
        if job.run.phase in {"completed", "failed"} and not within:
            job.begin(on_device=False)
        job.run.building = False
        job.chip_begins(pid)
        if job.run.phase != "running":
            job.run.progressed(mark)  # no task ran before
    elif name == "chip.run" and fields["depth"] == "0" and job.run.phase != "failed":
        job.end(mark, pid)
    elif name == "chip.run.runner_run" and took_ns is not None and not job.shared:
        job.timeouts.run_took(took_ns / 1e9)
    return ()


def _dispatched(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    raw, thread = number(fields, "task"), number(fields, "thread")
    if raw < 0:
        return ()
    if job.run.phase in {"unknown", "starting"}:
        job.run.phase = "running"
    stall = job.stalls.stall
    if stall is not None and not stall.exit:
        job.stalls.stall = None  # it went on
        job.run.confirmed.clear()
    record = job.run.task(raw)
    kernels: tuple[int, ...] = ()
    if "aic" in fields:
        kernels = record.kernels = (number(fields, "aic"), number(fields, "aiv0"), number(fields, "aiv1"))
    record.blocks = max(record.blocks, number(fields, "blocks"))
    core = number(fields, "core") if "core" in fields else job.run.core_at(thread, number(fields, "offset"))
    job.run.dispatch(
        raw,
        core,
        mark,
        slot=fields["slot"] or "idle",
        subslot=(fields["sub"] or "").lower(),
        place=_PLACES[number(fields, "offset") % 3],
        thread=thread,
    )
    job.run.dispatched[raw] = Dispatched(core, kernels, mark)
    where = (job.names.core(core),) if core is not None else ()
    return (job.names.task(raw), *where)


def _completed(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    if job.shared:
        return ()  # of one chip's run, which isn't known
    job.run.counts.completed, job.run.counts.total = number(fields, "completed"), number(fields, "total")
    if job.run.counts.completed >= job.run.counts.total > 0 and not job.trouble.fatal:
        job.run.finish(mark)
    return ()


def _progress(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.run.counts.completed, job.run.counts.total = number(fields, "completed"), number(fields, "total")
    job.run.progressed(mark)
    return ()


def _executed(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.run.executed[number(fields, "thread")] = number(fields, "count")
    job.run.settle_executed()
    return ()


def _ring_total(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.run.declare(number(fields, "ring"), number(fields, "total"))
    if not job.trouble.fatal:
        job.run.orchestrator = "done"
    return ()


def _submitted(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.run.counts.total = number(fields, "total")
    return ()


def _orchestrated(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    if not job.trouble.fatal:
        job.run.orchestrator = "done"
    return ()


def _drained(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    """The simulator's host has joined the threads of all cores: each kernel has returned."""
    stall = job.stalls.stall
    if stall is not None and stall.exit and not job.shared:
        stall.drained = mark
    job.end(mark)
    return ()


def _cluster_map(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    thread, cluster = number(fields, "thread"), number(fields, "cluster")
    triple = (number(fields, "aic"), number(fields, "aiv0"), number(fields, "aiv1"))
    job.run.clusters.setdefault(thread, []).append(triple)
    for core, subslot in zip(triple, ("aic", "aiv0", "aiv1"), strict=True):
        job.run.core(core, subslot, thread).cluster = cluster
    return tuple(job.names.core(core) for core in triple)


def _chip_process(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.chips[number(fields, "pid")] = number(fields, "device")
    return ()


def _stall_task(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.runs()
    job.watchdog_reports()
    return (job.names.task(job.stalls.task(fields, mark)),)


def _stall_summary(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.runs()
    job.stalls.summary(fields, mark)
    return ()


def _stall_cluster(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.runs()
    job.stalls.cluster(fields, mark)
    return ()


_HANDLERS: Final[dict[str, Handler]] = {
    **OLD_HANDLERS,
    "anchor": lambda _job, _fields, _func, _mark: (),
    "begin": _begin,
    "bind": _begin,
    "chip_process": _chip_process,
    "cluster_map": _cluster_map,
    "completed": _completed,
    "dispatched": _dispatched,
    "drained": _drained,
    "executed": _executed,
    "orchestrated": _orchestrated,
    "progress": _progress,
    "ring_total": _ring_total,
    "span": _span,
    "stall_cluster": _stall_cluster,
    "stall_summary": _stall_summary,
    "stall_task": _stall_task,
    "submitted": _submitted,
    **FAILURE_HANDLERS,
}


def handle(job: Job, kind: str, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    """Put one message into a job.

    Returns:
        The entities that it speaks of.
    """
    job.log_goes_on(mark)
    handler = _HANDLERS.get(kind)
    if handler is None:
        return ()
    job.stale = True
    return handler(job, fields, func, mark)
