"""The real simulator of `simpler`, hung in several ways, and well.

They run where it is built: LIVEDBG_SIMPLER names a Python that can import simpler, simpler_setup and torch; the
compiler that it wants (g++-15) must be on the PATH.
"""

from __future__ import annotations

import json
import os
import re
import select
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from livedbg.adapters.ascend.live.layout import read_layout
from livedbg.adapters.ascend.live.reader import SchedulerReader
from livedbg.adapters.ascend.live.watch import LibraryFinder
from livedbg.linux.maps import parse_maps
from livedbg.model import TaskState
from livedbg.session.tools import find_gdb
from tests.cli.zygote import run_livedbg
from tests.conftest import TARGETS, Target
from tests.waiting import until

_VARIABLE = "LIVEDBG_SIMPLER"
_PROGRAM = TARGETS / "simpler" / "run.py"
_LEFT = re.compile(r"/tmp/ai(cpu|core)_sim_\w{6}$")

_LONG_S: Final = 300.0

pytestmark = pytest.mark.timeout(600)  # it compiles its kernels first

Start = Callable[..., "Run"]


def _until(true: Callable[[], bool]) -> None:
    until(true, wall_s=_LONG_S)


class Run:
    """One simulator process and its log."""

    def __init__(self, target: Target, log: Path) -> None:
        self.target, self.pid, self.log = target, target.pid, log

    def livedbg(self, *words: str) -> str:
        done = run_livedbg([*words, self.pid], text=True)
        assert not done.stderr.startswith("Traceback"), done.stderr
        return done.stdout

    def report(self) -> dict[str, Any]:
        report: dict[str, Any] = json.loads(self.livedbg("report", "--json"))
        return report

    def until_quiet(self, words: str, silence_s: float = 11.0) -> None:
        """Wait until the log has said something, and then nothing for some time."""
        _until(lambda: words in self.log.read_text())
        _until(lambda: time.time() - self.log.stat().st_mtime > silence_s)  # by the clock, as a stall is


@pytest.fixture
def start(spawn: Callable[..., Target], tmp_path: Path) -> Iterator[Start]:
    """Start a scenario of tests/targets/simpler/run.py."""
    python = os.environ.get(_VARIABLE)
    if not python:
        pytest.skip(f"{_VARIABLE} names no Python that has a built simpler (docs/systems/ascend.md)")
    runs = []

    def run(scenario: str, runtime: str = "ringbuffer", rounds: int = 1, *, mute: bool = False, **more: str) -> Run:
        log = tmp_path / f"{scenario}.log"
        log.touch()
        command = f'exec "$0" "$@" 2>{"/dev/null" if mute else log}'
        words = [python, str(_PROGRAM), scenario, runtime, str(rounds)]
        environment = {**os.environ, "SIMPLER_SCHEDULER_TIMEOUT_MS": "3600000", **more}
        target = spawn(["sh", "-c", command, *words], wait_for=None, env=environment)
        target.until("READY", cpu_s=_LONG_S, wall_s=_LONG_S)
        runs.append(Run(target, log))
        return runs[-1]

    yield run
    for one in runs:  # what it would delete itself if it were not killed
        left = {mapping.path for mapping in parse_maps(one.pid) if _LEFT.match(mapping.path) and not mapping.deleted}
        for path in left:
            Path(path).unlink(missing_ok=True)


def _tasks(report: dict[str, Any]) -> dict[str, str]:
    """States of the tasks that are there, by name."""
    tasks = {name: entity for name, entity in report["entities"].items() if entity["kind"] == "task"}
    return {name.removeprefix("task:ascend/"): entity["state"] for name, entity in tasks.items()}


@pytest.mark.parametrize(
    ("runtime", "names"),
    [("ringbuffer", ["r0t0", "r1t0", "r1t1", "r1t2", "r1t3"]), ("host", ["r0t0", "r0t1", "r0t2", "r0t3", "r0t4"])],
)
def test_a_kernel_that_hangs(start: Start, runtime: str, names: list[str]) -> None:
    run = start("hang", runtime)
    run.until_quiet("kernel_id=[-1,2,-1]")
    report = run.report()
    assert report["verdict"]["state"] == "unknown"  # an hour's limit has not passed: slow or stuck, who knows
    assert "before the limit of the scheduler's watchdog, 3600 s" in report["verdict"]["sentence"]
    states = ["completed", "completed", "completed", "running", "submitted"]
    assert _tasks(report).items() <= dict(zip(names, states, strict=True)).items()
    hung, behind = f"task:ascend/{names[3]}", f"task:ascend/{names[4]}"
    assert report["verdict"]["roots"] == [hung]
    edges = {(edge["from"], edge["to"]) for edge in report["edges"] if edge["kind"] == "depends_on"}
    assert edges == {(behind, hung)}
    assert _tasks(report).keys() >= {names[3], names[4]}
    (core,) = set(re.findall(r"kernel_id=\[-1,2,-1\].* core_id=(\d+)", run.log.read_text()))
    assert f"on core {core} (AIV" in report["verdict"]["sentence"]
    assert report["verdict"]["sentence"].endswith("3 of 5 tasks are done.")

    stacks = run.livedbg("stacks", "--glance")
    assert re.search(r"wait_for_peer_flag\(.* in kernel func 2", stacks)
    assert "SchedulerContext::resolve_and_dispatch" in stacks


def test_a_completion_that_never_comes(start: Start) -> None:
    run = start("async")
    run.until_quiet("kernel_id=[-1,2,-1]")
    report = run.report()
    assert report["verdict"]["roots"] == ["task:ascend/r0t0"]
    assert _tasks(report) == {"r0t0": "ready", "r0t1": "submitted"}
    said = report["verdict"]["sentence"]
    assert "deferred (asynchronous) completion has not been signalled" in said
    assert re.search(r"counter 0x[0-9a-f]+ is 0, waits for 1 \(\w+\)", said)


def test_an_orchestrator_that_waits(start: Start) -> None:
    run = start("tensor_wait")
    _until(lambda: "kernel_id=[-1,2,-1]" in run.log.read_text())
    report = run.report()  # within the 15 s after which it gives up
    assert _tasks(report)["r0t0"] == "running"
    assert not [edge for edge in report["edges"] if edge["kind"] == "depends_on"]  # the second task is not there yet


def test_a_hang_without_a_log_whose_watchdog_has_fired(start: Start) -> None:
    run = start("hang", mute=True, SIMPLER_SCHEDULER_TIMEOUT_MS="2000")
    _until(lambda: run.report()["verdict"]["state"] == "stalled")
    sentence = run.report()["verdict"]["sentence"]
    said = r"Task r1t2 \(func 2\) on core \d+ has not returned since the scheduler ended the run, .* in pthread_join"
    assert re.match(said, sentence)
    assert "after 2 s (SIMPLER_SCHEDULER_TIMEOUT_MS=2000) without progress" in sentence


def test_an_orchestrator_that_loops_in_user_code(start: Start) -> None:
    run = start("loop", mute=True)
    _until(lambda: run.report()["verdict"]["state"] == "unknown")
    report = run.report()
    assert report["verdict"]["roots"] == ["task:ascend/orchestrator"]
    assert report["verdict"]["sentence"].startswith("Long: the orchestrator has submitted nothing")


def _waiting(target: Target) -> str:
    """The next line of its output, if there is one."""
    return target.line() if select.select([target.process.stdout], [], [], 0)[0] else ""


async def test_runs_that_are_well_stay_well(start: Start) -> None:
    run = start("healthy", rounds=60)
    library = LibraryFinder().find(run.pid)[0]
    gdb = find_gdb()
    assert gdb is not None
    layout = await read_layout(gdb, library.file, run.pid)
    assert layout is not None and not layout.missing
    reader = SchedulerReader(run.pid, library.bias + layout.address, layout)
    runs = completed = 0
    while runs < 10 and "DONE" not in (said := _waiting(run.target)):
        assert not said
        sample = reader.sample()
        if sample is None:
            continue
        runs += sample.fresh
        completed = max(completed, sample.completed or 0)
        for raw in sample.changed:
            task = sample.tasks[raw]
            assert task.kernels in {(-1, 0, -1), (-1, 1, -1), (-1, 2, -1)}
            assert task.state is not TaskState.RUNNING or task.missing == 0
    assert completed > 0 and runs > 0
    assert run.target.line() == "DONE 47.0"
