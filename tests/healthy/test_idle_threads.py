"""Threads that libraries keep, and parents that wait for children with a time limit, say nothing by themselves."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import TARGETS, Target
from tests.reports import at_rest, report_of, report_when


@pytest.mark.invariant("behaviour.L20")
def test_who_rests_beside_idle_threads_of_openmp_is_asleep(
    build_target: Callable[..., Path], spawn: Callable[..., Target]
) -> None:
    target = spawn([build_target("omp_rests", "-fopenmp")])
    said = report_when(target.pid, lambda one: one["verdict"]["state"] == "running")
    assert said["exit"] == 0 and "will wake by itself" in said["verdict"]["sentence"], said["verdict"]


@pytest.mark.invariant("behaviour.L20")
def test_a_thread_of_the_users_own_that_waits_beside_them_may_be_stuck(
    build_target: Callable[..., Path], spawn: Callable[..., Target]
) -> None:
    target = spawn([build_target("omp_rests", "-fopenmp"), "beside"])
    at_rest(target.pid)
    said = report_of(target.pid)
    assert (said["verdict"]["state"], said["exit"]) == ("unknown", 5), said["verdict"]


@pytest.mark.parametrize("how", ["by_subprocess", "by_multiprocessing"])
def test_who_awaits_a_child_that_rests_is_asleep(how: str, spawn: Callable[..., Target]) -> None:
    target = spawn([sys.executable, str(TARGETS / "py_awaits_child.py"), how, "rests"])
    rests = "is in sleep() in rests (py_awaits_child.py:"
    said = report_when(target.pid, lambda one: rests in one["verdict"]["sentence"])  # it starts first
    assert (said["verdict"]["state"], said["exit"]) == ("running", 0), said["verdict"]


@pytest.mark.parametrize("how", ["by_subprocess", "by_multiprocessing"])
def test_who_awaits_a_child_that_hangs_is_not(how: str, spawn: Callable[..., Target]) -> None:
    target = spawn([sys.executable, str(TARGETS / "py_awaits_child.py"), how, "hangs"])
    said = report_when(target.pid, lambda one: one["exit"] == 10)
    assert "in hangs (py_awaits_child.py:" in said["verdict"]["sentence"], said["verdict"]
