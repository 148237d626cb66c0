"""Pause of the target, time to a verdict, cost of observing: on a 257-thread torch process."""

from __future__ import annotations

import resource
import subprocess
import time
from collections.abc import Iterator

from tests.bench.harness import THREADS, Row, Target, median, program, run, torch_target


def rows() -> Iterator[Row]:
    """Measure, one row after the other."""
    with torch_target() as target:
        yield from _pause(target)
        yield from _time(target)
        yield from _cost(target)


def _pause(target: Target) -> Iterator[Row]:
    pid = str(target.pid)
    livedbg = [program("livedbg"), "report", pid, "--json"]
    floor = target.heart.floor_ms()
    ours = median(lambda: target.heart.pause_ms(lambda: run(*livedbg)))
    excess = max(ours - floor, 0.001)
    yield Row("longest gap of the target's heartbeat: report / nothing", ours, "nothing runs", floor, "ms", "noise")
    peers = {
        "gdb thread apply all bt": [program("gdb"), "-p", pid, "-nx", "-batch", "-ex", "thread apply all bt"],
        "py-spy dump": [program("py-spy"), "dump", "--pid", pid],
        "py-spy dump --nonblocking": [program("py-spy"), "dump", "--nonblocking", "--pid", pid],
        "pystack remote": [program("pystack"), "remote", pid],
        "pystack remote --native": [program("pystack"), "remote", "--native", pid],
    }
    for name, argv in peers.items():
        theirs = median(lambda argv=argv: target.heart.pause_ms(lambda: run(*argv)), 1 if "gdb" in name else 3)
        yield Row("pause above the noise", excess, name, max(theirs - floor, 0.001), "ms", "0")


def _time(target: Target) -> Iterator[Row]:
    pid = str(target.pid)
    ours = median(lambda: run(program("livedbg"), "report", pid, "--json"))
    five = median(lambda: sum(run(program("py-spy"), "dump", "--pid", pid) for _ in range(5)))
    gdb = run(program("gdb"), "-p", pid, "-nx", "-batch", "-ex", "thread apply all bt")
    yield Row("whole `report`, start of Python included", ours, "py-spy dump, five times", five, "s", "")
    yield Row("whole `report`, start of Python included", ours, "gdb thread apply all bt", gdb, "s", "")


def _cost(target: Target, seconds: float = 20.0) -> Iterator[Row]:
    """CPU of a headless observer, without its start: two runs of different length, subtracted."""

    def cpu(duration: float, *, record: bool = False) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        words = ["watch", str(target.pid), "--timeout", str(duration)]
        if record:
            words = ["record", str(target.pid), "-o", "/dev/null", "--force", "--for", str(duration)]
        argv = [program("livedbg"), *words]
        subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    ours = 100 * (cpu(8 + seconds) - cpu(8)) / seconds
    recording = 100 * (cpu(8 + seconds, record=True) - cpu(8, record=True)) / seconds
    argv = [program("py-spy"), "record", "--nonblocking", "-r", "10", "-d", str(int(seconds)), "-o", "/dev/null"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    run(*argv, "--pid", str(target.pid))
    took = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    theirs = 100 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / took
    what = f"cost of observing {THREADS} threads, of one core"
    yield Row(what, max(ours, 0.01), "py-spy record --nonblocking at 10 Hz", theirs, "%", "2 %")
    yield Row("the same while it is recorded", max(recording, 0.01), "without a recording", max(ours, 0.01), "%", "2 %")
