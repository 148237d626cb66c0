"""Real jobs that libraries hold up: sharded models, pools of threads, workers of a DataLoader, queues of the system."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from livedbg.adapters.pytorch.collectives.python_calls import rank_of_all
from tests.adapters.pytorch.conftest import PROGRAM, Job, hung, sentence
from tests.reports import line_of, stalled_report_when

FETCH = f"fetch_batch (torch_jobs.py:{line_of('return batches.get()', PROGRAM)})"


def test_a_rank_that_does_not_come_to_a_sharded_model(job: Job) -> None:
    said = hung(job("sharded", 2), "stalled", "Rank 1 of 2 has not entered all_gather #", "rank 0 waits for it")
    assert f"it waits in {FETCH} on a queue that nobody fills" in sentence(said)


def test_the_task_of_a_pool_that_holds_a_rank_up(job: Job) -> None:
    said = hung(job("pool_task", 2), "stalled", "Rank 1 of 2 has not entered all_reduce #5 of group dp")
    assert f"it waits for a task of a thread pool: it waits in Queue.get() in {FETCH} for " in sentence(said)


def test_a_message_queue_of_the_system_may_be_filled_by_anybody(job: Job) -> None:
    launcher = job("system_v", 2)
    try:
        hung(launcher, "unknown", "Rank 1 of 2 has not entered", "msgrcv", "which any other process may end")
    finally:
        libc = ctypes.CDLL(None)
        libc.msgctl(libc.msgget(launcher, 0), 0, None)


def test_workers_that_are_forked_with_a_held_lock(job: Job) -> None:
    def meant(one: dict[str, Any]) -> bool:  # the lock alone is a stall at once, and the verdict may be of either
        missing = [found["sentence"] for found in one["findings"] if found["rule"] == "collective-missing"]
        return one["verdict"]["state"] == "stalled" and any(words in text for text in missing)

    words = "Rank 1 of 2 has not entered all_reduce #5 of group dp: its DataLoader waits for a worker: "
    assert stalled_report_when(job("forked_lock", 2), meant)["exit"] == 10


@pytest.mark.invariant("python_calls.G1")
@pytest.mark.invariant("python_calls.G2")
def test_G1_G2_whom_a_posted_message_is_from_in_a_job_of_three(job: Job) -> None:
    said = hung(job("relay"), "stalled", "Rank 1 waits in recv from rank 0", "on a queue that nobody fills")
    assert "another rank" not in sentence(said)


@pytest.mark.invariant("python_calls.G1")
def test_G1_a_rank_is_given_only_if_all_groups_that_it_may_be_in_agree() -> None:
    ranks = {"0": (0, 1, 2, 3), "1": (0, 2), "2": (0, 3)}
    assert rank_of_all(ranks, 0, (0, 4, 3)) == 3
    assert rank_of_all(ranks, 0, (0, 2, 1)) is None
    assert rank_of_all(ranks, 2, (1, 2, 0)) == 0
    assert rank_of_all(ranks, None, (0, 4, 3)) is None
