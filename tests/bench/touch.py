"""What touching costs: a glance at threads that run, and attaching a gdb to 257 threads, by the target's own clock."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from livedbg.linux.procfs import thread_ids
from livedbg.touch.attach import Attachment
from livedbg.touch.glance import glance
from tests.bench.harness import TARGETS, THREADS, Heartbeat, Row, Target, program, run, torch_target
from tests.bench.table import Figure, repeated

_REPEATS = 5
_RUNNING = 16  # threads that run, for the figure of one
_GDB = "gdb -p PID -batch -ex detach"


def rows() -> Iterator[Row]:
    """Measure, one row after the other."""
    yield from _attach()
    yield from _glance_at_one()
    yield from _glance_at_many()


def _attach() -> Iterator[Row]:
    """Longest gaps of a thread's own beats; what the same does to a twin beside it is the noise of this box."""
    stood: list[float] = []
    with torch_target() as target, asyncio.Runner() as runner:
        with torch_target() as twin:
            noise = repeated(lambda: _attached(runner, target.heart, twin, []), _REPEATS)
        ours = repeated(lambda: _attached(runner, target.heart, target, stood), _REPEATS)
        argv = [program("gdb"), "-nx", "-p", str(target.pid), "-batch", "-ex", "detach"]
        theirs = repeated(lambda: target.heart.pause_ms(lambda: run(*argv)), 3)
    what = f"longest gap of a thread while gdb is attached to {THREADS} threads and detached, by its own clock"
    yield Row(what, ours, "the same on another process", noise, "ms")
    yield Row(what, ours, _GDB, theirs, "ms", "≤ the peer's")
    above = Figure(tuple(max(gap - noise.median, 0.0) for gap in ours.values))
    gdb = Figure(tuple(max(gap - noise.median, 0.0) for gap in theirs.values))
    yield Row("pause: gap above that noise", above, _GDB, gdb, "ms")
    what = "upper bound for every thread: from the command until the last thread resumed"
    yield Row(what, Figure(tuple(stood)), _GDB, theirs, "ms")


def _attached(runner: asyncio.Runner, heart: Heartbeat, target: Target, stood: list[float]) -> float:
    """The longest gap of a heart while a gdb that has started already attaches to a target and lets it go."""
    attachment = Attachment(program("gdb"), target.pid)
    runner.run(attachment.start())

    async def touch() -> None:
        cost = await attachment.attach()
        stood.append(cost.stopped_ns / 1e6)
        await attachment.detach()

    try:
        return heart.pause_ms(lambda: runner.run(touch()))
    finally:
        runner.run(attachment.close())


@contextlib.contextmanager
def _spinners(threads: int) -> Iterator[Target]:
    """A program of busy threads; the first one keeps the longest time between two turns of its loop."""
    with tempfile.TemporaryDirectory() as folder:
        built, beat = Path(folder) / "spinners", Path(folder) / "beat"
        subprocess.run(["g++", "-O2", "-g", "-pthread", "-o", built, TARGETS / "spinners.cpp"], check=True)
        argv = [built, str(threads), beat]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
            try:
                assert child.stdout is not None
                assert child.stdout.readline().startswith(b"READY")
                yield Target(child.pid, Heartbeat(beat))
            finally:
                child.kill()


def _stops_ms(pid: int) -> list[float]:
    return [stop_ns / 1e6 for stop_ns in glance(pid, thread_ids(pid)).stops_ns.values()]


def _gdb_dump(pid: int) -> list[str]:
    return [program("gdb"), "-p", str(pid), "-nx", "-batch", "-ex", "thread apply all bt"]


def _glance_at_one() -> Iterator[Row]:
    """What a thread that runs sees of a glance at it, by its own clock; and what the glance says of it."""
    with _spinners(1) as target:
        said: list[float] = []
        ours = repeated(lambda: target.heart.pause_ms(lambda: said.append(max(_stops_ms(target.pid)))), 4 * _REPEATS)
        theirs = repeated(lambda: target.heart.pause_ms(lambda: run(*_gdb_dump(target.pid))), 3)
    what = "longest gap of a running thread during a glance, by its own clock"
    yield Row(what, ours, "gdb thread apply all bt", theirs, "ms", "< 1 ms")
    yield Row("the same stop, as reported by the glance", Figure(tuple(said)), "the thread's own clock", ours, "ms")


def _glance_at_many() -> Iterator[Row]:
    """Each of many threads stands by itself: the figure is of one of them."""
    with _spinners(_RUNNING) as target:
        stops = [_stops_ms(target.pid) for _ in range(_REPEATS)]
        theirs = repeated(lambda: 1e3 * run(*_gdb_dump(target.pid)), 3)
    ours = Figure(tuple(statistics.median(each) for each in stops))
    what = f"stop of one thread of {_RUNNING} that run, at a glance at all"
    yield Row(what, ours, "gdb thread apply all bt, all are stopped", theirs, "ms", "< 1 ms")
