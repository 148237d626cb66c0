"""Whether a process has executed another program."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from livedbg.linux.programs import Program
from tests.conftest import Target, eventually

EXECS = "import os, sys; print('READY', flush=True); os.read(0, 9); os.execv(sys.argv[1], sys.argv[1:])"


def test_another_program_and_the_same_one_again(spawn: Callable[..., Target]) -> None:
    again = [sys.executable, "-c", EXECS]
    for program in (["/bin/sleep", "1000"], again):
        target = spawn([sys.executable, "-c", EXECS, *program])
        seen = Program(target.pid)
        assert not seen.replaced
        target.process.stdin.write(b"\n")  # type: ignore[union-attr]
        eventually(lambda seen=seen: seen.replaced)
        eventually(lambda pid=target.pid: not Program(pid).replaced)  # type: ignore[misc]  # not while it executes


def test_a_file_that_is_rebuilt_or_deleted_is_the_same_program(spawn: Callable[..., Target], tmp_path: Path) -> None:
    program = Path(shutil.copy("/bin/sleep", tmp_path / "program"))
    target = spawn([program, "1000"], wait_for=None)
    eventually(lambda: Path(f"/proc/{target.pid}/exe").readlink() == program)
    seen = Program(target.pid)
    program.unlink()
    assert not seen.replaced
    shutil.copy("/bin/sleep", program)
    assert not seen.replaced
    target.process.kill()
    target.process.wait()
    assert not seen.replaced  # it has ended: nothing can be said
