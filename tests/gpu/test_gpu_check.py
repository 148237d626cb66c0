"""`make gpu-check` says what a box lacks; its own parts are tried on a process that dumps as CUDA's driver does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.adapters.cuda.cudagdb.conftest import core_bytes, program_that_plays
from tests.adapters.cuda.cudagdb.sessions import FIXTURES
from tests.gpu import torch_cases
from tests.gpu.cases import Case, check

ROOT = Path(__file__).parents[2]
DUMPER = ROOT / "tests" / "adapters" / "cuda" / "cudagdb" / "dumper.py"


def test_a_box_without_a_gpu_is_told_so_and_nothing_is_tried(tmp_path: Path) -> None:
    into = tmp_path / "into"
    argv = [sys.executable, "-m", "tests.gpu", "--devices", str(tmp_path), "--into", str(into)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=250, cwd=ROOT, check=False)
    assert done.returncode == 77 and not into.exists()
    assert "nothing was tried" in done.stdout and "a GPU:" in done.stdout


def test_a_case_is_judged_by_what_livedbg_says_and_its_session_is_recorded(tmp_path: Path) -> None:
    core, session = tmp_path / "gpu.core", tmp_path / "session.mi.txt"
    core.write_bytes(core_bytes())
    plays = program_that_plays("hang", tmp_path)
    gdb = tmp_path / "cuda-gdb"
    gdb.write_text(f'#!/bin/sh\nexec {sys.executable} {ROOT / "tests/gpu/tee.py"} {session} {plays} "$@"\n')
    gdb.chmod(0o755)
    argv = [sys.executable, str(DUMPER), str(core)]
    case = Case("hung", 16, 128, (r"All 64 warps", r"spin\.cu:12"))
    check(case, argv, str(gdb), tmp_path, attach=False)
    assert case.troubles == []
    recorded = session.read_text(encoding="utf-8")
    assert ">>> " in recorded and "-cuda-info-warps" in recorded
    table = next(line for line in recorded.splitlines() if "InfoCudaWarpsTable" in line)
    assert table.partition("^")[2] in (FIXTURES / "hang.txt").read_text(encoding="utf-8")
    assert (tmp_path / "hung" / "device.livedbg").exists()
    wrong = Case("other", 16, 128, (r"All 65 warps",))
    check(wrong, argv, str(gdb), tmp_path, attach=False)
    assert wrong.troubles == ["dump: nothing like All 65 warps"]


@pytest.mark.torch
def test_what_needs_cuda_of_torch_is_left_out_without_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left_out = torch_cases.lacking()
    if not left_out:
        pytest.skip("this box has two GPUs: make gpu-check tries them")
    assert torch_cases.try_torch(["nccl"], tmp_path) == {}
    assert "nccl: left out, it needs: " in capsys.readouterr().out
