"""A process waits for a batch of its DataLoader: who owes it, and whether that one is stuck."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from livedbg.adapters.pytorch.collectives.groups import thread_reader
from livedbg.adapters.pytorch.loaders import owed
from livedbg.linux.procfs import child_pids
from tests.conftest import TARGETS, Target
from tests.reports import at_rest, line_of, report_of, report_when

PROGRAM = TARGETS / "torch_loaders.py"
TRAIN = f"waits in train (torch_loaders.py:{line_of('for batch in DataLoader', PROGRAM)}) for a batch of its DataLoader"


def said_of(spawn: Callable[..., Target], word: str) -> dict[str, Any]:
    """The report once the process has waited long enough."""
    target = spawn([sys.executable, str(PROGRAM), word])
    return report_when(target.pid, lambda one: TRAIN in one["verdict"]["sentence"])


@pytest.mark.parametrize(
    ("word", "does", "line"),
    [
        ("takes_nothing", "waits in Queue.get() in Rows.takes_nothing", "filled_by_nobody.get()"),
        ("locks", "waits in Lock.acquire() in Rows.locks", "lock.acquire()"),
        ("sleeps_on", "sleeps for 27.8 h in Rows.sleeps_on", "time.sleep(100_000)"),
    ],
)
def test_a_worker_that_owes_a_batch_and_is_stuck(word: str, does: str, line: str, spawn: Callable[..., Target]) -> None:
    said = said_of(spawn, word)
    assert (said["verdict"]["state"], said["exit"]) == ("stalled", 10), said["verdict"]
    assert f"(pt_data_worker) {does} (torch_loaders.py:{line_of(line, PROGRAM)})" in said["verdict"]["sentence"]


def test_whoever_has_the_other_end_of_a_queue_may_fill_it(spawn: Callable[..., Target]) -> None:
    said = said_of(spawn, "takes_of_all")
    assert (said["verdict"]["state"], said["exit"]) == ("unknown", 5)
    place = f"Rows.takes_of_all (torch_loaders.py:{line_of('shared_by_all.get', PROGRAM)})"
    assert place in said["verdict"]["sentence"]


@pytest.mark.invariant("behaviour.L16")
def test_a_worker_that_polls_may_wait_for_ever(spawn: Callable[..., Target]) -> None:
    target = spawn([sys.executable, str(PROGRAM), "polls"])
    at_rest(target.pid)
    said = report_when(target.pid, lambda one: "Rows.pause" in one["verdict"]["sentence"])
    assert (said["verdict"]["state"], said["exit"]) == ("unknown", 5), said["verdict"]


@pytest.mark.invariant("behaviour.L11", "loaders.D2")
@pytest.mark.parametrize("word", ["naps", "naps_for_long", "naps_out_of_order", "computes"])
def test_workers_that_are_slow_are_no_hang(word: str, spawn: Callable[..., Target]) -> None:
    target = spawn([sys.executable, str(PROGRAM), word])
    assert report_when(target.pid, lambda one: one["verdict"]["state"] == "running")["exit"] == 0


@pytest.mark.invariant("loaders.D1")
def test_which_worker_owes_which_batch(spawn: Callable[..., Target]) -> None:
    target = spawn([sys.executable, str(PROGRAM), "takes_nothing"])
    report_when(target.pid, lambda one: TRAIN in one["verdict"]["sentence"])
    reader = thread_reader(target.pid)
    assert reader is not None
    first, again = owed(reader), owed(reader)
    assert first == again and [(one.batch, one.timed) for one in first] == [(10, False)]  # 40 rows, 4 a batch
    ((place, worker),) = first[0].workers
    assert place == 0 and worker in child_pids(target.pid)
    edges = report_of(target.pid)["edges"]
    (edge,) = [one for one in edges if "DataLoader" in one["evidence"]]
    assert edge["evidence"] == "batch 10 of its DataLoader is a task of worker 0"
    assert edge["to"].endswith(f"/{worker}/{worker}") and edge["from"].endswith(f"/{target.pid}/{target.pid}")
