"""What is tried of PyTorch on a GPU: NCCL's Flight Recorder, and AOTInductor's guide with Triton kernels.

Not tried yet: what is wanted rests on torch's sources, and on what was seen with gloo and on the CPU.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from tests.gpu.cases import HERE, Said, livedbg, wait_until

RANKS: Final = 2
MISSING: Final = (r"[Rr]ank 1 of 2 has not entered all_reduce", r"fetch_batch \(missing_rank\.py:\d+\)")
GUIDED: Final = (
    r"CUDA_LAUNCH_BLOCKING .*CUDA's libraries were loaded",
    r"The printer \(compile time\) acted: \d+ launches",
    r"made NaN",
    r"\(Triton\)",
)


@cache
def lacking() -> Mapping[str, str]:
    """The cases that this box can't do, each with why; asked of a process of its own: torch may take the GPU."""
    asked = "import json, torch; print(json.dumps(torch.cuda.device_count()))"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        return dict.fromkeys(CASES, "torch is not installed")
    count = int(json.loads(done.stdout))
    if count == 0:
        return dict.fromkeys(CASES, "torch sees no GPU (its CPU build?)")
    return {"nccl": "two GPUs: NCCL takes one a rank"} if count < RANKS else {}


def _nccl(folder: Path) -> list[str]:
    """A rank that does not come, in the ring of `FlightRecorder<at::cuda::CUDAEvent>`."""
    output = folder / "ranks.txt"
    argv = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}"]
    with output.open("wb") as file:
        job = subprocess.Popen(
            [*argv, str(HERE / "missing_rank.py")],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wait_until(lambda: output.read_text().count("READY") == RANKS or job.poll() is not None, 300)
        time.sleep(15)  # longer than the threshold from which a rank counts as held up
        said = livedbg("report", job.pid, "--all-ranks")
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait(60)
    return _judged(said, folder, 10, MISSING)


def _guide(folder: Path) -> list[str]:
    """The three steps on a model that makes NaN in a Triton kernel."""
    model = HERE.parent / "aoti" / "model.py"
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
        said = livedbg(
            "aoti", "--headless", "--timeout", 250, "--", sys.executable, model, "nan", folder, "cuda", limit_s=900
        )
    return _judged(said, folder, 12, GUIDED)


CASES: Final[Mapping[str, Callable[[Path], list[str]]]] = {"nccl": _nccl, "aoti-cuda": _guide}


def try_torch(names: list[str], folder: Path) -> dict[str, list[str]]:
    """What contradicts each case that was tried; those that can't be are said."""
    left_out = lacking()
    outcome: dict[str, list[str]] = {}
    for name, case in CASES.items():
        if names and name not in names:
            continue
        if name in left_out:
            print(f"{name}: left out, it needs: {left_out[name]}", flush=True)
            continue
        job = folder / name
        job.mkdir()
        try:
            outcome[name] = case(job)
        except (TimeoutError, subprocess.TimeoutExpired) as error:
            outcome[name] = [f"{type(error).__name__}: {error}"]
        print(f"{name}: {'; '.join(outcome[name]) or 'as it should be'}", flush=True)
    return outcome


def _judged(said: Said, folder: Path, code: int, wanted: tuple[str, ...]) -> list[str]:
    (folder / "said.txt").write_text(f"{said.out}\n--- {said.code}, {said.took_s:.1f} s\n{said.err}", encoding="utf-8")
    words = " ".join(said.out.split())
    troubles = [f"nothing like {one}" for one in wanted if not re.search(one, words)]
    return troubles if said.code == code else [f"exit code {said.code} instead of {code}", *troubles]
