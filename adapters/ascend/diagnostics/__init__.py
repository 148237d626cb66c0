"""What a job's log and files show of its health, as diagnostics (`model.Diagnostic`).

Codes: `run-state` (always), `run-complete`, `stall-summary`, `timeout-exit`, `watchdog-starved`,
`core-anomaly`, `core-unresponsive`, `core-unreturned`, `ring-full`, `tensor-wait-timeout`, `fatal`, `terminate`,
`runtime-failed`, `machine-busy`, `missing-edge`, `flag-cycle`, `shared-log`, and those of `time_limits`. All carry the
attribute `scope`: which job they are about.
"""

from __future__ import annotations

from collections.abc import Iterator

from livedbg.adapters.ascend.diagnostics.failures import crash, failures
from livedbg.adapters.ascend.diagnostics.graph import flag_cycles, lost_orders
from livedbg.adapters.ascend.diagnostics.run_state import run_complete, run_state, shared_log
from livedbg.adapters.ascend.diagnostics.stalls import stall_diagnostics
from livedbg.adapters.ascend.diagnostics.statement import statement
from livedbg.adapters.ascend.diagnostics.time_limits import time_limits
from livedbg.adapters.ascend.job import Job
from livedbg.adapters.ascend.marks import Mark
from livedbg.model import Diagnostic, Severity

__all__ = ["diagnostics"]


def diagnostics(job: Job) -> Iterator[Diagnostic]:
    """All diagnostics of a job as it is now; each id once."""
    yield from _of_the_run(job)
    yield from time_limits(job)


def _of_the_run(job: Job) -> Iterator[Diagnostic]:
    run, stall = job.run, job.stalls.stall
    if run.phase == "unknown" and not run.tasks and job.trouble.crash is None:
        return
    yield run_state(job)
    yield from _of_memory(job)
    if run.phase == "completed":
        yield run_complete(job)
    elif stall is not None:
        yield from stall_diagnostics(job, stall)
    yield from failures(job)
    yield from crash(job)
    yield from lost_orders(job)
    if run.phase != "completed":
        yield from flag_cycles(job)
    if job.shared:
        yield shared_log(job)


def _of_memory(job: Job) -> Iterator[Diagnostic]:
    if job.live is None:
        return
    for code, sentence, attributes, about in job.live.statements():
        entities = (f"{job.names.task(0).rpartition('/')[0]}/{about}",) if about else ()
        source = attributes.get("source", "")
        yield statement(
            job,
            code,
            Severity.WARNING,
            sentence,
            entities=entities,
            attributes=attributes,
            marks=(Mark(source, sentence, kind="memory", seen=True),) if source else (),
            detail=about or attributes.get("core", ""),
        )
