"""Which logs a process writes: what it has open, and what its environment names to the systems."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from livedbg.adapters.ascend import logs as ascend
from livedbg.adapters.cuda import log_shapes as cuda
from livedbg.adapters.logfiles import catalogue
from livedbg.session import systems
from livedbg.session.systems import Lazy, LogPlaces, System

HOSTS = ("box.example.org", "box")


@contextmanager
def _process(folder: Path, **variables: str) -> Iterator[int]:
    environment = {"PATH": os.environ["PATH"], **variables}
    process = subprocess.Popen(
        [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=folder, env=environment,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
    finally:
        process.communicate()


def _use(monkeypatch: pytest.MonkeyPatch, *declaring: System) -> None:
    monkeypatch.setattr(systems, "systems", lambda: declaring)
    monkeypatch.setattr(catalogue, "systems", lambda: declaring)
    monkeypatch.setattr(systems, "_problems", {})


def _places(variables: Mapping[str, str], pids: Sequence[int], hosts: Sequence[str]) -> Iterable[str]:
    assert "OTHER" not in variables
    yield f"{variables['TOY_LOGS']}/toy-{pids[0]}.*"


def _fails(variables: Mapping[str, str], pids: Sequence[int], hosts: Sequence[str]) -> Iterable[str]:
    raise RuntimeError("no luck")


def _names(pid: int) -> list[str]:
    return [log.name for log in catalogue.ProcessLogs(pid).find()]


def test_a_system_declares_where_its_logs_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = LogPlaces(("TOY_LOGS",), Lazy(f"{__name__}:_places"))
    other = LogPlaces(("OTHER",), Lazy(f"{__name__}:_fails"))
    _use(monkeypatch, System(name="other", title="Other", log_places=other),
         System(name="none", title="None"), System(name="toy", title="Toy", log_places=toy))  # fmt: skip
    logs = tmp_path / "a [strange] folder" / "logs"
    logs.mkdir(parents=True)
    with _process(logs.parent, TOY_LOGS="logs", OTHER="x") as pid:
        (logs / f"toy-{pid}.2").write_text("b")
        (logs / f"toy-{pid}.1").write_text("a")
        (logs / f"toy-{pid}.d").mkdir()
        (logs / "toy-1.1").write_text("of another process")
        assert _names(pid) == [f"toy-{pid}.1", f"toy-{pid}.2"]
    (problem,) = systems.problems()
    assert problem.system == "other"
    assert "no luck" in problem.sentence


def test_the_logs_of_a_process_without_these_variables(tmp_path: Path) -> None:
    with _process(tmp_path) as pid:
        assert _names(pid) == []
    assert _names(pid) == []  # it has ended


@pytest.mark.parametrize(
    ("variables", "root"),
    [
        ({"ASCEND_PROCESS_LOG_PATH": "logs", "ASCEND_WORK_PATH": "/work", "HOME": "/root"}, "logs"),
        ({"ASCEND_WORK_PATH": "/wo[r]k", "HOME": "/root"}, "/wo[[]r]k/log"),
        ({"ASCEND_PROCESS_LOG_PATH": "", "HOME": "/root/"}, "/root/ascend/log"),
    ],
)
def test_the_places_of_ascend(variables: dict[str, str], root: str) -> None:
    found = list(ascend.paths(variables, (7, 1), HOSTS))
    assert len(found) == len(set(found)) == 32
    assert all(name.startswith(f"{root}/") for name in found)
    for name in ("debug/plog/plog-7_*.log", "run/device-*/device-1_*.log", "device-*/device-7_*.log"):
        assert f"{root}/{name}" in found


def test_ascend_without_a_home() -> None:
    assert list(ascend.paths({}, (7,), HOSTS)) == []


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({}, []),
        ({"CUDA_LOG_FILE": "stderr", "NCCL_DEBUG_FILE": "stdout"}, []),
        ({"CUDA_LOG_FILE": "cuda[1]*.txt"}, ["cuda[[]1][*].txt"]),
        (
            {"NCCL_DEBUG_FILE": "/l/nccl.%h.%p"},
            ["/l/nccl.box.example.org.7", "/l/nccl.box.example.org.1", "/l/nccl.box.7", "/l/nccl.box.1"],
        ),
        ({"NCCL_DEBUG_FILE": "/l/nccl"}, ["/l/nccl"] * 4),
    ],
)
def test_the_places_of_cuda_and_nccl(variables: dict[str, str], found: list[str]) -> None:
    assert list(cuda.paths(variables, (7, 1), HOSTS)) == found
