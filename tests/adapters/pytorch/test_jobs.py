"""Real jobs of torch.distributed that hang, and healthy ones, through the real command line."""

from __future__ import annotations

from typing import Any

import pytest

from livedbg.adapters.pytorch.collectives.recorder import find_recorders
from livedbg.linux.procfs import child_pids
from livedbg.session.targets import ranks_of_job
from tests.adapters.pytorch.conftest import PROGRAM, Job, hung, sentence
from tests.conftest import eventually
from tests.reports import STALL_S, line_of, report_when

STEP = line_of("dist.all_reduce(torch.ones(8), group=group)", PROGRAM)


@pytest.mark.invariant("collectives_adapter.C1")
def test_C1_a_missing_rank_is_named_with_what_it_waits_for(job: Job) -> None:
    said = hung(job("third_of_four", 4), "stalled", "Rank 2 of 4 has not entered all_reduce #6 of group dp: it waits ")
    place = f"fetch_batch (torch_jobs.py:{line_of('return batches.get()', PROGRAM)})"
    assert sentence(said).endswith(f"in {place} on a queue that nobody fills; ranks 0, 1, 3 wait for it.")
    (chief,) = (one for one in said["findings"] if one["rule"] == "collective-missing")
    assert chief["entities"][2] == "task:collective/dp.1/6"


def test_groups_in_another_order(job: Job) -> None:
    said = hung(job("swapped"), "stalled", "the groups are taken in another order")
    assert sentence(said) == (
        f"Ranks 0, 1 wait in all_reduce #5 of dp (torch_jobs.py:{STEP}); rank 2 is in all_reduce #5 of ep "
        f"(torch_jobs.py:{STEP}): the groups are taken in another order."
    )


def test_one_batch_fewer(job: Job) -> None:
    said = hung(job("fewer"), "stalled", "rank 2 is in barrier #1")
    assert sentence(said).startswith("Ranks 0, 1 wait in all_reduce #10 of dp")
    assert sentence(said).endswith("the ranks do not call the same in one order.")


def test_another_call(job: Job) -> None:
    said = hung(job("other_call"), "stalled", "is not the same on all ranks")
    line = line_of("dist.broadcast(torch.ones(8), 0, group=me.dp)", PROGRAM)
    words = f"ranks 0, 1: all_reduce [8] (torch_jobs.py:{STEP}); rank 2: broadcast [8] (torch_jobs.py:{line})."
    assert words in sentence(said)


MISSING = "Rank 2 of 3 has not entered"


@pytest.mark.parametrize(
    ("case", "state", "words", "never"),
    [
        ("stopped", "stalled", (f"{MISSING} all_reduce #5", "its process is stopped"), ""),
        ("sleeps", "unknown", (MISSING, "sleep", "which ends by itself"), ""),
        ("except_block", "unknown", (MISSING, "sleep", "which ends by itself"), ""),
        # what holds it up is named, and not who joins that
        ("joins", "stalled", (f"{MISSING} all_reduce #5", "ranks 0, 1 wait for it"), "Thread.join"),
        # who has enqueued it and does not wait is held up by nobody
        ("unfinished", "stalled", (MISSING, "rank 1 waits for it"), "ranks 0"),
    ],
)
def test_what_a_missing_rank_does_is_said(case: str, state: str, words: tuple[str, ...], never: str, job: Job) -> None:
    said = sentence(hung(job(case), state, *words))
    assert not never or never not in said


def test_a_checkpoint_into_a_fifo(job: Job) -> None:
    said = hung(job("fifo"), "stalled", "Rank 0 has been opening ckpt.fifo for writing for ")
    line = line_of('"ckpt.fifo").open("wb")', PROGRAM)
    assert sentence(said).endswith(f" (torch_jobs.py:{line}); ranks 1, 2 wait for it in barrier #1.")


def test_parameters_that_one_rank_did_not_use(job: Job) -> None:
    said = hung(job("unused_branch", 2), "stalled", "Rank 1 waits in backward for all_reduce #")
    line = line_of("dist.barrier(me.ep)", PROGRAM)
    assert sentence(said).endswith(
        f" of dp; rank 0 has left the step and is in barrier #5 of ep (torch_jobs.py:{line}): parameters unused on "
        "rank 0?"
    )


def test_a_rank_that_works_lets_the_others_wait(job: Job) -> None:
    def is_said(one: dict[str, Any]) -> bool:
        return "it computes" in one["verdict"]["sentence"]

    said = report_when(job("computes"), is_said, stall_s=STALL_S)
    assert (said["verdict"]["state"], said["exit"]) in (("running", 0), ("unknown", 5))
    assert "Rank 2 of 3 has not entered all_reduce #5 of group dp: it computes" in sentence(said)


@pytest.mark.invariant("collectives_adapter.C2")
def test_C2_a_job_that_goes_on_runs(job: Job) -> None:
    def goes_on(one: dict[str, Any]) -> bool:
        assert one["verdict"]["state"] in ("running", "unknown"), one["verdict"]
        pending = [task for task in one["entities"] if task.startswith("task:collective/")]  # of ranks that got no CPU
        return not pending and sentence(one).startswith("Running: all 3 ranks have entered collectives in ")

    assert report_when(job("healthy"), goes_on)["exit"] == 0


def test_a_rank_that_comes_late_to_each_collective(job: Job) -> None:
    launcher = job("straggles", 2)
    eventually(lambda: _enqueued(launcher) >= 14)  # eight together before the first late one
    words = " later than rank 0 to each of the last 5 all_reduces of group dp."
    said = report_when(launcher, lambda one: words in one["verdict"]["sentence"])
    assert (said["verdict"]["state"], said["exit"]) == ("running", 0)
    assert sentence(said).startswith("Running, but slow: rank 1 came ")


def _enqueued(launcher: int) -> int:
    recorders = [one for pid in child_pids(launcher) for one in find_recorders(pid)]
    return max((one.count() or 0 for one in recorders), default=0)


def test_ranks_that_sleep_between_epochs(job: Job) -> None:
    said = report_when(job("between_epochs"), lambda one: "ranks-asleep" in {f["rule"] for f in one["findings"]})
    assert (said["verdict"]["state"], said["exit"]) == ("running", 0)
    assert "Asleep: all 3 ranks sleep, the first in " in sentence(said)


def test_all_ranks_of_a_job_that_only_memory_knows(job: Job) -> None:
    launcher = job("spawned")
    hung(launcher, "stalled", "Rank 2 of 3 has not entered all_reduce #5 of group dp", "ranks 0, 1 wait for it")
    ranks = ranks_of_job(child_pids(launcher)[1])
    assert sorted(ranks[:3]) == child_pids(launcher)
    assert ranks[3:] == [launcher]
    of_all = ("--all-ranks", "--no-tree")
    said = report_when(ranks[1], lambda one: "Rank 2 of 3" in one["verdict"]["sentence"], *of_all, stall_s=STALL_S)
    assert {(one["pid"], one["rank"]) for one in said["targets"]} == {*zip(ranks, (0, 1, 2, None), strict=True)}
