"""Event loops that hang, through the real command line, on every interpreter that is here: state, who and where."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import TARGETS, Target
from tests.cpython.interpreters import gevent_environment, gevent_interpreters, interpreters, label
from tests.reports import STALL_S, USERS_STALL_S, line_of, report_when, stalled_report_when

PROGRAM = TARGETS / "py_asyncio.py"
GEVENT = TARGETS / "py_gevent.py"
TRIO = TARGETS / "py_trio.py"
KNOWN = interpreters("3.12", "3.13")


def hung(target: Target, state: str, words: str = "", stall_s: float = STALL_S) -> dict[str, Any]:
    """The first report of a program with that verdict; a thread's wait may be a stall a moment before its loop's."""

    def meant(one: dict[str, Any]) -> bool:
        return one["verdict"]["state"] == state and words in one["verdict"]["sentence"]

    said = (stalled_report_when if state == "stalled" else report_when)(target.pid, meant, stall_s=stall_s)
    assert said["exit"] == 10
    return said


@pytest.mark.parametrize("python", KNOWN, ids=label)
def test_crossed_asyncio_locks(python: str, spawn: Callable[..., Target]) -> None:
    said = hung(spawn([python, str(PROGRAM), "crossed-beside-work"]), "deadlock")
    line = line_of("async with second", PROGRAM)
    assert f"left take → right take → left take (all in take py_asyncio.py:{line})" in said["verdict"]["sentence"]
    assert [root.rpartition("/")[2] for root in said["verdict"]["roots"]] == ["left", "right"]
    (left,) = (one for key, one in said["entities"].items() if key.endswith("/left"))
    assert left["waits_for"].startswith("pylock:") and left["stack"][0]["function"] == "Lock.acquire"


@pytest.mark.invariant("idle_by_design.D1")
@pytest.mark.parametrize("python", KNOWN, ids=label)
def test_a_pool_of_connections_that_nobody_gives_back(python: str, spawn: Callable[..., Target]) -> None:
    said = hung(spawn([python, str(PROGRAM), "pool-leaked"]), "stalled")
    where = f"and 1 other task wait in Queue.get in asks (py_asyncio.py:{line_of('await pool.get()', PROGRAM)}) for "
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
def test_loops_that_may_be_idle(mode: str, state: str, words: str, spawn: Callable[..., Target]) -> None:
    """On one interpreter: that tasks are read alike on each is proven above and in tests/adapters/python."""
    report_of = stalled_report_when if state == "unknown" else report_when
    said = report_of(spawn([sys.executable, str(PROGRAM), mode]).pid, lambda one: words in one["verdict"]["sentence"])
    assert said["verdict"]["state"] == state


@pytest.mark.parametrize("python", KNOWN, ids=label)
def test_a_blocked_event_loop(python: str, spawn: Callable[..., Target]) -> None:
    stall_s = USERS_STALL_S if python == sys.executable else STALL_S
    said = hung(spawn([python, str(PROGRAM), "blocked"]), "stalled", "is blocked in ", stall_s)
    where = f"is blocked in Event.wait in call_that_blocks (py_asyncio.py:{line_of('# blocks the loop', PROGRAM)})"
    assert where in said["verdict"]["sentence"]
    assert "4 tasks wait, 3 ready." in said["verdict"]["sentence"]
    chief = next(one for one in said["findings"] if one["rule"] == "loop-blocked")
    assert [one.rpartition("/")[2] for one in chief["entities"]][1:2] == ["culprit"]


@pytest.mark.parametrize("python", gevent_interpreters(), ids=label)
def test_a_blocked_hub_of_gevent(python: str, spawn: Callable[..., Target]) -> None:
    said = hung(spawn([python, str(GEVENT), "blocked"], env=gevent_environment(python)), "stalled", "is blocked in ")
    where = f"is blocked in Event.wait in call_that_blocks (py_gevent.py:{line_of('# blocks the hub', GEVENT)})"
    assert where in said["verdict"]["sentence"] and "4 tasks wait, 3 ready." in said["verdict"]["sentence"]
    chief = next(one for one in said["findings"] if one["rule"] == "loop-blocked")
    assert [one.rpartition("/")[2] for one in chief["entities"]][1:2] == ["culprit"]


def test_crossed_trio_locks(spawn: Callable[..., Target]) -> None:
    said = hung(spawn([sys.executable, str(TRIO), "crossed-beside-work"]), "deadlock")
    line = line_of("async with second", TRIO)
    sentence = said["verdict"]["sentence"]
    assert sentence.startswith("Deadlock of 2 tasks over 2 Python locks: ")
    assert "left take → right take" in sentence or "right take → left take" in sentence
    assert f"(all in take py_trio.py:{line})" in sentence
    assert sorted(root.rpartition("/")[2] for root in said["verdict"]["roots"]) == ["left", "right"]
    proofs = [one["text"] for finding in said["findings"] for one in finding["evidence"]]
    assert len([one for one in proofs if "it names its owner" in one]) == 2
