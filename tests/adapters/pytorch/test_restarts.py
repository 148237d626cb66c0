"""Workers that torchrun has started anew: states built by hand."""

from __future__ import annotations

import pytest
from msgspec import structs

from livedbg.analysis import VerdictState
from livedbg.analysis.diagnosis import Finding
from livedbg.model import Diagnostic, ExceptionHit, LogRecord, LogSource, Severity
from livedbg.model import events as ev
from tests.analysis.world import World

LOG = "log:box/run.log"


class Agent(World):
    """torchrun, process 5, and what it has started: two workers a time, from process 10 on."""

    def __init__(self, starts: int) -> None:
        super().__init__()
        self.process(5)
        for start in range(starts):
            for rank in (0, 1):
                self.worker(10 * (start + 1) + rank, rank, start)

    def worker(self, pid: int, rank: int, start: int, ppid: int = 5) -> None:
        environment = {"RANK": str(4 + rank), "LOCAL_RANK": str(rank), "TORCHELASTIC_RESTART_COUNT": str(start)}
        environment["TORCHELASTIC_ERROR_FILE"] = f"/logs/x/attempt_{start}/{rank}/error.json"
        self.process(pid, ppid=ppid)
        known = self.snapshot().processes[f"process:box/{pid}"]
        process = structs.replace(known, environment=environment)
        self.store.apply(ev.ProcessSeen(process=process, **self.stamp()))

    def ends(self, pid: int, status: int) -> None:
        self.store.apply(ev.ProcessExited(id=f"process:box/{pid}", status=status, **self.stamp()))

    def logs(self, *failed: tuple[int, int, int]) -> None:
        """What the agent logs: exit code, local rank, pid."""
        self.store.apply(ev.LogSourceSeen(source=LogSource(id=LOG, name="run.log"), **self.stamp()))
        text = "E0101 failed (exitcode: {}) local_rank: {} (pid: {}) of binary: /usr/bin/python"
        records = tuple(LogRecord(source=LOG, text=text.format(*one)) for one in failed)
        self.store.apply(ev.LogsSeen(records=records, **self.stamp()))

    def left(self, start: int, error: str, run: str = "/logs/x") -> None:
        """What local rank 1 has left in its files."""
        facts = {"run": run, "start": str(start), "local rank": "1", "error": error}
        said = Diagnostic(
            id=f"{run}/{start}",
            system="pytorch",
            code="worker-failed",
            severity=Severity.WARNING,
            sentence=error,
            attributes=facts,
        )
        self.store.apply(ev.DiagnosticSeen(diagnostic=said, **self.stamp()))

    def restarts(self) -> list[Finding]:
        return [one for one in self.diagnosis().findings.values() if one.rule == "worker-restarts"]

    def said(self) -> str:
        (one,) = self.restarts()
        assert one.state is VerdictState.UNKNOWN and not one.decides
        return one.sentence


@pytest.mark.invariant("rules_restarts.S1")
def test_S1_how_often_and_who_ended_first() -> None:
    job = Agent(4)
    assert job.said() == "The workers were started 4 times."
    job.logs((1, 1, 11), (1, 1, 21), (1, 1, 31))
    assert job.said() == "The workers were started 4 times; each time rank 5 ended first, with status 1."
    assert Agent(1).restarts() == []


def test_several_ranks_and_starts_that_are_not_known() -> None:
    job = Agent(4)
    job.logs((1, 1, 21))
    assert job.said() == "The workers were started 4 times; rank 5 ended first, with status 1."
    job.logs((-9, 0, 30))
    assert job.said() == "The workers were started 4 times; first ended rank 5 with status 1, then rank 4 by SIGKILL."


@pytest.mark.invariant("rules_restarts.S3")
def test_S3_of_ends_that_were_seen_only_one_alone_is_the_first() -> None:
    job = Agent(3)
    job.ends(10, -15)
    job.ends(11, 1)
    assert job.said().endswith("; rank 5 ended first, with status 1.")
    both = Agent(3)
    both.ends(10, 1)
    both.ends(11, 1)
    assert both.said() == "The workers were started 3 times."


@pytest.mark.invariant("rules_restarts.S2")
@pytest.mark.parametrize(("count", "more", "error"), [(2, 0, True), (1, 0, False), (2, 1, False)])
def test_S2_an_error_is_named_if_there_is_no_other(count: int, more: int, error: bool) -> None:
    job = Agent(3)
    job.logs((1, 1, 11), (1, 1, 21))
    for number in range(1 + more):
        hit = ExceptionHit(id=f"x{number}", type="ValueError", message=f"bad shard {number}", count=count, source=LOG)
        job.store.apply(ev.ExceptionSeen(hit=hit, **job.stamp()))
    assert job.said().endswith("with status 1: ValueError: bad shard 0.") is error


def test_helpers_of_workers_and_agents_that_are_gone() -> None:
    job = Agent(2)
    job.worker(90, 1, 1, ppid=21)
    assert len(job.restarts()) == 1
    for pid in (5, 10, 11, 20, 21, 90):
        job.ends(pid, 1)
    assert job.restarts() == []


@pytest.mark.invariant("rules_restarts.S2")
def test_S2_the_errors_that_the_workers_left_in_files() -> None:
    job = Agent(4)
    for start, error in enumerate(("bad shard", "bad shard", "bad shard")):
        job.left(start, f"ValueError: {error}")
    assert job.said() == "The workers were started 4 times; each time rank 5 failed first: ValueError: bad shard."
    job.logs((1, 1, 11), (1, 1, 21), (1, 1, 31))
    assert job.said() == (
        "The workers were started 4 times; each time rank 5 ended first, with status 1: ValueError: bad shard."
    )
    job.left(2, "OSError: no space")
    assert job.said().endswith("with status 1; the error at start 3: OSError: no space.")


@pytest.mark.invariant("rules_restarts.S2")
def test_S2_an_error_of_the_start_that_goes_on_or_of_another_run_is_not_that_of_earlier_ones() -> None:
    job = Agent(2)
    job.left(1, "ValueError: handled")
    job.left(0, "ValueError: another", run="/logs/y")
    assert job.said() == "The workers were started 2 times."
    job.left(0, "ValueError: bad shard")
    assert job.said() == "The workers were started 2 times; rank 5 failed first: ValueError: bad shard."
