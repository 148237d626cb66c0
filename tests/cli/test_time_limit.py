"""A command ends by its time limit, whatever does not answer; and with its targets, whatever logs were named."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from livedbg.analysis.diagnosis import Diagnosis, Verdict, VerdictState
from livedbg.cli.catch import after_the_limit
from livedbg.cli.watch import OnStall
from livedbg.commands.command_clock import clock, go_first
from livedbg.commands.signals import TimeLimit, queued_s, started
from livedbg.linux.procfs import child_pids, command_line
from livedbg.model.catchpoints import Catchpoint, CatchpointState
from livedbg.model.snapshot import Snapshot
from livedbg.session.live import LiveView
from livedbg.session.view import Update
from tests.cli.zygote import Livedbg
from tests.conftest import Target, eventually


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
    monkeypatch.setattr("livedbg.commands.signals._leave", lambda: None)
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


@pytest.mark.invariant("time_limit.T3")
def test_T3_a_limit_that_nobody_named_waits_for_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    clock.begin()
    clock.began_s -= 40.0
    for waited_s, left_s in ((0.0, 0.0), (25.0, 15.0), (1000.0, 80.0)):
        monkeypatch.setattr("livedbg.commands.signals.queued_s", lambda waited_s=waited_s: waited_s)
        assert TimeLimit.of_look(None).left_s == pytest.approx(left_s, abs=1.0)
        assert TimeLimit.of_look(30.0).left_s == 0


@pytest.mark.invariant("time_limit.T3")
def test_T3_the_time_without_a_cpu_is_counted_by_the_kernel() -> None:
    before_s, ours = queued_s(), os.sched_getaffinity(0)
    threads = [threading.Thread(target=hashlib.pbkdf2_hmac, args=("sha256", b"", b"", 400_000)) for _ in range(3)]
    try:
        os.sched_setaffinity(0, {min(ours)})  # they share one CPU, and hashing takes no turns with the GIL
        for thread in threads:
            thread.start()
        eventually(lambda: queued_s() > before_s)
        for thread in threads:
            thread.join()
    finally:
        os.sched_setaffinity(0, ours)


@pytest.mark.parametrize(
    ("after", "left", "in_time"),
    [(1, [9.0], True), (2, [9.0, 4.0], True), (9, [9.0, 4.0, 0.0], False), (1, [0.0], True)],
)
def test_a_look_ends_when_it_is_complete_or_when_the_limit_is_over(
    after: int, left: list[float], in_time: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []

    class View:
        def wait_settled(self, timeout_s: float) -> bool:
            asked.append(timeout_s)
            return len(asked) >= after

    monkeypatch.setattr(TimeLimit, "look_s", property(lambda _: left[len(asked)]))
    assert TimeLimit(30.0).settled(cast(LiveView, View())) is in_time and asked == left


@pytest.mark.parametrize(
    ("command", "load", "raised"),
    [
        ("report", "9.00 5.00 4.00 3/210 4711", True),
        ("report", "0.90 0.50 0.40 22/210 4711", True),  # just now
        ("report", "7.00 5.00 4.00 7/210 4711", False),
        ("watch", "9.00 9.00 9.00 22/210 4711", False),
        ("report", "not to be read", False),
    ],
)
def test_a_command_that_looks_once_comes_first_on_a_busy_box(
    command: str, load: str, raised: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "read_text", lambda *_: load)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    asked: list[int] = []
    monkeypatch.setattr(os, "setpriority", lambda _which, _who, nice: asked.append(nice))
    go_first(command)
    assert asked == [-15] * raised

    def denied(*_: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "setpriority", denied)
    go_first(command)


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
