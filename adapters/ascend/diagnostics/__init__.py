"""What a job's log and files show of its health, as diagnostics (`model.Diagnostic`).

Codes: `run-state` (always), `run-complete`, `stall-summary`, `timeout-exit`, `watchdog-starved`,
`core-anomaly`, `core-unreturned`, `ring-full`, `tensor-wait-timeout`, `fatal`, `terminate`,
`runtime-failed`, `machine-busy`, `missing-edge`, `flag-cycle`, `shared-log`, and those of `watchdogs`. The facts of all
say which job they are about (`facts.JobFacts`).
"""

from __future__ import annotations

from collections.abc import Iterator

from livedbg.adapters.ascend.diagnostics.failures import crash, failures
from livedbg.adapters.ascend.diagnostics.run import flag_cycles, lost_orders, run_complete, run_state, shared_log
from livedbg.adapters.ascend.diagnostics.watchdogs import stall_diagnostics, time_limits
from livedbg.adapters.ascend.job import Job
from livedbg.model import Diagnostic


def diagnostics(job: Job) -> Iterator[Diagnostic]:
    """All diagnostics of a job as it is now; each id once."""
    yield from _of_the_run(job)
    yield from time_limits(job)


def _of_the_run(job: Job) -> Iterator[Diagnostic]:
    run, stall = job.run, job.stalls.stall
    if run.phase == "unknown" and not run.tasks and job.trouble.crash is None:
        return
    yield run_state(job)
    yield from job.live.statements()
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
