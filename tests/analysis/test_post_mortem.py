"""How the end of a run is told from its logs: what leads, and what only follows, with texts that look alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from livedbg.analysis.diagnosis import VerdictState
from tests.analysis.test_causes import look, traceback

CRASHED, STALLED, UNKNOWN, EXITED = (
    VerdictState.CRASHED,
    VerdictState.STALLED,
    VerdictState.UNKNOWN,
    VerdictState.EXITED,
)
VALUE = traceback("ValueError: cannot export bf16", function="export")
POST = "".join(
    f"{line}\n"
    for line in (
        "Post job cleanup.",
        "git version 2.43.0",
        "Adding repository directory to the global git config",
        "Removing docker network",
        "Evaluate and set job outputs",
        "Archiving artifacts",
        "Recording test results",
        "Cleaning up orphan things",
    )
)
WAIT = "DEBUG 03-04 10:00:{} [utils.py:741] Waiting for 1 local, 0 remote core engine proc(s) to start.\n"
WAITS = "".join(WAIT.format(second) for second in (11, 21, 31))


@pytest.mark.parametrize(
    ("text", "state", "words"),
    [
        (f"{VALUE}##[error]Process completed with exit code 1.\n{POST}", CRASHED, "ValueError: cannot export bf16"),
        (f"{VALUE}retrying\n{POST}Job succeeded\n", EXITED, "The CI job succeeded"),
        (
            "a.sh: line 3: kubectl: command not found\nclosing\nFinished: FAILURE\n",
            CRASHED,
            "kubectl: command not found",
        ),
        ("bench: error: device cuda:7 does not exist\nmake: *** [all] Error 2\n", CRASHED, "device cuda:7"),
        (
            "Job succeeded\n[Pipeline] deploy\nupload of the wheel\nFinished: FAILURE\n",
            CRASHED,
            "Jenkins' build failed",
        ),
        ("srun: error: n7: task 5: Segmentation fault (core dumped)\n", CRASHED, "ask 5 on n7"),
        ("81234  a  gpu  COMPLETED  0:0\n81234.batch  batch  COMPLETED  0:0\n", EXITED, "Job 81234"),
        ("81234  a  gpu  COMPLETED  0:0\n81234.0  python  FAILED  1:0\n", CRASHED, "job 81234.0 ended as FAILED"),
        (f"{WAITS}", STALLED, "engine processes to start"),
        (f"{WAITS}INFO 03-04 10:00:41 [launcher.py:80] Shutting down FastAPI HTTP server.\n", UNKNOWN, "Shutting down"),
        (f"{WAITS}{VALUE}", CRASHED, "ValueError"),
        (f"{WAITS}Training completed\n", EXITED, "The training says"),
        ("ERROR pool: worker 2 went away, starting another\n===== 4 passed in 1.20s =====\n", EXITED, "4 tests"),
        ("===== 4 passed in 1.20s =====\nERROR pool: worker 2 went away\n", UNKNOWN, "worker 2 went away"),
        (
            "ERROR pool: worker 2 went away\n===== 4 passed in 1.20s =====\nERROR pool: worker 3 went away\n",
            UNKNOWN,
            "2 error lines",
        ),
    ],
)
@pytest.mark.invariant("last_lines.E5")
@pytest.mark.invariant("survived.V7")
def test_one_log(text: str, state: VerdictState, words: str, tmp_path: Path) -> None:
    found = look(tmp_path, {"job.log": text})
    assert (found.verdict.state, words in found.verdict.sentence) == (state, True), found.verdict.sentence


def stamped(rank: int, *lines: str) -> str:
    return "".join(f"2026-06-01 10:00:0{number},000 INFO [rank {rank}] {line}\n" for number, line in enumerate(lines))


@pytest.mark.parametrize(
    ("logs", "words"),
    [
        (
            {f"rank{rank}.log": stamped(rank, "loaded", "entering barrier 3") for rank in (0, 1)}
            | {"rank2.log": stamped(2, "loaded", "reading extra.bin")},
            "Ranks 0-1 entered barrier 3, at rank0.log:2, and did not leave it; rank 2 did not say so",
        ),
        ({f"rank{rank}.log": stamped(rank, "entering barrier 3", "saved it") for rank in (0, 1)}, "No known error in"),
        ({f"rank{rank}.log": stamped(rank, "entering barrier 3") for rank in (0, 1)}, "No known error in"),
        (
            {"a.log": "start\n" + stamped(0, *["waiting for etcd at 10.0.0.2:2379"] * 4)},
            "same wait 4 times for 3.0 s, the first at a.log:2: INFO waiting for etcd at 10.0.0.2:2379",
        ),
        (
            {"a.log": "01:00:00 - Rank 0: enter barrier 3\n01:00:01 - Rank 1: exit barrier 2\n"},
            "Rank 0 entered barrier 3, at a.log:1, and did not leave it; rank 1 did not say so",
        ),
        (
            {"a.log": "start\n" + "failed to connect to 10.0.0.2:29500 (try 1)\n" * 3},
            "same failure 3 times, the first at a.log:2: failed to connect to 10.0.0.2:29500 (try 1).",
        ),
        ({"a.log": "start\n" + "waiting for a GPU\nsee the docs\n" * 3}, "same wait 3 times, the first at a.log:2"),
        ({"a.log": "waiting for a batch\nstep 1\n" * 3}, "No known error in"),
        ({"a.log": "waiting for task 4 at step 8, 10 s\n" * 3}, "same wait 3 times, the first at a.log:1"),
        ({"a.log": "".join(f"waiting for the data of step {n}\n" for n in range(5))}, "No known error in"),
        ({"a.log": "failed to connect to 10.0.0.2:29500\n" * 2}, "2 lines speak of a failure"),
        ({"a.log": "waiting for etcd\n" * 5 + "step 1\n"}, "No known error in"),
        ({"a.log": "done waiting for etcd\n" * 5}, "No known error in"),
        ({"a.log": "loss is 2.31\n" * 5}, "No known error in"),
    ],
)
@pytest.mark.invariant("last_lines.E6")
@pytest.mark.invariant("last_words.W1")
def test_E6_what_is_waited_for_where_logs_end(logs: dict[str, str], words: str, tmp_path: Path) -> None:
    found = look(tmp_path, logs)
    assert found.verdict.state is UNKNOWN
    assert words in found.verdict.sentence.replace("[rank 0] ", "")


@pytest.mark.parametrize(
    "follows",
    [
        "RuntimeError: heartbeat of worker 2 lost for 60 s",
        "TimeoutError: rank 1 did not answer",
        "EngineDeadError: the engine process is dead",
        "RuntimeError: cannot schedule new futures after shutdown",
        "RuntimeError: lost connection to the peer",
    ],
)
def test_what_only_notices_another_one_s_end_follows(follows: str, tmp_path: Path) -> None:
    logs = {"rank0.log": traceback(follows, function="wait"), "rank1.log": traceback("KeyError: 'dog'")}
    verdict = look(tmp_path, logs).verdict
    assert verdict.sentence.startswith("Rank 1 crashed in collate (train.py:31): KeyError: 'dog'.")
    assert look(tmp_path / "alone", {"rank0.log": traceback(follows)}).verdict.state is CRASHED
