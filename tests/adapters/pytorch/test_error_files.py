"""What workers of torchrun's agent leave in its folders, as files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from livedbg.adapters.pytorch.elastic import Failure, first_failures, run_of

TRACEBACK = (
    'Traceback (most recent call last):\n  File "train.py", line 5, in load\n    raise x\nValueError: bad shard\n'
)


def worker(root: Path, start: int, rank: int, *, error: str = "", at: object = "1795521063", stderr: str = "") -> Path:
    folder = root / f"logs/run_x/attempt_{start}/{rank}"
    folder.mkdir(parents=True)
    if error:
        said = {"message": {"message": error, "extraInfo": {"py_callstack": TRACEBACK, "timestamp": at}}}
        (folder / "error.json").write_text(json.dumps(said))
    (folder / "stderr.log").write_text(stderr)
    return folder


def failures(root: Path, start: int) -> list[tuple[int, int, str]]:
    run = run_of(f"/logs/run_x/attempt_{start}/0/error.json")
    assert run is not None and run.start == start
    return [(one.start, one.local_rank, one.error) for one in first_failures(run, root)]


def test_the_error_of_each_start(tmp_path: Path) -> None:
    for start in range(3):
        worker(tmp_path, start, 0)
        worker(tmp_path, start, 1, error="ValueError: bad shard\nmore" if start < 2 else "")
    assert failures(tmp_path, 2) == [(0, 1, "ValueError: bad shard"), (1, 1, "ValueError: bad shard")]
    run = run_of("/logs/run_x/attempt_0/0/error.json")
    assert run is not None
    file = "/logs/run_x/attempt_0/1/error.json"
    assert first_failures(run, tmp_path) == [Failure(0, 1, "ValueError: bad shard", file, 1795521063 * 10**9)]


def test_a_folder_that_is_named_from_where_the_agent_was_started(tmp_path: Path) -> None:
    worker(tmp_path, 0, 1, error="ValueError: bad shard")
    run = run_of("logs/run_x/attempt_0/0/error.json")
    assert run is not None and run.folder == "logs/run_x"
    (one,) = first_failures(run, tmp_path)
    assert one.file == "logs/run_x/attempt_0/1/error.json"


@pytest.mark.invariant("error_files.L2")
@pytest.mark.parametrize(("times", "first"), [((20, 10), 1), ((10, 20), 0), ((10, 10), None), (("x", 10), None)])
def test_L2_the_earliest_error_is_the_first_and_errors_of_one_second_are_not_told_apart(
    times: tuple[object, object], first: int | None, tmp_path: Path
) -> None:
    for rank, at in enumerate(times):
        worker(tmp_path, 0, rank, error=f"ValueError: {rank}", at=at)
    assert failures(tmp_path, 0) == ([] if first is None else [(0, first, f"ValueError: {first}")])


def test_standard_error_that_ends_with_an_exception_of_one_worker(tmp_path: Path) -> None:
    worker(tmp_path, 0, 0, stderr="W0101 slow\n")
    worker(tmp_path, 0, 1, stderr=f"W0101 slow\n{TRACEBACK}")
    worker(tmp_path, 1, 0, stderr=TRACEBACK)
    worker(tmp_path, 1, 1, stderr=TRACEBACK.replace("bad shard", "other"))
    worker(tmp_path, 2, 0, stderr=f"{TRACEBACK}step 3\n")
    assert failures(tmp_path, 2)[:1] == [(0, 1, "ValueError: bad shard")]
    assert len(failures(tmp_path, 2)) <= 2, "which of two was the first is not known"


@pytest.mark.invariant("error_files.L1")
def test_L1_what_is_no_error_file_says_nothing(tmp_path: Path) -> None:
    for place in ("", "/tmp/error.json", "attempt_1/0/error.json", "/a/../attempt_1/0/error.json"):
        assert run_of(place) is None
    secret = tmp_path / "secret"
    secret.write_text('{"message": "secret"}')
    (worker(tmp_path, 0, 0) / "error.json").symlink_to(secret)
    os.mkfifo(worker(tmp_path, 0, 1) / "error.json")
    (worker(tmp_path, 0, 2) / "error.json").write_text('{"message": 5}')
    (worker(tmp_path, 0, 3) / "error.json").write_text("[" * 100_000)
    (worker(tmp_path, 0, 4) / "error.json").mkdir()
    assert failures(tmp_path, 0) == []
    (worker(tmp_path, 0, 5) / "error.json").write_text('{"message": "killed by \\u001b[31m the agent"}')
    assert [(rank, "\x1b" in error) for _, rank, error in failures(tmp_path, 0)] == [(5, False)]
