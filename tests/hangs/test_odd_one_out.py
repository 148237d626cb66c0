"""Real programs in which one of four does not come to a barrier: who, function, file and line in the first sentence."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest

from tests.cli.zygote import Livedbg, stalls_after, until_reported
from tests.conftest import TARGETS, Target

PYTHON, CPP = TARGETS / "py_meets.py", TARGETS / "meets.cpp"
STALL_S = 3.0
"""A wait counts from then on, and a report watches for two seconds longer."""


def line(source: Path, mark: str) -> int:
    """The number of the line with a mark."""
    lines = enumerate(source.read_text().splitlines(), 1)
    return next(number for number, text in lines if text.endswith(f" @{mark}"))


def reports(targets: dict[str, Target], proven: Collection[str] = ()) -> dict[str, dict[str, Any]]:
    """A report of each program, made side by side, in which somebody does not come; of some that it never will."""
    found: dict[str, dict[str, Any]] = {}

    def are_made() -> bool:
        left = targets.keys() - found.keys()
        words = ["--json", "--for", STALL_S + 2, "--timeout", 90]
        with_output = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "env": stalls_after(STALL_S)}
        started = {mode: Livedbg(["report", targets[mode].pid, *words], **with_output) for mode in left}
        for mode, process in started.items():
            said = json.loads(process.communicate(timeout=200)[0])
            rules = {finding["rule"] for finding in said["findings"]}
            if rules >= {"odd-one-out", *(("no-waker",) if mode in proven else ())}:
                found[mode] = said
        return found.keys() == targets.keys()

    until_reported(are_made, told=lambda: targets.keys() - found.keys())
    return found


def test_processes_that_do_not_come_to_a_barrier_are_named(spawn: Callable[..., Target]) -> None:
    targets = {mode: spawn([sys.executable, PYTHON, mode]) for mode in ("asleep", "starved")}
    said = reports(targets, proven=("starved",))
    calls = {"asleep": r"sleep\(\)", "starved": r"read of pipe \d+"}
    ends = {"asleep": r"", "starved": r" Nothing can wake them\."}
    for mode, target in targets.items():
        odd = json.loads(target.ready.partition("READY ")[2])["pids"][-1]
        there, elsewhere = line(PYTHON, f"{mode} others"), line(PYTHON, f"{mode} odd")
        assert re.fullmatch(
            rf"3 of 4 processes wait in Barrier\.wait \(py_meets\.py:{there}\) for [\w. ]+ or more; "
            rf"process {odd} does not come: {calls[mode]} in {mode} \(py_meets\.py:{elsewhere}\)\.{ends[mode]}",
            said[mode]["verdict"]["sentence"],
        ), said[mode]["verdict"]
        assert said[mode]["verdict"]["roots"][0].endswith(f"/{odd}/{odd}")
    assert said["asleep"]["verdict"]["state"] == "unknown"
    assert said["starved"]["verdict"]["state"] == "stalled"


@pytest.mark.parametrize(
    ("mode", "meeting"),
    [("std-barrier", r"(std::)?barrier::arrive_and_wait"), ("pthread-barrier", "pthread_barrier_wait")],
)
def test_threads_that_do_not_come_to_a_barrier_are_named(
    mode: str, meeting: str, build_target: Callable[..., Path], spawn: Callable[..., Target]
) -> None:
    target = spawn([build_target("meets", "-std=c++20"), mode])
    verdict = reports({mode: target})[mode]["verdict"]
    pid, odd = target.words
    assert re.fullmatch(
        rf"3 of 4 threads wait in {meeting} \(meets\.cpp:{line(CPP, mode)}\) for [\w. ]+ or more; "
        rf"thread {odd} \(\w+\) does not come: poll of 0 descriptors in load \(meets\.cpp:{line(CPP, 'odd')}\)\.",
        verdict["sentence"],
    ), verdict
    assert verdict["state"] == "unknown" and verdict["roots"][0].endswith(f"{pid}/{odd}")
