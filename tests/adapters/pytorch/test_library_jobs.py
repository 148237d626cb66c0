"""Real jobs that libraries hold up: sharded models, pools of threads, workers of a DataLoader, queues of the system."""

from __future__ import annotations

import ctypes

from tests.adapters.pytorch.conftest import Job, hung, line_of, sentence

FETCH = f"fetch_batch (torch_jobs.py:{line_of('return batches.get()')})"


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
    said = hung(job("forked_lock", 2), "stalled", "lock")
    (chief,) = (one for one in said["findings"] if one["rule"] == "collective-missing")
    assert chief["sentence"].startswith("Rank 1 of 2 has not entered all_reduce #5 of group dp: its DataLoader waits")
