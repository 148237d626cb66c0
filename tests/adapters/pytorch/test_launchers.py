"""Jobs under launchers, by the pid of the launcher: ranks that have ended, and what they left behind."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.pytorch.conftest import hung, sentence
from tests.conftest import TARGETS, start
from tests.reports import report_when

PROGRAM = TARGETS / "torch_launchers.py"


@pytest.mark.invariant("rank_families.F2")
def test_F2_a_rank_of_plain_multiprocessing_that_died_before_it_came(tmp_path: Path, spawn: Callable[..., Any]) -> None:
    launcher = spawn([sys.executable, PROGRAM, "plain", tmp_path])
    said = hung(launcher.pid, "crashed", "Rank 1 of 2 has no process any more")
    assert sentence(said) == (
        "Rank 1 of 2 has no process any more (ended with status 1: ValueError: bad shard); rank 0 waits in "
        "init_process_group."
    )
    assert not any("its process continues" in one["sentence"] for one in said["findings"])


def test_errors_of_earlier_starts_are_read_from_the_folders_of_torchrun(tmp_path: Path) -> None:
    words = ["--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", "2", "--max-restarts", "2"]
    logs = ["--monitor-interval", "0.1", "--log-dir", "logs", "--redirects", "3"]
    argv = [sys.executable, "-m", "torch.distributed.run", *words, *logs, str(PROGRAM), "worker"]
    launcher = start(argv, cwd=tmp_path)
    whole = "The workers were started 3 times; each time rank 1 ended first, with status 1: ValueError: bad shard."
    try:  # a report in the midst of a start knows less
        assert report_when(launcher.pid, lambda one: whole in restarts(one))
    finally:
        launcher.process.send_signal(signal.SIGTERM)  # it ends its workers, which are sessions of their own
        launcher.process.wait(100)
        launcher.kill()


def restarts(said: dict[str, Any]) -> list[str]:
    return [one["sentence"] for one in said["findings"] if one["rule"] == "worker-restarts"]
