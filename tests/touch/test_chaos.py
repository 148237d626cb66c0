"""The chaos test in its short form, and the deaths that it can meet only by chance, one by one."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from livedbg.linux.procfs import read_stat
from livedbg.model import ThreadState
from tests.conftest import eventually
from tests.touch.aims import AIMS
from tests.touch.chaos import plan, rounds
from tests.touch.health import counts_on, guards, untouched

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}

STOPPED_WHILE_IT_TRACES = """
import os, signal, sys
from livedbg.linux import ptrace
from livedbg.touch import guard_process
from livedbg.touch.guard_process import glance_guarded

guard_process._START_S = guard_process._END_S = 100.0  # a guard may be slow
pid = int(sys.argv[1])
with glance_guarded(pid):
    ptrace.seize(pid)
    ptrace.interrupt(pid)
    while ptrace.stopped(pid) is None:
        pass
    print("READY", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
    ptrace.detach(pid)
print("LET GO", flush=True)
"""


@pytest.mark.parametrize(("aim", "number"), [("thrower", 3), ("tree", 2), ("torch", 2)])
def test_a_target_survives_all_that_happens_to_those_who_touch_it(aim: str, number: int, tmp_path: Path) -> None:
    seed = len(AIMS)
    played = list(rounds(plan(seed, 0, number, aim=aim), seed, 0, tmp_path))
    assert len(played) == number
    assert [str(one) for one in played if one.wrong] == []


@pytest.mark.invariant("guard.W6")
def test_W6_the_second_guard_wakes_the_target_when_all_others_die_at_once(thrower: Any, spawn: Any) -> None:
    holder = spawn([sys.executable, HERE / "holder.py", str(thrower.pid)], env=ENVIRONMENT)
    gdb, guard = map(int, holder.words)
    assert read_stat(thrower.pid).state is ThreadState.TRACED
    assert len(guards(thrower.pid)) == 2
    for pid in (guard, holder.pid, gdb):
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: untouched(thrower.pid))
    assert counts_on(thrower.counted)
    eventually(lambda: guards(thrower.pid) == [])


@pytest.mark.invariant("guard.W4")
def test_W4_the_second_guard_acts_for_a_first_one_that_is_stopped(thrower: Any, spawn: Any) -> None:
    holder = spawn([sys.executable, HERE / "holder.py", str(thrower.pid)], env=ENVIRONMENT)
    gdb, guard = map(int, holder.words)
    for pid in (guard, holder.pid, gdb):
        os.kill(pid, signal.SIGSTOP)
    eventually(lambda: untouched(thrower.pid))
    assert counts_on(thrower.counted)
    for pid in (guard, holder.pid):
        os.kill(pid, signal.SIGCONT)
    eventually(lambda: guards(thrower.pid) == [])


@pytest.mark.invariant("guard.W7")
def test_W7_a_livedbg_that_is_stopped_in_a_glance_lets_go_first(thrower: Any, spawn: Any) -> None:
    glancer = spawn([sys.executable, "-c", STOPPED_WHILE_IT_TRACES, str(thrower.pid)], env=ENVIRONMENT)
    eventually(lambda: untouched(thrower.pid))
    assert counts_on(thrower.counted)
    eventually(lambda: read_stat(glancer.pid).state is ThreadState.STOPPED)
    os.kill(glancer.pid, signal.SIGCONT)
    assert glancer.line() == "LET GO"
    eventually(lambda: guards(thrower.pid) == [])
