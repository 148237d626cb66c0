"""What reads the runtime of a job is imported when the job shows that it uses that runtime, not before."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.conftest import Target

_PROGRAM = """
import contextlib, io, json, sys
from livedbg.cli import main
with contextlib.redirect_stdout(io.StringIO()):
    main(sys.argv[1:])
print(json.dumps(list(sys.modules)))
"""
_READERS = (
    "ascend.handlers", "ascend.job", "ascend.live.watch", "nvfuser.job", "nvfuser.dumps.statement_reader",
    "cuda.log_reader",
)  # fmt: skip


def _imported(*words: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, "report", "--timeout", "250", *words],
        capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    modules = json.loads(done.stdout)
    assert "livedbg.adapters.logfiles.adapter" in modules, done.stderr
    return {name for name in _READERS if f"livedbg.adapters.{name}" in modules}


def test_a_process_of_no_runtime_has_the_readers_of_none(
    build_target: Callable[..., Path], spawn: Callable[..., Target]
) -> None:
    target = spawn([build_target("spinners"), "1"])
    assert _imported(str(target.pid)) == set()


def test_a_log_of_a_runtime_has_its_reader(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text("f.cu:9: k: block: [0,0,0], thread: [0,0,0] Assertion `i < n` failed.\n")
    assert _imported("--logs", str(log)) == {"cuda.log_reader"}
    log.write_text("nvfuser: Segmented_Fusion{\n")
    assert "nvfuser.dumps.statement_reader" in _imported("--logs", str(log))
