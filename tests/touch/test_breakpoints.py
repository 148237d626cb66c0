"""Listening by debug registers, with no rights but those of the target's own user, and being killed meanwhile."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from livedbg.linux.procfs import thread_ids
from tests.touch.health import COUNTERS, changed_code, counters, counts_on, untouched

TRACE = Path(__file__).with_name("trace_breakpoints.py")
ROOT = Path(__file__).parents[2]
NOBODY = 65534
MOVING = COUNTERS[:-1]  # no children here


@pytest.fixture
def listening(build_target: Any, spawn: Any) -> Iterator[Any]:
    """A program that throws, and a listener to a type of it; both of a user without any rights."""

    folders: list[Path] = []

    def start(pattern: str, pause_us: int = 4000, forks: int = 0) -> tuple[Any, Any, Path]:
        folder = Path(tempfile.mkdtemp(prefix="livedbg-test-"))  # pytest's own folders are closed to other users
        folders.append(folder)
        folder.chmod(0o777)
        program = folder / "thrower"
        shutil.copy(build_target("thrower"), program)
        program.chmod(0o755)
        user = NOBODY if os.geteuid() == 0 else None
        target = spawn([program, folder / "counters", "3", str(pause_us), str(forks)], user=user)
        listener = spawn(
            [sys.executable, TRACE, str(target.pid), str(user or 0), pattern],
            None,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        said = listener.line()
        if said.startswith("REFUSED"):
            paranoid = Path("/proc/sys/kernel/perf_event_paranoid").read_text().strip()
            pytest.skip(f"this machine allows no perf events (perf_event_paranoid {paranoid}): {said}")
        assert said == "READY"
        return target, listener, folder / "counters"

    yield start
    for folder in folders:
        shutil.rmtree(folder)


def test_types_messages_and_threads_are_heard_without_rights(listening: Any) -> None:
    target, listener, counted = listening("std::runtime_error")
    before = counters(counted)
    heard: list[str] = []
    tids: set[int] = set()
    types: set[str] = set()
    messages: set[str] = set()
    while len(heard) < 60 or len(tids) < 3 or len(types) < 2 or len(messages) <= 3:
        heard.append(listener.line())
        tids.add(int(heard[-1].split()[0]))
        types.add(heard[-1].split(maxsplit=1)[1].split(": ")[0].removesuffix(":"))
        messages |= {heard[-1].partition(": ")[2]} - {""}
    assert tids < set(thread_ids(target.pid))
    assert len(tids) == 3
    assert types == {"std::runtime_error", "shop::SoldOut"}  # the bases count too; no shop::Closed, no int
    for line in heard:
        message = line.partition(": ")[2]
        right = "disk full on shelf " if " std::runtime_error:" in line else "no more of item "
        assert message == "" or message.startswith(right)
    assert untouched(target.pid)
    assert counts_on(counted, MOVING)
    assert counters(counted)["closed"] > before["closed"]
    assert changed_code(target.pid) == []


@pytest.mark.invariant("breakpoint_tracer.R1")
def test_R1_threads_born_later_are_heard_from_the_start(listening: Any) -> None:
    target, listener, counted = listening("std::out_of_range", forks=1)
    born_before = set(thread_ids(target.pid))
    tids: set[int] = set()
    while len(tids - born_before) < 5:
        tid, said = listener.line().split(maxsplit=1)
        assert said in ("std::out_of_range: born late", "std::out_of_range:", "std::out_of_range: ")
        tids.add(int(tid))
    assert counts_on(counted)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_listener_that_is_killed_leaves_nothing(listening: Any, number: signal.Signals) -> None:
    target, listener, counted = listening("*", 200)
    for _ in range(20):
        listener.line()
    os.kill(listener.pid, number)
    listener.process.wait(60)
    for _ in range(3):
        assert counts_on(counted, MOVING)
    assert target.process.poll() is None
    assert untouched(target.pid)
    assert changed_code(target.pid) == []
