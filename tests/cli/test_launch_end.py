"""What becomes of a command under `launch` when livedbg ends: real processes, a real terminal, a real hang-up."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from livedbg.linux import procfs
from tests.app.terminal import Terminal
from tests.cli.test_launch_and_demo import children_in
from tests.conftest import eventually

_LIVEDBG = """
import sys
from livedbg.app import overlays
from livedbg.cli import main
overlays.PAUSE_S = 0.0
sys.exit(main(sys.argv[1:]))
"""
_BROKEN = _LIVEDBG.replace(
    "overlays.PAUSE_S = 0.0",
    "from livedbg.panels.verdict import VerdictPanel\\n"
    "def broken(self, index, line): raise RuntimeError('broken on purpose')\\n"
    "VerdictPanel.draw = broken",
).replace("\\n", "\n")
_TALKER = """
import itertools, os, sys, time
open(os.environ["TALKER_PID"], "w").write(str(os.getpid()))
for number in itertools.count():
    print("line", number, flush=True)
    print("oops", number, file=sys.stderr, flush=True)
    time.sleep(0.2)
"""


class Job:
    """A command under `launch`, or under a guide, that prints for ever."""

    def __init__(self, folder: Path, *options: str, program: str = _LIVEDBG, command: str = "launch") -> None:
        self.mark = str(folder)
        self.state = folder / "state"
        self.told = folder / "pid"
        env = {"XDG_STATE_HOME": str(self.state), "LIVEDBG_TEST_MARK": self.mark, "TALKER_PID": str(self.told)}
        words = (command, *options, "--", sys.executable, "-c", _TALKER)
        self.terminal = Terminal(*words, size=(100, 30), env=env, program=program)

    @property
    def pid(self) -> int:
        return int(self.told.read_text())

    def begin(self, shown: bytes) -> None:
        """Wait until it runs and livedbg shows it."""
        self.terminal.until(shown)
        eventually(lambda: self.told.exists() and self.told.read_text().isdigit())

    def hang_up(self) -> None:
        """The terminal is gone."""
        for fd in (self.terminal.master, self.terminal.slave):
            os.close(fd)
        self.terminal.master = self.terminal.slave = -1

    def runs(self) -> bool:
        with contextlib.suppress(OSError):
            return procfs.read_stat(self.pid).state not in "ZX"
        return False

    def sizes(self) -> list[int]:
        return [file.stat().st_size for file in sorted(self.state.rglob("std*.log"))]

    def goes_on(self) -> None:
        """It runs, and both of its files grow."""
        before = self.sizes()
        assert len(before) == 2
        eventually(lambda: all(now > then for now, then in zip(self.sizes(), before, strict=True)))
        assert self.runs() and os.getsid(self.pid) == self.pid

    def press_until_it_ends(self, key: bytes) -> int:
        """Press a key that answers the question, as often as it takes; the exit code."""
        while self.terminal.process.poll() is None:
            self.terminal.type(key)
            self.terminal.pump(0.2)
        return self.terminal.wait()


@pytest.fixture
def jobs() -> Iterator[list[Job]]:
    """Ends what was started."""
    made: list[Job] = []
    yield made
    for job in made:
        job.terminal.process.kill()
        job.terminal.process.wait()
        for pid in children_in(job.mark):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        with job.terminal:
            pass


SHOWN = {"app": b"Ledg", "headless": b"line 3", "guide": b"found"}
FORMS = {"app": {}, "headless": {}, "guide": {"command": "aoti"}}


@pytest.mark.invariant("last_will.Q1")
@pytest.mark.parametrize("way", ["closed", "signal"])
@pytest.mark.parametrize("form", ["app", "headless", "guide"])
def test_Q1_a_terminal_that_is_gone_leaves_the_command_and_its_output_growing(
    form: str, way: str, jobs: list[Job], tmp_path: Path
) -> None:
    job = Job(tmp_path, *(["--headless"] if form == "headless" else []), **FORMS[form])
    jobs.append(job)
    job.begin(SHOWN[form])
    if way == "closed":
        job.hang_up()
    else:
        job.terminal.signal(signal.SIGHUP)
        with contextlib.suppress(AssertionError):
            job.terminal.wait()
    assert job.terminal.process.wait(200) == 128 + signal.SIGHUP
    job.goes_on()


@pytest.mark.invariant("last_will.Q1")
@pytest.mark.parametrize("way", ["closed", "signal"])
def test_Q1_of_many_runs_the_one_that_runs_goes_on_and_no_other_begins(
    way: str, jobs: list[Job], tmp_path: Path
) -> None:
    job = Job(tmp_path, "--repeat", "3", "--headless")
    jobs.append(job)
    eventually(lambda: job.told.exists() and job.told.read_text().isdigit() and all(job.sizes()))
    if way == "closed":
        job.hang_up()
    else:
        job.terminal.signal(signal.SIGHUP)
    assert job.terminal.process.wait(200) == 128 + signal.SIGHUP
    job.goes_on()


@pytest.mark.invariant("last_will.Q2")
@pytest.mark.parametrize("key", [b"l", b"k"])
@pytest.mark.parametrize(("quits", "form"), [(b"q", "app"), (b"\x03", "app"), (b"q", "guide")])
def test_Q2_who_quits_says_what_becomes_of_the_command(
    quits: bytes, form: str, key: bytes, jobs: list[Job], tmp_path: Path
) -> None:
    runs = key == b"l"
    job = Job(tmp_path, **FORMS[form])
    jobs.append(job)
    job.begin(SHOWN[form])
    job.terminal.type(quits)
    job.terminal.until(b"is still running")
    job.goes_on()
    assert job.press_until_it_ends(key) == 0
    assert job.terminal.is_clean() and {"app": b"output: ", "guide": b"step"}[form] in job.terminal.output
    assert job.runs() is runs
    if runs:
        job.goes_on()
        assert f"livedbg attach {job.pid}".encode() in job.terminal.output


@pytest.mark.invariant("last_will.Q2")
def test_Q2_a_bug_in_the_app_leaves_the_command(jobs: list[Job], tmp_path: Path) -> None:
    job = Job(tmp_path, program=_BROKEN)
    jobs.append(job)
    assert job.terminal.wait() == 1
    assert b"broken on purpose" in job.terminal.output
    eventually(lambda: job.told.exists() and job.told.read_text().isdigit())
    job.goes_on()


@pytest.mark.invariant("last_will.Q2")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_Q2_a_signal_from_outside_ends_the_command_too(number: signal.Signals, jobs: list[Job], tmp_path: Path) -> None:
    job = Job(tmp_path)
    jobs.append(job)
    job.begin(SHOWN["app"])
    job.terminal.signal(number)
    assert job.terminal.wait() == 128 + number
    assert not job.runs()


@pytest.mark.invariant("last_will.Q1")
def test_Q1_a_command_that_still_waits_at_its_gate_begins(jobs: list[Job], tmp_path: Path) -> None:
    job = Job(tmp_path, "--headless", "--catch", "std::bad_alloc")
    jobs.append(job)
    eventually(lambda: len(job.sizes()) == 2 and len(children_in(job.mark)) > 1)
    job.terminal.signal(signal.SIGHUP)
    assert job.terminal.process.wait(200) == 128 + signal.SIGHUP
    eventually(lambda: job.told.exists() and job.told.read_text().isdigit())
    job.goes_on()


@pytest.mark.parametrize("number", [signal.SIGTERM])
def test_headless_a_signal_ends_the_command(number: signal.Signals, jobs: list[Job], tmp_path: Path) -> None:
    job = Job(tmp_path, "--headless")
    jobs.append(job)
    job.begin(SHOWN["headless"])
    job.terminal.signal(number)
    assert job.terminal.wait() == 128 + number
    assert not job.runs()


def test_headless_ctrl_c_ends_the_command(jobs: list[Job], tmp_path: Path) -> None:
    job = Job(tmp_path, "--headless")
    jobs.append(job)
    job.begin(SHOWN["headless"])
    job.terminal.type(b"\x03")
    assert job.terminal.wait() == 130
    assert not job.runs()
