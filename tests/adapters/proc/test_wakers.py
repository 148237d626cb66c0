"""What can end a wait for a pipe, read from real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from livedbg.adapters.proc import wakers as module
from livedbg.adapters.proc.wakers import driven, outside, unseen_end, wakers
from livedbg.linux import procfs
from livedbg.linux.descriptors import Descriptor, Holder

PIPE = Descriptor(3, "pipe", "pipe:[9]", "pipe:[9]", 9)


@pytest.fixture
def python() -> Iterator[Callable[[str], int]]:
    """Starts Python programs; each says when it is ready."""
    started = []

    def start(code: str) -> int:
        code = f"import os, signal, sys, time\n{code}\nprint('ready', flush=True)\ntime.sleep(1000)"
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        started.append(process)
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        return process.pid

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_handled_signals_are_wakers_but_for_faults_and_python_s_own(python: Callable[[str], int]) -> None:
    assert wakers(python("")) == ""
    assert wakers(python("import faulthandler; faulthandler.enable()")) == ""
    assert wakers(python("signal.signal(signal.SIGTERM, print)")) == "handles SIGINT, SIGTERM"
    assert wakers(python("signal.signal(signal.SIGHUP, signal.SIG_IGN)")) == ""


def test_four_signals_are_named_in_short(python: Callable[[str], int]) -> None:
    code = "for n in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1): signal.signal(n, print)"
    assert wakers(python(code)) == "handles SIGHUP, SIGINT, SIGUSR1, …"


def test_timers_are_wakers(python: Callable[[str], int]) -> None:
    code = """
import ctypes
timer = ctypes.c_void_p()
assert ctypes.CDLL(None).timer_create(1, None, ctypes.byref(timer)) == 0
"""
    assert wakers(python(code)) == "has a timer"


@pytest.mark.invariant("wakers.W1")
def test_W1_what_can_t_be_read_may_wake(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object) -> dict[str, str]:
        raise PermissionError

    monkeypatch.setattr(procfs, "status_fields", denied)
    assert wakers(os.getpid()) == "may handle signals"
    monkeypatch.setattr(procfs, "status_fields", lambda _: {"SigCgt": "none"})
    assert wakers(os.getpid()) == "may handle signals"
    monkeypatch.setattr(procfs, "status_fields", lambda _: {"SigCgt": "0"})
    monkeypatch.setattr(module, "read_file", lambda _: (_ for _ in ()).throw(FileNotFoundError))
    assert wakers(os.getpid()) == "may have timers"
    assert wakers(2**22 + 1) == ""


def test_a_named_fifo_can_be_opened_by_others_and_an_end_for_both_is_a_way_to_sleep(
    python: Callable[[str], int], tmp_path: Path
) -> None:
    pid = python("")
    fifo = PIPE._replace(link=str(tmp_path / "fifo"))
    assert outside(fifo, [Holder(pid, 3, "r")], [pid]) == f"any process that may open {tmp_path / 'fifo'} can serve it"
    assert outside(PIPE, [Holder(pid, 3, "rw")], [pid]) == f"process {pid} has it open for reading and writing"
    assert outside(PIPE, [Holder(pid, 3, "r"), Holder(pid, 4, "w")], [pid]) == ""
    handles = python("signal.signal(signal.SIGTERM, print)")
    assert outside(PIPE, [], [handles]) == f"process {handles} handles SIGINT, SIGTERM"
    os.kill(handles, signal.SIGKILL)


@pytest.mark.parametrize(
    ("links", "reason"),
    [
        (["pipe:[3]", "/dev/null", "anon_inode:[eventfd]", "/dev/pts/3"], ""),
        (["anon_inode:[io_uring]"], "has an io_uring"),
        (["/dev/fancy0"], ""),
        (["/dev/fancy0", "anon_inode:[eventfd]"], "has /dev/fancy0 open, whose driver may signal its eventfd"),
        (["anon_inode:kvm", "anon_inode:[eventfd]"], "has anon_inode:kvm open, whose driver may signal its eventfd"),
    ],
)
def test_drivers_signal_eventfds_and_io_uring_wakes_anything(
    links: list[str], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "fd_links", lambda _: dict(enumerate(links)))
    monkeypatch.setattr(module, "wakers", lambda _: "")
    pid = os.getpid()
    assert driven(pid) == reason
    eventfd = Descriptor(3, "eventfd", "anon_inode:[eventfd]", "eventfd:7", 7)
    assert outside(eventfd, (), [pid]) == (f"process {pid} {reason}" if reason else "")
    assert outside(PIPE, (), [pid]) == ""


def test_a_pipe_without_an_end_that_can_be_seen_has_one_that_can_t() -> None:
    assert unseen_end(PIPE, [Holder(1, 3, "r")], []) == "no process that can be seen has the other end of pipe 3"
    assert unseen_end(PIPE, [Holder(1, 3, "r"), Holder(2, 3, "w")], [2]) == ""
    assert "for reading and writing" in unseen_end(PIPE, [Holder(1, 3, "rw")], [1])
