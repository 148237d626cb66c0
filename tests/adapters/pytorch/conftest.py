"""Real jobs of torch.distributed for tests."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.zygote import run_livedbg, stalls_after
from tests.conftest import TARGETS, Target, start

PROGRAM = TARGETS / "torch_jobs.py"
LIBRARIES = TARGETS / "torch_library_cases.py"
FURTHER = TARGETS / "torch_further_cases.py"

Job = Callable[..., int]

STALL_S = 3.0
"""After how many seconds a wait is a stall, for `hung`; `report_when` has the 10 s that users wait."""


@pytest.fixture(scope="session")
def torch_jobs() -> Iterator[Target]:
    """The program that starts jobs: it has imported torch."""
    folder = tempfile.mkdtemp(prefix="livedbg-jobs-")
    target = start([sys.executable, PROGRAM], env={**os.environ, "TMPDIR": folder, "TORCH_TRACE": folder})
    target.until("READY", 300)
    yield target
    target.kill()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def job(torch_jobs: Target) -> Iterator[Job]:
    """Start a job: its case and how many ranks; gives the pid of the parent of the ranks."""
    started = []

    def begin(case: str, ranks: int = 3) -> int:
        torch_jobs.stdin.write(f"{case} {ranks}\n".encode())
        pid = int(torch_jobs.line())
        started.append(pid)
        return pid

    yield begin
    for pid in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def report_when(
    pid: int,
    true: Callable[[dict[str, Any]], object],
    *options: str,
    deadline_s: float = 150.0,
    env: dict[str, str] | None = None,
) -> dict[str, Any]:
    """The first report of a job of which something is true: it takes a moment until it hangs, and for long enough."""
    end = time.monotonic() + deadline_s
    while True:
        done = run_livedbg(["report", pid, "--json", "--timeout", "90", *options], 150, env=env)
        if b"No rank is known" in done.stderr and time.monotonic() < end:
            time.sleep(0.5)  # the parent has not started its ranks yet
            continue
        assert done.stdout, done.stderr.decode()
        said: dict[str, Any] = json.loads(done.stdout)
        if true(said):
            assert said["intrusions"]["stops"] == 0
            return said | {"exit": done.returncode}
        assert time.monotonic() < end, said["verdict"]
        time.sleep(0.5)


def sentence(said: dict[str, Any]) -> str:
    text: str = said["verdict"]["sentence"]
    return text


def hung(pid: int, state: str, *words: str) -> dict[str, Any]:
    """The report of a job that hangs, once its verdict has these words and is this one: a wait of 2.9 s is none yet."""

    def meant(one: dict[str, Any]) -> bool:
        return one["verdict"]["state"] == state and all(word in one["verdict"]["sentence"] for word in words)

    said = report_when(pid, meant, env=stalls_after(STALL_S))
    assert said["exit"] == {"stalled": 10, "crashed": 11}.get(state, 5), said["verdict"]
    return said


def line_of(words: str, program: Path = PROGRAM) -> int:
    """The number of the line of the program with these words."""
    return next(number for number, line in enumerate(program.read_text().splitlines(), 1) if words in line)
