"""What messages about failures change in a job: time-outs, fatal errors, return codes, faults, ends of the process."""

from __future__ import annotations

from typing import Final

from livedbg.adapters.ascend.handlers_before_2026_05 import Handler
from livedbg.adapters.ascend.job import Job
from livedbg.adapters.ascend.marks import Mark
from livedbg.adapters.ascend.messages import Fields, number
from livedbg.adapters.ascend.trouble import Crash

__all__ = ["FAILURE_HANDLERS"]


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


def _heap_state(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.trouble.heap_state(fields)
    return (job.names.ring(number(fields, "ring")),)


def _heap_request(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.trouble.heap_request(fields)
    return ()


def _resource(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.trouble.resource_numbers(fields)
    return ()


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


FAILURE_HANDLERS: Final[dict[str, Handler]] = {
    "acl_failed": _acl_failed,
    "core_fault": _core_fault,
    "deinit_timeout": _deinit_timeout,
    "error_detail": _error_detail,
    "error_hint": _error_hint,
    "failed_codes": _failed,
    "failed_rc": _failed,
    "fatal": _fatal,
    "fatal_code": _fatal_code,
    "fatal_seen": _fatal_seen,
    "fault_kernel": _fault_kernel,
    "heap_request": _heap_request,
    "heap_state": _heap_state,
    "host_error": _host_error,
    "limits_ignored": _limits_ignored,
    "not_run": _not_run,
    "old_timeout": _timeout,
    "op_execute": _op_execute,
    "operation_set": _operation_set,
    "reclaim": _reclaim,
    "resolution_stall": _resolution_stall,
    "resource": _resource,
    "ring_head": _ring_head,
    "ring_state": _ring_state,
    "scope_head": _scope_head,
    "signal": _terminate,
    "simulator": _simulator,
    "stream_sync": _stream_sync,
    "terminate": _terminate,
    "timeout_exit": _timeout,
    "timeout_host": _timeout,
    "unacknowledged": _unacknowledged,
    "what": _what,
}
