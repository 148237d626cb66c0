"""Logs of CUDA through the real command line: what a user reads, and what a script gets."""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.adapters.cuda.fixture_logs import FIXTURES, fixture
from tests.cli.zygote import run_livedbg
from tests.conftest import Target
from tests.peak import peak_of

MIB = 1 << 20


def report(*arguments: str | Path | int) -> tuple[int, dict[str, Any]]:
    """The exit code and the report of `livedbg report ARGUMENTS`."""
    done = run_livedbg(["report", "--json", "--timeout", "150", *arguments], text=True)
    assert "Traceback" not in done.stderr, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return done.returncode, found


def test_a_folder_with_a_program_s_log_and_the_kernel_s(tmp_path: Path) -> None:
    shutil.copy(FIXTURES / "illegal.txt", tmp_path / "err.log")
    shutil.copy(FIXTURES / "kernel.txt", tmp_path / "dmesg.log")
    code, found = report("--logs", tmp_path)
    assert code == 11 and found["verdict"]["state"] == "crashed"
    first, *others = found["findings"]
    assert first["rule"] == "cuda-fault" and first["inferred"]
    assert "reported at step (train.py:14)" in first["sentence"]
    whole, reported, stack = first["evidence"]
    assert [whole["source"], reported["source"], stack["source"]] == ["err.log:9", "err.log:16", "err.log:9"]
    assert "CUDA_LAUNCH_BLOCKING=1" in whole["text"] and stack["text"].startswith("step (train.py:14) < main")
    assert any("--recipe cuda-blocking" in step for step in first["next"])
    assert {finding["rule"] for finding in others} == {"cuda-xid"}
    assert any("Xid 31" in f["sentence"] and "driver's report of the same fault" in f["sentence"] for f in others)
    hit = found["exceptions"][0]
    assert hit["type"] == "torch.AcceleratorError" and hit["stack"][0]["function"] == "step"


def test_a_running_process_s_driver_log_environment_and_standard_error(
    spawn: Callable[..., Target], tmp_path: Path
) -> None:
    block = tmp_path / "block.txt"
    lines = fixture("illegal").decode().splitlines(keepends=True)
    block.write_text("".join(line for line in lines if "asynchronously" not in line and "consider passing" not in line))
    script = Path(__file__).with_name("writes_errors.py")
    arguments = " ".join(map(str, (sys.executable, script, FIXTURES / "driver_lost.txt", block)))
    target = spawn(
        ["sh", "-c", f"exec {arguments} 2>{tmp_path / 'err.log'}"],
        env={**os.environ, "CUDA_LOG_FILE": str(tmp_path / "cuda.log"), "CUDA_LAUNCH_BLOCKING": "1"},
    )
    code, found = report(target.pid)
    assert (code, found["verdict"]["state"]) == (5, "unknown")
    said = f"The CUDA context is lost, and process {target.pid} ("
    assert said in found["verdict"]["sentence"] and "still lives" in found["verdict"]["sentence"]
    (fault,) = (finding for finding in found["findings"] if finding["rule"] == "cuda-fault")
    assert "reported at step (train.py:14)" in fault["sentence"]
    assert "The driver's log has it first from cuStreamSynchronize" in fault["sentence"]
    assert "CUDA_LAUNCH_BLOCKING=1" in fault["sentence"] and not fault["inferred"]
    assert any(entity.endswith(f"/{target.pid}") for entity in fault["entities"])
    assert {proof["source"].partition(":")[0] for proof in fault["evidence"]} == {"stderr", "cuda.log"}
    told = (tmp_path / "err.log").read_bytes()
    with (tmp_path / "err.log").open("a") as log:
        log.writelines(f"epoch {number} of 90, loss 0.7\n" for number in range(10))
    _, found = report(target.pid)
    (fault,) = (finding for finding in found["findings"] if finding["rule"] == "cuda-fault")
    assert "handled or survived" in fault["sentence"] and "still lives" not in fault["sentence"]
    target.kill()
    (tmp_path / "err.log").write_bytes(told)
    code, found = report("--logs", tmp_path / "err.log")  # nobody is alive that could still be in that context
    assert (code, found["verdict"]["state"]) == (11, "crashed")


def test_a_big_log_stays_bounded(tmp_path: Path) -> None:
    """100 MiB of a program's words, an error in their midst and one at the end."""
    words = b"".join(b"step %d loss 2.31 lr 3e-4 tokens/s 12345.6\n" % number for number in range(24_000))[:MIB]
    words = words[: words.rfind(b"\n") + 1]
    log = tmp_path / "big.log"
    with log.open("wb") as file:
        for number in range(101):
            file.write(words)
            if number == 50:
                file.write(fixture("assert"))
        file.write(fixture("memcheck"))
    assert log.stat().st_size > 99 * MIB
    done = peak_of(tmp_path, "report", "--json", "--timeout", "150", "--logs", log)
    assert done.code == 11
    found = json.loads(done.out)
    told = " ".join(finding["sentence"] for finding in found["findings"])
    assert "Assertion `srcIndex < srcSelectDimSize` failed" in told and "shift.cu:31" in told
    assert done.kib < 600 << 10


def test_a_damaged_log_gives_what_it_holds(tmp_path: Path) -> None:
    randomly = random.Random(7)
    pieces = [fixture(name) for name in ("memcheck", "assert", "coredump", "kernel", "illegal", "driver")]
    damaged = b"".join(
        piece[: randomly.randrange(len(piece) // 2, len(piece))] + randomly.randbytes(200) + b"\n" for piece in pieces
    )
    (tmp_path / "damaged.log").write_bytes(damaged + b"=========" * 20_000)
    code, found = report("--logs", tmp_path / "damaged.log")
    assert code == 11 and "shift.cu:31" in json.dumps(found["findings"])
    assert not [limit for limit in found["limits"] if limit["code"] == "source-failed"]
