"""Ascend runs of living processes, through the real command line: which watchdog ended them, set by what, at what load.

The processes only sleep; their standard error is a file with the lines of a recorded run, moved to now.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from livedbg.analysis.diagnosis import VerdictState
from tests.cli.conftest import livedbg, recording, so_far
from tests.cli.zygote import run_livedbg
from tests.conftest import eventually

RECORDED = Path(__file__).parents[1] / "fixtures/ascend/12_june2026_v0_era/hang_debug/err.txt"
STAMP = re.compile(r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6})\]", re.MULTILINE)
FORM = "%Y-%m-%d %H:%M:%S.%f"


def moved_to_now(text: str) -> str:
    """The log as if its watchdog had fired now, without what came later."""
    lines = text.split("\n")
    fired = next(number for number, line in enumerate(lines) if "TIMEOUT_EXIT" in line)
    end = next((number for number, line in enumerate(lines) if number > fired + 40), len(lines))
    text = "\n".join(lines[:end]) + "\n"
    shift = datetime.now() - datetime.strptime(STAMP.findall(lines[fired])[0], FORM) - timedelta(seconds=1)
    return STAMP.sub(lambda found: f"[{(datetime.strptime(found[1], FORM) + shift).strftime(FORM)}]", text)


@contextmanager
def running(log: Path, **environment: str) -> Iterator[int]:
    """A process that writes into that log, and sleeps."""
    argv = [sys.executable, "-c", "import time; time.sleep(600)"]
    into = {**os.environ, **environment}
    with (
        log.open("ab") as stream,
        subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=stream, env=into) as process,
    ):
        try:
            yield process.pid
        finally:
            process.kill()


def report(pid: int) -> tuple[int, dict[str, Any]]:
    """What `livedbg report PID --json` exits with, and its chief finding."""
    done = run_livedbg(["report", pid, "--json", "--timeout", "90"])
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    said = json.loads(done.stdout)
    assert said["intrusions"]["stops"] == 0
    chief = next(finding for finding in said["findings"] if finding["id"] in said["verdict"]["findings"])
    assert isinstance(chief, dict)
    return done.returncode, chief


def test_the_limit_of_the_process_is_named(tmp_path: Path) -> None:
    log = tmp_path / "err.txt"
    log.write_text(moved_to_now(RECORDED.read_text()))
    with running(log, SIMPLER_SCHEDULER_TIMEOUT_MS="5000") as pid:
        code, chief = report(pid)
    assert (code, chief["rule"]) == (10, "ascend-stall")
    assert "task:ascend/r1t2" in chief["entities"]
    assert "no progress for 5 s (SIMPLER_SCHEDULER_TIMEOUT_MS=5000)" in chief["sentence"]
    assert "S1:running-stalled by its counts" in chief["sentence"]


def test_a_false_time_out_is_shown_with_the_load_at_that_time(tmp_path: Path) -> None:
    """The recorded lines with few idle iterations, as a scheduler that was stopped writes them, while it is watched."""
    text = RECORDED.read_text().replace("idle_iterations=201280", "idle_iterations=430")
    answered = [line for line in text.splitlines() if not re.search("did not acknowledge|deinit timed out", line)]
    fires = next(number for number, line in enumerate(answered) if "TIMEOUT_EXIT" in line)

    def now() -> list[str]:
        return moved_to_now("\n".join(answered) + "\n").splitlines(keepends=True)

    log = tmp_path / "err.txt"
    log.write_text("".join(now()[:fires]))
    file = tmp_path / "seen.livedbg"
    with running(log, SIMPLER_SCHEDULER_TIMEOUT_MS="5000") as pid, recording(file, pid):
        eventually(lambda: any(key.name == "load" for key in so_far(file).snapshot.counters))
        with log.open("a") as stream:
            stream.write("".join(now()[fires:]))
        eventually(lambda: so_far(file).diagnosis.verdict.state is VerdictState.CRASHED)
    said = livedbg("report", file, "--json")
    chief = next(finding for finding in json.loads(said.out)["findings"] if finding["id"] == "F1")
    assert (said.code, chief["rule"]) == (11, "ascend-starved-watchdog")
    assert re.search(r"At that time: load [\d.]+ on \d+ CPUs?", chief["sentence"]), chief["sentence"]


@pytest.mark.parametrize("cut", [lambda data: data[: len(data) // 2], lambda data: data.replace(b"\n", b"\r\n\x00")])
def test_a_damaged_log_of_a_living_process_is_no_trouble(tmp_path: Path, cut: Callable[[bytes], bytes]) -> None:
    log = tmp_path / "err.txt"
    log.write_bytes(cut(moved_to_now(RECORDED.read_text()).encode()))
    with running(log) as pid:
        code, _ = report(pid)
    assert code in {0, 5, 10, 11}  # 5: the rest of the log names no running task, and was written long enough ago
