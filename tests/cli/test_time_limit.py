"""A command ends by its time limit, whatever does not answer; and with its targets, whatever logs were named."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from livedbg.analysis.diagnosis import Diagnosis, Verdict, VerdictState
from livedbg.cli.catch import after_the_limit
from livedbg.cli.watch import OnStall
from livedbg.commands.command_clock import clock
from livedbg.commands.sessions import started
from livedbg.commands.time_limit import TimeLimit
from livedbg.linux.procfs import child_pids, command_line
from livedbg.model.catchpoints import Catchpoint, CatchpointState
from livedbg.model.snapshot import Snapshot
from livedbg.session.live import LiveView
from livedbg.session.view import Update
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
    limit.begin()
    try:
        view.helper = subprocess.Popen(["sleep", "1000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        limit.stop(cast(LiveView, view))
        assert view.helper.returncode == -signal.SIGKILL and other.poll() is None
        assert limit.left_s == 0 and TimeLimit(None).left_s is None
    finally:
        other.kill()
        other.wait()


@pytest.mark.invariant("time_limit.T2")
@pytest.mark.parametrize("name", ["guard.py", "gdb"])
def test_T2_guards_and_attached_debuggers_are_left_alone(name: str) -> None:
    view = Stuck()
    clock.begin()
    limit = TimeLimit(0.001, attaches=name == "gdb")
    limit.begin()
    with subprocess.Popen(
        [sys.executable, "-c", "input()", name],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as helper:
        limit.stop(cast(LiveView, Guarded(view, helper)))
        assert helper.poll() is None
        helper.kill()


class Guarded:
    """A session that waits for a helper program twice, and gives up then."""

    def __init__(self, view: Stuck, helper: subprocess.Popen[bytes]) -> None:
        self._view = view
        self._helper = helper

    def stop(self, limit_s: float) -> None:
        self._view.stop(limit_s)

    @property
    def stuck(self) -> bool:
        return len(self._view.stops) < 2


class Abandoned:
    """A session that never ends."""

    stuck = True

    def start(self) -> None:
        """Begin."""

    def stop(self, limit_s: float | None = None) -> None:
        """It does not."""


@pytest.mark.parametrize(("seconds", "said"), [(0.001, False), (1000.0, True), (None, True)])
def test_a_session_that_the_limit_gave_no_time_to_detach_is_no_bug(
    seconds: float | None, said: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("livedbg.commands.time_limit._leave", lambda: None)
    clock.begin()
    with started(cast(LiveView, Abandoned()), TimeLimit(seconds)):
        pass
    assert ("please report this as a bug" in capsys.readouterr().err) is said


def test_a_limit_counts_from_the_start_of_the_command() -> None:
    clock.begin()
    clock.began_s -= 3.0
    left_s = TimeLimit(5).left_s
    assert left_s is not None and left_s <= 2.0
    look_s = TimeLimit(5).look_s
    assert look_s is not None and look_s <= 1.5 and TimeLimit(None).look_s is None
    assert TimeLimit(5).within(60.0) <= 2.0 and TimeLimit(None).within(60.0) == 60.0


def test_a_catch_that_is_not_armed_by_its_limit_says_so_and_one_that_caught_something_has_no_code_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    armed = Catchpoint(id="C1", process="process:h/1", pattern="any", state=CatchpointState.ARMED, hits=2)
    seen = Snapshot(catchpoints={"C1": armed})
    assert after_the_limit(Snapshot(), None, 3.0) == 4 and "within 3 s" in capsys.readouterr().err
    assert after_the_limit(seen, None, 3.0) == 0 == after_the_limit(seen, 2, 3.0)
    assert after_the_limit(seen, 3, 3.0) == 4 and not capsys.readouterr().err


def test_the_command_of_a_stall_is_not_waited_for_beyond_the_limit(capsys: pytest.CaptureFixture[str]) -> None:
    stuck = Update(Snapshot(), Diagnosis(verdict=Verdict(state=VerdictState.STALLED, sentence="It hangs.")))
    OnStall("sleep 1000").take(stuck, 0.01)
    assert "sleep had not ended by the time limit" in capsys.readouterr().err
    (child,) = [pid for pid in child_pids(os.getpid()) if command_line(pid) == ("sleep", "1000")]
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


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
