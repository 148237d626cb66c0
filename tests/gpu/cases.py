"""What is tried on a GPU: programs, what livedbg is asked of each, what must come of it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
FLAGS = "skip_nonrelocated_elf_images,skip_global_memory,skip_shared_memory,skip_local_memory,skip_constbank_memory"


@dataclass(frozen=True)
class Said:
    """What a command said, and how long it took."""

    code: int
    out: str
    err: str
    took_s: float


@dataclass
class Case:
    """One program under one question.

    Attributes:
        program: name of the source, and of its kernel.
        blocks, threads: how it is launched.
        faulty: it ends by a device exception and writes its dump by itself.
        ends: it ends well by itself.
        wanted: regular expressions, one of which each must be found in what livedbg prints.
    """

    program: str
    blocks: int
    threads: int
    wanted: tuple[str, ...]
    faulty: bool = False
    ends: bool = False
    troubles: list[str] = field(default_factory=list)

    @property
    def source(self) -> Path:
        return HERE / f"{self.program}.cu"


CASES = (
    Case("hung", 64, 128, (r"All 256 warps of kernel \d+ hung<<<\(64,1,1\),\(128,1,1\)>>>", r"hung\.cu:[56]")),
    Case("illegal", 8, 64, (r"CUDA exception \d+, \w+ (Illegal|Out of range|MMU)", r"in illegal"), faulty=True),
    Case("asserted", 4, 32, (r"CUDA exception 12, Warp Assert", r"asserted"), faulty=True),
    Case("slow", 132, 256, (r"warps of kernel \d+ slow<<<\(132,1,1\),\(256,1,1\)>>>", r"slow\.cu:\d+"), ends=True),
)

Livedbg = Callable[..., Said]


def livedbg(*words: object, limit_s: float = 300) -> Said:
    """Run livedbg."""
    before = time.monotonic()
    argv = [sys.executable, "-m", "livedbg", *map(str, words)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=limit_s, stdin=subprocess.DEVNULL, check=False)
    return Said(done.returncode, done.stdout, done.stderr, time.monotonic() - before)


def build(case: Case, folder: Path, nvcc: str | None) -> Sequence[str]:
    """How the program is started: compiled by nvcc, or by NVRTC as it starts."""
    if nvcc is None:
        return [sys.executable, str(HERE / "launch.py"), str(case.source), str(case.blocks), str(case.threads)]
    program = folder / case.program
    argv = [nvcc, "-O1", "-g", "-lineinfo", "-arch=native", "-o", str(program), str(case.source)]
    subprocess.run(argv, check=True, timeout=300)
    return [str(program)]


def check(case: Case, argv: Sequence[str], gdb: str, folder: Path, *, attach: bool = True) -> None:
    """Start the program, look at it as a user would, and write down what contradicts the case.

    Args:
        case: its troubles are filled in.
        argv: starts the program.
        gdb: the cuda-gdb, whose sessions are recorded.
        folder: for everything that is written.
        attach: attach too, at the end.
    """
    job = folder / case.program
    job = job if not job.exists() else folder / f"{case.program}-run"
    job.mkdir()
    environment = {
        **os.environ,
        "CUDA_ENABLE_USER_TRIGGERED_COREDUMP": "1",
        "CUDA_ENABLE_COREDUMP_ON_EXCEPTION": "1" if case.faulty else "0",
        "CUDA_COREDUMP_GENERATION_FLAGS": f"{FLAGS},skip_abort",
        "CUDA_COREDUMP_PIPE": str(job / "pipe.%h.%p"),
        "CUDA_COREDUMP_FILE": str(job / "gpu.%h.%p.nvcudmp"),
    }
    with (job / "output.txt").open("wb") as output:
        process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=job
        )
    try:
        wait_until(lambda: b"READY" in (job / "output.txt").read_bytes() or process.poll() is not None, 120)
        if case.faulty:
            _faulty(case, gdb, job)
        else:
            _live(case, process, gdb, job, attach=attach)
    except (TimeoutError, subprocess.TimeoutExpired) as error:
        case.troubles.append(f"{type(error).__name__}: {error}")
    finally:
        process.kill()
        process.wait(60)
        assert process.stdin is not None
        process.stdin.close()
    for dump in job.glob("*.nvcudmp"):
        if dump.stat().st_size > 32 << 20:
            dump.unlink()  # too large to bring back; its session was recorded


def _faulty(case: Case, gdb: str, job: Path) -> None:
    wait_until(lambda: bool(list(job.glob("*.nvcudmp"))), 120)
    time.sleep(5)  # a driver of which we know nothing yet: nothing says when it is done
    (core, *_more) = job.glob("*.nvcudmp")
    said = livedbg("device", core, "--gdb", gdb, "-o", job / "device.livedbg")
    _judge(case, said, job, "core", 11)


def _live(case: Case, process: subprocess.Popen[bytes], gdb: str, job: Path, *, attach: bool) -> None:
    said = livedbg("device", process.pid, "--dump", "--gdb", gdb, "-o", job / "device.livedbg")
    _judge(case, said, job, "dump", 0)
    if process.poll() is not None:
        case.troubles.append(f"the process ended after the dump: {process.returncode}")
        return
    if case.ends:
        process.wait(120)
        if process.returncode != 0:
            case.troubles.append(f"the process ended with {process.returncode} after a dump that should not matter")
        return
    if attach:
        said = livedbg("device", process.pid, "--attach", "--gdb", gdb, "-o", job / "attach.livedbg")
        _judge(case, said, job, "attach", 0)
        time.sleep(1)
        state = re.search(r"State:\s+(\S)", Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8"))
        if process.poll() is not None or state is None or state[1] in "tTZX":
            case.troubles.append(f"after the attach the process is not well: {state and state[0]}")


def _judge(case: Case, said: Said, job: Path, what: str, code: int) -> None:
    (job / f"{what}.txt").write_text(f"{said.out}\n--- {said.code}, {said.took_s:.1f} s\n{said.err}", encoding="utf-8")
    if said.code != code:
        case.troubles.append(f"{what}: exit code {said.code} instead of {code}: {said.err.strip()[:300]}")
        return
    case.troubles.extend(f"{what}: nothing like {wanted}" for wanted in case.wanted if not re.search(wanted, said.out))


def wait_until(true: Callable[[], bool], limit_s: float) -> None:
    """Until something is true."""
    end = time.monotonic() + limit_s
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"nothing within {limit_s:g} s")
        time.sleep(0.1)


def missing(devices: Path) -> list[str]:
    """What this box lacks for the check, each with what would mend it."""
    lacks = []
    if not list(devices.glob("nvidia[0-9]*")):
        lacks.append(f"a GPU: {devices}/nvidia0 is not there (NVIDIA's driver, and a container that hands it on)")
    if shutil.which("nvcc") is None and not _has_nvrtc():
        lacks.append("a compiler for kernels: nvcc (the CUDA toolkit), or libnvrtc (comes with a torch that has CUDA)")
    return lacks


def _has_nvrtc() -> bool:
    from ctypes.util import find_library

    beside = (file for folder in sys.path for file in Path(folder).glob("nvidia/*/lib/libnvrtc.so.*"))
    return find_library("nvrtc") is not None or any(beside)
