"""Which processes are ranks, and what they do."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from livedbg.analysis.ranks import REACHED, RankState, ranked, ranks_of
from livedbg.model import Edge, EdgeKind, Process, ThreadState
from livedbg.model import events as ev
from tests.analysis.world import World

RANKS = {"MASTER_PORT": "29500", "WORLD_SIZE": "2"}


class Job(World):
    """A world of ranks."""

    def rank(self, pid: int, rank: int | None, ppid: int = 9, **more: Any) -> Process:
        process = Process(id=f"process:box/{pid}", host="box", pid=pid, ppid=ppid, rank=rank, start_ticks=pid, **more)
        self.store.apply(ev.ProcessSeen(process=process, **self.stamp()))
        return process

    def reached(self, pid: int, group: str, number: int) -> None:
        event = ev.CounterSeen(entity=f"process:box/{pid}", name=REACHED + group, value=float(number), **self.stamp())
        self.store.apply(event)

    def edges(self, *pairs: tuple[str, str]) -> None:
        edges = tuple(Edge(kind=EdgeKind.WAITS_FOR, source=one, target=other, evidence="") for one, other in pairs)
        self.store.apply(ev.EdgesReplaced(scope="test", edges=edges, **self.stamp()))

    def seen(self) -> list[tuple[int, int, str, int]]:
        found = ranks_of(self.snapshot(), self.diagnosis())
        return [(one.number, one.process.pid, one.state.name, one.behind) for one in found]


def test_no_ranks() -> None:
    job = Job()
    job.rank(1, None)
    assert not ranked(job.snapshot())
    assert job.seen() == []


@pytest.mark.invariant("ranks.N1")
def test_N1_helpers_and_launchers_are_no_ranks() -> None:
    job = Job()
    own = {"RANK": "0", **RANKS}
    job.rank(10, 0, environment={"SLURM_PROCID": "0"})
    job.rank(11, 0, 10, environment=own)
    job.rank(12, 1, 10, environment={**own, "RANK": "1"})
    job.rank(13, 1, 12, environment={**own, "RANK": "1"})
    assert [pid for _, pid, _, _ in job.seen()] == [11, 12]


@pytest.mark.invariant("ranks.N1")
def test_N1_of_ranks_that_memory_knows_the_helpers_may_have_that_of_a_launcher() -> None:
    job = Job()
    slurm = {"SLURM_PROCID": "0"}
    job.rank(10, 0, environment=slurm)
    job.rank(11, 0, 10, environment=slurm, rank_by="its groups")
    job.rank(12, 1, 10, environment=slurm, rank_by="its groups")
    job.rank(13, 0, 12, environment=slurm)
    assert [pid for _, pid, _, _ in job.seen()] == [11, 12]


@pytest.mark.invariant("ranks.N1")
def test_N1_of_a_rank_that_was_started_again_the_newest_counts() -> None:
    job = Job()
    old = job.rank(10, 0)
    job.rank(11, 1)
    job.store.apply(ev.ProcessExited(id=old.id, status=1, **job.stamp()))
    assert job.seen() == [(0, 10, "ENDED", 0), (1, 11, "GOES", 0)]
    job.rank(12, 0)
    assert [pid for _, pid, _, _ in job.seen()] == [12, 11]


@pytest.mark.invariant("ranks.N2")
def test_N2_only_who_a_task_waits_for_is_missing() -> None:
    job = Job()
    for number in range(3):
        job.rank(10 + number, number)
        job.thread(10 + number, pid=10 + number)
    stopped = job.rank(13, 3)
    job.store.apply(ev.ProcessSeen(process=structs.replace(stopped, state=ThreadState.STOPPED), **job.stamp()))
    launcher = job.thread(9, pid=9)
    job.edges(
        (launcher, "process:box/10"),
        ("thread:box/11/11", "task:a/b"),
        ("task:a/b", "process:box/12"),
        ("task:a/c", "process:box/11"),
    )
    assert [state for _, _, state, _ in job.seen()] == ["GOES", "WAITS", "MISSING", "STOPPED"]
    assert sorted(RankState) == [RankState[name] for name in ("MISSING", "ENDED", "STOPPED", "GOES", "WAITS")]


def test_who_is_behind_is_behind_in_its_own_job() -> None:
    job = Job()
    for number in range(2):
        job.rank(10 + number, number, environment={"RANK": str(number), **RANKS})
        job.rank(20 + number, number, environment={"RANK": str(number), **RANKS, "MASTER_PORT": "29501"})
    for pid, reached in ((10, 7), (11, 4), (20, 900), (21, 901)):
        job.reached(pid, "dp", reached)
    job.reached(10, "ep", 1)
    job.reached(11, "ep", 3)
    assert job.seen() == [(0, 10, "GOES", 2), (0, 20, "GOES", 1), (1, 11, "GOES", 3), (1, 21, "GOES", 0)]
    first = ranks_of(job.snapshot(), job.diagnosis())[0]
    assert first.reached == (("ep", 1), ("dp", 7)), "the group in which it is most behind comes first"
