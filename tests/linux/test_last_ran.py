"""When a blocked thread last ran: of real threads on each CPU, and of clocks that are apart."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from livedbg.linux import last_ran
from livedbg.linux.last_ran import LEAST_NS, clocks_behind_ns, exec_start_ns, last_ran_mono_ns
from tests.conftest import eventually

SLEEPER = """
import json, os, sys, threading, time
def sleep_on(cpu):
    os.sched_setaffinity(0, {cpu})
    before = time.monotonic_ns()
    blocked.append([threading.get_native_id(), cpu, before])
    lock.acquire()
blocked, lock = [], threading.Lock()
lock.acquire()
cpus = os.sched_getaffinity(0)
for cpu in cpus:
    threading.Thread(target=sleep_on, args=(cpu,), daemon=True).start()
while len(blocked) < len(cpus):
    time.sleep(0.01)
print(json.dumps(blocked), flush=True)
sys.stdin.read()
"""
"""Threads that block, one on each CPU, and say when they last knew that they ran."""


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> dict[int, tuple[int, int]]:
    known: dict[int, tuple[int, int]] = {}
    monkeypatch.setattr(last_ran, "_known", known)
    return known


@pytest.mark.invariant("last_ran.R1")
def test_R1_a_thread_that_is_blocked_on_any_cpu_did_not_last_run_before_it_did() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SLEEPER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        blocked = json.loads(process.stdout.readline())
        found: dict[int, int] = {}

        def all_are_known() -> bool:
            """Also those on a CPU that had no time for livedbg at first."""
            found.update(last_ran_mono_ns(process.pid, {tid: cpu for tid, cpu, _ in blocked}))
            return len(found) == len(blocked)

        eventually(all_are_known)
        now = time.monotonic_ns()
        process.stdin.close()
    for tid, _, before in blocked:
        assert before - 20_000_000 <= found[tid] <= now - LEAST_NS  # the field is in ticks of the scheduler


def test_a_thread_that_ran_just_now_and_one_that_is_gone_have_no_such_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert last_ran_mono_ns(2**22 + 1, {2**22 + 1: 0}) == {}
    monkeypatch.setattr(last_ran, "exec_start_ns", lambda path: time.monotonic_ns())
    monkeypatch.setattr(last_ran, "clocks_behind_ns", lambda cpus: dict.fromkeys(cpus, 0))
    assert last_ran_mono_ns(1, {1: 0}) == {}


@pytest.mark.invariant("last_ran.C1")
def test_C1_a_clock_that_was_read_before_may_have_stood_still_since(
    fresh: dict[int, tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(last_ran, "_read", lambda cpu: None)
    now = time.monotonic_ns()
    monkeypatch.setattr(last_ran, "time", SimpleNamespace(monotonic_ns=lambda: now, monotonic=lambda: now / 1e9))
    fresh[0] = (now - 100_000_000, 7_000_000_000)
    assert clocks_behind_ns([0]) == {0: 7_100_000_000}
    fresh[0] = (now - 2_000_000_000, 7_000_000_000)
    assert clocks_behind_ns([0, 1]) == {}


def test_a_cpu_on_which_nothing_may_run_is_not_known(fresh: dict[int, tuple[int, int]]) -> None:
    assert clocks_behind_ns([1 << 15]) == {} and fresh == {}


def test_a_cpu_that_leaves_livedbg_no_time_is_not_waited_for(
    fresh: dict[int, tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(last_ran, "_WAIT_S", 0.0)
    monkeypatch.setattr(last_ran, "_read", lambda cpu: time.sleep(0.2))
    assert clocks_behind_ns([0]) == {} and fresh == {}


@pytest.mark.invariant("last_ran.R1")
def test_R1_the_clock_of_the_cpu_that_it_ran_on_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic_ns()
    monkeypatch.setattr(last_ran, "exec_start_ns", lambda path: now - 60_000_000_000)
    monkeypatch.setattr(
        last_ran, "clocks_behind_ns", lambda cpus: dict.fromkeys(cpus & {0, 1}, 0) | {1: 55_000_000_000}
    )
    found = last_ran_mono_ns(1, {11: 0, 12: 1, 13: 2})
    assert found == {11: now - 60_000_000_000, 12: now - 5_000_000_000}


@pytest.mark.parametrize("text", [b"", b"python3 (1, #threads: 1)\nse.vruntime : 1.0\n", b"se.exec_start : nothing\n"])
def test_a_file_without_the_field_is_an_error(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "sched").write_bytes(text)
    with pytest.raises(ValueError):
        exec_start_ns(str(tmp_path / "sched"))
