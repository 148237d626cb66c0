"""What a catchpoint costs its target, by the target's own clock: a hit, a throw of another type, the time between
throws; by both ways to trace, against gdb's catchpoint, in one run."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from livedbg.adapters.exceptions.breakpoint_tracer import BreakpointTracer
from livedbg.adapters.exceptions.calls import TracedCall
from livedbg.adapters.exceptions.function_tracer import FunctionTracer
from livedbg.adapters.exceptions.native_calls import NativeCalls, PythonCallers
from livedbg.linux import procfs
from livedbg.model.catchpoints import Moment
from tests.bench.harness import TARGETS, Row, cpu_of, program
from tests.bench.table import Figure

_REPEATS = 3
_HITS = (200, 100)  # throws, and a second: hits that can be taken one by one
_FLOOD = 10_000  # throws a second of a type that nobody wants
_FLOOD_S = 2
_FLAT_OUT = (100_000, 10_000_000)  # as fast as it can; gdb gets fewer
_FLAT_OUT_GDB = (400, 10_000_000)
_WORK_MS = 1000
_GDB = "gdb, catch throw REGEX"

Watching = Callable[["_Target", bool], AbstractContextManager[Callable[[], float]]]
"""Watches a target, whose type is wanted or not; gives the CPU seconds that the watcher has used."""


class _Throws(NamedTuple):
    """What the target says of its throws."""

    median_us: float
    p90_us: float
    per_s: float

    @property
    def mean_us(self) -> float:
        """Of one turn, where it throws as fast as it can."""
        return 1e6 / self.per_s


class _Seen(NamedTuple):
    """What one way to watch costs; of each repeat one."""

    hits: list[_Throws]
    flat_out_hits: list[_Throws]
    flood: list[_Throws]
    flat_out: list[_Throws]
    flood_cpu: list[float]
    calls_per_us: list[float]


def rows() -> Iterator[Row]:
    """Measure, one row after the other."""
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "paced"
        subprocess.run(["g++", "-O1", "-g", TARGETS / "paced.cpp", "-o", built], check=True)
        with _Target(built) as target:
            bare = _measured(target, _nobody)
            gdb = _measured(target, _gdb, _FLAT_OUT_GDB)
            for name, start in (("probe events", _by_probes), ("debug registers", _by_registers)):
                yield from _rows(name, _measured(target, partial(_tracing, start)), gdb, bare)
    yield Row(f"a throw without tracing, at {_HITS[1]} a second", _figure(bare.hits, "median_us"), "none", 0.0, "us")
    yield Row("a throw without tracing, at full speed", _figure(bare.flat_out, "mean_us"), "none", 0.0, "us")


def _rows(name: str, ours: _Seen, gdb: _Seen, bare: _Seen) -> Iterator[Row]:
    def above(seen: Sequence[_Throws], field: str, base: Sequence[_Throws]) -> Figure:
        """What comes on top of the throw itself."""
        least = _figure(base, field).median
        return Figure(tuple(max(value - least, 0.0) for value in _figure(seen, field).values))

    for what, field in (("pause of a hit", "median_us"), ("pause of a hit, 90th percentile,", "p90_us")):
        yield Row(
            f"{what} at {_HITS[1]} a second, by {name}",
            above(ours.hits, field, bare.hits), _GDB, above(gdb.hits, field, bare.hits), "us",
        )  # fmt: skip
    yield Row(
        f"pause of a hit at full speed, by {name}",
        above(ours.flat_out_hits, "mean_us", bare.flat_out), _GDB,
        above(gdb.flat_out_hits, "mean_us", bare.flat_out), "us",
    )  # fmt: skip
    what = f"a throw that doesn't match, at {_FLOOD:,} a second, by {name}"
    yield Row(
        f"pause of {what}", above(ours.flood, "median_us", bare.flood), _GDB,
        above(gdb.flood, "median_us", bare.flood), "us",
    )  # fmt: skip
    yield Row(
        f"throws a second where {_FLOOD:,} are wanted, by {name}", _figure(ours.flood, "per_s"), _GDB,
        _figure(gdb.flood, "per_s"), "/s",
    )  # fmt: skip
    yield Row(
        f"CPU of the tracer meanwhile, of one core, by {name}", Figure(tuple(ours.flood_cpu)), _GDB,
        Figure(tuple(gdb.flood_cpu)), "%",
    )  # fmt: skip
    yield Row(
        f"pause of a throw that doesn't match, at full speed, by {name}",
        above(ours.flat_out, "mean_us", bare.flat_out), _GDB, above(gdb.flat_out, "mean_us", bare.flat_out), "us",
    )  # fmt: skip
    yield Row(
        f"between throws: function calls per microsecond of CPU, by {name}", Figure(tuple(ours.calls_per_us)),
        "not traced", Figure(tuple(bare.calls_per_us)), "/us",
    )  # fmt: skip


def _figure(seen: Sequence[_Throws], field: str) -> Figure:
    return Figure(tuple(getattr(one, field) for one in seen))


class _Target:
    """A program that throws when it is told to, and measures it."""

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen(
            [path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL
        )
        self.pid = self._process.pid
        self._line()

    def __enter__(self) -> _Target:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def throws(self, times: int, per_s: int) -> _Throws:
        """Throw, at most so many a second."""
        median_ns, p90_ns, reached = self._said(f"throw runtime {times} {per_s}")
        return _Throws(median_ns / 1e3, p90_ns / 1e3, reached)

    def calls_per_us(self) -> float:
        """How fast it calls a function that throws nothing."""
        (per_s,) = self._said(f"work {_WORK_MS}")
        return per_s / 1e6

    def _said(self, command: str) -> list[float]:
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        return [float(word) for word in self._line().split()[1:]]

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the target has ended"
        return line


def _measured(target: _Target, watching: Watching, flat_out: tuple[int, int] = _FLAT_OUT) -> _Seen:
    seen = _Seen([], [], [], [], [], [])
    few = min(flat_out[0], 1000)
    with watching(target, True):
        for _ in range(3):  # unwind tables are read at the first ones, and types learnt
            target.throws(few // 10, 1000)
        for _ in range(_REPEATS):
            seen.hits.append(target.throws(*_HITS))
            seen.flat_out_hits.append(target.throws(*flat_out))
    with watching(target, False) as cpu_s:
        for _ in range(3):
            target.throws(few // 10, 1000)
            time.sleep(0.3)
        for _ in range(_REPEATS):
            used, began = cpu_s(), time.monotonic()
            seen.flood.append(target.throws(_FLOOD * _FLOOD_S, _FLOOD))
            seen.flood_cpu.append(100 * (cpu_s() - used) / (time.monotonic() - began))
            seen.flat_out.append(target.throws(*flat_out))
            seen.calls_per_us.append(target.calls_per_us())
    return seen


@contextlib.contextmanager
def _nobody(target: _Target, wanted: bool) -> Iterator[Callable[[], float]]:
    del target, wanted
    yield lambda: 0.0


def _drop(traced: Sequence[TracedCall]) -> None:
    del traced


def _by_probes(pid: int, wanted: bool) -> FunctionTracer:
    calls = NativeCalls(Moment.THROW, ["__cxa_throw"], PythonCallers(pid))
    return FunctionTracer(pid, calls, wanted=lambda _call: wanted, report=_drop, follow=False)


def _by_registers(pid: int, wanted: bool) -> BreakpointTracer:
    return BreakpointTracer(pid, Moment.THROW, ["__cxa_throw"], wanted=lambda _call: wanted, report=_drop, follow=False)


@contextlib.contextmanager
def _tracing(
    made: Callable[[int, bool], FunctionTracer | BreakpointTracer], target: _Target, wanted: bool
) -> Iterator[Callable[[], float]]:
    tracer = made(target.pid, wanted)
    tracer.start()
    try:
        yield time.process_time  # it reads in a thread of this process, which does nothing else meanwhile
    finally:
        tracer.stop()


@contextlib.contextmanager
def _gdb(target: _Target, wanted: bool) -> Iterator[Callable[[], float]]:
    """gdb's catchpoint, which goes on by itself."""
    regex = "runtime_error" if wanted else "logic_error"
    script = "\n".join(
        ("set pagination off", f"catch throw {regex}", "commands", "silent", "continue", "end", "continue", "")
    )
    with tempfile.NamedTemporaryFile("w", suffix=".gdb") as file:
        file.write(script)
        file.flush()
        argv = [program("gdb"), "-nx", "-q", "-batch", "-p", str(target.pid), "-x", file.name]
        with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as gdb:
            try:
                _until(lambda: _traced_and_running(target.pid))
                yield lambda: cpu_of(gdb.pid)
            finally:
                gdb.terminate()
                gdb.wait()
                _until(lambda: procfs.status_fields(target.pid)["TracerPid"] == "0")


def _traced_and_running(pid: int) -> bool:
    fields = procfs.status_fields(pid)
    return fields["TracerPid"] != "0" and not fields["State"].startswith("t")


def _until(look: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not look():
        if time.monotonic() > end:
            raise TimeoutError("gdb did not get there")
        time.sleep(0.02)
