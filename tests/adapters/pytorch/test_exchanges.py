"""What stands of calls that no recorder has, from what the ranks' frames say."""

from __future__ import annotations

import pytest
from msgspec import structs

from livedbg.adapters.pytorch.collectives.adapter import of_jobs
from livedbg.adapters.pytorch.collectives.exchanges import Exchange, exchanges, root_of, said_by, standing_calls
from livedbg.adapters.pytorch.collectives.joined import Look
from livedbg.adapters.pytorch.collectives.python_calls import PythonCall
from livedbg.adapters.pytorch.collectives.ranks import RankSeen
from livedbg.model import Frame, Stack


def call(name: str, peer: int | None = None, *, tag: int | None = 0, objects: tuple[int, ...] = (8,)) -> PythonCall:
    return PythonCall(ident=1, name=name, group="0", peer=peer, tag=tag, objects=objects)


def look(rank: int, *calls: PythonCall) -> Look:
    return Look(rank=rank, process=f"process:box/{rank}", rings=(), groups={"0": (0, 1, 2)}, calls=calls)


def joined(*looks: Look) -> list[Exchange]:
    return exchanges(looks, {one.rank: standing_calls(one, one) for one in looks})


@pytest.mark.invariant("exchanges.E1")
def test_E1_only_the_same_call_at_two_looks_stands() -> None:
    now = look(0, call("recv", 1))
    assert standing_calls(None, now) == () == standing_calls(look(0), now)
    assert standing_calls(look(0, call("recv", 1, objects=(16,))), now) == ()
    assert standing_calls(now, now) == now.calls


@pytest.mark.invariant("exchanges.E2")
def test_E2_a_receive_lacks_nobody_only_if_its_sender_sends_just_that() -> None:
    (recv, send) = joined(look(0, call("recv", 1, tag=7)), look(1, call("send", 0, tag=7)))
    assert (recv.absent, sorted(recv.calls), send.absent) == ((), [0, 1], ())
    (recv, send) = joined(look(0, call("recv", 1, tag=7)), look(1, call("send", 0, tag=8)))
    assert (recv.absent, send.absent, recv.key, send.key) == ((1,), (0,), "recv.0.1.7", "send.1.0.8")
    (recv, _) = joined(look(0, call("recv", 1)), look(1, call("send", 2)))
    assert recv.absent == (1,)


@pytest.mark.invariant("exchanges.E2")
def test_E2_a_message_that_is_on_its_way_lacks_nobody() -> None:
    looks = [look(0, call("recv", 1)), look(1)]
    stands = {one.rank: standing_calls(one, one) for one in looks}
    (recv,) = exchanges(looks, stands)
    assert (recv.absent, recv.under_way) == ((1,), False)
    (recv,) = exchanges(looks, stands, lambda one, other: (one.rank, other.rank) == (0, 1))
    assert (recv.absent, recv.under_way) == ((), True)


@pytest.mark.invariant("exchanges.E2")
def test_E2_what_was_posted_is_matched_by_its_rank() -> None:
    (recv, send) = joined(look(0, call("recv", 1, tag=None)), look(1, call("send", 0, tag=8)))
    assert (recv.absent, send.absent, recv.posted, send.posted) == ((), (), True, False)
    (recv,) = joined(look(0, call("recv", tag=None)))
    assert (recv.peer, recv.absent, recv.unseen, recv.key) == (None, (), (), "recv.0.1")


def stack(*functions: str) -> Stack:
    frames = tuple(Frame(function=one, language="c++") for one in functions)
    return Stack(thread="thread:box/1/1", layer="native", frames=frames, taken_mono_ns=1, source="no stop")


@pytest.mark.invariant("exchanges.E3")
def test_E3_what_was_posted_is_what_the_native_stack_says() -> None:
    work, recv = call("work", 1, tag=None), stack("poll", "c10d::ProcessGroupGloo::RecvWork::wait(long)")
    found = said_by(recv, work)
    assert found is not None and (found.name, found.peer) == ("recv", 1)
    found = said_by(stack("c10d::ProcessGroupGloo::SendWork::wait(long)"), work)
    assert found is not None and found.name == "send"
    assert said_by(stack("c10d::ProcessGroupGloo::AsyncWork::wait(long)"), work) is None is said_by(None, work)
    assert said_by(recv, call("recv", 1)) == call("recv", 1)


@pytest.mark.invariant("exchanges.E3")
def test_E3_a_wait_for_a_key_is_one_only_inside_of_the_store() -> None:
    wait = structs.replace(call("store", tag=None), keys=("ready",))
    assert said_by(stack("__poll", "c10d::TCPStore::doWait(int)"), wait) == wait
    assert said_by(stack("c10d::PrefixStore::get(int)"), wait) == wait
    assert said_by(stack("clock_nanosleep"), wait) is None is said_by(None, wait)
    (one,) = joined(look(0, wait), look(1))
    assert (one.absent, one.unseen, one.total, one.key) == ((1,), (2,), 3, "store.0.1")


@pytest.mark.invariant("exchanges.E3")
@pytest.mark.parametrize(
    ("line", "same"), [(("/src/train.py", 9), True), (("/src/train.py", 4), False), (("c10d.py", 9), False)]
)
def test_E3_a_stack_of_an_earlier_call_says_nothing(line: tuple[str, int], same: bool) -> None:
    wait = structs.replace(call("store", tag=None), line=line)
    taken = stack("c10d::TCPStore::doWait(int)")
    python = (Frame(function="main", language="python", file="/box/src/train.py", line=9),)
    assert said_by(taken, wait) == wait
    assert (said_by(structs.replace(taken, frames=taken.frames + python), wait) == wait) is same


def test_a_peer_that_is_not_seen_or_not_known_or_itself() -> None:
    (recv,) = joined(look(0, call("recv", 2)))
    assert (recv.absent, recv.unseen) == ((), (2,))
    assert joined(look(0, call("recv"))) == [] == joined(look(0, call("recv", 0)))


def test_a_monitored_barrier_lacks_the_ranks_that_are_not_in_it() -> None:
    (one,) = joined(look(0, call("monitored_barrier")), look(1))
    assert (sorted(one.calls), one.absent, one.unseen, one.total) == ([0], (1,), (2,), 3)
    now = look(1, call("monitored_barrier"))
    (one,) = exchanges([look(0, call("monitored_barrier")), now], {0: (call("monitored_barrier"),), 1: ()})
    assert one.absent == ()  # it has just come


def test_who_has_process_groups_has_left_their_making() -> None:
    begins = look(0, call("init_process_group"))
    late = structs.replace(look(1), initialised=False)
    (one,) = joined(begins, late, look(2))
    assert (one.absent, one.unseen) == ((1,), ())


def test_processes_with_nothing_but_a_rank_count_only_while_others_begin() -> None:
    def seen(one: Look, *, initialised: bool = True) -> RankSeen:
        return RankSeen(structs.replace(one, initialised=initialised), {})

    begins = seen(look(0, call("init_process_group")), initialised=False)
    late, twin = seen(look(1), initialised=False), seen(look(0), initialised=False)
    assert of_jobs([begins, late, twin]) == [begins, late]
    assert of_jobs([begins, late, late]) == [begins]
    assert of_jobs([seen(look(0)), late]) == [seen(look(0))]


def test_roots_are_of_the_thread_and_the_call() -> None:
    now = look(0, call("broadcast", 2))
    assert (root_of(now, 1, "broadcast"), root_of(now, 2, "broadcast"), root_of(now, 1, "scatter")) == (2, None, None)
