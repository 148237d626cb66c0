"""What each kind of message changes in a job: one small function per kind (`messages` names them)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from livedbg.adapters.ascend.handlers_old import OLD_HANDLERS, Handler
from livedbg.adapters.ascend.marks import Mark
from livedbg.adapters.ascend.messages import Fields, number, optional_number
from livedbg.adapters.ascend.tasks import Dispatched
from livedbg.adapters.ascend.trouble import Crash

if TYPE_CHECKING:
    from livedbg.adapters.ascend.world import World

__all__ = ["HANDLERS", "Handler"]

_PLACES: Final = ("aic", "aiv0", "aiv1")  # of a cluster's three cores, by offset


def _begin(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    world.begin(on_device=func == "init")
    world.run.building = fields.get("mode") == "host"
    if func == "init" and world.run.progress_wall_ns is None:
        world.run.progressed(mark)  # no task ran before
    return ()


def _span(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    name = fields["name"] or ""
    took_ns, pid = optional_number(fields, "dur"), number(fields, "pid")
    if name.startswith("chip.run.bind"):
        within = took_ns is not None and world.trouble.since(mark, took_ns)  # a span is written when it ends
        if world.run.phase in {"completed", "failed"} and not within:
            world.begin(on_device=False)
        world.run.building = False
        world.chips_at_work.add(pid)
        if world.run.phase != "running":
            world.run.progressed(mark)  # no task ran before
    elif name == "chip.run" and fields["depth"] == "0" and world.run.phase != "failed":
        world.end(mark, pid)
    elif name == "chip.run.runner_run" and took_ns is not None and not world.shared:
        world.timeouts.run_took(took_ns / 1e9)
    return ()


def _dispatched(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    raw, thread = number(fields, "task"), number(fields, "thread")
    if raw < 0:
        return ()
    if world.run.phase in {"unknown", "starting"}:
        world.run.phase = "running"
    stall = world.stalls.stall
    if stall is not None and not stall.exit:
        world.stalls.stall = None  # it went on
        world.run.confirmed.clear()
    record = world.run.task(raw)
    kernels: tuple[int, ...] = ()
    if "aic" in fields:
        kernels = record.kernels = (number(fields, "aic"), number(fields, "aiv0"), number(fields, "aiv1"))
    record.blocks = max(record.blocks, number(fields, "blocks"))
    core = number(fields, "core") if "core" in fields else world.run.core_at(thread, number(fields, "offset"))
    world.run.dispatch(
        raw,
        core,
        mark,
        slot=fields["slot"] or "idle",
        subslot=(fields["sub"] or "").lower(),
        place=_PLACES[number(fields, "offset") % 3],
        thread=thread,
    )
    world.run.dispatched[raw] = Dispatched(core, kernels, mark)
    where = (world.names.core(core),) if core is not None else ()
    return (world.names.task(raw), *where)


def _completed(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    if world.shared:
        return ()  # of one chip's run, which isn't known
    world.run.counts.completed, world.run.counts.total = number(fields, "completed"), number(fields, "total")
    if world.run.counts.completed >= world.run.counts.total > 0 and not world.trouble.fatal:
        world.run.finish(mark)
    return ()


def _progress(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    world.run.counts.completed, world.run.counts.total = number(fields, "completed"), number(fields, "total")
    world.run.progressed(mark)
    return ()


def _executed(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    world.run.executed[number(fields, "thread")] = number(fields, "count")
    world.run.settle_executed()
    return ()


def _ring_total(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    world.run.declare(number(fields, "ring"), number(fields, "total"))
    if not world.trouble.fatal:
        world.run.orchestrator = "done"
    return ()


def _submitted(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    world.run.counts.total = number(fields, "total")
    return ()


def _orchestrated(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    if not world.trouble.fatal:
        world.run.orchestrator = "done"
    return ()


def _drained(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    """The simulator's host has joined the threads of all cores: each kernel has returned."""
    stall = world.stalls.stall
    if stall is not None and stall.exit and not world.shared:
        stall.drained = mark
    world.end(mark)
    return ()


def _cluster_map(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    thread, cluster = number(fields, "thread"), number(fields, "cluster")
    triple = (number(fields, "aic"), number(fields, "aiv0"), number(fields, "aiv1"))
    world.run.clusters.setdefault(thread, []).append(triple)
    for core, subslot in zip(triple, ("aic", "aiv0", "aiv1"), strict=True):
        world.run.core(core, subslot, thread).cluster = cluster
    return tuple(world.names.core(core) for core in triple)


def _chip_process(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    world.chips[number(fields, "pid")] = number(fields, "device")
    return ()


def _stall_task(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    world.runs()
    return (world.names.task(world.stalls.task(fields, mark)),)


def _stall_summary(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    world.runs()
    world.stalls.summary(fields, mark)
    return ()


def _stall_cluster(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    world.runs()
    world.stalls.cluster(fields, mark)
    return ()


def _timeout(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    world.runs()
    stall = world.stalls.timeout(fields, mark)
    world.timeouts.add("scheduler", mark, took_s=world.run.idle_s(mark))
    if stall.orchestrator_done and not world.trouble.fatal:
        world.run.orchestrator = "done"
    return (world.names.task(stall.stuck_task),) if stall.stuck_task is not None else ()


def _resolution_stall(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    world.runs()
    stall = world.stalls.resolution(fields, mark)
    world.timeouts.add("scheduler", mark, took_s=world.run.idle_s(mark))
    return tuple(world.names.task(raw) for raw in sorted(stall.ready))


def _fatal_code(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    world.runs()
    world.trouble.fatal_code(fields, func, mark, world.run)
    world.timeouts.tensor_wait(fields["text"] or "", mark)
    tensor = world.trouble.tensor
    return (world.names.task(tensor.task),) if tensor is not None else ()


def _fatal(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    world.runs()
    world.trouble.fatal_words(fields, func, mark)
    ring = world.trouble.ring
    return (world.names.ring(ring.ring),) if ring is not None and ring.ring is not None else ()


def _ring_state(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    world.trouble.ring_state(fields)
    return (world.names.ring(number(fields, "ring")),)


def _ring_head(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    world.trouble.ring_head(fields, world.run)
    head = world.trouble.ring.head if world.trouble.ring is not None else None
    return (world.names.task(head),) if head is not None else ()


def _scope_head(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    world.trouble.scope_head(fields)
    return ()


def _fatal_seen(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    if world.trouble.fatal is None:
        world.trouble.fatal_code({"code": fields["code"], "text": ""}, func, mark, world.run)
    return ()


def _unacknowledged(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    world.trouble.unacknowledged = number(fields, "count")
    world.trouble.unacknowledged_mark = mark
    return ()


def _deinit_timeout(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    core = world.run.core(number(fields, "core"))
    core.stuck = True
    world.run.changed_cores.add(core.number)
    return (world.names.core(core.number),)


def _failed(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    world.runs()
    world.trouble.failed(fields, mark)
    if func in {"drain_execution", "validate_runtime_impl"} or "status" in fields:
        world.run.phase = "failed"
    return ()


def _core_fault(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    if world.trouble.crash is None:
        world.trouble.crash = Crash("AICore fault", fields["text"] or "", mark)
    return ()


def _acl_failed(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    world.trouble.failed(fields, mark)
    world.timeouts.simulator = False
    world.run.phase = "failed"
    return ()


def _operation_set(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    world.timeouts.operation_set(fields)
    return ()


def _stream_sync(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    world.timeouts.stream_sync(fields, mark)
    world.trouble.device = number(fields, "device")
    world.run.phase = "failed"
    return ()


def _op_execute(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    world.timeouts.operation(mark)
    return ()


def _reclaim(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    world.timeouts.reclaim(fields, mark)
    return ()


def _limits_ignored(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    world.timeouts.refused(fields["text"] or "", mark)
    return ()


def _simulator(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    world.timeouts.simulator = True
    return ()


def _fault_kernel(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    world.trouble.fault_kernel = fields["kernel"] or ""
    return ()


def _error_detail(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    world.trouble.detail = fields["text"] or ""
    return ()


def _error_hint(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    world.trouble.hint = fields["text"] or ""
    return ()


def _not_run(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    if world.trouble.status is None:
        world.trouble.status, world.trouble.status_mark = -1, mark  # what validate_runtime_impl returns then
    world.run.phase = "failed"
    return ()


def _host_error(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    world.trouble.failed(fields, mark)
    world.trouble.call = fields.get("call") or world.trouble.call
    world.run.phase = "failed"
    return ()


def _terminate(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    what = fields.get("type") or fields.get("text") or "std::terminate"
    world.trouble.crash = Crash(what, "", mark)
    return ()


def _what(world: World, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    if world.trouble.crash is not None and not world.trouble.crash.message:
        world.trouble.crash.message = fields["text"] or ""
    return ()


HANDLERS: Final[dict[str, Handler]] = {
    **OLD_HANDLERS,
    "acl_failed": _acl_failed,
    "anchor": lambda _world, _fields, _func, _mark: (),
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
