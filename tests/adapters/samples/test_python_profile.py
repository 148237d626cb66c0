"""`stacks --for` where the kernel refuses samples: Python functions from memory, and the refusal for others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from livedbg.adapters.samples.profiling import _PYTHON_PROFILE_REST, PythonProfile, PythonSample
from livedbg.linux import procfs
from livedbg.linux.abi import native_abi
from livedbg.session.adapter import Request
from livedbg.session.tools import no_unwinder
from tests.conftest import Target, eventually, settled

SPINS_AND_WAITS = """
import os, threading
def inner(n):
    while True:
        n = n * 3 % 1000003
def spins():
    inner(7)
def waits():
    os.read(os.pipe()[0], 1)
threading.Thread(target=waits, daemon=True).start()
print("READY", os.getpid(), flush=True)
spins()
"""


@pytest.fixture
def python(spawn: Callable[..., Target]) -> Target:
    """A Python program with a thread that computes and one that waits."""
    if sys.version_info >= (3, 14):
        pytest.skip("the frames of this CPython are not read")
    target = spawn([sys.executable, "-c", SPINS_AND_WAITS])
    (other,) = (tid for tid in procfs.thread_ids(target.pid) if tid != target.pid)
    eventually(lambda: reads(target.pid, other))
    return target


def reads(pid: int, tid: int) -> bool:
    """Whether a thread is in read(2): before that it waits for the GIL, and runs in between."""
    abi, call = native_abi(), procfs.blocked_syscall(pid, tid)
    return abi is not None and isinstance(call, procfs.BlockedSyscall) and abi.syscalls.get(call.number) == "read"


REFUSING = """
import errno, sys
from livedbg.probes import clock_samples
from livedbg.probes.perf_event import NoPerf

def denied(*_):
    raise NoPerf(errno.EACCES, "not allowed")

clock_samples.open_clock = denied
from livedbg.cli.stacks import ProfileOptions, print_profile
from livedbg.commands.signals import TimeLimit
from livedbg.session.adapter import Request
from livedbg.session.hostinfo import check_target

pid, seconds = int(sys.argv[1]), float(sys.argv[2])
request = Request(host="box", processes=(check_target(pid),), stacks="native")
sys.exit(print_profile(request, ProfileOptions(seconds=seconds, as_json=True), TimeLimit(seconds + 200)))
"""
"""`stacks PID --for SECONDS --json` where the kernel takes no samples, in a process that nothing went before."""


def profiled(pid: int, seconds: float) -> tuple[int, str, str]:
    """The exit code of that, and what it prints."""
    if no_unwinder(Request(host="box")) is not None:
        pytest.skip("nothing that unwinds")
    words = [sys.executable, "-c", REFUSING, str(pid), str(seconds)]
    done = subprocess.run(
        words, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds + 400
    )
    return done.returncode, done.stdout, done.stderr


def test_python_functions_are_read_from_memory_and_it_is_said(python: Target) -> None:
    seconds, profile, warning = 0.5, {"functions": []}, ""
    while not profile["functions"] and seconds < 100:  # on a busy box it may not run in so short a time
        code, out, warning = profiled(python.pid, seconds)
        assert code in (0, 3), warning
        profile = json.loads(out) if out else profile
        seconds *= 3
    names = {one["function"]: one for one in profile["functions"]}
    assert {"inner", "spins"} <= names.keys() and "waits" not in names
    assert names["inner"]["language"] == "python" and names["inner"]["line"] in (4, 5)
    assert "Python functions are read from memory instead" in " ".join(warning.split())
    assert procfs.status_fields(python.pid)["TracerPid"] == "0"


def test_a_program_without_python_has_the_refusal(
    build_target: Callable[..., Path], spawn: Callable[..., Target]
) -> None:
    target = spawn([build_target("stacks", "-O2", output="stacks-O2"), "2"])
    settled(target.pid)
    code, out, warning = profiled(target.pid, 100.0)
    assert code == 3, (out, warning)
    assert not out and "No native stacks of running threads" in " ".join(warning.split())
    assert "instead" not in warning


@pytest.mark.invariant("samples_profiling.P1")
def test_P1_a_thread_that_waits_has_no_sample(python: Target) -> None:
    threads = {tid: (python.pid, str(tid)) for tid in procfs.thread_ids(python.pid)}
    seen: list[PythonSample] = []

    def enough(samples: list[PythonSample]) -> None:
        seen.extend(samples)
        if any(one.python is not None and one.python.frames[0].function == "inner" for one in seen[19:]):
            profile.stop()

    profile = PythonProfile(threads, enough)
    assert profile.run(200, 0.001) and len(threads) == 2
    assert {one.thread for one in seen} == {str(python.pid)}
    assert all(one.cpu_ns > 0 for one in seen)
    assert len(seen) >= 20


@pytest.mark.invariant("samples_profiling.P2")
def test_P2_it_rests_for_as_long_as_looking_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    rests: list[float] = []
    own = {"s": 0.0}

    def looks(_self: PythonProfile) -> list[PythonSample]:
        own["s"] += 0.5
        return []

    profile = PythonProfile({os.getpid(): (os.getpid(), "one")}, lambda _: None)
    monkeypatch.setattr("livedbg.adapters.samples.profiling.PythonFrames.readable", True)
    monkeypatch.setattr("livedbg.adapters.samples.profiling.PythonFrames.refresh", lambda _self, _pids: None)
    monkeypatch.setattr(PythonProfile, "_look", looks)
    monkeypatch.setattr(time, "thread_time", lambda: own["s"])
    monkeypatch.setattr(profile._stop, "wait", lambda s: (rests.append(s), profile.stop() if len(rests) > 2 else None))
    assert profile.run(200, 0.01)
    assert rests == [0.01, *[_PYTHON_PROFILE_REST * 0.5] * 2]  # the first look reads the sources


def test_there_is_nothing_to_look_at_without_an_interpreter() -> None:
    profile = PythonProfile({}, lambda _: None)
    assert not profile.run(200, 0.01)
