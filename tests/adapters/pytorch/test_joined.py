"""Pending collectives of a job's ranks, from what their recorders have."""

from __future__ import annotations

import pytest
from msgspec import structs

from livedbg.adapters.pytorch.collectives.adapter import reached
from livedbg.adapters.pytorch.collectives.joined import Look, join, standing
from livedbg.adapters.pytorch.collectives.recorder import Ring
from livedbg.adapters.pytorch.collectives.recorder_entry import Entry


def entry(record: int, sequence: int, name: str = "all_reduce", *, group: str = "1", done: bool = False) -> Entry:
    return Entry(
        record=record,
        group=group,
        description="dp" if group == "1" else "",
        sequence=sequence,
        name=name,
        backend="gloo",
        created_wall_ns=10**18 + record,
        timeout_ms=1000,
        is_p2p=False,
        shapes=((8,), (8,)),
        thread=1,
        done=done,
    )


def look(rank: int, *entries: Entry, count: int | None = None, whole: bool = True) -> Look:
    ring = Ring(entries=entries, count=len(entries) if count is None else count, whole=whole)
    groups = {"0": (0, 1, 2), "1": (0, 1, 2)}
    return Look(rank=rank, process=f"process:box/{rank}", rings=(ring,), groups=groups)


WAITS = look(0, entry(0, 1, done=True), entry(1, 2))


@pytest.mark.invariant("joined.J1")
def test_J1_one_look_is_not_enough_nor_are_two_between_which_the_rank_moved() -> None:
    assert standing(None, WAITS) == ()
    assert [one.sequence for one in standing(WAITS, WAITS)] == [2]
    completed = look(0, entry(0, 1), entry(1, 2))
    assert standing(completed, WAITS) == ()
    went_on = look(0, entry(0, 1, done=True), entry(1, 2), entry(2, 1, group="0", done=True))
    assert standing(WAITS, went_on) == ()
    another = Look(rank=0, process="process:box/9", rings=WAITS.rings, groups=WAITS.groups)
    assert standing(another, WAITS) == ()


@pytest.mark.invariant("joined.J1")
def test_J1_a_collective_is_pending_whatever_another_thread_of_its_rank_does() -> None:
    beat = structs.replace(entry(2, 1, group="2", done=True), thread=2)
    assert [one.sequence for one in standing(WAITS, look(0, *WAITS.entries, beat))] == [2]
    completes = [look(0, *WAITS.entries, structs.replace(beat, done=done)) for done in (False, True)]
    assert [one.sequence for one in standing(*completes)] == [2]


@pytest.mark.invariant("joined.J3")
def test_J3_a_rank_goes_on_by_the_threads_that_enter_collectives_of_the_group() -> None:
    beat = structs.replace(entry(2, 1, group="2", done=True), thread=2)
    both = look(2, entry(0, 1, done=True), beat)
    moved = both.moved_by(look(2, entry(0, 1, done=True)))
    assert moved == {2}
    assert not both.moved_in("1", moved) and both.moved_in("2", moved)
    assert both.moved_in("3", moved)  # any thread may be the first to enter it
    assert both.moved_by(both) == frozenset() and not both.moved_in("3", frozenset())


@pytest.mark.invariant("joined.J2")
def test_J2_who_has_not_entered_is_known_only_of_a_recorder_that_has_lost_nothing_of_the_group() -> None:
    behind = look(1, entry(0, 1, done=True))
    never = look(2)
    (one,) = join([WAITS, behind, never], {0: standing(WAITS, WAITS)})
    assert (one.description, one.sequence, one.absent, one.unseen) == ("dp", 2, (1, 2), ())
    lost = look(2, entry(9000, 7, group="0", done=True), count=9001, whole=False)
    (one,) = join([WAITS, behind, lost], {0: standing(WAITS, WAITS)})
    assert (one.absent, one.unseen) == ((1,), (2,))
    (one,) = join([WAITS], {0: standing(WAITS, WAITS)})
    assert (one.absent, one.unseen) == ((), (1, 2))


def test_who_is_in_it_or_past_it_is_not_absent() -> None:
    past = look(1, entry(0, 1, done=True), entry(1, 2, done=True), entry(2, 3, done=True))
    (one,) = join([WAITS, past], {0: standing(WAITS, WAITS)})
    assert (one.passed, one.absent, one.unseen) == ((1,), (), (2,))


def test_calls_that_differ_are_seen() -> None:
    other = look(1, entry(0, 1, done=True), entry(1, 2, "broadcast"))
    (one,) = join([WAITS, other], {0: standing(WAITS, WAITS), 1: standing(other, other)})
    assert one.differs and sorted(one.entries) == [0, 1]
    (one,) = join([WAITS, other], {0: standing(WAITS, WAITS)})
    assert not one.differs


@pytest.mark.parametrize(("name", "differs"), [("all_to_all", False), ("alltoall_base", False), ("all_reduce", True)])
def test_sizes_may_differ_where_each_rank_gives_its_own(name: str, differs: bool) -> None:
    """As of tokens that a rank sends to the experts of the others."""
    one, other = (look(rank, structs.replace(entry(0, 1, name), shapes=((8 + rank, 2),))) for rank in range(2))
    (found,) = join([one, other], {0: standing(one, one), 1: standing(other, other)})
    assert found.differs is differs


def test_how_far_a_rank_has_come_in_each_of_its_groups() -> None:
    never = look(2)
    lost = Look(rank=1, process="process:box/1", rings=look(1, whole=False).rings, groups=WAITS.groups)
    assert reached([WAITS, never, lost]) == {("process:box/0", "dp.1"): 2, ("process:box/2", "dp.1"): 0}
    everybody = look(0, entry(0, 3, group="0"))
    assert reached([everybody]) == {("process:box/0", "all"): 3}


@pytest.mark.invariant("joined.J4")
def test_J4_a_group_that_was_made_anew_under_its_name_counts_from_1_again() -> None:
    def again(record: int, sequence: int, *, done: bool = False) -> Entry:
        return structs.replace(entry(record, sequence, done=done), instance=1)

    old = [entry(record, record + 1, done=True) for record in range(6)]
    waits = look(0, *old, again(6, 1, done=True), again(7, 2))
    for other, place in (
        (look(1, *old), "absent"),  # it has made none in the new group
        (look(1, *old, again(7, 1, done=True)), "absent"),
        (look(1, *old, again(7, 1, done=True), again(8, 2, done=True), again(9, 3)), "passed"),
    ):
        [pending] = [one for one in join([waits, other], {0: standing(waits, waits)}) if one.sequence == 2]
        assert getattr(pending, place) == (1,)
    assert reached([waits, look(1, *old, again(7, 1))]) == {("process:box/0", "dp.1"): 2, ("process:box/1", "dp.1"): 1}


@pytest.mark.invariant("joined.J4")
def test_J4_what_was_never_completed_of_a_group_that_is_no_more_is_not_pending() -> None:
    left = look(0, entry(0, 1, done=True), entry(1, 2), structs.replace(entry(2, 1), instance=1))
    assert [(one.sequence, one.instance) for one in standing(left, left)] == [(1, 1)]
