"""What the lines of earlier runtimes change in a job: watchdog dumps of before 2026-05-12, host_build_graph's first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from livedbg.adapters.ascend.job import Job
from livedbg.adapters.ascend.marks import Mark
from livedbg.adapters.ascend.messages import Fields, number

__all__ = ["OLD_HANDLERS", "Handler"]

Handler = Callable[[Job, Fields, str, Mark], tuple[str, ...]]
"""Takes one message; returns the identifiers of the entities that it speaks of."""


def _old_task(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    return (job.names.task(job.stalls.old_task(fields, mark)),)


def _old_stall(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.runs()
    job.stalls.old_round(fields, mark)
    return ()


def _old_scan(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.stalls.counts(fields)
    return ()


def _old_counts(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    if job.stalls.stall is not None:
        job.stalls.counts(fields)
    return ()


def _old_running(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    return (job.names.task(job.stalls.old_running(fields, mark)),)


def _old_waiting(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    return (job.names.task(job.stalls.old_waiting(fields, mark)),)


def _old_core(job: Job, fields: Fields, func: str, mark: Mark) -> tuple[str, ...]:
    job.stalls.old_core(fields, mark)
    return (job.names.core(number(fields, "core")),)


OLD_HANDLERS: Final[dict[str, Handler]] = {
    "old_core": _old_core,
    "old_counts": _old_counts,
    "old_running": _old_running,
    "old_scan": _old_scan,
    "old_stall": _old_stall,
    "old_task": _old_task,
    "old_waiting": _old_waiting,
}
