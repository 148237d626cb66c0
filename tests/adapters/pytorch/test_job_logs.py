"""What ranks, their stores and torchrun log as a job ends; and lines that look like it and are no end."""

from __future__ import annotations

import pytest

from livedbg.analysis.diagnosis import VerdictState
from tests.analysis.world import World
from tests.logs.reading import found, verdict

CRASHED, STALLED = VerdictState.CRASHED, VerdictState.STALLED
STEPS = "".join(f"epoch {n} of 90, loss 0.{n}\n" for n in range(10, 40))
"""Ordinary lines: a job goes on."""


def caught(
    rank: int, seq: int = 812, op: str = "ALLREDUCE", who: str = "", *, group_rank: int | None = None, size: int = 4096
) -> str:
    who = who or f"Rank {rank if group_rank is None else group_rank}"
    return (
        f"[rank{rank}]:[E112 09:14:03.52{rank}101733 ProcessGroupNCCL.cpp:632] [{who}] Watchdog caught collective "
        f"operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn={size}, NumelOut={size}, Timeout(ms)=600000) "
        f"ran for 60004{rank} milliseconds before timing out.\n"
    )


def status(rank: int, enqueued: int, completed: int = 811, seq: int = 812) -> str:
    return (
        f"[rank{rank}]:[E112 09:14:03.53{rank}101733 ProcessGroupNCCL.cpp:2268] [PG ID 0 PG GUID 0(default_pg) Rank "
        f"{rank}]  failure detected by watchdog at work sequence id: {seq} PG status: last enqueued work: {enqueued}, "
        f"last completed work: {completed}\n"
    )


DOWN = (
    "[rank0]:[E112 09:14:03.630101733 ProcessGroupNCCL.cpp:684] [Rank 0] Some NCCL operations have failed or timed "
    "out.\n[rank0]:[E112 09:14:03.631101733 ProcessGroupNCCL.cpp:690] [Rank 0] To avoid data inconsistency, we are "
    "taking the entire process down.\n"
)


def test_ranks_that_timed_out_and_the_one_that_never_enqueued_it() -> None:
    text = "".join(caught(rank) + status(rank, 813) for rank in (0, 1, 3)) + status(2, 811, 811, 811)
    said = verdict(text + DOWN)
    assert said.state is CRASHED
    assert said.sentence == ("Ranks 0-1,3 timed out in all_reduce #812 of group default_pg; rank 2 last enqueued #811.")


def test_the_same_in_a_log_of_each_rank() -> None:
    logs = [caught(rank) + status(rank, 813) for rank in (0, 1)] + [status(2, 811, 811, 811)]
    assert "Ranks 0-1 timed out in all_reduce #812" in verdict(*logs).sentence
    assert "rank 2 last enqueued #811" in verdict(*logs).sentence


@pytest.mark.invariant("collective_timeouts.T1")
def test_T1_a_rank_between_those_that_reported_said_nothing() -> None:
    (one,) = found("collective-timeout", caught(0) + caught(1) + caught(3))
    assert one.sentence.endswith("timed out in all_reduce #812; rank 2 reported nothing.") and one.inferred


@pytest.mark.invariant("collective_timeouts.T1")
def test_T1_ranks_of_a_smaller_group_leave_no_gap() -> None:
    (one,) = found("collective-timeout", caught(2, group_rank=0) + caught(6, group_rank=1))
    assert one.sentence == "Ranks 2,6 timed out in all_reduce #812." and not one.inferred
    (alone,) = found("collective-timeout", caught(3))
    assert alone.sentence == "Rank 3 timed out in all_reduce #812."


@pytest.mark.invariant("collective_timeouts.T2")
def test_T2_a_time_out_alone_is_a_stall() -> None:
    assert verdict(caught(0) + caught(1)).state is STALLED
    assert verdict(caught(0) + caught(1) + DOWN).state is CRASHED


def test_all_had_enqueued_it() -> None:
    text = "".join(caught(rank) + status(rank, 813) for rank in (0, 1))
    assert "all of them had enqueued it" in verdict(text).sentence


def test_ranks_in_different_collectives() -> None:
    said = verdict(caught(0) + caught(1, 811, "BROADCAST"))
    assert "different collectives: all_reduce #812 (rank 0), broadcast #811 (rank 1)" in said.sentence


@pytest.mark.invariant("collective_timeouts.T3")
def test_T3_ranks_with_another_size_or_operation_are_out_of_step() -> None:
    said = verdict("".join(caught(rank, size=24 if rank == 2 else 4096) for rank in (0, 1, 2, 4)) + DOWN)
    assert said.sentence == (
        "Ranks 0-2,4 timed out in all_reduce #812, rank 2 with 24 elements and ranks 0-1,4 with 4,096 elements: they "
        "are out of step; rank 3 reported nothing."
    )
    other = verdict(caught(0) + caught(1) + caught(2, op="_ALLGATHER_BASE") + DOWN).sentence
    assert other.endswith("all_gather_into_tensor #812 (rank 2), all_reduce #812 (ranks 0-1): they are out of step.")


@pytest.mark.invariant("collective_timeouts.T3")
@pytest.mark.parametrize(
    "text",
    [
        caught(0, op="ALLTOALL_BASE", size=8) + caught(1, op="ALLTOALL_BASE", size=24),  # each may send as it likes
        caught(0) + caught(2, group_rank=0, size=24) + caught(1) + caught(3, group_rank=1, size=24),  # two groups
        caught(0) + caught(1),
        caught(0) + caught(1, 811, size=24),  # one is behind
    ],
)
def test_T3_what_may_differ_is_not_out_of_step(text: str) -> None:
    assert "out of step" not in verdict(text + DOWN).sentence


def test_the_throw_of_the_watchdog_is_no_crash_of_its_own() -> None:
    what = caught(1).partition("] ")[2].replace("\n", "")
    text = caught(1) + f"terminate called after throwing an instance of 'c10::DistBackendError'\n  what():  {what}\n"
    assert found("crash", text) == [] and verdict(text).sentence.startswith("Rank 1 timed out")


def test_a_time_out_after_which_the_job_goes_on_is_a_note() -> None:
    steps = "".join(f"[rank0]: {line}\n" for line in STEPS.splitlines())
    (one,) = found("collective-timeout", caught(0) + steps)
    assert one.state is None and "It was over" in one.sentence
    (ended,) = found("collective-timeout", caught(0) + DOWN + steps)
    assert ended.state is None and "handled or survived" in ended.sentence


TRACE = 'Traceback (most recent call last):\n  File "/w/train.py", line 9, in <module>\n    main()\n'


def test_while_the_job_lives_a_line_is_a_note() -> None:
    text = (
        "RuntimeError: [Rank 0]: Ranks 1, 3 failed to pass monitoredBarrier in 30000 ms\n"
        "torch.distributed.DistStoreError: wait timeout after 300000ms, keys: /default_pg/0//cuda//0\n"
    )
    for rule in ("ranks-missing", "signature"):
        world = World()
        world.process(1)
        assert {one.state for one in found(rule, text, world=world)} == {None}


def test_ranks_that_waited_for_the_same_rank_are_one_finding() -> None:
    line = (
        "[rank{0}]: torch.distributed.DistBackendError: [{0}] is setting up NCCL communicator and retrieving "
        "ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: wait timeout after "
        "600000ms, keys: /default_pg/0//cuda//0\n"
    )
    one, *_ = found("ranks-missing", "".join(line.format(rank) for rank in (1, 2, 3)))
    assert one.sentence.startswith("Ranks 1-3 waited for rank 0's NCCL id, which never came")
    assert one.next[0].startswith("read the log of rank 0")


def test_the_rank_that_reported_nothing_of_a_closed_connection_is_named() -> None:
    line = "[rank{0}]: RuntimeError: [/b/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.4.0.18]:2{0}\n"
    said = verdict("".join(line.format(rank) for rank in (0, 1, 3))).sentence
    assert "Rank 2 reported nothing." in said
    assert "reported nothing" not in verdict("".join(line.format(rank) for rank in (0, 1))).sentence
    other = "[rank2]: " + (TRACE + "KeyError: 'x'").replace("\n", "\n[rank2]: ") + "\n"
    assert "reported nothing" not in verdict(other + "".join(line.format(rank) for rank in (0, 1, 3))).sentence


LAUNCHER = (
    "W0301 10:00:01.000000 6990 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 7002 closing "
    "signal SIGTERM\nE0301 10:00:02.000000 6990 torch/distributed/elastic/multiprocessing/api.py:869] failed "
    "(exitcode: {}) local_rank: 3 (pid: 7004) of binary: /opt/bin/python\n"
)


def test_without_the_block_the_worker_that_failed_is_told() -> None:
    assert verdict(LAUNCHER.format(-7)).sentence == (
        "The worker of local rank 3 (pid 7004) was ended by SIGBUS (exit code -7)."
    )
    (one,) = found("elastic-ended", LAUNCHER.format(-7))
    assert any("/dev/shm" in step for step in one.next)


def test_workers_that_were_started_again_and_ran_did_not_crash() -> None:
    again = "[default] Worker group FAILED. 2/3 attempts left; will restart worker group\n"
    text = LAUNCHER.format(1) + again + STEPS
    assert {one.state for one in (*found("elastic-ended", text), *found("signature", text))} == {None}
