"""Pause of the target, time of one look, cost of observing: on a 257-thread torch process, against the tools that
people use now."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.app.terminal import Terminal
from tests.bench.harness import (
    THREADS,
    Heartbeat,
    Row,
    Target,
    cpu_of,
    program,
    run,
    switches,
    torch_target,
)
from tests.bench.table import Figure, repeated

_SETTLE_S = 12.0
_EXECUTED = "import os, sys; os.execv(sys.argv[1], sys.argv[1:])"


def rows(repeats: int = 5, seconds: float = 20.0) -> Iterator[Row]:
    """Measure, one row after the other."""
    with torch_target() as target:
        with torch_target() as twin:
            yield from _pause(target, twin, repeats)
        yield from _time(target, repeats)
        yield from _cost(target, seconds, "a quiet")
        yield from _recording(target, seconds)
    with torch_target(busy=True) as target:
        yield from _cost(target, seconds, "a busy")


def report_on(pid: int) -> Callable[[], float]:
    """Return one look of ours, which says how many seconds it took."""
    return lambda: run(program("livedbg"), "report", str(pid), "--for", "0", "--json")


def peers_of(pid: int) -> dict[str, Callable[[], float]]:
    """Return the same of each peer."""
    target = str(pid)
    return {
        "gdb thread apply all bt": lambda: run(
            program("gdb"), "-p", target, "-nx", "-batch", "-ex", "thread apply all bt"
        ),
        "py-spy dump": lambda: run(program("py-spy"), "dump", "--pid", target),
        "py-spy dump --nonblocking": lambda: run(program("py-spy"), "dump", "--nonblocking", "--pid", target),
        "pystack remote": lambda: run(program("pystack"), "remote", target),
        "pystack remote --native": lambda: run(program("pystack"), "remote", "--native", target),
    }


def _pause(target: Target, twin: Target, repeats: int) -> Iterator[Row]:
    """Longest gaps, less those of a target at whose twin livedbg looks: what the work beside it costs on this box."""
    gaps, control = [], []
    for _ in range(repeats):
        gaps.append(target.heart.pause_ms(report_on(target.pid)))
        control.append(target.heart.pause_ms(report_on(twin.pid)))
    noise = Figure(tuple(control))
    what = "longest gap of the target's heartbeat during a `report`"
    yield Row(what, Figure(tuple(gaps)), "a `report` on another process", noise, "ms")
    above = Figure(tuple(max(gap - noise.median, 0.0) for gap in gaps))
    for name, peer in peers_of(target.pid).items():
        theirs = _above(target.heart, peer, noise.median, 3 if "gdb" in name else repeats)
        yield Row("pause: gap above that noise", above, name, theirs, "ms", "≤ 1/1000 of gdb" if "gdb" in name else "")
    for name in ("gdb thread apply all bt", "py-spy dump", "py-spy dump --nonblocking", "pystack remote"):
        ours = repeated(lambda: _switched(target, report_on(target.pid)), 3)
        theirs = repeated(
            lambda name=name: _switched(target, peers_of(target.pid)[name]), 3 if "gdb" not in name else 1
        )
        yield Row("context switches of its waiting threads while observed", ours, name, theirs, "/scan", "≤ 0 /scan")


def _above(heart: Heartbeat, action: Callable[[], float], noise: float, repeats: int) -> Figure:
    return repeated(lambda: max(heart.pause_ms(action) - noise, 0.0), repeats)


def _switched(target: Target, look: Callable[[], float]) -> float:
    """Context switches, while it is looked at, of the threads that have none by themselves."""
    before = switches(target.pid)
    time.sleep(1)
    waiting = [tid for tid, count in switches(target.pid).items() if before.get(tid) == count]
    look()
    after = switches(target.pid)
    return sum(after[tid] - before[tid] for tid in waiting)


def _time(target: Target, repeats: int) -> Iterator[Row]:
    ours = repeated(report_on(target.pid), repeats)
    peers = peers_of(target.pid)
    what = "a complete `report` with native stacks and waits, including start-up"
    for name, peer in peers.items():
        yield Row(what, ours, name, repeated(peer, 1 if "gdb" in name else repeats), "s")
    five = repeated(lambda: sum(peers["py-spy dump"]() for _ in range(5)), 3)
    yield Row(what, ours, "py-spy dump, five times", five, "s")


def _share(argv: list[str], seconds: float) -> float:
    """CPU of a program on a terminal once it has settled, in percent of one core."""
    with Terminal(*argv, size=(80, 24), program=_EXECUTED, fresh=True) as terminal:
        _read(terminal, _SETTLE_S)
        before, begun = cpu_of(terminal.process.pid), time.monotonic()
        _read(terminal, seconds)
        used, took_s = cpu_of(terminal.process.pid) - before, time.monotonic() - begun
        assert terminal.process.poll() is None, terminal.output[-2000:]
        return 100 * used / took_s


def _read(terminal: Terminal, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        terminal.pump(0.2)


def _cost(target: Target, seconds: float, kind: str) -> Iterator[Row]:
    pid = str(target.pid)
    ours = repeated(lambda: _share([program("livedbg"), "attach", pid], seconds), 2)
    top = _share([program("top"), "-H", "-d", "0.5", "-p", pid], seconds)
    spy = _share([program("py-spy"), "top", "--nonblocking", "-r", "2", "--pid", pid], seconds)
    what = f"`attach` to {kind} process of {THREADS} threads, CPU of one core"
    yield Row(what, ours, "top -H -d 0.5", top, "%", "≤ 2 %")
    yield Row(what, ours, "py-spy top --nonblocking -r 2", spy, "%", "≤ 2 %")


def _recording(target: Target, seconds: float) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        argv = [program("livedbg"), "record", str(target.pid), "-o", str(Path(folder) / "x.livedbg")]
        ours = repeated(lambda: _share([*argv, "--force"], seconds), 2)
        argv = [program("py-spy"), "record", "--nonblocking", "-r", "2", "-d", "600", "-o", str(Path(folder) / "x")]
        theirs = _share([*argv, "--pid", str(target.pid)], seconds)
    yield Row("`record` of the quiet process", ours, "py-spy record --nonblocking -r 2", theirs, "%", "≤ 2 %")


def shown_version(name: str) -> str:
    """What a program says its version is."""
    done = subprocess.run([program(name), "--version"], capture_output=True, text=True, check=False)
    return (done.stdout or done.stderr).partition("\n")[0].strip()
