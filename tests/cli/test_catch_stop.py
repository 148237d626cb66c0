"""`livedbg catch --stop` on a real program: what it prints, how a held thread is let go, and what it refuses."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from livedbg.linux.procfs import read_stat, status_fields
from livedbg.model import ThreadState
from tests.cli.zygote import Livedbg, run_livedbg
from tests.conftest import Target, eventually

CATCH = [sys.executable, "-m", "livedbg", "catch"]


@pytest.fixture
def thrower(build_target: Callable[..., Path], spawn: Callable[..., Target]) -> Target:
    return spawn([build_target("throws")])


def tell(target: Target, command: str) -> None:
    assert target.process.stdin is not None
    target.process.stdin.write(command.encode() + b"\n")


def armed(process: subprocess.Popen[str]) -> None:
    assert process.stderr is not None
    assert " S1 stops threads of process " in process.stderr.readline()


def catching(*words: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
    return Livedbg(
        ["catch", *words], text=True, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )  # fmt: skip


def test_one_stop_with_variables_and_source(thrower: Target) -> None:
    with catching(str(thrower.pid), "std::runtime_error", "--stop") as process:
        armed(process)
        tell(thrower, "runtime said so")
        out, err = process.communicate(timeout=200)
    assert process.returncode == 0
    assert "std::runtime_error: said so" in out
    assert re.search(r"#1 +innermost at \S+throws\.cpp:\d+\n +kind=\"runtime\"\n +text=\"said so\"\n", out)
    assert re.search(r"> +\d+ +if \(kind == \"runtime\"\) throw std::runtime_error\(text\);", out)
    assert re.search(r"thread \d+ throws was stopped for [\d,.]+ ms and is resumed", err)
    assert "S1 std::runtime_error: 1 of 1 matched." in err
    assert status_fields(thrower.pid)["TracerPid"] == "0"
    tell(thrower, "runtime again")


def test_json_has_variables_source_and_the_pause(thrower: Target) -> None:
    with catching(str(thrower.pid), "any", "--stop", "--json") as process:
        armed(process)
        tell(thrower, "int 1")
        out, _ = process.communicate(timeout=200)
    said = json.loads(out.splitlines()[0])
    assert (said["type"], said["message"]) == ("int", "42")
    frame = said["stack"][1]
    assert 'kind="int"' in frame["locals"]
    assert "throw 42" in frame["source"][frame["line"] - frame["source_from"]]


def test_enter_lets_a_held_thread_go(thrower: Target) -> None:
    ours, theirs = pty.openpty()
    with catching(str(thrower.pid), "any", "--stop", "--hold", "300", stdin=theirs) as process:
        os.close(theirs)
        armed(process)
        tell(thrower, "int 1")
        assert process.stderr is not None
        assert "Enter resumes it" in process.stderr.readline()
        assert read_stat(thrower.pid, thrower.pid).state is ThreadState.TRACED
        gdb = int(status_fields(thrower.pid)["TracerPid"])
        assert os.geteuid() or os.getpriority(os.PRIO_PROCESS, gdb) == 0  # what holds a thread has its CPU
        os.write(ours, b"\n")
        process.communicate(timeout=200)
        os.close(ours)
    assert process.returncode == 0
    eventually(lambda: status_fields(thrower.pid)["TracerPid"] == "0")


def test_a_terminal_that_is_closed_lets_a_held_thread_go(thrower: Target) -> None:
    with catching(str(thrower.pid), "any", "--stop", "--hold", "300") as process:
        armed(process)
        tell(thrower, "int 1")
        assert process.stderr is not None
        assert " is stopped for " in process.stderr.readline()
        process.kill()
    eventually(lambda: status_fields(thrower.pid)["TracerPid"] == "0")
    eventually(lambda: read_stat(thrower.pid, thrower.pid).state is not ThreadState.TRACED)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["any", "--hold", "3"], "--hold needs --stop."),
        (["any", "--stop", "--follow"], "--stop and --follow exclude each other."),
        (["any", "--stop", "--gdb", "/nonexistent"], "--gdb names no program that can be run: /nonexistent."),
        (["no_such_function", "--stop", "--moment", "call"], "has no function no_such_function"),
    ],
)
def test_what_is_wrong_is_said(thrower: Target, words: list[str], said: str) -> None:
    done = run_livedbg(["catch", thrower.pid, *words, "--timeout", "60"], text=True)
    assert done.returncode not in (0, 4) and said in done.stderr and "Traceback" not in done.stderr


def test_many_threads_take_many_files(spawn: Callable[..., Target]) -> None:
    code = (
        "import threading, time, ctypes; ctypes.CDLL('libstdc++.so.6');"
        "[threading.Thread(target=time.sleep, args=(1000,)).start() for _ in range(150)];"
        "print('READY', flush=True); time.sleep(1000)"
    )
    pid = spawn([sys.executable, "-c", code]).pid
    for limits, said in (("100:4096", " S1 stops threads of process "), ("300:300", "need more open files than")):
        argv = ["prlimit", f"--nofile={limits}", *CATCH, str(pid), "any", "--stop"]
        with subprocess.Popen(argv, text=True, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
            assert process.stderr is not None
            assert said in process.stderr.readline()
            process.terminate()
        eventually(lambda: status_fields(pid)["TracerPid"] == "0")
