"""Publish the errors that workers of torchrun's agent have left at each start, in error files and standard error.

The agent gives each worker a file for its error (`TORCHELASTIC_ERROR_FILE`, `RUN/attempt_N/LOCAL_RANK/error.json`;
torch/distributed/elastic/multiprocessing/api.py). `record` writes an exception there, with its time; with
`--redirects` or `--tee` the worker's `stderr.log` is next to it. Both are data of the target: read, never executed.

Invariants:
    error_files.L1. Only regular files below the run's folder are read, by names that the agent gives, and a bounded
        part of each.
    error_files.L2. A worker is said to have failed first only if it alone left an error, or if its time is the
        earliest by more than a second.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec
from msgspec import Struct, field

from livedbg.adapters.pytorch.facts import WorkerFacts
from livedbg.linux import target_files
from livedbg.model import Diagnostic, Evidence, Process, Severity
from livedbg.session.adapter import Context
from livedbg.session.pacing import Limit, timed
from livedbg.session.polling import PolledAdapter
from livedbg.session.publisher import Publisher
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line
from livedbg.text.typed import ready

_PLACE: Final = lazy_re(r"attempt_(\d{1,6})/(\d{1,6})/error\.json$")
_STARTS: Final = 16
"""So many of the newest starts are looked at."""
_RANKS: Final = 128
_MOST: Final = 1 << 20
_TAIL: Final = 1 << 16
_LONGEST: Final = 300
_TRACEBACK: Final = "Traceback (most recent call last):"
_ERROR: Final = lazy_re(r"((?:[A-Za-z_]\w*\.)*[A-Z]\w*)(?:: (.*))?")


class Run(Struct, frozen=True):
    """A run of the agent: its folder as the worker names it (may be relative to the agent's), and the start, from 0."""

    folder: str
    start: int


class Failure(Struct, frozen=True):
    """A worker that has left an error.

    Attributes:
        start: from 0.
        error: `ValueError: bad shard`.
        file: as the worker names it.
        wall_ns: None if not known.
    """

    start: int
    local_rank: int
    error: str
    file: str
    wall_ns: int | None


class _Extra(Struct, frozen=True):
    timestamp: str | int = ""


class _Message(Struct, frozen=True):
    message: str = ""
    extra: _Extra = field(name="extraInfo", default_factory=_Extra)


class _ErrorFile(Struct, frozen=True):
    message: _Message | str


def run_of(error_file: str) -> Run | None:
    """Return the run of a `TORCHELASTIC_ERROR_FILE`; None if it is no such path."""
    match = _PLACE.search(error_file)
    parents = PurePosixPath(error_file).parents
    if match is None or ".." in error_file.split("/") or len(parents) < 4:
        return None
    return Run(str(parents[2]), int(match[1]))


def first_failures(run: Run, root: Path) -> list[Failure]:
    """Return the first failure of each start of a run, as far as known (L2), oldest start first.

    The run's folder is below `root`: `/proc/PID/root`, or `/proc/PID/cwd`.
    """
    found = []
    for start in range(max(0, run.start + 1 - _STARTS), run.start + 1):
        first = _first(_failures(run, start, root))
        if first is not None:
            found.append(first)
    return found


def _first(failures: Iterable[Failure]) -> Failure | None:
    found = list(failures)
    if len(found) < 2:
        return found[0] if found else None
    if any(one.wall_ns is None for one in found):
        return None
    first, second, *_ = sorted(found, key=lambda one: one.wall_ns or 0)
    return first if first.wall_ns != second.wall_ns else None


def _failures(run: Run, start: int, root: Path) -> list[Failure]:
    """Return the workers with an error file, or else those whose standard error ends with an exception."""
    here = f"{run.folder}/attempt_{start}"
    folder = root / here.lstrip("/")
    try:
        ranks = sorted(
            int(one.name) for one in target_files.entries(folder) if one.name.isdecimal() and len(one.name) < 7
        )[:_RANKS]
    except OSError:
        return []
    for name, read in (("error.json", _of_error_file), ("stderr.log", _of_stderr)):
        said = {rank: read(folder / str(rank) / name) for rank in ranks}
        found = [
            Failure(start, rank, clean_line(one[0], _LONGEST), f"{here}/{rank}/{name}", one[1])
            for rank, one in said.items()
            if one is not None
        ]
        if found:
            return found
    return []


def _of_error_file(path: Path) -> tuple[str, int | None] | None:
    data = _end_of(path, _MOST)
    if not data:
        return None
    try:
        message = msgspec.json.decode(data, type=ready(_ErrorFile)).message
    except (msgspec.DecodeError, RecursionError):
        return None
    if isinstance(message, str):
        return message.partition("\n")[0], None
    seconds = str(message.extra.timestamp)
    wall_ns = int(seconds) * 1_000_000_000 if seconds.isdecimal() and len(seconds) < 12 else None
    return message.message.partition("\n")[0], wall_ns


def _of_stderr(path: Path) -> tuple[str, int | None] | None:
    """Return the exception at the end of a worker's standard error; its write time is not used."""
    lines = _end_of(path, _TAIL).decode("utf-8", "replace").rstrip().splitlines()
    begins = next((number for number in reversed(range(len(lines))) if lines[number] == _TRACEBACK), None)
    if begins is None:
        return None
    after = [line for line in lines[begins + 1 :] if line and not line.startswith(" ")]
    match = _ERROR.fullmatch(after[0]) if after else None
    return (match[0], None) if match is not None else None


def _end_of(path: Path, most: int) -> bytes:
    try:
        fd = target_files.open_fd(path, links=False)
    except OSError:
        return b""
    try:
        return os.pread(fd, most, max(0, os.fstat(fd).st_size - most))
    except OSError:
        return b""
    finally:
        os.close(fd)


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
