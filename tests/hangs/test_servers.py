"""Servers that do not answer, and healthy ones that look the same, through the real command line."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from tests.conftest import TARGETS, Target
from tests.reports import report_when, stalled_report_when

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


@pytest.mark.invariant("behaviour.L14", "behaviour.L15")
@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("asks-a-child", "and sleeps again in asks (py_servers.py:"),
        ("asks-beside", "has been in read of pipe"),
        ("streams", "(1 in epoll_wait of 0 descriptors, 1 in epoll_wait of 2 descriptors)"),
    ],
)
def test_who_asks_a_child_again_and_again(mode: str, words: str, spawn: Callable[..., Target]) -> None:
    judged(spawn([sys.executable, str(PROGRAM), mode]), "unknown", words)


def judged(target: Target, state: str, words: str) -> None:
    report_of = stalled_report_when if state == "unknown" else report_when
    said = report_of(target.pid, lambda one: words in one["verdict"]["sentence"])
    assert said["verdict"]["state"] == state
