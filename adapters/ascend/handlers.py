"""What each kind of message changes in a job: one small function per kind (`messages` names them)."""

from __future__ import annotations

from typing import Final

from livedbg.adapters.ascend.handlers_old import OLD_HANDLERS, Handler
from livedbg.adapters.ascend.job import Job
from livedbg.adapters.ascend.marks import Mark
from livedbg.adapters.ascend.messages import Fields, number, optional_number
from livedbg.adapters.ascend.tasks import Dispatched
from livedbg.adapters.ascend.trouble import Crash

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
        job.chips_at_work.add(pid)
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
    return (job.names.task(job.stalls.task(fields, mark)),)


def _stall_summary(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.runs()
    job.stalls.summary(fields, mark)
    return ()


def _stall_cluster(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.runs()
    job.stalls.cluster(fields, mark)
    return ()


def _timeout(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.runs()
    stall = job.stalls.timeout(fields, mark)
    job.timeouts.add("scheduler", mark, took_s=job.run.idle_s(mark))
    if stall.orchestrator_done and not job.trouble.fatal:
        job.run.orchestrator = "done"
    return (job.names.task(stall.stuck_task),) if stall.stuck_task is not None else ()


def _resolution_stall(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.runs()
    stall = job.stalls.resolution(fields, mark)
    job.timeouts.add("scheduler", mark, took_s=job.run.idle_s(mark))
    return tuple(job.names.task(raw) for raw in sorted(stall.ready))


def _fatal_code(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.runs()
    job.trouble.fatal_code(fields, func, mark, job.run)
    job.timeouts.tensor_wait(fields["text"] or "", mark)
    tensor = job.trouble.tensor
    return (job.names.task(tensor.task),) if tensor is not None else ()


def _fatal(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.runs()
    job.trouble.fatal_words(fields, func, mark)
    ring = job.trouble.ring
    return (job.names.ring(ring.ring),) if ring is not None and ring.ring is not None else ()


def _ring_state(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.trouble.ring_state(fields)
    return (job.names.ring(number(fields, "ring")),)


def _ring_head(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.trouble.ring_head(fields, job.run)
    head = job.trouble.ring.head if job.trouble.ring is not None else None
    return (job.names.task(head),) if head is not None else ()


def _scope_head(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.trouble.scope_head(fields)
    return ()


def _fatal_seen(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    if job.trouble.fatal is None:
        job.trouble.fatal_code({"code": fields["code"], "text": ""}, func, mark, job.run)
    return ()


def _unacknowledged(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.trouble.unacknowledged = number(fields, "count")
    job.trouble.unacknowledged_mark = mark
    return ()


def _deinit_timeout(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    core = job.run.core(number(fields, "core"))
    core.stuck = True
    job.run.changed_cores.add(core.number)
    return (job.names.core(core.number),)


def _failed(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.runs()
    job.trouble.failed(fields, mark)
    if func in {"drain_execution", "validate_runtime_impl"} or "status" in fields:
        job.run.phase = "failed"
    return ()


def _core_fault(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    if job.trouble.crash is None:
        job.trouble.crash = Crash("AICore fault", fields["text"] or "", mark)
    return ()


def _acl_failed(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.trouble.failed(fields, mark)
    job.timeouts.simulator = False
    job.run.phase = "failed"
    return ()


def _operation_set(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.timeouts.operation_set(fields)
    return ()


def _stream_sync(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.timeouts.stream_sync(fields, mark)
    job.trouble.device = number(fields, "device")
    job.run.phase = "failed"
    return ()


def _op_execute(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.timeouts.operation(mark)
    return ()


def _reclaim(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.timeouts.reclaim(fields, mark)
    return ()


def _limits_ignored(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.timeouts.refused(fields["text"] or "", mark)
    return ()


def _simulator(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.timeouts.simulator = True
    return ()


def _fault_kernel(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.trouble.fault_kernel = fields["kernel"] or ""
    return ()


def _error_detail(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.trouble.detail = fields["text"] or ""
    return ()


def _error_hint(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.trouble.hint = fields["text"] or ""
    return ()


def _not_run(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    if job.trouble.status is None:
        job.trouble.status, job.trouble.status_mark = -1, mark  # what validate_runtime_impl returns then
    job.run.phase = "failed"
    return ()


def _host_error(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.trouble.failed(fields, mark)
    job.trouble.call = fields.get("call") or job.trouble.call
    job.run.phase = "failed"
    return ()


def _terminate(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    what = fields.get("type") or fields.get("text") or "std::terminate"
    job.trouble.crash = Crash(what, "", mark)
    return ()


def _what(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    if job.trouble.crash is not None and not job.trouble.crash.message:
        job.trouble.crash.message = fields["text"] or ""
    return ()


_HANDLERS: Final[dict[str, Handler]] = {
    **OLD_HANDLERS,
    "acl_failed": _acl_failed,
    "anchor": lambda _job, _fields, _func, _mark: (),
    "begin": _begin,
    "bind": _begin,
    "chip_process": _chip_process,
    "cluster_map": _cluster_map,
    "completed": _completed,
    "core_fault": _core_fault,
    "deinit_timeout": _deinit_timeout,
    "dispatched": _dispatched,
    "drained": _drained,
    "error_detail": _error_detail,
    "error_hint": _error_hint,
    "executed": _executed,
    "failed_codes": _failed,
    "failed_rc": _failed,
    "fatal": _fatal,
    "fatal_code": _fatal_code,
    "fatal_seen": _fatal_seen,
    "fault_kernel": _fault_kernel,
    "host_error": _host_error,
    "limits_ignored": _limits_ignored,
    "not_run": _not_run,
    "old_timeout": _timeout,
    "op_execute": _op_execute,
    "operation_set": _operation_set,
    "orchestrated": _orchestrated,
    "progress": _progress,
    "reclaim": _reclaim,
    "resolution_stall": _resolution_stall,
    "ring_head": _ring_head,
    "ring_state": _ring_state,
    "ring_total": _ring_total,
    "scope_head": _scope_head,
    "signal": _terminate,
    "simulator": _simulator,
    "span": _span,
    "stall_cluster": _stall_cluster,
    "stall_summary": _stall_summary,
    "stall_task": _stall_task,
    "stream_sync": _stream_sync,
    "submitted": _submitted,
    "terminate": _terminate,
    "timeout_exit": _timeout,
    "timeout_host": _timeout,
    "unacknowledged": _unacknowledged,
    "what": _what,
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
