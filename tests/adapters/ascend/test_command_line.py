"""The recorded runs through the real command line: what a user reads, and what a script gets."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.adapters.ascend.sessions import report
from tests.cli.zygote import run_livedbg

T = "task:ascend/"


def _livedbg(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return run_livedbg(arguments, 100, text=True, cwd=cwd)


@pytest.mark.parametrize(
    ("folder", "code", "state", "words"),
    [
        ("01_healthy_trb", 0, "exited", ["5 of 5 tasks"]),
        ("01_healthy_hbg", 0, "exited", ["5 of 5 tasks"]),
        (
            "02_hang_kernel",
            10,
            "stalled",
            ["r1t2 (MUL, func 2, id 4294967298)", "core 8 (AIV0)", "timeout_info: ", "core 10 (AIV0)", "r1t3 ADD"],
        ),
        (
            "05_hang_ring_full",
            10,
            "stalled",
            ["r1t0 (MUL, func 2, id 4294967296)", "core 8", "Task Ring Full! ring=1", "code 3, FLOW_CONTROL_DEADLOCK"],
        ),
        (
            "06_hang_tensor_wait/timeout_debug",
            10,
            "stalled",
            ["r0t0 (MUL, func 2)", "core 8", "tensor data", "code 8, TENSOR_WAIT_TIMEOUT"],
        ),
        (
            "07_crash_throw",
            11,
            "crashed",
            ["std::runtime_error: orchestration: bad tile shape 0x128", "orchestration code", "err.txt:46"],
        ),
        ("08_fatal_explicit", 11, "crashed", ["9 (EXPLICIT_ORCH_FATAL)", "user check failed: SIZE=256", "err.txt:42"]),
        ("09_dep_good", 0, "exited", ["2 of 2 tasks"]),
        ("09_dep_lost", 12, "diverged", ["r0t0 → r0t1 is missing", "SLOW_ADD", "INC", "OUTPUT_EXISTING"]),
        ("12_june2026_v0_era", 10, "stalled", ["r1t2 (func 2", "core 10 (AIV0)", "core 8 (AIV0)", "hang_v0"]),
    ],
)
def test_what_a_user_reads(recorded: Path, folder: str, code: int, state: str, words: list[str]) -> None:
    """From the folder above it, by a relative path, as it is typed."""
    done = _livedbg("report", "--logs", folder, cwd=recorded)
    text = " ".join(done.stdout.split())
    assert done.returncode == code, text
    assert text.lower().startswith(state)
    for word in words:
        assert word in text, (word, text)
    assert not done.stderr


def test_what_a_script_gets(recorded: Path) -> None:
    code, said = report(recorded / "02_hang_kernel/timeout_debug")
    assert code == 10
    assert said["verdict"]["roots"] == [T + "r1t2"]
    root = said["entities"][T + "r1t2"]
    assert (root["state"], root["kernel"], root["where"]) == ("running", "MUL", ["core:ascend/8"])
    edge = {"kind": "depends_on", "from": T + "r1t3", "to": T + "r1t2", "state": "pending"}
    assert any(edge.items() <= found.items() for found in said["edges"])
    finding = said["findings"][0]
    assert finding["entities"] == [T + "r1t2", "core:ascend/8"]
    lines = (recorded / "02_hang_kernel/timeout_debug/err.txt").read_text().splitlines()
    for shows in ("TIMEOUT_EXIT", "Dispatched idle aiv0 task 4294967298", "state=RUNNING", "state=WAIT", "rc=-100"):
        (item,) = [item for item in finding["evidence"] if shows in item["text"]]
        name, _, number = item["source"].partition(":")
        assert (name, lines[int(number) - 1]) == ("err.txt", item["text"])


def test_runs_are_told_apart_and_a_join_is_no_circle(recorded: Path, tmp_path: Path) -> None:
    text = _livedbg("report", "--logs", recorded / "02_hang_kernel").stdout
    assert "task timeout_info/r1t2 MUL  running" in text
    assert "- timeout_info/err.txt:" in text
    shutil.copytree(recorded / "02_hang_kernel/timeout_debug", tmp_path / "run")
    shutil.copy(recorded / "01_healthy_trb/dfx/deps.json", tmp_path / "run")
    text = _livedbg("report", "--logs", tmp_path).stdout
    assert "<- task r1t3 ADD  submitted" in text
    assert "closes the cycle" not in text


@pytest.mark.parametrize("packed", [False, True])
def test_rotated_log_whose_times_are_lost(recorded: Path, tmp_path: Path, packed: bool) -> None:
    """The name map is far below; all files are of one second, as after a copy."""
    source = recorded / "02_hang_kernel/timeout_debug"
    lines = (source / "err.txt").read_bytes().splitlines(keepends=True)
    third = len(lines) // 3
    for number, part in ((2, lines[:third]), (1, lines[third : 2 * third]), (0, lines[2 * third :])):
        data = b"".join(part)
        name = "err.log" + (f".{number}" if number else "")
        if packed and number:
            (tmp_path / f"{name}.gz").write_bytes(gzip.compress(data))
        else:
            (tmp_path / name).write_bytes(data)
    for path in tmp_path.iterdir():
        os.utime(path, (1_790_000_000, 1_790_000_000))
    code, said = report(tmp_path)
    assert (code, said["verdict"]["roots"]) == (10, [T + "r1t2"])
    states = {name: entity["state"] for name, entity in said["entities"].items() if name.startswith(T + "r")}
    assert states == {T + "r1t2": "running", T + "r1t3": "submitted"}


def test_nothing_in_it(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("the [STALL line of task 7 says TIMEOUT_EXIT, I think\n")
    code, said = report(tmp_path)
    assert (code, said["verdict"]["state"]) == (5, "unknown")
    assert {finding["rule"] for finding in said["findings"]} <= {"last-lines"}  # quoted, and nothing made of it
