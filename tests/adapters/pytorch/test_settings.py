"""Settings of torch.distributed that have no effect."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from livedbg.adapters.pytorch.settings import Known, folder_problem, notes
from tests.cli.zygote import run_livedbg
from tests.conftest import Target

CPU = Known(
    version="2.13.0",
    libraries=("libtorch_cpu.so",),
    names=frozenset({"TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_FR_DUMP_TEMP_FILE"}),
    size=2000,
)
CUDA = Known(
    version="2.13.0",
    libraries=("libtorch_cpu.so", "libtorch_cuda.so"),
    names=CPU.names | {"TORCH_NCCL_BLOCKING_WAIT", "TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_DUMP_ON_TIMEOUT"},
    size=2000,
)


def said(known: Known = CPU, wrong: str | None = None, **environment: str) -> list[str]:
    return [sentence for _, sentence in notes(environment, known, lambda path: wrong)]


def test_settings_that_have_an_effect() -> None:
    assert said(TORCH_FR_BUFFER_SIZE="2000", TORCH_FR_DUMP_TEMP_FILE="/tmp/fr", TORCH_LOGS="dynamo") == []
    assert said(TORCH_NCCL_TRACE_BUFFER_SIZE="2000") == []  # the old name still acts
    assert said(TORCH_FR_BUFFER_SIZE="2000", TORCH_NCCL_TRACE_BUFFER_SIZE="2000") == []
    assert said(CUDA, TORCH_NCCL_DUMP_ON_TIMEOUT="1", TORCH_NCCL_ASYNC_ERROR_HANDLING="1") == []


def test_settings_that_have_none() -> None:
    nccl = (
        "TORCH_NCCL_DUMP_ON_TIMEOUT does nothing: it acts on NCCL, and this process has no library of torch with NCCL."
    )
    assert said(TORCH_NCCL_DUMP_ON_TIMEOUT="1") == [nccl]
    assert said(CUDA, TORCH_NCCL_DUMP_TIMEOUT="1") == [
        "TORCH_NCCL_DUMP_TIMEOUT is not known to torch 2.13.0, and does nothing."
    ]
    assert said(TORCH_FR_BUFER_SIZE="1") == ["TORCH_FR_BUFER_SIZE is not known to torch 2.13.0, and does nothing."]
    assert said(TORCH_FR_BUFFER_SIZE="500") == [
        "TORCH_FR_BUFFER_SIZE=500 has no effect: the Flight Recorder has room for 2000 operations."
    ]
    assert said(TORCH_FR_BUFFER_SIZE="0") == [
        "TORCH_FR_BUFFER_SIZE=0 switches the Flight Recorder off: collectives are not recorded."
    ]
    assert said(TORCH_FR_BUFFER_SIZE="2000", TORCH_NCCL_TRACE_BUFFER_SIZE="500") == [
        "TORCH_NCCL_TRACE_BUFFER_SIZE does nothing: TORCH_FR_BUFFER_SIZE is set, too, and counts."
    ]
    assert said(wrong="the folder /nowhere does not exist", TORCH_FR_DUMP_TEMP_FILE="/nowhere/fr") == [
        "No dumps can be written where TORCH_FR_DUMP_TEMP_FILE says: the folder /nowhere does not exist."
    ]
    assert said(CUDA, TORCH_NCCL_BLOCKING_WAIT="1", TORCH_NCCL_ASYNC_ERROR_HANDLING="1") == [
        "TORCH_NCCL_ASYNC_ERROR_HANDLING does nothing: TORCH_NCCL_BLOCKING_WAIT is set, too, and switches it off."
    ]


@pytest.mark.invariant("torch_settings.E1")
def test_E1_what_was_not_read_says_nothing() -> None:
    unread = Known(version="", libraries=(), names=frozenset(), size=None)
    assert said(unread, TORCH_FR_BUFER_SIZE="1", TORCH_NCCL_DUMP_ON_TIMEOUT="1", TORCH_FR_BUFFER_SIZE="500") == []
    assert said(TORCH_FR_BUFFER_SIZE="many") == []


def test_folders_of_dumps(tmp_path: Path) -> None:
    pid = os.getpid()
    assert folder_problem(pid, str(tmp_path / "fr_")) is None
    assert folder_problem(pid, "fr_") is None
    assert folder_problem(pid, str(tmp_path / "none" / "fr_")) == f"the folder {tmp_path / 'none'} does not exist"
    (tmp_path / "closed").mkdir(0o555)
    assert folder_problem(pid, str(tmp_path / "closed" / "fr_")) == f"the folder {tmp_path / 'closed'} can't be written"


@pytest.mark.invariant("rules_notes.T1")
def test_T1_of_a_process_that_has_loaded_torch(spawn: Callable[..., Target]) -> None:
    spec = find_spec("torch")
    assert spec is not None and spec.origin is not None
    library = Path(spec.origin).parent / "lib/libtorch_cpu.so"
    program = f"import ctypes, time; ctypes.CDLL({str(library)!r}); print('READY', flush=True); time.sleep(1000)"
    settings = {
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
        "TORCH_FR_DUMP_TEMP_FILE": "/nowhere/fr",
        "TORCH_FR_BUFER_SIZE": "1",
    }
    target = spawn([sys.executable, "-c", program], env={**os.environ, **settings})
    done = run_livedbg(["report", target.pid, "--json", "--no-native"], 150)
    found = json.loads(done.stdout)
    notes = {one["sentence"].split()[0]: one for one in found["findings"] if one["rule"] == "setting"}
    assert set(notes) == {"No", "TORCH_NCCL_DUMP_ON_TIMEOUT", "TORCH_FR_BUFER_SIZE"}, found["findings"]
    assert all(one["severity"] == "info" for one in notes.values())
    assert found["verdict"]["findings"] == [] or not set(found["verdict"]["findings"]) & {
        one["id"] for one in notes.values()
    }
    doctor = run_livedbg(["doctor", target.pid], 150).stdout.decode()
    assert all(f"--  {one['sentence']}" in doctor for one in notes.values()), doctor
