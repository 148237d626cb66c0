"""How processes ended, whoever has collected their status."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from livedbg.adapters.proc.identity import ExitStatus
from livedbg.linux.procfs import read_stat
from livedbg.session.launch import launch
from tests.conftest import eventually


@pytest.mark.invariant("exit_status.X1")
def test_X1_a_zombie_tells_its_status_to_those_who_may_see_it() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", "import os; os._exit(7)"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    end = ExitStatus(child.pid)
    try:
        eventually(lambda: read_stat(child.pid).state == "zombie")
        stat = read_stat(child.pid)
        assert end.of(stat, stat.start_ticks) == 7
        assert end.of(stat._replace(exit_code=0), stat.start_ticks, denied=True) is None
        child.wait()
        assert end.of(None, stat.start_ticks) in {7, None}  # the kernel tells it from Linux 6.15 on
    finally:
        end.close()


@pytest.mark.parametrize("how", [signal.SIGSEGV, signal.SIGKILL])
def test_the_status_of_a_launched_command_is_known_after_it_was_collected(how: signal.Signals, tmp_path: Path) -> None:
    child = launch(["/bin/sh", "-c", f"kill -{int(how)} $$"], tmp_path)
    assert child.wait(60) == 128 + how
    assert ExitStatus(child.pid).of(None, child.target.start_ticks) == -how
    assert ExitStatus(child.pid).of(None, (child.target.start_ticks or 0) + 1) is None
