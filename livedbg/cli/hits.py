"""What catchpoints catch, as text or as one JSON object per line."""

from __future__ import annotations

import time
from collections.abc import Iterator

import click
from msgspec import structs

from livedbg.cli.frames import frame_text
from livedbg.commands.messages import warn
from livedbg.model import ExceptionHit
from livedbg.model.catchpoints import Catchpoint, CatchpointState
from livedbg.model.snapshot import Snapshot
from livedbg.report.build import exception_out
from livedbg.text.json_text import json_line
from livedbg.text.quantities import clock, milliseconds

_DOES = {"registers": "traces (debug registers)", "gdb": "stops threads of"}


class HitPrinter:
    """Prints what is new in a state: catchpoints to standard error, hits to standard output.

    Args:
        as_json: one JSON object a hit.
        error: hits to standard error too, and catchpoints that failed.
        caught_only: what catchpoints caught, not what logs tell of.
    """

    def __init__(self, as_json: bool, *, error: bool = False, caught_only: bool = False) -> None:
        self._as_json = as_json
        self._error = error
        self._caught_only = caught_only
        self._counts: dict[str, int] = {}
        self._armed: set[str] = set()
        self._failed: set[str] = set()
        self._stopped: set[str] = set()
        self._paused_ms: dict[str, float] = {}

    def show(self, snapshot: Snapshot) -> None:
        """Print what is new."""
        for point in snapshot.catchpoints.values():
            if point.state is CatchpointState.ARMED and point.id not in self._armed:
                self._armed.add(point.id)
                pid = point.process.rpartition("/")[2]
                does = _DOES.get(point.engine, "traces")
                click.echo(f"livedbg: {point.id} {does} process {pid}: {point.note}", err=True)
            if point.state is CatchpointState.FAILED and point.id not in self._failed:
                self._failed.add(point.id)
                if self._error:  # else the command ends with it
                    warn(f"{point.pattern} is not caught: {point.note}", point.remedy)
            if point.stopped_thread and point.stopped_thread not in self._stopped:
                left_s = max(0.0, ((point.until_wall_ns or 0) - time.time_ns()) / 1e9)
                why = f" {point.until_why}" if point.until_why else ""
                click.echo(
                    f"livedbg: the thread is stopped for {left_s:.0f} s at most. Enter resumes it.{why}", err=True
                )
            self._stopped = {other.stopped_thread for other in snapshot.catchpoints.values() if other.stopped_thread}
        for hit in snapshot.exceptions.values():
            if self._caught_only and hit.catchpoint not in snapshot.catchpoints:
                continue
            before = self._counts.get(hit.id, 0)
            if hit.count > before:
                self._counts[hit.id] = hit.count
                for line in self._lines(hit, before, snapshot):
                    click.echo(line, err=self._error)
            if hit.paused_ms > self._paused_ms.get(hit.id, 0.0):
                paused_ms = hit.paused_ms - self._paused_ms.get(hit.id, 0.0)
                self._paused_ms[hit.id] = hit.paused_ms
                paused = milliseconds(paused_ms * 1e6)
                click.echo(
                    f"livedbg: thread {_thread(hit, snapshot)} was stopped for {paused} and is resumed.", err=True
                )

    def _lines(self, hit: ExceptionHit, before: int, snapshot: Snapshot) -> Iterator[str]:
        if self._as_json:
            yield json_line(exception_out(hit))
            return
        where = f"{_thread(hit, snapshot)}{_job(hit)}"
        stamp = clock(hit.at_wall_ns)
        text = f"{hit.type}: {hit.message}" if hit.message else hit.type
        if before:
            yield f"{stamp} thread {where}: {hit.count} times so far: {text.partition(chr(10))[0]}"
            return
        again = f" ({hit.count} times)" if hit.count > 1 else ""
        yield f"{stamp} thread {where}: {text}{again}"
        for number, frame in enumerate(hit.stack):
            yield f"    #{number:<3}{frame_text(structs.replace(frame, local_variables=()))}"
            for text in frame.local_variables:
                yield f"          {text}"
            for line, text in enumerate(frame.source, frame.source_from):
                yield f"        {'>' if line == frame.line else ' '} {line:5} {text}".rstrip()
        if hit.partial:
            yield "    (incomplete stack)" if hit.stack else "    (no stack)"

    def sum_up(self, snapshot: Snapshot) -> None:
        """Print the totals at the end."""
        for point in snapshot.catchpoints.values():
            if point.state is not CatchpointState.FAILED:
                click.echo(f"livedbg: {_summary(point)}", err=True)


def _thread(hit: ExceptionHit, snapshot: Snapshot) -> str:
    thread = snapshot.threads.get(hit.thread or "")
    return f"{thread.tid} {thread.name}" if thread is not None else (hit.thread or "").rpartition("/")[2]


def _job(hit: ExceptionHit) -> str:
    """` (rank 1, in all_reduce #5 of group 0)`."""
    parts = [f"rank {hit.rank}"] if hit.rank is not None else []
    parts += [f"in {hit.operation}"] if hit.operation else []
    return f" ({', '.join(parts)})" if parts else ""


def _summary(point: Catchpoint) -> str:
    why = "missed while another thread was stopped" if point.engine == "gdb" else "lost (ring buffer full)"
    lost = f", {point.lost:,} {why}" if point.lost else ""
    ending = f" The process {point.ending}." if point.ending else ""
    return f"{point.id} {point.pattern}: {point.hits:,} of {point.seen:,} matched{lost}.{ending}"
