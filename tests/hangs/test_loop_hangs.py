"""Event loops that hang, through the real command line, on every interpreter that is here: state, who and where."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.zygote import run_livedbg, stalls_after, until_reported
from tests.conftest import TARGETS, Target
from tests.cpython.interpreters import gevent_environment, gevent_interpreters, interpreters, label

PROGRAM = TARGETS / "py_asyncio.py"
GEVENT = TARGETS / "py_gevent.py"
TRIO = TARGETS / "py_trio.py"
KNOWN = interpreters("3.12", "3.13")


def report_when(target: Target, state: str, stall_s: float = 3.0) -> dict[str, Any]:
    """The first report of a program with that verdict: it may take a moment to be stuck for long enough."""
    said: dict[str, Any] = {}

    def is_said() -> bool:
        done = run_livedbg(["report", target.pid, "--json", "--timeout", "90"], 150, env=stalls_after(stall_s))
        assert done.stdout, done.stderr.decode()
        said.update(json.loads(done.stdout), exit=done.returncode)
        return bool(said["verdict"]["state"] == state)

    until_reported(is_said, told=lambda: said["verdict"])
    assert said["exit"] == 10 and said["intrusions"]["stops"] == 0
    return said


def line_of(words: str, program: Path = PROGRAM) -> int:
    """The number of the line of the program with these words."""
    lines = program.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if words in line)


@pytest.mark.parametrize("python", KNOWN, ids=label)
def test_crossed_asyncio_locks(python: str, spawn: Callable[..., Target]) -> None:
    said = report_when(spawn([python, str(PROGRAM), "crossed-beside-work"]), "deadlock")
    line = line_of("async with second")
    assert f"left take → right take → left take (all in take py_asyncio.py:{line})" in said["verdict"]["sentence"]
    assert [root.rpartition("/")[2] for root in said["verdict"]["roots"]] == ["left", "right"]
    (left,) = (one for key, one in said["entities"].items() if key.endswith("/left"))
    assert left["waits_for"].startswith("pylock:") and left["stack"][0]["function"] == "Lock.acquire"


@pytest.mark.invariant("idle_by_design.D1")
@pytest.mark.parametrize("python", KNOWN, ids=label)
def test_a_pool_of_connections_that_nobody_gives_back(python: str, spawn: Callable[..., Target]) -> None:
    said = report_when(spawn([python, str(PROGRAM), "pool-leaked"]), "stalled")
    where = f"and 1 other task wait in Queue.get in asks (py_asyncio.py:{line_of('await pool.get()')}) for "
    assert where in said["verdict"]["sentence"]


@pytest.mark.invariant("idle_by_design.D1")
@pytest.mark.parametrize(
    ("mode", "state", "words"),
    [
        ("until-stopped", "unknown", "an event loop with nothing to do looks the same"),
        ("until-ctrl-c", "unknown", "an event loop with nothing to do looks the same"),
        ("request-held-up", "unknown", "waits for a semaphore in request (py_asyncio.py:"),
        ("answer-held-up", "unknown", "has waited in Event.wait in answers (py_asyncio.py:"),
        ("news-later", "running", "waits for connections"),
        ("server", "running", "waits for connections"),
    ],
)
@pytest.mark.parametrize("python", KNOWN, ids=label)
def test_loops_that_may_be_idle(python: str, mode: str, state: str, words: str, spawn: Callable[..., Target]) -> None:
    program = spawn([python, str(PROGRAM), mode])
    said: dict[str, Any] = {}

    def is_said() -> bool:
        done = run_livedbg(["report", program.pid, "--json", "--timeout", "90"], 150, env=stalls_after(3.0))
        said.update(json.loads(done.stdout))
        return words in said["verdict"]["sentence"]

    until_reported(is_said, told=lambda: said["verdict"])
    assert said["verdict"]["state"] == state


@pytest.mark.parametrize("python", KNOWN, ids=label)
def test_a_blocked_event_loop(python: str, spawn: Callable[..., Target]) -> None:
    said = report_when(spawn([python, str(PROGRAM), "blocked"]), "stalled", 10.0 if python == sys.executable else 3.0)
    where = f"is blocked in Event.wait in call_that_blocks (py_asyncio.py:{line_of('# blocks the loop')})"
    assert where in said["verdict"]["sentence"]
    assert "4 tasks wait, 3 ready." in said["verdict"]["sentence"]
    chief = next(one for one in said["findings"] if one["rule"] == "loop-blocked")
    assert [one.rpartition("/")[2] for one in chief["entities"]][1:2] == ["culprit"]


@pytest.mark.parametrize("python", gevent_interpreters(), ids=label)
def test_a_blocked_hub_of_gevent(python: str, spawn: Callable[..., Target]) -> None:
    said = report_when(spawn([python, str(GEVENT), "blocked"], env=gevent_environment(python)), "stalled")
    where = f"is blocked in Event.wait in call_that_blocks (py_gevent.py:{line_of('# blocks the hub', GEVENT)})"
    assert where in said["verdict"]["sentence"] and "4 tasks wait, 3 ready." in said["verdict"]["sentence"]
    chief = next(one for one in said["findings"] if one["rule"] == "loop-blocked")
    assert [one.rpartition("/")[2] for one in chief["entities"]][1:2] == ["culprit"]


def test_crossed_trio_locks(spawn: Callable[..., Target]) -> None:
    said = report_when(spawn([sys.executable, str(TRIO), "crossed-beside-work"]), "deadlock")
    line = line_of("async with second", TRIO)
    sentence = said["verdict"]["sentence"]
    assert sentence.startswith("Deadlock of 2 tasks over 2 Python locks: ")
    assert "left take → right take" in sentence or "right take → left take" in sentence
    assert f"(all in take py_trio.py:{line})" in sentence
    assert sorted(root.rpartition("/")[2] for root in said["verdict"]["roots"]) == ["left", "right"]
    proofs = [one["text"] for finding in said["findings"] for one in finding["evidence"]]
    assert len([one for one in proofs if "it names its owner" in one]) == 2
