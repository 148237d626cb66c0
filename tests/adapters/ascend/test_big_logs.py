"""Logs of 100 MB through the real command line: a recorded hang behind recorded healthy runs, and one full of zeros."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

_BYTES = 100 << 20
REPORT = [sys.executable, "-m", "livedbg", "report", "--json", "--timeout", "100", "--logs"]


def test_a_hang_behind_100_mb_is_found_in_bounded_memory(recorded: Path, tmp_path: Path) -> None:
    healthy = (recorded / "01_healthy_trb" / "err.txt").read_bytes()
    hung = (recorded / "02_hang_kernel" / "timeout_debug" / "err.txt").read_bytes()
    told = [line for line in healthy.splitlines(keepends=True) if b"collector_aicpu.cpp" in line]
    assert told
    log = tmp_path / "err.log"
    with log.open("wb") as file:
        file.write(healthy)
        block = b"".join(told) * 200
        while file.tell() < _BYTES:
            file.write(block)
        file.write(healthy * 20 + hung)
    done = subprocess.run(
        [*REPORT, str(log)],
        capture_output=True, timeout=110, check=False,
    )  # fmt: skip
    most_kib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    log.unlink()
    assert done.returncode == 10, done.stderr.decode()
    said = json.loads(done.stdout)
    assert said["verdict"]["state"] == "stalled"
    assert said["findings"][0]["entities"] == ["task:ascend/r1t2", "core:ascend/8"]
    assert "(10 s, if it was not set)" in said["findings"][0]["sentence"]
    assert most_kib < 700 << 10


def test_100_mb_of_something_else_say_nothing(tmp_path: Path) -> None:
    """A sparse file: zeros, and a compile error that was cut behind them."""
    log = tmp_path / "err.log"
    with log.open("wb") as file:
        file.truncate(_BYTES)
        file.seek(0, os.SEEK_END)
        file.write(
            b"\nFailed to compile function 'k': ptoas compilation failed: loc(\"k.pto\":3:1): error: 'pto.tadd' op exp"
        )
    done = subprocess.run(
        [*REPORT, str(log)],
        capture_output=True, timeout=110, check=False,
    )  # fmt: skip
    log.unlink()
    assert b"Traceback" not in done.stderr
    said = json.loads(done.stdout)
    assert done.returncode == 11
    assert "function k at k.pto:3:1" in said["findings"][0]["sentence"]
