"""Exceptions in logs: what ended a program, and what it handled or survived."""

from __future__ import annotations

from pathlib import Path

import pytest

from livedbg.analysis.diagnosis import Diagnosis, VerdictState
from livedbg.session.adapter import Request
from livedbg.session.live import LiveView

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
        assert view.wait_settled(60)
        return view.latest().diagnosis
    finally:
        view.stop()


CRASHES = {
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
    "after many handled ones": "".join(OOM.format(n, n) for n in range(3)) + STEPS * 40 + BOOM,
}
HANDLED = {
    "the log goes on": BOOM + STEPS,
    "for minutes": "".join([*RUN[:30], OOM.format(2, 7), *RUN[30:]]),
    "again and again": "".join(
        line if n % 20 else line + OOM.format(n * 5 // 60, n) for n, line in enumerate(RUN[:-10], 1)
    )
    + "".join(RUN[-10:]),
    "a test of it passes": f"test_a.py ...\n{BOOM}\n=========== 3 passed, 1 warning in 0.12s ===========\n",
}


@pytest.mark.parametrize("case", CRASHES)
@pytest.mark.invariant("survived.V2")
def test_V2_a_crash_is_one_whatever_its_launcher_prints_then(case: str, tmp_path: Path) -> None:
    found = look(tmp_path, CRASHES[case])
    assert found.verdict.state is VerdictState.CRASHED, found.verdict.sentence


@pytest.mark.parametrize("case", HANDLED)
@pytest.mark.invariant("survived.V1")
def test_V1_what_the_program_survived_is_no_crash(case: str, tmp_path: Path) -> None:
    found = look(tmp_path, HANDLED[case])
    assert found.verdict.state is VerdictState.UNKNOWN, found.verdict.sentence
    assert any("handled or survived" in finding.sentence for finding in found.findings.values())


def test_error_lines_that_nobody_understands_are_never_nothing_wrong(tmp_path: Path) -> None:
    found = look(tmp_path, "2026-01-01 10:00:00,000 ERROR frob: the frobnicator has lost its flux\n")
    assert found.verdict.state is VerdictState.UNKNOWN
    assert "the frobnicator has lost its flux" in found.verdict.sentence
