"""What ranks, their stores and torchrun log as a job ends; and lines that look like it and are no end."""

from __future__ import annotations

import pytest

from livedbg.analysis.diagnosis import VerdictState
from tests.analysis.world import World
from tests.logs.reading import found, verdict

CRASHED, STALLED, UNKNOWN = VerdictState.CRASHED, VerdictState.STALLED, VerdictState.UNKNOWN
STEPS = "".join(f"epoch {n} of 90, loss 0.{n}\n" for n in range(10, 40))
"""Ordinary lines: a job goes on."""


def caught(rank: int, seq: int = 812, op: str = "ALLREDUCE", who: str = "", group_rank: int | None = None) -> str:
    who = who or f"Rank {rank if group_rank is None else group_rank}"
    return (
        f"[rank{rank}]:[E112 09:14:03.52{rank}101733 ProcessGroupNCCL.cpp:632] [{who}] Watchdog caught collective "
        f"operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran "
        f"for 60004{rank} milliseconds before timing out.\n"
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


@pytest.mark.parametrize(
    "line",
    [
        "[E ProcessGroupNCCL.cpp:821] [Rank 1] Watchdog caught collective operation timeout: "
        "WorkNCCL(OpType=ALLREDUCE, TensorShape=[1], Timeout(ms)=1800000) ran for 1804406 milliseconds before "
        "timing out.\n",
        "[E ProcessGroupNCCL.cpp:475] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, "
        "OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1800041 milliseconds before timing out.\n",
        "terminate called after throwing an instance of 'c10::DistBackendError'\n  what():  [PG 3 Rank 1] Process "
        "group watchdog thread terminated with exception: [Rank 1] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for 1800020 "
        "milliseconds before timing out.\n",
    ],
)
def test_the_forms_of_older_versions(line: str) -> None:
    assert verdict(line).sentence.startswith("Rank 1 timed out in all_reduce")


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


@pytest.mark.invariant("nccl_watchdog.W1")
@pytest.mark.parametrize(
    "line",
    [
        "[rank0]:[W112 09:14:03.1 ProcessGroupNCCL.cpp:1538] [PG ID 0 PG GUID 0(default_pg) Rank 0] Observed flight "
        "recorder dump signal from another rank via TCPStore.\n",
        "[rank0]:[E112 09:14:03.1 ProcessGroupNCCL.cpp:1794] [PG ID 0 PG GUID 0(default_pg) Rank 0] ProcessGroupNCCL "
        "preparing to dump debug info. Include stack trace: 1, only active collectives: 0\n",
        "ProcessGroupNCCL initialization options: size: 8, TIMEOUT(ms): 600000, USE_HIGH_PRIORITY_STREAM: 0\n",
        "docs: Watchdog caught collective operation timeout means that a rank is late\n",
    ],
)
def test_W1_no_time_outs(line: str) -> None:
    assert found("collective-timeout", line) == []


SAID = [
    (
        "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients joined.\n",
        "Only 1 of 2 ranks reached the job's store in 601 s.",
    ),
    (
        "RuntimeError: Timed out initializing process group in store based barrier on rank: 3, for key: "
        "store_based_barrier_key:1 (world_size=8, worker_count=7, timeout=0:30:00)\n",
        "Rank 3 waited in vain for all ranks to start: 7 of 8 came.",
    ),
    (
        "RuntimeError: Timed out initializing process group in store based barrier on rank 0, for key: "
        "store_based_barrier_key:1 (world_size=2, num_workers_joined=4, timeout=0:30:00)\n",
        "Rank 0 found 4 ranks in a group of 2: a store of an earlier start is still in use.",
    ),
    (
        "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while trying to connect "
        "to (10.4.0.7, 29500).\n",
        "The job's store at 10.4.0.7:29500 could not be reached in 60000ms.",
    ),
    (
        "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. "
        "port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use\n",
        "Port 29500 is in use: another job or an earlier start still holds it.",
    ),
    (
        "torch.distributed.DistStoreError: wait timeout after 300000ms, keys: /default_pg/0//cuda//0\n",
        "A rank waited 300 s for the store's key /default_pg/0//cuda//0, which nobody set.",
    ),
    (
        "RuntimeError: Rank 0 successfully reached monitoredBarrier, but received errors while waiting for send/recv "
        "from rank 2. Please check rank 2 logs for faulty rank.\n",
        "Rank 2 did not reach monitored_barrier.",
    ),
    (
        "RuntimeError: [Rank 0]: Ranks 1, 3 failed to pass monitoredBarrier in 30000 ms\n",
        "Ranks 1, 3 did not reach monitored_barrier.",
    ),
    (
        "RuntimeError: [/b/third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer "
        "[10.4.0.9]:41822\n",
        "The peer at 10.4.0.9:41822 closed its gloo connection (Connection closed by peer).",
    ),
    (
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for "
        "recv operation to complete\n",
        "gloo waited 1,800 s for a recv to complete: another rank did not come.",
    ),
    (
        "RuntimeError: [enforce fail at ../third_party/gloo/gloo/transport/tcp/pair.cc:446] op.preamble.length <= "
        "op.nbytes. 16 vs 4\n",
        "gloo received 16 bytes where 4 fit: ranks called different collectives or sizes.",
    ),
    (
        "RuntimeError: Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp/pair.cc:144] no "
        "error\n",
        "gloo could not connect all ranks to each other.",
    ),
    (
        "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError\n",
        "torchrun's agents did not all join in time (RendezvousTimeoutError).",
    ),
    (
        "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1691, "
        "invalid usage (run with NCCL_DEBUG=WARN for details), NCCL version 2.19.3\nncclInvalidUsage: This usually "
        "reflects invalid usage of NCCL library.\nLast error:\nDuplicate GPU detected : rank 1 and rank 0 both on "
        "CUDA device 3b000\n",
        "NCCL failed: Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 3b000 (ncclInvalidUsage).",
    ),
    (
        "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:275, remote "
        "process exited or there was a network error, NCCL version 2.21.5\nncclRemoteError: A call failed possibly "
        "due to a network error or a remote process exiting prematurely.\nLast error:\nsocketProgress: Connection "
        "closed by remote peer n4.ib<38714>\n",
        "NCCL failed: socketProgress: Connection closed by remote peer n4.ib<38714> (ncclRemoteError).",
    ),
]
TRACE = 'Traceback (most recent call last):\n  File "/w/train.py", line 9, in <module>\n    main()\n'


@pytest.mark.parametrize(("text", "sentence"), SAID)
def test_each_form(text: str, sentence: str) -> None:
    for log in (text, TRACE + text, "[rank5]: " + (TRACE + text).replace("\n", "\n[rank5]: ")):
        said = verdict(log)
        at = ", at train.py:9." if "Traceback" in log else "."
        assert said.state is CRASHED
        assert said.sentence.removeprefix("Rank 5: ") == sentence.removesuffix(".") + at
        assert found("crash", log) == []


@pytest.mark.parametrize(("text", "sentence"), SAID)
def test_what_a_job_goes_on_after_is_no_crash(text: str, sentence: str) -> None:
    assert verdict(TRACE + text + STEPS).state is not CRASHED


@pytest.mark.parametrize(("text", "sentence"), SAID)
def test_while_the_job_lives_a_line_is_a_note(text: str, sentence: str) -> None:
    for rule in ("ranks-missing", "job-store", "job-peer-closed", "nccl-error"):
        world = World()
        world.process(1)
        assert {one.state for one in found(rule, text, world=world)} <= {None}


@pytest.mark.invariant("job_stores.J1")
@pytest.mark.parametrize(
    "text",
    [
        "[rank1]:[W112 09:14:03.1 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=62, addr=[n1]:40012, "
        "remote=[n0]:29500): failed to recv, got 0 bytes\n",
        '[rank1]:[W112 09:14:03.1 ProcessGroupNCCL.cpp:1662] [PG ID 0 PG GUID 0 Rank 1] Failed to check the "should '
        'dump" flag on TCPStore, (maybe TCPStore server has shut down too early), with error: failed to recv, got 0 '
        "bytes\n",
        "[W socket.cpp:601] [c10d] The client socket has failed to connect to [n0]:29500 (errno: 111 - Connection "
        "refused).\n",
        "the gloo backend waits for peers\n",
        "wait timeout after a while\n",
    ],
)
def test_J1_a_store_that_closed_alone_is_no_crash(text: str) -> None:
    assert verdict(STEPS + text).state is not CRASHED


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


def block(
    code: int, trace: str = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
) -> str:
    rule = "=" * 60
    return (
        'Traceback (most recent call last):\n  File "/opt/bin/torchrun", line 8, in <module>\n    sys.exit(main())\n'
        f"torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n{rule}\ntrain.py FAILED\n{'-' * 60}\n"
        "Failures:\n[1]:\n  time      : 2026-03-01_10:00:02\n  host      : n1\n  rank      : 1 (local_rank: 1)\n"
        "  exitcode  : -15 (pid: 7002)\n  error_file: <N/A>\n  traceback : Signal 15 (SIGTERM) received by PID 7002\n"
        f"{'-' * 60}\nRoot Cause (first observed failure):\n[0]:\n  time      : 2026-03-01_10:00:01\n"
        f"  host      : n1\n  rank      : 3 (local_rank: 3)\n  exitcode  : {code} (pid: 7004)\n"
        f"  error_file: /tmp/e/attempt_0/3/error.json\n  traceback : {trace}\n{rule}\n"
    )


LAUNCHER = (
    "W0301 10:00:01.000000 6990 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 7002 closing "
    "signal SIGTERM\nE0301 10:00:02.000000 6990 torch/distributed/elastic/multiprocessing/api.py:869] failed "
    "(exitcode: {}) local_rank: 3 (pid: 7004) of binary: /opt/bin/python\n"
)


@pytest.mark.invariant("elastic_logs.R1")
@pytest.mark.parametrize(
    ("code", "trace", "sentence"),
    [
        (-9, "Signal 9 (SIGKILL) received by PID 7004", "it was ended by SIGKILL (exit code -9)."),
        (-11, "Signal 11 (SIGSEGV) received by PID 7004", "it was ended by SIGSEGV (exit code -11)."),
        (1, "To enable traceback see: https://pytorch.org/", "it ended with exit code 1."),
        (
            1,
            'Traceback (most recent call last):\n    File "/w/train.py", line 9, in main\n      step()\n'
            "  ValueError: bad shard 7\n  ",
            "it ended with exit code 1, ValueError: bad shard 7, at main (train.py:9).",
        ),
    ],
)
def test_R1_the_first_failure_of_torchrun(code: int, trace: str, sentence: str) -> None:
    text = LAUNCHER.format(code) + block(code, trace)
    said = verdict(text)
    assert (said.state, said.sentence) == (CRASHED, f"Rank 3 on n1 failed first: {sentence}")
    assert found("crash", text) == []
    (one,) = found("elastic-ended", text)
    assert "rank 3" in " ".join(one.next) and "rank 1" not in one.sentence


def test_without_the_block_the_worker_that_failed_is_told() -> None:
    assert verdict(LAUNCHER.format(-7)).sentence == (
        "The worker of local rank 3 (pid 7004) was ended by SIGBUS (exit code -7)."
    )
    (one,) = found("elastic-ended", LAUNCHER.format(-7))
    assert any("/dev/shm" in step for step in one.next)


def test_workers_that_were_started_again_and_ran_did_not_crash() -> None:
    again = "[default] Worker group FAILED. 2/3 attempts left; will restart worker group\n"
    states = {one.state for one in found("elastic-ended", LAUNCHER.format(1) + again + STEPS)}
    assert states == {None}


def test_torchrun_that_was_ended_from_outside_is_unknown() -> None:
    text = (
        "W0301 10:00:01.000000 6990 torch/distributed/elastic/agent/server/api.py:723] Received Signals.SIGTERM death "
        "signal, shutting down workers\n" + TRACE + "torch.distributed.elastic.multiprocessing.api.SignalException: "
        "Process 6990 got signal: 15\n"
    )
    said = verdict(text)
    assert said.state is UNKNOWN and said.sentence == "torchrun was ended from outside: it got SIGTERM."


def test_a_watchdog_that_is_stuck() -> None:
    line = (
        "[rank2]:[F112 09:30:11.9 ProcessGroupNCCL.cpp:1554] [PG ID 0 PG GUID 0(default_pg) Rank 2] [PG ID 0 PG GUID "
        "0(default_pg) Rank 2] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in "
        "monitoring enqueued collectives.\n"
    )
    assert verdict(line).sentence == "Rank 2's NCCL watchdog thread was stuck for 480 s; its process was ended for it."


def test_the_analysis_of_flight_recorder_dumps() -> None:
    apart = (
        "Collective 39 at entry 38 errors\ngroup info: 0:default_pg\ncollective: nccl:all_reduce\ninput sizes: "
        "[[1025]]\nworld size: 16\nexpected ranks: {0, 1, 2, 3}\ncollective state: scheduled\nerror msg: Culprit rank "
        "5; Error type: SIZE_OR_SYNTAX_MISMATCH, Expected input sizes: '[[8]]' does not match found input sizes: "
        "'[[9]]'\n"
    )
    said = verdict(apart)
    assert said.state is VerdictState.DIVERGED
    assert (
        said.sentence == "Rank 5 called all_reduce #39 of group default_pg with another size: [[9]] instead of [[8]]."
    )
    absent = (
        "Not all ranks joining collective 5 at entry 4\ngroup info: 0:default_pg\ncollective: nccl:broadcast\n"
        "missing ranks: {1, 2}\ninput sizes: [[3]]\n"
    )
    assert verdict(absent).sentence == "Ranks 1, 2 did not join broadcast #5 of group default_pg."
