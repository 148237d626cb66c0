"""Programs that only compute, or nap: one whose loop progresses is running; who polls in a loop may be stuck."""

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
        ("counts_in_a_while", "1,000,000,000,000 iterations of a loop in counts_in_a_while"),
        ("nested", "100,000 iterations of a loop in nested"),
    ],
)
def test_a_loop_that_goes_round_is_progress(word: str, of: str, spawn: Callable[..., Target]) -> None:
    target = spawn([sys.executable, str(PROGRAM), word])
    said = report_when(target.pid, lambda one: one["verdict"]["state"] == "running")
    assert f" of {of} (py_for_loops.py), " in said["verdict"]["sentence"]
    assert said["exit"] == 0


@pytest.mark.invariant("behaviour.L4", "loop_progress.G2")
@pytest.mark.parametrize(
    "word", ["polls_a_flag", "polls_a_short_list", "counts_while_it_polls", "numbers_its_polls", "counts_its_polls"]
)
def test_a_loop_that_polls_is_none(word: str, spawn: Callable[..., Target]) -> None:
    said = report_of(spawn([sys.executable, str(PROGRAM), word]).pid)
    assert said["verdict"]["state"] == "unknown", said["verdict"]
    assert "computes or spins" in said["verdict"]["sentence"].replace(",", "") and said["exit"] == 5


@pytest.mark.invariant("behaviour.L6", "for_loops.E1")
@pytest.mark.parametrize(
    ("word", "of"),
    [
        ("naps_in_a_for", "of 1,000,000 iterations of a loop in naps_in_a_for"),
        ("naps_in_a_while", "of 1,000,000 iterations of a loop in naps_in_a_while"),
        ("naps_until_a_count", "iterations of a loop in naps_until_a_count"),
        ("tasks_that_nap", "iterations of a loop in naps"),
        ("joins_one_that_naps", "of 1,000,000 iterations of a loop in naps_in_a_while"),
    ],
)
def test_a_loop_that_naps_and_that_only_its_end_ends_is_progress(
    word: str, of: str, spawn: Callable[..., Target]
) -> None:
    target = spawn([sys.executable, str(PROGRAM), word])
    said = report_when(target.pid, lambda one: one["verdict"]["state"] == "running")
    assert of in said["verdict"]["sentence"], said["verdict"]


@pytest.mark.invariant("for_loops.E1", "for_loops.E2", "loop_progress.G3")
@pytest.mark.parametrize(
    "word",
    [
        "retries",
        "retries_while_it_may",
        "naps_in_slices",
        "naps_beside_a_lost_wait",
        "a_task_that_retries",
        "a_task_beside_a_lost_wait",
    ],
)
def test_who_polls_and_naps_shows_no_progress(word: str, spawn: Callable[..., Target]) -> None:
    target = spawn([sys.executable, str(PROGRAM), word])
    said = report_when(target.pid, lambda one: one["verdict"]["state"] == "unknown")
    assert "iterations" not in said["verdict"]["sentence"], said["verdict"]


@pytest.mark.invariant("behaviour.L11", "behaviour.L16", "behaviour.L18", "loop_source.X6")
@pytest.mark.parametrize(
    ("word", "state", "words"),
    [
        ("sleeps_until_it_is_there", "unknown", "in a loop that ends when something comes, which may never happen."),
        ("sleeps_for_ever", "running", "and will wake by itself"),
        ("rests_between_rounds", "running", "and will wake by itself"),
        ("rests_until_told_to_stop", "running", "and will wake by itself"),
        ("pauses_until_told_to_stop", "running", "and will wake by itself"),
        ("pauses_in_a_helper", "running", "and will wake by itself"),
        ("polls_with_a_helper_that_pauses", "unknown", "Inconclusive: "),
        ("a_scheduler_sleeps", "running", "and will wake by itself"),
        ("takes_one_after_the_other", "running", "and will wake by itself"),
        ("naps_if_nothing_has_come", "unknown", "it polls for something, or works in small steps"),
        ("a_library_polls", "unknown", "it polls for something, or works in small steps"),
        ("joins_a_queue_of_jobs", "running", "and will wake by itself"),
        ("joins_a_queue_whose_jobs_are_never_done", "unknown", "Inconclusive: main thread"),
        ("rests_beside_one_that_polls", "unknown", "Inconclusive: "),
        ("rests_beside_a_lost_wait", "unknown", "Inconclusive: "),
        ("tasks_between_queues", "running", "and will wake by itself"),
        ("a_task_waits_for_a_reply", "unknown", "Inconclusive: "),
        ("a_task_asks_again", "unknown", "Inconclusive: "),
        ("a_task_gives_up_again", "unknown", "Inconclusive: "),
        ("waits_for_an_order", "running", "waits for an order to stop"),
        ("waits_for_an_order_beside_a_lost_wait", "unknown", "Inconclusive: "),
    ],
)
def test_who_polls_in_a_loop_is_told_from_who_rests_in_one(
    word: str, state: str, words: str, spawn: Callable[..., Target]
) -> None:
    target = spawn([sys.executable, str(PROGRAM), word])
    said = report_when(target.pid, lambda one: words in one["verdict"]["sentence"])
    assert said["verdict"]["state"] == state
