"""Real jobs of torch.distributed for tests."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from livedbg.linux.procfs import child_pids
from tests.cli.zygote import run_livedbg, stalls_after, until_reported
from tests.conftest import TARGETS, start

PROGRAM = TARGETS / "torch_jobs.py"
LIBRARIES = TARGETS / "torch_library_cases.py"
FURTHER = TARGETS / "torch_further_cases.py"

Job = Callable[..., int]

STALL_S = 3.0
"""After how many seconds a wait is a stall, for `hung`; `report_when` has the 10 s that users wait."""


@pytest.fixture(scope="session")
def torch_jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IO[bytes]]:
    """A connection to the program that starts jobs: it has imported torch, and serves all workers of a run."""
    folder = tmp_path_factory.getbasetemp()
    folder = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "torch-jobs"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        connection = _connected(folder / "socket")
        if connection is None:
            target = start([sys.executable, PROGRAM, folder / "socket"], env=_writes_to(folder))
            target.until("READY")
            target.process.wait(60)  # what serves is another process
            target.kill()
            connection = _connected(folder / "socket")
            assert connection is not None
    with connection:
        yield connection


def _writes_to(folder: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(folder), "TORCH_TRACE": str(folder)}


def _connected(path: Path) -> IO[bytes] | None:
    """A connection to the program if it still serves: it ends with the last one."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(200)
        with contextlib.suppress(ConnectionError, FileNotFoundError):
            client.connect(str(path))
            if client.recv(1):
                return client.makefile("rwb", buffering=0)
    return None


@pytest.fixture
def job(torch_jobs: IO[bytes]) -> Iterator[Job]:
    """Start a job: its case and how many ranks; gives the pid of the parent of the ranks."""
    started = []

    def begin(case: str, ranks: int = 3) -> int:
        torch_jobs.write(f"{case} {ranks}\n".encode())
        pid = int(torch_jobs.readline())
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
    env: dict[str, str] | None = None,
) -> dict[str, Any]:
    """The first report of a job of which something is true: it takes a moment until it hangs, and for long enough."""
    said: dict[str, Any] = {}
    ended_s: list[float] = []
    begun_s = time.monotonic()

    def is_said() -> bool:
        done = run_livedbg(["report", pid, "--json", "--timeout", "90", *options], 150, env=env)
        ended_s.append(round(time.monotonic() - begun_s, 1))
        if b"No rank is known" in done.stderr:
            return False  # the parent has not started its ranks yet
        assert done.stdout, done.stderr.decode()
        said.clear()
        said.update(json.loads(done.stdout), exit=done.returncode)
        return bool(true(said))

    until_reported(is_said, told=lambda: (ended_s, said.get("verdict", "No rank is known")))
    assert said["intrusions"]["stops"] == 0
    return said


def sentence(said: dict[str, Any]) -> str:
    text: str = said["verdict"]["sentence"]
    return text


def at_rest(parent: int, for_s: float) -> None:
    """Wait until no rank's main thread has run for a time; three times as long at most, as some look at their store.

    By the clock, as a stall is; where it ends too early, more reports are made.
    """
    end = time.monotonic() + 3 * for_s
    before: dict[int, list[str]] = {}
    since = time.monotonic()
    while (now := time.monotonic()) < end and now - since < for_s:
        with contextlib.suppress(OSError):  # one that has just ended
            ran = {pid: _switches(pid) for pid in child_pids(parent)}
            if ran != before or not ran:
                before, since = ran, now
        time.sleep(0.1)


def _switches(pid: int) -> list[str]:
    return [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if "ctxt_switches" in line]


def hung(pid: int, state: str, *words: str) -> dict[str, Any]:
    """The report of a job that hangs, once its verdict has these words and is this one: a wait of 2.9 s is none yet."""
    at_rest(pid, STALL_S)  # a report costs a second of processor time, and says nothing before that

    def meant(one: dict[str, Any]) -> bool:
        return one["verdict"]["state"] == state and all(word in one["verdict"]["sentence"] for word in words)

    said = report_when(pid, meant, env=stalls_after(STALL_S))
    assert said["exit"] == {"stalled": 10, "crashed": 11}.get(state, 5), said["verdict"]
    return said


def line_of(words: str, program: Path = PROGRAM) -> int:
    """The number of the line of the program with these words."""
    return next(number for number, line in enumerate(program.read_text().splitlines(), 1) if words in line)
