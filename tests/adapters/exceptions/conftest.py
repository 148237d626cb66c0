"""Fixtures for tests that catch things in real programs."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from livedbg.adapters.exceptions import stopper
from livedbg.probes import functions
from livedbg.probes.tracefs import NoTracefs
from tests.adapters.exceptions.catching import Tracing
from tests.conftest import Target
from tests.probes.refused import refused


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stack through torch takes gdb some seconds of CPU time: minutes on a busy machine."""
    monkeypatch.setattr("livedbg.adapters.exceptions.stacks._UNWIND_S", 200.0)


@pytest.fixture
def trace() -> Iterator[Callable[..., Tracing]]:
    """Begin to catch in a process; ended with the test."""
    sessions: list[Tracing] = []

    def start(pid: int, *, read_only: bool = False) -> Tracing:
        sessions.append(Tracing(pid, read_only=read_only))
        return sessions[-1]

    yield start
    for tracing in sessions:
        tracing.stop()


@pytest.fixture(params=["probes", "registers"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the calls are noticed by: kernel probes, or debug registers as where those are not allowed."""
    if request.param == "probes" and refused():
        pytest.skip(refused())
    if request.param == "registers":

        def none_here() -> None:
            raise NoTracefs(errno.EACCES, "not for us")

        for module in (stopper, functions):
            monkeypatch.setattr(module, "TraceEvents", none_here)
    return str(request.param)


@pytest.fixture
def thrower(build_target: Callable[..., Path], spawn: Callable[..., Target]) -> Target:
    """A program that throws what it is told to."""
    return spawn([build_target("throws")])
