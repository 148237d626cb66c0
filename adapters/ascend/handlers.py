"""Handlers of messages: one small function for each kind changes the job (data/messages.toml names them)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from livedbg.adapters.ascend.job import Job
from livedbg.adapters.ascend.marks import Mark
from livedbg.adapters.ascend.messages import Fields, number, optional_number
from livedbg.adapters.ascend.trouble import Crash

_PLACES: Final = ("aic", "aiv0", "aiv1")  # of a cluster's three cores, by offset

Handler = Callable[[Job, Fields, str, Mark], tuple[str, ...] | None]
"""Takes one message; returns the identifiers of the entities that it speaks of."""

_HANDLERS: Final[dict[str, Handler]] = {}


def handle(job: Job, kind: str, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    """Apply one message to a job; return the entities in it."""
    job.log_goes_on(mark, idle=kind.startswith("stall_"))
    handler = _HANDLERS.get(kind)
    if handler is None:
        return ()
    job.stale = True
    return handler(job, fields, func, mark) or ()


def _on(*kinds: str) -> Callable[[Handler], Handler]:
    """Register a handler for these kinds of messages."""

    def take(handler: Handler) -> Handler:
        _HANDLERS.update(dict.fromkeys(kinds, handler))
        return handler

    return take


@_on("begin", "bind")
def _begin(job: Job, fields: Fields, func: str, mark: Mark) -> None:
    job.begin(on_device=func == "init")
    job.run.building = fields.get("mode") == "host"
    if func == "init" and job.run.progress_wall_ns is None:
        job.run.progressed(mark)  # no task ran before


@_on("at_once")
def _at_once(job: Job, fields: Fields, func: str, mark: Mark) -> None:
    job.at_once = max(job.at_once, number(fields, "count"))


@_on("span")
def _span(job: Job, fields: Fields, func: str, mark: Mark) -> None:
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
        number_ = optional_number(fields, "number")
        if number_ is not None and not job.shared:
            job.ran(number_)
    elif name == "chip.run.runner_run" and took_ns is not None and not job.shared:
        job.timeouts.run_took(took_ns / 1e9)


@_on("dispatched")
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
    if "aic" in fields:
        record.kernels = (number(fields, "aic"), number(fields, "aiv0"), number(fields, "aiv1"))
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
    where = (job.names.core(core),) if core is not None else ()
    return (job.names.task(raw), *where)


@_on("completed")
def _completed(job: Job, fields: Fields, func: str, mark: Mark) -> None:
    if job.shared:
        return  # of one chip's run, which isn't known
    job.run.counts.completed, job.run.counts.total = number(fields, "completed"), number(fields, "total")
    if job.run.counts.completed >= job.run.counts.total > 0 and not job.trouble.fatal:
        job.run.finish(mark)


@_on("progress")
def _progress(job: Job, fields: Fields, func: str, mark: Mark) -> None:
    job.run.counts.completed, job.run.counts.total = number(fields, "completed"), number(fields, "total")
    job.run.progressed(mark)


@_on("executed")
def _executed(job: Job, fields: Fields, func: str, mark: Mark) -> None:
    job.run.executed[number(fields, "thread")] = number(fields, "count")
    job.run.settle_executed()


@_on("ring_total")
def _ring_total(job: Job, fields: Fields, func: str, mark: Mark) -> None:
    job.run.declare(number(fields, "ring"), number(fields, "total"))
    if not job.trouble.fatal:
        job.run.orchestrator = "done"


@_on("submitted")
def _submitted(job: Job, fields: Fields, func: str, mark: Mark) -> None:
    job.run.counts.total = number(fields, "total")


@_on("orchestrated")
def _orchestrated(job: Job, fields: Fields, func: str, mark: Mark) -> None:
    if not job.trouble.fatal:
        job.run.orchestrator = "done"


@_on("drained")
def _drained(job: Job, fields: Fields, func: str, mark: Mark) -> None:
    """Note that the simulator's host has joined all core threads: each kernel has returned."""
    stall = job.stalls.stall
    if stall is not None and stall.exit and not job.shared:
        stall.drained = mark
    job.end(mark)


@_on("cluster_map")
def _cluster_map(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    thread, cluster = number(fields, "thread"), number(fields, "cluster")
    triple = (number(fields, "aic"), number(fields, "aiv0"), number(fields, "aiv1"))
    job.run.clusters.setdefault(thread, []).append(triple)
    for core, subslot in zip(triple, ("aic", "aiv0", "aiv1"), strict=True):
        job.run.core(core, subslot, thread).cluster = cluster
    return tuple(job.names.core(core) for core in triple)


@_on("chip_process")
def _chip_process(job: Job, fields: Fields, func: str, mark: Mark) -> None:
    job.chips[number(fields, "pid")] = number(fields, "device")


@_on("stall_task")
def _stall_task(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.runs()
    job.watchdog_reports()
    return (job.names.task(job.stalls.task(fields, mark)),)


@_on("stall_summary")
def _stall_summary(job: Job, fields: Fields, func: str, mark: Mark) -> None:
    job.runs()
    job.stalls.summary(fields, mark)


@_on("stall_cluster")
def _stall_cluster(job: Job, fields: Fields, func: str, mark: Mark) -> None:
    job.runs()
    job.stalls.cluster(fields, mark)


@_on("stall_round")
def _stall_round(job: Job, fields: Fields, func: str, mark: Mark) -> None:
    job.runs()
    job.stalls.round(fields, mark)


@_on("stall_counts")
def _stall_counts(job: Job, fields: Fields, func: str, mark: Mark) -> None:
    if job.stalls.stall is not None:
        job.stalls.counts(fields)


@_on("stall_core")
def _stall_core(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.stalls.core(fields, mark)
    return (job.names.core(number(fields, "core")),)


@_on("timeout")
def _timeout(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.runs()
    stall = job.stalls.timeout(fields, mark)
    job.timeouts.add("scheduler", mark, took_s=job.run.idle_s(mark))
    if stall.orchestrator_done and not job.trouble.fatal:
        job.run.orchestrator = "done"
    return (job.names.task(stall.stuck_task),) if stall.stuck_task is not None else ()


@_on("resolution_stall")
def _resolution_stall(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.runs()
    stall = job.stalls.resolution(fields, mark)
    job.timeouts.add("scheduler", mark, took_s=job.run.idle_s(mark))
    return tuple(job.names.task(raw) for raw in sorted(stall.ready))


@_on("fatal_code")
def _fatal_code(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.runs()
    job.trouble.fatal_code(fields, func, mark, job.run)
    job.timeouts.tensor_wait(fields.get("text") or "", mark)
    tensor = job.trouble.tensor
    return (job.names.task(tensor.task),) if tensor is not None else ()


@_on("fatal")
def _fatal(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.runs()
    job.trouble.fatal_words(fields, func, mark)
    ring = job.trouble.ring
    return (job.names.ring(ring.ring),) if ring is not None and ring.ring is not None else ()


@_on("ring_state")
def _ring_state(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.trouble.ring_state(fields)
    return (job.names.ring(number(fields, "ring")),)


@_on("ring_head")
def _ring_head(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.trouble.ring_head(fields, job.run)
    head = job.trouble.ring.head if job.trouble.ring is not None else None
    return (job.names.task(head),) if head is not None else ()


@_on("heap_state")
def _heap_state(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.trouble.heap_state(fields)
    return (job.names.ring(number(fields, "ring")),)


@_on("resource")
def _resource(job: Job, fields: Fields, func: str, mark: Mark) -> None:
    job.trouble.resource_numbers(fields)


@_on("scope_head")
def _scope_head(job: Job, fields: Fields, func: str, mark: Mark) -> None:
    job.trouble.scope_head(fields)


@_on("unacknowledged")
def _unacknowledged(job: Job, fields: Fields, func: str, mark: Mark) -> None:
    job.trouble.unacknowledged = number(fields, "count")


@_on("deinit_timeout")
def _deinit_timeout(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    core = job.run.core(number(fields, "core"))
    core.stuck = True
    job.run.changed_cores.add(core.number)
    return (job.names.core(core.number),)


@_on("failed")
def _failed(job: Job, fields: Fields, func: str, mark: Mark) -> None:
    job.runs()
    job.trouble.failed(fields, mark)
    if func in {"drain_execution", "validate_runtime_impl"} or "status" in fields:
        job.run.phase = "failed"


@_on("core_fault")
def _core_fault(job: Job, fields: Fields, func: str, mark: Mark) -> None:
    if job.trouble.crash is None:
        job.trouble.crash = Crash("AICore fault", fields["text"] or "", mark)


@_on("acl_failed")
def _acl_failed(job: Job, fields: Fields, func: str, mark: Mark) -> None:
    job.trouble.failed(fields, mark)
    job.timeouts.simulator = False
    job.run.phase = "failed"


@_on("operation_set")
def _operation_set(job: Job, fields: Fields, func: str, mark: Mark) -> None:
    job.timeouts.operation_set(fields)


@_on("stream_sync")
def _stream_sync(job: Job, fields: Fields, func: str, mark: Mark) -> None:
    job.timeouts.stream_sync(fields, mark)
    job.trouble.device = number(fields, "device")
    job.run.phase = "failed"


@_on("op_execute")
def _op_execute(job: Job, fields: Fields, func: str, mark: Mark) -> None:
    job.timeouts.operation(mark)


@_on("reclaim")
def _reclaim(job: Job, fields: Fields, func: str, mark: Mark) -> None:
    job.timeouts.reclaim(fields, mark)


@_on("limits_ignored")
def _limits_ignored(job: Job, fields: Fields, func: str, mark: Mark) -> None:
    job.timeouts.refused(fields["text"] or "", mark)


@_on("simulator")
def _simulator(job: Job, fields: Fields, func: str, mark: Mark) -> None:
    job.timeouts.simulator = True


@_on("fault_kernel")
def _fault_kernel(job: Job, fields: Fields, func: str, mark: Mark) -> None:
    job.trouble.fault_kernel = fields["kernel"] or ""


@_on("error_hint")
def _error_hint(job: Job, fields: Fields, func: str, mark: Mark) -> None:
    job.trouble.hint = fields["text"] or ""


@_on("not_run")
def _not_run(job: Job, fields: Fields, func: str, mark: Mark) -> None:
    if job.trouble.status is None:
        job.trouble.status, job.trouble.status_mark = -1, mark  # what validate_runtime_impl returns then
    job.run.phase = "failed"


@_on("host_error")
def _host_error(job: Job, fields: Fields, func: str, mark: Mark) -> None:
    job.trouble.failed(fields, mark)
    job.trouble.call = fields.get("call") or job.trouble.call
    job.run.phase = "failed"


@_on("terminate")
def _terminate(job: Job, fields: Fields, func: str, mark: Mark) -> None:
    what = fields.get("type") or fields.get("text") or "std::terminate"
    job.trouble.crash = Crash(what, "", mark)


@_on("what")
def _what(job: Job, fields: Fields, func: str, mark: Mark) -> None:
    if job.trouble.crash is not None and not job.trouble.crash.message:
        job.trouble.crash.message = fields["text"] or ""
