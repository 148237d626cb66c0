"""Real jobs of torch.distributed for tests."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from tests.conftest import TARGETS, start
from tests.reports import stalled_report_when

PROGRAM = TARGETS / "torch_jobs.py"
LIBRARIES = TARGETS / "torch_library_cases.py"
FURTHER = TARGETS / "torch_further_cases.py"

Job = Callable[..., int]


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


def sentence(said: dict[str, Any]) -> str:
    text: str = said["verdict"]["sentence"]
    return text


def hung(pid: int, state: str, *words: str) -> dict[str, Any]:
    """The report of a job that hangs, once its verdict has these words and is this one: a wait of 2.9 s is none yet."""

    def meant(one: dict[str, Any]) -> bool:
        return one["verdict"]["state"] == state and all(word in one["verdict"]["sentence"] for word in words)

    said = stalled_report_when(pid, meant)
    assert said["exit"] == {"stalled": 10, "crashed": 11}.get(state, 5), said["verdict"]
    return said
