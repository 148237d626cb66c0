"""Servers that do not answer, and healthy ones that look the same, through the real command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.zygote import run_livedbg, stalls_after, until_reported
from tests.conftest import TARGETS, Target

PROGRAM = TARGETS / "py_servers.py"


@pytest.mark.invariant("behaviour.L12")
@pytest.mark.parametrize(
    ("mode", "state", "words"),
    [
        ("edge", "unknown", "in ask (py_servers.py:"),
        ("handler-ends", "unknown", "at the other end, does not look at the connection."),
        ("left-behind", "unknown", "/log, held by process"),
        ("pushes", "running", "waits for connections (epoll_wait of 2 descriptors) in pushes (py_servers.py:"),
        ("turns", "running", "waits for connections (accept on "),
    ],
)
def test_who_waits_for_a_server(mode: str, state: str, words: str, spawn: Callable[..., Target]) -> None:
    judged(spawn([sys.executable, str(PROGRAM), mode]), state, words)


@pytest.mark.invariant("behaviour.L13")
@pytest.mark.parametrize(
    ("mode", "state", "words"),
    [
        ("request-waits", "unknown", "has been in Event.wait in answer (py_servers.py:"),
        ("talks-to-itself", "unknown", "has been in epoll_wait of 2 descriptors in talks_to_itself (py_servers.py:"),
        ("keeps-alive", "running", "waits for connections (accept on "),
    ],
)
def test_a_server_in_which_a_request_is_held_up(
    mode: str, state: str, words: str, spawn: Callable[..., Target]
) -> None:
    judged(spawn([sys.executable, str(PROGRAM), mode]), state, words)


def judged(target: Target, state: str, words: str) -> None:
    said: dict[str, Any] = {}

    def is_said() -> bool:
        done = run_livedbg(["report", target.pid, "--json", "--timeout", "90"], 150, env=stalls_after(3.0))
        said.update(json.loads(done.stdout))
        return words in said["verdict"]["sentence"]

    until_reported(is_said, told=lambda: said["verdict"])
    assert said["verdict"]["state"] == state and said["intrusions"]["stops"] == 0
