"""The guard alone, beside programs that stand for gdb and livedbg: when it acts, and when it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from livedbg.linux.procfs import process_exists, read_stat
from livedbg.model import ThreadState
from livedbg.touch import guard_process
from tests.conftest import Target, eventually
from tests.touch.health import guards

Start = Callable[..., "subprocess.Popen[bytes]"]

SLEEPS = "import time\nprint('READY', flush=True)\nwhile True: time.sleep(60)"
ENDS_AT_SIGTERM = """
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b"DETACHED\\n"), os._exit(0)))
print("READY", flush=True)
while True: time.sleep(60)
"""
IGNORES_SIGTERM = f"import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n{SLEEPS}"


@pytest.fixture
def program(spawn: Any) -> Callable[[str], Target]:
    """Starts a Python program."""

    def start(code: str) -> Target:
        target: Target = spawn([sys.executable, "-c", code])
        return target

    return start


@pytest.fixture
def guard() -> Iterator[Start]:
    """Starts a guard over a process; our end of its pipe stands for livedbg."""
    made = []

    def start(target: int, gdb: int, start_ticks: int | None = None) -> subprocess.Popen[bytes]:
        ticks = read_stat(target).start_ticks if start_ticks is None else start_ticks
        words = [str(number) for number in (target, ticks, gdb, os.getpid(), 0)]
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", guard_process._PROGRAM.name, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd=guard_process._PROGRAM.parent,
        )
        made.append(process)
        return process

    yield start
    for process in made:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.stdout.close()
        process.wait(60)


def line(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().decode()


@pytest.mark.invariant("guard.W2")
def test_W2_another_process_that_has_the_number_by_now_gets_nothing(
    program: Callable[[str], Target], guard: Start
) -> None:
    target = program(SLEEPS)
    os.kill(target.pid, signal.SIGSTOP)
    eventually(lambda: read_stat(target.pid).state is ThreadState.STOPPED)
    assert line(guard(target.pid, 0, read_stat(target.pid).start_ticks - 1)) == "gone\n"
    assert read_stat(target.pid).state is ThreadState.STOPPED
    same = guard(target.pid, 0)  # of which gdb has gone: it is woken
    assert [line(same), line(same)] == ["ready\n", "woken\n"]
    assert read_stat(target.pid).state is not ThreadState.STOPPED
    ticks = read_stat(target.pid).start_ticks
    target.kill()
    assert line(guard(target.pid, 0, ticks)) == "gone\n"


@pytest.mark.invariant("guard.W3")
def test_W3_when_livedbg_dies_gdb_is_asked_to_end(program: Callable[[str], Target], guard: Start) -> None:
    target, gdb = program(SLEEPS), program(ENDS_AT_SIGTERM)
    watching = guard(target.pid, gdb.pid)
    assert line(watching) == "ready\n"
    assert watching.stdin is not None
    watching.stdin.close()
    assert gdb.line() == "DETACHED" and gdb.process.wait(60) == 0
    assert line(watching) == "fine\n"


@pytest.mark.invariant("guard.W3")
def test_W3_a_gdb_that_does_not_end_is_killed(program: Callable[[str], Target], guard: Start) -> None:
    target, gdb = program(SLEEPS), program(IGNORES_SIGTERM)
    watching = guard(target.pid, gdb.pid)
    assert line(watching) == "ready\n"
    assert watching.stdin is not None
    watching.stdin.close()
    assert gdb.process.wait(60) == -signal.SIGKILL
    assert line(watching) == "fine\n"


@pytest.mark.parametrize("whose", ["gdb", "target"])
@pytest.mark.invariant("guard.W5")
def test_W5_no_signal_of_a_terminal_ends_it_but_the_end_of_gdb_or_the_target(
    program: Callable[[str], Target], guard: Start, whose: str
) -> None:
    target, gdb = program(SLEEPS), program(SLEEPS)
    watching = guard(target.pid, gdb.pid)
    assert line(watching) == "ready\n"
    both = guards(target.pid)
    assert len(both) == 2 and watching.pid in both
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGPIPE):
        for pid in both:
            os.kill(pid, number)
    for pid in both:
        eventually(lambda pid=pid: read_stat(pid).state is ThreadState.WAITING)  # type: ignore[misc]
    assert watching.poll() is None and guards(target.pid) == both
    (gdb if whose == "gdb" else target).kill()
    assert line(watching) == ("fine\n" if whose == "gdb" else "gone\n")
    eventually(lambda: not any(process_exists(pid) for pid in both if pid != watching.pid))
    assert watching.wait(60) == 0
