"""Programs of C++ that only compute: in loops that only their own end ends, or in loops that may wait for something."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Target
from tests.reports import report_of, report_when


@pytest.mark.invariant("behaviour.L4")
def test_who_computes_in_a_loop_that_only_its_end_ends_is_running(
    build_target: Callable[..., Path], spawn: Callable[..., Target]
) -> None:
    target = spawn([build_target("loops"), "ends"])
    said = report_when(target.pid, lambda one: one["verdict"]["state"] == "running")
    assert said["exit"] == 0 and "No hang found" in said["verdict"]["sentence"], said["verdict"]


@pytest.mark.invariant("behaviour.L4")
@pytest.mark.parametrize(
    "mode", ["flag", "spinlock", "hash", "sum", "reals", "matrix", "counts", "backs_off", "in_a_library"]
)
def test_who_computes_in_another_loop_may_wait_for_something(
    mode: str, build_target: Callable[..., Path], spawn: Callable[..., Target]
) -> None:
    said = report_of(spawn([build_target("loops"), mode]).pid)
    assert said["verdict"]["state"] == "unknown", said["verdict"]
    assert "spins in " in said["verdict"]["sentence"] and said["exit"] == 5
