"""What NCCL itself logs of failures, beside other errors; its texts are examples of the signatures."""

from __future__ import annotations

from livedbg.analysis.diagnosis import VerdictState
from tests.logs.reading import verdict

HEAD = "node7:4711:4733 [2] {} NCCL WARN "


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


def test_nccl_s_own_lines_are_no_progress() -> None:
    warned = HEAD.format("misc/socket.cc:484") + "Net : Call to recv from 10.4.1.9<58355> failed : Broken pipe\n"
    own = "".join(f"node7:4711:4733 [2] NCCL INFO comm 0x{n:x} rank {n} nranks 8 - Abort\n" for n in range(9))
    assert verdict(warned + own).sentence.startswith("NCCL on node7 (pid 4711, GPU 2): the connection to")
