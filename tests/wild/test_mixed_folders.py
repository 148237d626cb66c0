"""Folders with the logs of several ranks, of a launcher, of the host, and of earlier starts: who was first, and why."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.wild.judging import Said, report
from tests.wild.wrappings import wrapped

RANKS = range(4)
STEPS = "".join(f"2026-03-04 10:{n // 60:02}:{n % 60:02},000 INFO train step {n} loss 0.{n:03}\n" for n in range(40))
FIRST = (
    STEPS + "Traceback (most recent call last):\n"
    '  File "/srv/run/train.py", line 88, in main\n    batch = next(batches)\n'
    '  File "/srv/run/data.py", line 31, in collate\n    return table[key]\n'
    "KeyError: 'shard-0007'\n"
)
PEER = (
    STEPS + "Traceback (most recent call last):\n"
    '  File "/srv/run/train.py", line 92, in main\n    dist.all_reduce(loss)\n'
    "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.3.9]:40112\n"
)
SUMMARY = (
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    "============================================================\n"
    "/srv/run/train.py FAILED\n"
    "------------------------------------------------------------\n"
    "Failures:\n"
    "  <NO_OTHER_FAILURES>\n"
    "------------------------------------------------------------\n"
    "Root Cause (first observed failure):\n"
    "[0]:\n"
    "  time      : 2026-03-04_10:00:45\n"
    "  host      : node07\n"
    "  rank      : 2 (local_rank: 2)\n"
    "  exitcode  : 1 (pid: 4244)\n"
    "  error_file: <N/A>\n"
    "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html\n"
    "============================================================\n"
)
DONE = STEPS + "2026-03-04 10:01:00,000 INFO train Training completed successfully\n"


def _said(folder: Path, logs: Mapping[str, str]) -> Said:
    for name, text in logs.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return report(folder)


def _of_ranks(form: str, culprit: int) -> dict[str, str]:
    return {form.format(rank=rank): FIRST if rank == culprit else PEER for rank in RANKS}


@pytest.mark.parametrize("form", ["rank_{rank}.log", "rank{rank}/stderr.log", "attempt_0/{rank}/stderr.log"])
def test_the_rank_that_failed_first_leads_and_the_others_follow(form: str, tmp_path: Path) -> None:
    said = _said(tmp_path, _of_ranks(form, 2))
    assert said.state == "crashed"
    assert said.sentence.startswith("Rank 2 ") and "KeyError" in said.sentence and "data.py:31" in said.sentence


def test_a_launchers_summary_beside_them_is_no_cause(tmp_path: Path) -> None:
    said = _said(tmp_path, {**_of_ranks("rank_{rank}.log", 2), "launcher.log": SUMMARY})
    assert said.state == "crashed"
    assert said.sentence.startswith("Rank 2 ") and "KeyError" in said.sentence


@pytest.mark.parametrize("wrapping", ["docker", "cri", "kubectl", "iso"])
def test_in_the_wrappings_of_containers(wrapping: str, tmp_path: Path) -> None:
    said = _said(tmp_path, {name: wrapped(wrapping, text) for name, text in _of_ranks("rank_{rank}.log", 1).items()})
    assert said.state == "crashed"
    assert said.sentence.startswith("Rank 1 ") and "KeyError" in said.sentence


def test_a_run_that_completed_has_not_crashed(tmp_path: Path) -> None:
    said = _said(tmp_path, {f"rank_{rank}.log": DONE for rank in RANKS})
    assert said.state not in {"crashed", "stalled", "deadlock", "diverged"}


def test_an_earlier_attempt_is_a_note_once_the_next_has_completed(tmp_path: Path) -> None:
    earlier = _of_ranks("attempt_0/{rank}/stderr.log", 3)
    said = _said(tmp_path, {**earlier, **{f"attempt_1/{rank}/stderr.log": DONE for rank in RANKS}})
    assert said.state not in {"crashed", "stalled", "deadlock", "diverged"}


def test_an_error_that_one_rank_handled_is_no_end(tmp_path: Path) -> None:
    handled = FIRST + "".join(line.replace("10:00:", "10:02:") + "\n" for line in STEPS.splitlines()[20:])
    said = _said(tmp_path, {f"rank_{rank}.log": handled if rank == 1 else DONE for rank in RANKS})
    assert said.state not in {"crashed", "stalled", "deadlock", "diverged"}
