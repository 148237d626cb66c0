"""Programs that spin and programs that compute, told apart by their samples: no name of a function matters."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from livedbg.analysis import engine
from livedbg.analysis.rules.base import Settings
from livedbg.linux.x86_64 import PC
from livedbg.model.request import Request, TargetProcess
from livedbg.probes.clock_samples import ClockSamples, Repeated, Repeats, refused_here
from livedbg.probes.perf_records import Sample
from livedbg.session.live import LiveView
from livedbg.session.tools import no_unwinder
from tests.conftest import TARGETS, Target
from tests.waiting import Bound, until

SOURCE = TARGETS / "loops.cpp"
PYTHON = "import sys; flag = []; print('READY', flush=True)\nwhile not flag: pass"
SAMPLES = 40
PERIOD_NS = 2_000_000


pytestmark = pytest.mark.skipif(
    refused_here() is not None or no_unwinder(Request(host="box")) is not None,
    reason=f"no samples here: {refused_here()}, or nothing that unwinds",
)


def line(mark: str) -> int:
    """The number of the line with a mark."""
    lines = enumerate(SOURCE.read_text().splitlines(), 1)
    return next(number for number, text in lines if text.endswith(f"// @{mark}"))


def samples(pid: int) -> Iterator[Sample]:
    """Samples of a main thread that is in its loop."""
    bound, count = Bound([pid]), 0
    with ClockSamples() as clocks:
        clocks.follow({pid: PERIOD_NS})
        while count < SAMPLES:
            assert not (problem := bound.problem()), f"{problem}: {count} samples"
            time.sleep(0.01)
            for sample in clocks.read():
                count += 1
                yield sample


def last(target: Target) -> Repeated | None:
    repeats = Repeats()
    found = [repeats.seen(target.pid, sample) for sample in samples(target.pid)]
    return found[-1]


@pytest.fixture
def program(build_target: Callable[..., Path], spawn: Callable[..., Target]) -> Callable[[str], Target]:
    def start(mode: str) -> Target:
        return spawn([build_target("loops", "-std=c++17"), mode])

    return start


@pytest.mark.invariant("clock_samples.E2")
@pytest.mark.parametrize("mode", ["flag", "spinlock"])
def test_a_thread_that_spins_repeats_itself(mode: str, program: Callable[[str], Target]) -> None:
    found = last(program(mode))
    assert found is not None and found.samples >= SAMPLES // 2


@pytest.mark.invariant("clock_samples.E1")
@pytest.mark.parametrize("mode", ["hash", "sum", "reals", "matrix", "fill", "counts"])
def test_a_thread_that_computes_never_repeats_itself(mode: str, program: Callable[[str], Target]) -> None:
    """Nor does one that waits and counts its turns: from outside it is the same."""
    repeats, target = Repeats(), program(mode)
    longest = max((repeats.seen(target.pid, one) or Repeated(0, 0)).samples for one in samples(target.pid))
    assert longest <= 1


def test_python_code_that_spins_is_not_known_to(spawn: Callable[..., Target]) -> None:
    found = last(spawn([sys.executable, "-c", PYTHON]))
    assert found is None or found.samples <= 1


@pytest.mark.invariant("clock_samples.E1")
def test_other_registers_or_another_place_begin_anew(program: Callable[[str], Target]) -> None:
    target, repeats = program("flag"), Repeats()
    some = list(samples(target.pid))
    first = some[-1]
    later = first._replace(mono_ns=first.mono_ns + 1)
    assert repeats.seen(target.pid, first) is None
    assert repeats.seen(target.pid, later) == (first.mono_ns, 1)
    other = later._replace(registers=(later.registers[0] + 1, *later.registers[1:]))
    assert repeats.seen(target.pid, other) is None
    assert repeats.seen(target.pid, other._replace(mono_ns=other.mono_ns + 5)) == (other.mono_ns, 1)
    nowhere = list(other.registers)
    nowhere[PC] = 0x10
    assert repeats.seen(target.pid, other._replace(registers=tuple(nowhere))) is None
    assert repeats.seen(target.pid, first) is None
    repeats.keep([])
    assert repeats.seen(target.pid, first) is None


def test_spinning_and_computing_are_told_apart_with_function_and_line(
    program: Callable[[str], Target], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "Settings", partial(Settings, thread_stall_s=3.0))  # users wait for 10 s
    targets = {mode: program(mode) for mode in ("flag", "hash")}
    processes = tuple(TargetProcess(target.pid) for target in targets.values())
    view = LiveView(Request(host="box", processes=processes, stacks="native", interval_s=0.5, read_only=True))
    view.start()
    try:
        found: dict[str, str] = {}

        def are_told_apart() -> bool:
            nonlocal found
            found = {
                mode: finding.sentence
                for finding in view.latest().diagnosis.findings.values()
                if finding.rule == "spinning"
                for mode, target in targets.items()
                if finding.entities[0] == f"thread:box/{target.pid}/{target.pid}"
            }
            return found.keys() == targets.keys() and "computes" not in found["flag"]

        until(are_told_apart, told=lambda: found)
    finally:
        view.stop()
    assert re.search(rf" spins in step(\(\))? \(loops\.cpp:{line('flag')}\) for [\w. ]+ or more", found["flag"]), found
    assert re.search(r" computes or spins in wait_and_hash(\([^)]*\))? \(loops\.cpp:\d+\) for ", found["hash"]), found
