"""Real programs that hang and are then interrupted by their user: the verdict stays the hang, with how it ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.zygote import Livedbg
from tests.conftest import Target, eventually

CROSSED = """
import os, signal, threading
signal.alarm(3600)
first, second, met = threading.Lock(), threading.Lock(), threading.Barrier(2)

def other():
    with second:
        met.wait()
        with first:
            pass

threading.Thread(target=other, daemon=True).start()
with first:
    met.wait()
    print("READY", os.getpid(), flush=True)
    with second:
        pass
"""


@pytest.fixture(params=["C++", "Python"])
def program(request: pytest.FixtureRequest, build_target: Callable[..., Path]) -> list[str]:
    """A program that hangs, prints `READY` and its pid, and ends by SIGINT."""
    if request.param == "Python":
        return [sys.executable, "-c", CROSSED]
    return [str(build_target("hang_cases", "-std=c++17")), "self-deadlock"]


def interrupted(verdict: dict[str, Any]) -> bool:
    """Whether a verdict is that of the hang, and says how it ended."""
    return verdict["state"] == "deadlock" and "ended by SIGINT" in verdict["sentence"]


@pytest.mark.invariant("ended.E1")
def test_E1_a_watched_hang_that_is_interrupted_stays_one(program: list[str], spawn: Callable[..., Target]) -> None:
    target = spawn(program)
    line = ["watch", str(target.pid), "--json"]
    with Livedbg(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as watching:
        assert watching.stdout is not None
        said: list[dict[str, Any]] = []
        sent = False
        try:
            for text in watching.stdout:
                said.append(json.loads(text))
                if not sent and said[-1]["kind"] == "verdict" and said[-1]["state"] == "deadlock":
                    os.kill(target.pid, signal.SIGINT)  # nobody collects its status before all is over
                    sent = True
            watching.wait(100)
        finally:
            watching.kill()
    last = [one for one in said if one["kind"] == "verdict"][-1]
    assert (last["state"], watching.returncode) == ("deadlock", 10), said
    assert any(one["kind"] == "finding" and one["rule"] == "ended-hang" and interrupted(one) for one in said), said


@pytest.mark.invariant("ended.E1")
def test_E1_a_launched_hang_that_is_interrupted_stays_one(program: list[str], tmp_path: Path) -> None:
    report = tmp_path / "end.json"
    line = ["launch", "--headless", "--report", report, "--", *program]
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with (
        (tmp_path / "out").open("wb") as out,
        Livedbg(line, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE) as launching,
    ):
        assert launching.stderr is not None
        sent = False
        try:
            for text in launching.stderr:
                print(text)  # what it says, where the test runs out of time
                if not sent and b" DEADLOCK " in text:
                    sent = True
                    eventually(lambda: pid_of(tmp_path / "out"))
                    os.kill(pid_of(tmp_path / "out"), signal.SIGINT)
            launching.wait(100)
        finally:
            launching.kill()
    assert launching.returncode == 128 + signal.SIGINT
    assert interrupted(json.loads(report.read_text())["verdict"])


def pid_of(output: Path) -> int:
    """The pid in what a program printed so far: a number, or JSON; 0 before it has."""
    lines = [line for line in output.read_text().splitlines(keepends=True) if line.startswith("READY")]
    if not lines or not lines[0].endswith("\n"):
        return 0
    said = lines[0].removeprefix("READY").strip()
    return int(said) if said.isdecimal() else int(json.loads(said)["pid"])
