"""What catchpoints hear, as text or as one JSON object a line."""

from __future__ import annotations

import time
from collections.abc import Iterator

import click
import msgspec

from livedbg.catchpoints import Catchpoint, CatchpointState
from livedbg.cli.stacks import frame_text
from livedbg.model import ExceptionHit
from livedbg.report.build import exception_out
from livedbg.snapshot import Snapshot

__all__ = ["HitPrinter"]


class HitPrinter:
    """Prints what is new in a state: catchpoints to standard error, hits to standard output.

    Args:
        as_json: one JSON object a hit.
        error: hits to standard error too.
    """

    def __init__(self, as_json: bool, *, error: bool = False) -> None:
        self._as_json = as_json
        self._error = error
        self._counts: dict[str, int] = {}
        self._armed: set[str] = set()

    def show(self, snapshot: Snapshot) -> None:
        """Print what is new."""
        for point in snapshot.catchpoints.values():
            if point.state is CatchpointState.ARMED and point.id not in self._armed:
                self._armed.add(point.id)
                pid = point.process.rpartition("/")[2]
                how = " by debug registers" if point.engine == "registers" else ""
                click.echo(f"livedbg: {point.id} listens to process {pid}{how}: {point.note}", err=True)
        for hit in snapshot.exceptions.values():
            before = self._counts.get(hit.id, 0)
            if hit.count > before:
                self._counts[hit.id] = hit.count
                for line in self._lines(hit, before, snapshot):
                    click.echo(line, err=self._error)

    def _lines(self, hit: ExceptionHit, before: int, snapshot: Snapshot) -> Iterator[str]:
        if self._as_json:
            yield msgspec.json.encode(exception_out(hit)).decode()
            return
        thread = snapshot.threads.get(hit.thread or "")
        where = f"{thread.tid} {thread.name}" if thread is not None else (hit.thread or "").rpartition("/")[2]
        stamp = time.strftime("%H:%M:%S", time.localtime((hit.at_wall_ns or 0) / 1e9))
        text = f"{hit.type}: {hit.message}" if hit.message else hit.type
        if before:
            yield f"{stamp} thread {where}: {hit.count} times by now: {text.partition(chr(10))[0]}"
            return
        again = f" ({hit.count} times)" if hit.count > 1 else ""
        yield f"{stamp} thread {where}: {text}{again}"
        for number, frame in enumerate(hit.stack):
            yield f"    #{number:<3}{frame_text(frame)}"
        if hit.partial:
            yield "    (the stack is not whole)" if hit.stack else "    (no stack)"

    def sum_up(self, snapshot: Snapshot) -> None:
        """Print how much was heard, once it is over."""
        for point in snapshot.catchpoints.values():
            if point.state is not CatchpointState.FAILED:
                click.echo(f"livedbg: {_summary(point)}", err=True)


def _summary(point: Catchpoint) -> str:
    lost = f", {point.lost:,} lost (too many at once)" if point.lost else ""
    return f"{point.id} {point.pattern}: {point.hits:,} caught of {point.seen:,} seen{lost}."
