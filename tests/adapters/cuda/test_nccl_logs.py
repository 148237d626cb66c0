"""What NCCL itself logs of failures; and warnings that are none."""

from __future__ import annotations

import pytest

from livedbg.analysis.diagnosis import VerdictState
from tests.logs.reading import found, verdict

HEAD = "node7:4711:4733 [2] {} NCCL WARN "
WHO = "NCCL on node7 (pid 4711, GPU 2): "
STEPS = "".join(f"epoch {n} of 90, loss 0.{n}\n" for n in range(10, 40))

WARNED = [
    (
        "init.cc:902",
        "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 3b000",
        "ranks 1 and 0 use the same GPU (3b000).",
    ),
    (
        "transport/net_ib.cc:1310",
        "NET/IB : Got completion from peer 10.4.1.9<36315> with status=12 opcode=0 len=0 vendor err 129 (Recv)",
        "InfiniBand transfer with 10.4.1.9<36315> failed: the peer did not answer: transport retries exceeded (12).",
    ),
    (
        "misc/ibvwrap.cc:187",
        "Call to ibv_modify_qp failed with error Network is unreachable",
        "ibv_modify_qp failed: Network is unreachable.",
    ),
    (
        "misc/socket.cc:484",
        "socketStartConnect: Connect to 10.4.1.9<45763> failed : Connection refused",
        "connecting to 10.4.1.9<45763> failed: Connection refused.",
    ),
    (
        "misc/socket.cc:518",
        "Net : Call to recv from 10.4.1.9<58355> failed : Broken pipe",
        "the connection to 10.4.1.9<58355> broke: Broken pipe.",
    ),
    (
        "misc/socket.cc:49",
        "socketProgress: Connection closed by remote peer n9.ib<53735>",
        "peer n9.ib<53735> closed its connection.",
    ),
    (
        "misc/shmutils.cc:72",
        "Error: failed to extend /dev/shm/nccl-AbC123 to 9637892 bytes, error: No space left on device (28)",
        "shared memory could not be made: /dev/shm is full or too small.",
    ),
    (
        "transport/net_socket.cc:493",
        "NET/Socket : peer 10.4.1.9<5> message truncated : receiving 1048576 bytes instead of 524288.",
        "received 1048576 bytes instead of 524288: ranks called different sizes or collectives.",
    ),
    (
        "proxy.cc:1519",
        "[Proxy Service 11] Failed to execute operation Connect from rank 11, retcode 2",
        "connect for rank 11 failed (code 2).",
    ),
    (
        "init.cc:640",
        "Mismatched NCCL version detected : rank 0 has 2.18.1 and rank 8 has 2.19.3",
        "ranks run different versions of NCCL (Mismatched NCCL version detected : rank 0 has 2.18.1 and rank 8 has "
        "2.19.3).",
    ),
]


@pytest.mark.parametrize(("file", "text", "said"), WARNED)
def test_each_warning(file: str, text: str, said: str) -> None:
    told = verdict("epoch 1\n" + HEAD.format(file) + text + "\n")
    assert (told.state, told.sentence) == (VerdictState.UNKNOWN, WHO + said)


@pytest.mark.parametrize(("file", "text", "said"), WARNED)
def test_a_warning_after_which_the_job_goes_on_is_a_note(file: str, text: str, said: str) -> None:
    (one,) = found("nccl-warning", HEAD.format(file) + text + "\n" + STEPS)
    assert one.state is None


@pytest.mark.invariant("nccl_warnings.W1")
@pytest.mark.parametrize(
    "text",
    [
        "Call to connect returned Connection refused, retrying",
        'Missing "iommu=pt" from kernel command line which can lead to system instablity or hang!',
        "NUMA auto balancing enabled which can lead to variability in the NCCL performance!",
        "NET/Plugin: could not load libnccl-net.so, using internal network plugin.",
    ],
)
def test_W1_warnings_that_say_nothing(text: str) -> None:
    assert found("nccl-warning", HEAD.format("x.cc:1") + text + "\n") == []


def test_an_info_line_is_no_warning() -> None:
    text = "node7:4711:4733 [2] NCCL INFO Connection closed by remote peer n9.ib<53735>\n"
    assert found("nccl-warning", text) == []


def test_who_closed_its_connections_first_is_a_note() -> None:
    text = "w-0:15325:16199 [2] NCCL INFO [Service thread] Connection closed by localRank 5\n"
    (one,) = found("nccl-warning", text)
    assert one.state is None and one.sentence.startswith("Local rank 5 on w-0 closed its NCCL connections")


def test_an_exception_with_nccl_s_words_leads() -> None:
    text = (
        HEAD.format("init.cc:902") + "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 3b000\n"
        'Traceback (most recent call last):\n  File "/w/t.py", line 3, in main\n    dist.barrier()\n'
        "torch.distributed.DistBackendError: NCCL error in: ../c10d/ProcessGroupNCCL.cpp:1691, invalid usage, NCCL "
        "version 2.19.3\nncclInvalidUsage: This usually reflects invalid usage of NCCL library.\nLast error:\n"
        "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 3b000\n"
    )
    said = verdict(text)
    assert said.state is VerdictState.CRASHED and said.sentence.startswith("NCCL failed: Duplicate GPU detected")


def test_a_test_program_that_failed() -> None:
    said = verdict(
        "node7: Test NCCL failure common.cu:958 'internal error - please report this issue to the NCCL developers / '\n"
        " .. node7 pid 39964: Test failure common.cu:842\n"
    )
    assert said.state is VerdictState.CRASHED
    assert said.sentence.startswith("The test on node7 ended at common.cu:958, since NCCL failed: internal error")


RAS = (
    "Communicators... (0.00s)\n=============\n\nGroup     Comms     Nodes     Ranks     Ranks     Ranks    Status  "
    "Errors\n    #  in group  per comm  per node  per comm  in group\n    0         1         4         8        32  "
    "      32   RUNNING  {}\n\n"
)


@pytest.mark.invariant("nccl_ras.R1")
def test_R1_ranks_that_launched_less_in_one_report_are_no_stall() -> None:
    text = RAS.format("MISMATCH") + (
        "Warnings\n========\n\n#0-0 (27a079b828ff1a75) MISMATCH\n  Communicator ranks have different collective "
        "operation counts\n  30 ranks have launched up to operation 6650\n  2 ranks have launched up to operation "
        "6649\n  Rank 0 -- GPU 0 managed by process 4711 on node 10.4.1.9\n  Rank 7 -- GPU 7 managed by process 4718 "
        "on node 10.4.1.9\n"
    )
    said = verdict(text)
    assert said.state is VerdictState.UNKNOWN
    assert said.sentence == (
        "NCCL RAS: in communicator #0-0 ranks 0, 7 launched up to operation 6,649, others up to 6,650."
    )


def test_a_rank_that_is_alone_behind() -> None:
    text = (
        "#0-0 (78db921d1c117b4a) MISMATCH\n  Communicator ranks have different AllReduce operation counts\n  7 ranks "
        "have launched up to operation 64\n  Rank 7 has launched up to operation 60 -- GPU 3 managed by process 1650 "
        "on node n1\n"
    )
    assert "rank 7 launched up to operation 60, others up to 64" in verdict(text).sentence


def test_ranks_that_did_not_answer_and_dead_ones() -> None:
    text = RAS.format("INCOMPLETE") + (
        "Errors\n======\n\nDEAD\n  1 job process is considered dead (unreachable via the RAS network)\n  Process 4712 "
        "on node 10.4.1.9 managing GPU 5\n\n#0-0 (cf264af53edbe986) INCOMPLETE\n  Missing communicator data from 1 "
        "rank\n  The missing rank: 21\n"
    )
    sentences = [one.sentence for one in found("nccl-ras", text)]
    assert "NCCL RAS: rank 21 of communicator #0-0 did not answer." in sentences
    assert any("process 4712 on 10.4.1.9 (GPU 5) dead" in sentence for sentence in sentences)
    assert verdict(text).state is VerdictState.UNKNOWN


def test_a_healthy_report_says_nothing() -> None:
    assert found("nccl-ras", RAS.format("OK")) == []
