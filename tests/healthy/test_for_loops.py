"""Programs that only compute: one whose loop progresses is running; who polls in a loop may be stuck."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from tests.conftest import TARGETS, Target
from tests.reports import report_of, report_when

PROGRAM = TARGETS / "py_for_loops.py"


@pytest.mark.invariant("behaviour.L4")
@pytest.mark.parametrize(
    ("word", "of"),
    [
        ("by_range", "1,000,000,000,000 iterations of a loop in over"),
        ("nested", "100,000 iterations of a loop in nested"),
    ],
)
def test_a_loop_that_goes_round_is_progress(word: str, of: str, spawn: Callable[..., Target]) -> None:
    target = spawn([sys.executable, str(PROGRAM), word])
    said = report_when(target.pid, lambda one: one["verdict"]["state"] == "running")
    assert f" of {of} (py_for_loops.py), " in said["verdict"]["sentence"]
    assert said["exit"] == 0


@pytest.mark.invariant("behaviour.L4", "loop_progress.G2")
@pytest.mark.parametrize("word", ["polls_a_flag", "polls_a_short_list", "counts_while_it_polls", "numbers_its_polls"])
def test_a_loop_that_polls_is_none(word: str, spawn: Callable[..., Target]) -> None:
    said = report_of(spawn([sys.executable, str(PROGRAM), word]).pid)
    assert said["verdict"]["state"] == "unknown", said["verdict"]
    assert "computes, or spins" in said["verdict"]["sentence"] and said["exit"] == 5
