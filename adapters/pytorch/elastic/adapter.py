"""Publish the errors that workers of torchrun's agent have left at each start."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from livedbg.adapters.pytorch.elastic.error_files import Failure, Run, first_failures, run_of
from livedbg.adapters.pytorch.facts import WorkerFacts
from livedbg.model import Diagnostic, Evidence, Process, Severity
from livedbg.session.adapter import Context, Request
from livedbg.session.pacing import Limit, timed
from livedbg.session.polling import PolledAdapter
from livedbg.session.publisher import Publisher
from livedbg.text.sanitize import clean_line

_VARIABLE: Final = "TORCHELASTIC_ERROR_FILE"
_LIMIT: Final = Limit(cpu=0.005, wall=0.1, least_s=2.0)


class ElasticErrorsAdapter(PolledAdapter):
    """Errors in the folders of torchrun's agent."""

    name = "elastic-errors"
    title = "torchrun's error files"
    sees = "which worker of torchrun's agent failed first at each start, and with what error, from its files"
    cost = "looks for the files of the newest 16 starts every 2 s at most"

    def __init__(self) -> None:
        super().__init__()
        self._shown = Publisher("pytorch/elastic")

    @classmethod
    def applies(cls, request: Request) -> bool:
        return bool(request.processes)

    async def look(self, context: Context) -> float:
        runs = _runs(context.snapshot().processes.values(), context.request.host)
        found, cost = await asyncio.to_thread(timed, _read, runs)
        context.emit(*self._shown.add(context.stamp(), diagnostics=(_diagnostic(*one) for one in found)))
        return _LIMIT.rest_s(cost)


def _runs(processes: Iterable[Process], host: str) -> dict[str, tuple[int, Run]]:
    """Return the runs with watched workers, by folder, each with a living pid."""
    found: dict[str, tuple[int, Run]] = {}
    for process in processes:
        run = run_of(process.environment.get(_VARIABLE, ""))
        if run is None or process.exited or not process.target or process.host != host:
            continue
        known = found.get(run.folder)
        if known is None or known[1].start < run.start:
            found[run.folder] = (process.pid, run)
    return found


def _read(runs: dict[str, tuple[int, Run]]) -> list[tuple[Run, Failure]]:
    return [
        (run, failure)
        for pid, run in runs.values()
        for failure in first_failures(run, Path(f"/proc/{pid}", "root" if run.folder.startswith("/") else "cwd"))
    ]


def _diagnostic(run: Run, failure: Failure) -> Diagnostic:
    folder = clean_line(run.folder)
    return Diagnostic(
        id=f"pytorch/worker-failed/{folder}/{failure.start}",
        system="pytorch",
        code="worker-failed",
        severity=Severity.WARNING,
        sentence=f"The worker of local rank {failure.local_rank} failed at start {failure.start + 1}: {failure.error}.",
        facts=WorkerFacts(run=folder, start=failure.start, local_rank=str(failure.local_rank), error=failure.error),
        evidence=(
            Evidence(kind="file", file=clean_line(failure.file), text=failure.error, at_wall_ns=failure.wall_ns),
        ),
        at_wall_ns=failure.wall_ns,
    )
