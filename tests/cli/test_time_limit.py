"""A command ends by its time limit, whatever does not answer; and with its targets, whatever logs were named."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from livedbg.cli.command_clock import clock
from livedbg.cli.time_limit import TimeLimit
from livedbg.session.live import LiveView
from tests.cli.zygote import Livedbg
from tests.conftest import Target


class Stuck:
    """A session that ends once its helper program does."""

    def __init__(self) -> None:
        self.helper: subprocess.Popen[bytes] | None = None
        self.stops: list[float] = []

    def stop(self, limit_s: float) -> None:
        self.stops.append(limit_s)
        if self.helper is not None and len(self.stops) == 2:
            self.helper.wait(60)

    @property
    def stuck(self) -> bool:
        return self.helper is not None and self.helper.poll() is None


@pytest.mark.invariant("time_limit.T1")
def test_T1_a_helper_that_does_not_end_is_killed_and_others_are_not() -> None:
    other = subprocess.Popen(["sleep", "1000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    view = Stuck()
    clock.begin()
    limit = TimeLimit(0.001)
    try:
        with limit.over(cast(LiveView, view)):
            view.helper = subprocess.Popen(["sleep", "1000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        assert view.helper.returncode == -signal.SIGKILL and other.poll() is None
        assert limit.left_s == 0 and TimeLimit(None).left_s is None
    finally:
        other.kill()
        other.wait()


def test_a_limit_counts_from_the_start_of_the_command() -> None:
    clock.begin()
    clock.began_s -= 3.0
    left_s = TimeLimit(5).left_s
    assert left_s is not None and left_s <= 2.0


def test_watch_with_logs_ends_with_its_target(spawn: Callable[..., Target], tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("hello\n")
    target = spawn([sys.executable, "-c", "print('READY', flush=True); input()"])
    line = ["watch", target.pid, "--no-native", "--logs", tmp_path / "a.log"]
    with Livedbg(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as watch:
        try:
            assert watch.stdout is not None
            assert watch.stdout.readline()
            target.stdin.write(b"\n")
            target.stdin.close()
            out = watch.stdout.read()
            assert watch.wait(100) == 0 and b"EXITED" in out
        finally:
            watch.kill()
