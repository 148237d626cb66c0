"""Copies of ranks, and ranks that have ended: processes by what their parents are."""

from __future__ import annotations

import pytest
from msgspec import structs

from livedbg.adapters.pytorch.collectives.families import Ended, without_copies
from livedbg.adapters.pytorch.collectives.joined import Look
from livedbg.adapters.pytorch.collectives.ranks import RankSeen
from livedbg.model import events as ev
from tests.analysis.world import World


def seen(pid: int, rank: int, world: int = 3) -> RankSeen:
    look = Look(rank=rank, process=f"process:box/{pid}", rings=(), groups={"0": tuple(range(world))})
    return RankSeen(look, {})


def job(*ranks: int) -> World:
    """A launcher, process 5, and its ranks, processes 10 and on."""
    world = World()
    world.process(5)
    for rank in ranks:
        world.process(10 + rank, ppid=5)
    return world


@pytest.mark.invariant("rank_families.F1")
def test_F1_workers_that_a_rank_has_forked_are_no_ranks() -> None:
    world = job(0, 1)
    world.process(20, ppid=11)
    world.process(21, ppid=20)
    ranks = [seen(10, 0), seen(11, 1), seen(20, 1), seen(21, 1)]
    assert [one.look.process for one in without_copies(ranks, world.store.snapshot())] == [
        "process:box/10",
        "process:box/11",
    ]


def test_a_rank_that_another_rank_has_started_is_one() -> None:
    world = job(0)
    world.process(11, ppid=10)
    ranks = [seen(10, 0), seen(11, 1)]
    assert without_copies(ranks, world.store.snapshot()) == ranks


@pytest.mark.invariant("rank_families.F2")
def test_F2_a_rank_whose_end_was_seen_has_ended() -> None:
    world, ended = job(0, 1, 2), Ended()
    ranks = [seen(10, 0), seen(11, 1), seen(12, 2)]
    assert ended.of(ranks, "job", world.store.snapshot()) == {}
    assert ended.of(ranks[:2], "job", world.store.snapshot()) == {}  # not read this time
    world.exits("process:box/12", -9)
    assert ended.of(ranks[:2], "job", world.store.snapshot()) == {2: "process:box/12"}
    assert ended.of(ranks[:2], "another job", world.store.snapshot()) == {
        2: "process:box/12"
    }  # a child of the launcher


@pytest.mark.invariant("rank_families.F2")
def test_F2_a_rank_is_not_gone_while_a_child_of_the_launcher_may_be_it() -> None:
    world = job(0, 1)
    world.process(12, ppid=5)
    world.process(13, ppid=5)
    world.exits("process:box/13", 1)
    assert Ended().of([seen(10, 0), seen(11, 1)], "job", world.store.snapshot()) == {}


@pytest.mark.invariant("rank_families.F2")
def test_F2_ranks_of_another_host_or_launcher_are_not_gone() -> None:
    world = job(0, 1)
    assert Ended().of([seen(10, 0), seen(11, 1)], "job", world.store.snapshot()) == {}
    alone = World()
    alone.process(10, ppid=5)
    assert Ended().of([seen(10, 0)], "job", alone.store.snapshot()) == {}


TRACKER = ("python", "-c", "from multiprocessing.resource_tracker import main;main(5)")


@pytest.mark.invariant("rank_families.F2")
def test_F2_what_multiprocessing_starts_for_itself_is_no_rank() -> None:
    world = job(0, 1)
    world.process(14, ppid=5, command=TRACKER)
    world.process(12, ppid=5)
    world.exits("process:box/12", 1)
    ranks = [seen(10, 0), seen(11, 1)]
    assert Ended().of(ranks, "job", world.store.snapshot()) == {2: "process:box/12"}
    world.exits("process:box/14", 1)
    assert Ended().of(ranks, "job", world.store.snapshot()) == {2: "process:box/12"}


@pytest.mark.invariant("rank_families.F2")
@pytest.mark.parametrize(("later_s", "rank"), [(3, True), (-3, True), (900, False)])
def test_F2_a_zombie_is_a_rank_only_if_it_was_started_with_the_others(later_s: int, rank: bool) -> None:
    world = job(0, 1)
    world.process(12, ppid=5, notes=("zombie",))
    for pid in (10, 11, 12):
        known = world.snapshot().processes[f"process:box/{pid}"]
        began = structs.replace(known, start_wall_ns=10**18 + (later_s * 10**9 if pid == 12 else 0))
        world.store.apply(ev.ProcessSeen(process=began, **world.stamp()))
    world.exits("process:box/12", 1)
    found = Ended().of([seen(10, 0), seen(11, 1)], "job", world.store.snapshot())
    assert found == ({2: "process:box/12"} if rank else {})
