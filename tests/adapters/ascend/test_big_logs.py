"""Logs of 100 MB through the real command line: a recorded hang behind recorded healthy runs, and one full of zeros."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.peak import peak_of

pytestmark = pytest.mark.timeout(300)  # some seconds of work, and a busy machine

_BYTES = 100 << 20
REPORT = ("report", "--json", "--timeout", "250", "--logs")


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
    done = peak_of(tmp_path, *REPORT, log)
    log.unlink()
    assert done.code == 10, done.err
    said = json.loads(done.out)
    assert said["verdict"]["state"] == "stalled"
    assert said["findings"][0]["entities"] == ["task:ascend/r1t2", "core:ascend/8"]
    assert "(10 s by default)" in said["findings"][0]["sentence"]
    assert done.kib < 700 << 10


def test_100_mb_of_something_else_say_nothing(tmp_path: Path) -> None:
    """A sparse file: zeros, and a compile error that was cut behind them."""
    log = tmp_path / "err.log"
    with log.open("wb") as file:
        file.truncate(_BYTES)
        file.seek(0, os.SEEK_END)
        file.write(
            b"\nFailed to compile function 'k': ptoas compilation failed: loc(\"k.pto\":3:1): error: 'pto.tadd' op exp"
        )
    done = peak_of(tmp_path, *REPORT, log)
    log.unlink()
    said = json.loads(done.out)
    assert done.code == 11
    assert "function k at k.pto:3:1" in said["findings"][0]["sentence"]


@pytest.mark.parametrize("bad", [b"", b"2026-01-02 03:04:06 ERROR pool: no glue\n"])
def test_a_run_that_ended_well_is_no_all_clear_if_an_error_stands_in_the_middle(
    recorded: Path, tmp_path: Path, bad: bytes
) -> None:
    healthy = (recorded / "01_healthy_trb" / "err.txt").read_bytes()
    log = tmp_path / "err.log"
    with log.open("wb") as file:
        for number in range(64):
            file.write(b"2026-01-02 03:04:05 INFO pool: 7 connections\n" * 3000 + bad * (number == 30))
        file.write(healthy)
    done = peak_of(tmp_path, *REPORT, log)
    log.unlink()
    verdict = json.loads(done.out)["verdict"]
    assert (done.code, verdict["state"]) == ((5, "unknown") if bad else (0, "exited"))
    assert ("1 error line that livedbg does not understand, at err.log:93001" in verdict["sentence"]) == bool(bad)
