"""The real nvFuser wheel, without a GPU: its dumps, its errors, its trace, and the scripts that livedbg makes, run.

It runs where the wheel is: in this Python, or in the one that LIVEDBG_NVFUSER_PYTHON names (docs/systems/nvfuser.md).
stand_in.c stands in for the CUDA runtime and driver.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from livedbg.adapters.nvfuser.dumps.reproduction_sources import gather
from livedbg.adapters.nvfuser.dumps.segment_script import build_segment
from tests.cli.conftest import livedbg
from tests.conftest import Target, eventually

_VARIABLE = "LIVEDBG_NVFUSER_PYTHON"
_HERE = Path(__file__).parent
_LOGS = _HERE.parents[1] / "fixtures/nvfuser"

pytestmark = pytest.mark.timeout(400)  # torch with CUDA's libraries: some 10 s to import, longer on a busy box

_PROGRAM = """
import sys, torch
from nvfuser_direct import DataType, FusionDefinition
narrow = sys.argv[1] == "narrow"  # nvFuser 0.2.36 can't compile relu of bfloat16
with FusionDefinition() as fd:
    a = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Float)
    b = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    w = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.BFloat16)
    c = fd.ops.add(a, b)
    d = fd.ops.broadcast(fd.ops.sum(c, [1]), [False, True])
    e = fd.ops.cast(fd.ops.div(c, d), dtype=DataType.BFloat16)
    f = fd.ops.matmul(e, w)
    g = fd.ops.relu(f if narrow else fd.ops.cast(f, dtype=DataType.Float))
    fd.add_output(e)
    fd.add_output(fd.ops.sum(g, [0]))
inputs = [torch.empty(64, 128, device="cuda"), torch.empty(64, 128, device="cuda", dtype=torch.bfloat16),
          torch.empty(128, 64, device="cuda", dtype=torch.bfloat16)]
print(fd.repro_script_for(inputs), flush=True)
print("READY", flush=True)
fd.execute(inputs)
"""


@pytest.fixture(scope="module")
def python() -> str:
    """A Python that has nvFuser."""
    named = os.environ.get(_VARIABLE)
    if named:
        return named
    if importlib.util.find_spec("nvfuser_direct") is None:
        pytest.skip(f"nvFuser is not installed here; {_VARIABLE} names a Python that has it (docs/systems/nvfuser.md)")
    return sys.executable


@pytest.fixture(scope="module")
def fuser(python: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """That Python with the stand-in loaded."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed: the stand-in for CUDA's libraries can't be compiled")
    folder = tmp_path_factory.mktemp("stand-in")
    found = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], capture_output=True, check=True
    )
    site = Path(found.stdout.decode().strip())
    headers = [site / "nvidia/cuda_runtime/include", site / "triton/backends/nvidia/include"]
    library = folder / "stand_in.so"
    include = [f"-I{path}" for path in headers]
    flags = ["-shared", "-fPIC", "-O1", "-w", "-Wl,-soname,libcuda.so.1"]
    subprocess.run(["gcc", *flags, *include, _HERE / "stand_in.c", "-o", library], check=True)
    wrapper = folder / "python"
    wrapper.write_text(f'#!/bin/sh\nLD_PRELOAD={shlex.quote(str(library))} exec {shlex.quote(python)} "$@"\n')
    wrapper.chmod(0o755)
    return wrapper


def run(fuser: Path, log: Path, kind: str, **variables: str) -> None:
    """Run the program; its output to a log."""
    with log.open("wb") as file:
        subprocess.run(
            [fuser, "-c", _PROGRAM, kind],
            stdout=file,
            stderr=subprocess.STDOUT,
            cwd=log.parent,
            env={**os.environ, **variables},
            timeout=200,
            check=False,
        )


def failed(log: Path) -> dict[str, Any]:
    said = livedbg("report", "--logs", log, "--json")
    assert said.code == 11
    found: dict[str, Any] = next(f for f in json.loads(said.out)["findings"] if f["rule"] == "nvfuser-failed")
    return found


def test_a_failed_segment_is_named_cut_out_and_fails_again(fuser: Path, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    run(fuser, log, "narrow", NVFUSER_DUMP="segmented_fusion,cuda_to_file")
    found = failed(log)
    assert found["entities"] == ["task:nvfuser/f0/g1"] and "was not compiled" in found["sentence"]
    script = tmp_path / "repro.py"
    said = livedbg("repro", log, "--segment", 1, "-o", script, "--run", "--python", fuser)
    assert (said.code, "It fails the same way" in said.out) == (11, True), said.everything
    assert "matmul" not in script.read_text()
    said = livedbg("repro", log, "--segment", 2, "--run", "--python", fuser)
    assert (said.code, "does not fail" in said.out) == (0, True), said.everything


def test_kernels_that_the_driver_refuses(fuser: Path, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    run(fuser, log, "wide", NVFUSER_DUMP="segmented_fusion", STAND_IN_REFUSE="all")
    assert "CUDA_ERROR_NO_BINARY_FOR_GPU" in failed(log)["sentence"]
    material = gather(log)
    assert sorted(material.failed_groups()) == [1, 2]


def test_every_segment_that_is_cut_out_is_accepted(fuser: Path, tmp_path: Path) -> None:
    cut = gather(_LOGS / "many_operations.log").cuts[-1]
    scripts = {number: build_segment(cut, number) for number in cut.fusion.groups}
    made = {number: built.text for number, built in scripts.items() if not built.uncovered}
    assert len(made) == 13
    for number, text in made.items():
        (tmp_path / f"g{number}.py").write_text(text)
    each = "import runpy, sys\nfor name in sys.argv[1:]:\n    runpy.run_path(name)\n    print('ran', name)\n"
    names = [tmp_path / f"g{number}.py" for number in made]
    done = subprocess.run([fuser, "-c", each, *names], capture_output=True, timeout=300, check=False)
    assert done.stdout.decode().count("ran ") == len(made), done.stderr.decode()[-3000:]


def test_the_pass_that_it_hangs_in(
    fuser: Path, tmp_path: Path, spawn: Callable[..., Target], monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = tmp_path / "trace.json"
    monkeypatch.setenv("NVFUSER_TRACE", str(trace))
    monkeypatch.setenv("STAND_IN_HANG", "1")
    target = spawn([fuser, "-c", _PROGRAM, "wide"])
    eventually(lambda: trace.exists() and b"LoadPTX" in trace.read_bytes())
    said = livedbg("report", target.pid, "--json", "--no-native")
    tasks = [t for t in json.loads(said.out)["entities"].values() if t.get("kernel", "").endswith("Nvrtc::LoadPTX")]
    assert tasks and tasks[0]["state"] == "running"
    target.kill()
    said = livedbg("report", "--logs", trace, "--json")
    rules = {found["rule"] for found in json.loads(said.out)["findings"]}
    assert said.code == 10 and "nvfuser-trace-stopped" in rules


def test_without_any_stand_in_it_throws_and_says_why(python: str, tmp_path: Path) -> None:
    log = tmp_path / "cpu.log"
    program = _PROGRAM.replace('device="cuda"', 'device="cpu"')
    with log.open("wb") as file:
        subprocess.run([python, "-c", program, "wide"], stdout=file, stderr=subprocess.STDOUT, timeout=200, check=False)
    assert "nvfuser only supports cuda or meta device, found: cpu" in failed(log)["sentence"]
    log = tmp_path / "option.log"
    with log.open("wb") as file:
        subprocess.run(
            [python, "-c", program.replace('device="cpu"', 'device="meta"'), "wide"],
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, "NVFUSER_DUMP": "segments"},
            timeout=200,
            check=False,
        )
    said = livedbg("report", "--logs", log, "--json")
    verdict = json.loads(said.out)["verdict"]
    assert said.code == 11 and "knows no option 'segments' in NVFUSER_DUMP" in verdict["sentence"]
