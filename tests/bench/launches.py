"""What tracing launches costs the launching thread, by that thread's own clock, on stand-ins for CUDA's libraries
whose launch functions do nothing: looked at each, only counted, and alone."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from livedbg.adapters.cuda.launch_functions import CUDA_LAUNCHES, FUNCTIONS
from livedbg.adapters.launches.tracer import LaunchTracer
from livedbg.linux import procfs
from livedbg.probes.perf import TRACEPOINT, Source
from livedbg.probes.perf_count import Tally
from livedbg.probes.places import find_places
from livedbg.probes.tracefs import TraceEvents
from tests.bench.harness import TARGETS, Row
from tests.bench.table import Figure, repeated

__all__ = ["rows"]

_REPEATS = 3
_PER_S = 500
_PACED = f"1000 {_PER_S}"  # launches, and a second
_FLAT_OUT = "20000 0"

Tracing = Callable[[int], AbstractContextManager[object]]


def rows() -> Iterator[Row]:
    """Measure, one row after the other."""
    with tempfile.TemporaryDirectory() as folder, _launcher(Path(folder)) as process:

        def launch_us(tracing: Tracing, order: str) -> Figure:
            """Microseconds of a launch, in the mean of each repeat."""

            def once() -> float:
                with tracing(process.pid):
                    return _said(process, f"driver {order}") / 1e3

            return repeated(once, _REPEATS)

        for speed, order in ((f"at {_PER_S} a second", _PACED), ("at full speed", _FLAT_OUT)):
            bare = launch_us(_nobody, order)
            for name, tracing in (("traced", _each), ("only counted", _counted)):
                figure = launch_us(tracing, order)
                yield Row(f"a launch that is {name}, {speed}", figure, "not traced", bare, "us")
                if order == _PACED:
                    share = 100 * (figure.median - bare.median) * _PER_S / 1e6
                    yield Row("share of the launching thread's time", share, "none", 0.0, "%")


@contextlib.contextmanager
def _launcher(folder: Path) -> Iterator[subprocess.Popen[str]]:
    driver, program = folder / "libcuda.so.1", folder / "launcher"
    standin = TARGETS / "cuda_standin.c"
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", standin, "-o", driver], check=True)
    subprocess.run(["g++", "-O1", "-pthread", TARGETS / "cuda_launcher.cpp", "-o", program, "-ldl"], check=True)
    with subprocess.Popen(
        [program, driver], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "READY\n"
            yield process
        finally:
            process.kill()


def _said(process: subprocess.Popen[str], order: str) -> float:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{order}\n")
    process.stdin.flush()
    return float(process.stdout.readline().split()[-1])


@contextlib.contextmanager
def _nobody(pid: int) -> Iterator[None]:
    yield


@contextlib.contextmanager
def _each(pid: int) -> Iterator[None]:
    tracer = LaunchTracer(pid, 1e6, CUDA_LAUNCHES, lambda traced: None)  # whatever it costs
    tracer.start()
    try:
        yield
    finally:
        tracer.stop()


@contextlib.contextmanager
def _counted(pid: int) -> Iterator[None]:
    found, _ = find_places(pid, FUNCTIONS)
    with TraceEvents() as trace:
        events = [trace.define(one.place.path, one.place.offset, CUDA_LAUNCHES.arguments[one.name]) for one in found]
        tally = Tally([Source(TRACEPOINT, event.number) for event in events], procfs.thread_ids(pid), follow=False)
        try:
            yield
            assert tally.total()
        finally:
            tally.close()
