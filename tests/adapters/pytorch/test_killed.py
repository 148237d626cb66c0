"""Ranks that were killed: states built by hand."""

from __future__ import annotations

import pytest

from livedbg.analysis import VerdictState
from tests.adapters.pytorch.test_rules import Job
from tests.analysis.world import SECOND


def ended(status: int, **facts: str) -> Job:
    """Rank 2 has ended, and the others wait in what has these facts."""
    job = Job(absent="").known({"ended": "2", **facts})
    job.exits("process:box/12", status)
    return job


@pytest.mark.invariant("rules_killed.K1")
def test_K1_a_rank_that_was_killed_while_others_wait_for_it() -> None:
    one = ended(-9).later(5 * SECOND).found("rank-killed")
    assert one.state is VerdictState.CRASHED
    assert one.sentence == "Rank 2 of 3 (process 12) was ended by SIGKILL; ranks 0, 1 wait in all_reduce #6."
    key = ended(-9, kind="store", keys="'ready'").later(5 * SECOND).found("rank-killed")
    assert key.sentence.endswith("; ranks 0, 1 wait for key 'ready' of the store.")


@pytest.mark.invariant("rules_killed.K1")
@pytest.mark.parametrize("status", [-15, -2, 0, 1])
def test_K1_one_that_was_asked_to_end_or_ended_by_itself_was_not_killed(status: int) -> None:
    assert ended(status).later(5 * SECOND).finding("rank-killed") is None


@pytest.mark.invariant("rules_killed.K1")
def test_K1_a_child_of_the_rank_that_does_not_come() -> None:
    job = Job()
    job.thread(12, pid=12, waits_in="Future.result")
    job.process(13, ppid=12)
    job.process(14, ppid=10)  # of a rank that nobody waits for
    assert job.finding("rank-killed") is None
    for pid in (13, 14):
        job.exits(f"process:box/{pid}", -9)
    (one,) = [one for one in job.later(5 * SECOND).diagnosis().findings.values() if one.rule == "rank-killed"]
    assert (
        one.sentence
        == "Process 13 (prog13), a child of rank 2, was ended by SIGKILL; ranks 0, 1 wait in all_reduce #6."
    )
