"""Exceptions in logs: what ended a program, and what it handled or survived."""

from __future__ import annotations

from pathlib import Path

import pytest

from livedbg.analysis.diagnosis import Diagnosis, VerdictState
from livedbg.session.adapter import Request
from livedbg.session.live import LiveView
from tests.logs.reading import verdict
from tests.waiting import WALL_S

BOOM = 'Traceback (most recent call last):\n  File "train.py", line 3, in step\n    x()\nValueError: boom\n'
STEPS = "".join(f"step {n} loss 0.{n} lr 0.001\n" for n in range(8))
RUN = [f"2026-01-01 10:{n // 60:02}:{n % 60:02},000 INFO train: step {n}\n" for n in range(0, 600, 5)]
OOM = (
    "2026-01-01 10:{:02}:00,500 ERROR train: caught\nTraceback (most recent call last):\n"
    '  File "t.py", line 3, in step\n    x()\nRuntimeError: allocation of {} bytes failed\n'
)


def look(tmp_path: Path, text: str) -> Diagnosis:
    (tmp_path / "job.log").write_text(text)
    view = LiveView(Request(host="box", logs=(str(tmp_path / "job.log"),), once=True))
    view.start()
    try:
        assert view.wait_settled(WALL_S)
        return view.latest().diagnosis
    finally:
        view.stop()


ALLOCATION = (
    'Traceback (most recent call last):\n  File "train.py", line 9, in step\n    loss = model(batch)\n'
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79.15 GiB "
    "of which 1.20 GiB is free.\n"
)
FAULT = (
    'Traceback (most recent call last):\n  File "train.py", line 9, in step\n    loss.item()\n'
    "RuntimeError: CUDA error: an illegal memory access was encountered\n"
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
    "incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n\n"
)
GROUP = (
    'Traceback (most recent call last):\n  File "fuse.py", line 3, in <module>\n    fd.execute(inputs)\n'
    'RuntimeError: INTERNAL ASSERT FAILED at "/opt/nvfuser/csrc/fusion_segmenter.cpp":123, please report a bug with '
    "repro script to NVFuser at https://github.com/NVIDIA/Fuser/issues. Error from segmentation group 1: x\n"
    "Exception raised from run at /opt/nvfuser/csrc/runtime/fusion_executor_cache.cpp:300 (most recent call first):\n"
    "frame #0: nvfuser::nvfCheckFail(char const*) + 0x53 (0x7f in libnvfuser.so)\n"
)
PASSED = "\n=========== 3 passed, 1 warning in 4.12s ===========\n"
TRIALS = "".join(
    ALLOCATION
    + "".join(
        f"2026-01-01 10:{second // 60:02}:{second % 60:02},000 INFO tune: trial {trial} loss 0.{second}\n"
        for second in range(trial * 34, trial * 34 + 30, 5)
    )
    for trial in range(68)
)
RANKS = "".join(f"[rank{rank}]: step {step} loss 0.5\n" for step in range(3) for rank in range(8))
MEMORY_TABLE = (
    "|===========================================================================|\n"
    + "".join(f"| Pool {number}                | 1024 MiB |   2048 MiB |  10240 MiB |\n" for number in range(8))
    + "wandb: loss 0.1\nsrun: error: n1: task 0: Exited with exit code 1\n"
)


def by_rank(rank: int, text: str) -> str:
    return "".join(f"[rank{rank}]: {line}\n" for line in text.splitlines())


STARTED_AGAIN = (
    "INFO:torch.distributed.elastic.agent.server.api:[default] Worker group FAILED. 3/3 attempts left; "
    "will restart worker group\n"
)
CRASHES = {
    "a GPU's error is the last thing": STEPS + FAULT,
    "68 handled allocations, and one that is not": TRIALS + ALLOCATION,
    "tables, advice and a launcher": STEPS + FAULT + MEMORY_TABLE,
    "a segment of a fusion": STEPS + GROUP,
    "other ranks print their step": RANKS
    + by_rank(3, ALLOCATION)
    + "".join(f"[rank{rank}]: step 3 loss 0.5\n" for rank in (0, 1, 2, 4, 5, 6, 7)),
    "the last thing": STEPS + BOOM,
    "a launcher sums up": STEPS
    + BOOM
    + "srun: error: box: task 0: Exited with exit code 1\nslurmstepd: error: *** STEP 1.0 CANCELLED ***\n",
    "make and a shell": STEPS
    + BOOM
    + "make: *** [Makefile:3: run] Error 1\n\nreal\t0m3.1s\nuser\t0m1.0s\nsys\t0m0.1s\n",
    "a launcher's own traceback": STEPS
    + BOOM
    + "E1 torchelastic: failed (exitcode: 1) local_rank: 0\n"
    + BOOM.replace("ValueError: boom", "launcher.ChildFailedError: train.py FAILED"),
    "a wrapper is done": STEPS + BOOM + "Done.\njob finished at 10:00\n",
    "the ranks print one step more": STEPS + BOOM + "step 9 loss 0.1\n" * 4,
    "advice on how to resume": STEPS
    + BOOM
    + "".join(f"resume from step {n}: train.py --step {n}\n" for n in (1, 2, 3, 4)),
    "training would have finished": STEPS + BOOM + "the error came before training finished\n",
    "started again, and it fails again": BOOM + STARTED_AGAIN + BOOM,
    "after many handled ones": "".join(OOM.format(n, n) for n in range(3)) + STEPS * 40 + BOOM,
}
HANDLED = {
    "progress bars go on": BOOM + "".join(f" {n}%|#         | {n}/100 [00:0{n}<01:00,  1.3it/s]\n" for n in range(5)),
    "further epochs": BOOM + "".join(f"{{'loss': 0.1, 'epoch': {n}.5}}\n" for n in range(5)),
    "the run completed": BOOM + "retrying\n{'train_runtime': 200.1, 'train_loss': 0.7}\n",
    "a launcher starts the workers again": BOOM + STARTED_AGAIN + "epoch 6 step 1200 loss 0.7\n",
    "68 allocations, and the log runs on for 39 minutes": TRIALS,
    "a test of an allocation passes": f"test_a.py ...\n{ALLOCATION}{PASSED}",
    "a test of a GPU's error passes": f"test_a.py ...\n{FAULT}{PASSED}",
    "a new worker goes on after a GPU's error": STEPS + FAULT + STEPS,
    "a fusion falls back": GROUP + STEPS,
    "the log goes on": BOOM + STEPS,
    "for minutes": "".join([*RUN[:30], OOM.format(2, 7), *RUN[30:]]),
    "again and again": "".join(
        line if n % 20 else line + OOM.format(n * 5 // 60, n) for n, line in enumerate(RUN[:-10], 1)
    )
    + "".join(RUN[-10:]),
    "counts of its own, and a step": f"{RUN[0]}Tests passed: 3, failed: 1\n{RUN[1]}",
    "a test of it passes": f"test_a.py ...\n{BOOM}\n=========== 3 passed, 1 warning in 0.12s ===========\n",
}


@pytest.mark.parametrize("case", CRASHES)
@pytest.mark.invariant("survived.V2")
def test_V2_a_crash_is_one_whatever_its_launcher_prints_then(case: str, tmp_path: Path) -> None:
    found = look(tmp_path, CRASHES[case])
    assert found.verdict.state is VerdictState.CRASHED, found.verdict.sentence


@pytest.mark.invariant("survived.V2")
def test_V2_a_stack_without_symbols_is_no_progress() -> None:
    said = "opt: /b/lib/Tank.cpp:186: Value fold(Op): Assertion `!empty()' failed.\nPlease report issues to us.\n"
    frames = "".join(f"{n}  libPump.so 0x00007f11c0de{n}a\n" for n in range(10, 22))
    assert verdict(f"{said}Stack dump without symbol names:\n{frames}").state is VerdictState.CRASHED
    rows = "".join(f"{n}  tank 0x00007f11c0de{n}a full\n" for n in range(10, 22)).replace("0x", "")
    assert verdict(f"{said}{rows}").state is not VerdictState.CRASHED


@pytest.mark.parametrize("case", HANDLED)
@pytest.mark.invariant("survived.V1")
@pytest.mark.invariant("survived.V4")
@pytest.mark.invariant("survived.V3")
def test_V1_V3_what_the_program_survived_is_no_crash(case: str, tmp_path: Path) -> None:
    found = look(tmp_path, HANDLED[case])
    assert found.verdict.state in (VerdictState.UNKNOWN, VerdictState.EXITED), found.verdict.sentence
    assert any("handled or survived" in finding.sentence for finding in found.findings.values())


def test_error_lines_that_nobody_understands_are_never_nothing_wrong(tmp_path: Path) -> None:
    found = look(tmp_path, "2026-01-01 10:00:00,000 ERROR frob: the frobnicator has lost its flux\n")
    assert found.verdict.state is VerdictState.UNKNOWN
    assert "the frobnicator has lost its flux" in found.verdict.sentence
