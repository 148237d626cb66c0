"""Roots of ranks that have completed a broadcast or scatter, from what the others wait for."""

from __future__ import annotations

import pytest
from msgspec import structs

from livedbg.adapters.pytorch.collectives.joined import Look, Standing
from livedbg.adapters.pytorch.collectives.python_calls import PythonCall
from livedbg.adapters.pytorch.collectives.recorder import Ring
from livedbg.adapters.pytorch.collectives.tasks import collective_task, receives, roots_of_completed
from livedbg.adapters.pytorch.facts import call_facts
from livedbg.model import Frame, Stack
from tests.adapters.pytorch.test_joined import entry


@pytest.mark.invariant("tasks.S1")
@pytest.mark.parametrize("name", ["broadcast", "scatter"])
def test_S1_who_completed_it_had_it_from_the_only_rank_that_sends(name: str) -> None:
    assert roots_of_completed(name, (0, 1, 2), {0: 0, 2: 1}, (1,)) == {1: 0}


@pytest.mark.invariant("tasks.S3")
def test_S3_who_has_had_it_may_wait_to_send_it_on() -> None:
    """Rank 1 may have sent it to 3 and to 2, which can't send it on to 0; or had it from 0, and 2 from nobody."""
    assert roots_of_completed("broadcast", (0, 1, 2, 3), {0: 0, 2: 1}, (1, 3)) == {}
    assert roots_of_completed("broadcast", (0, 1, 2, 3), {0: 0, 2: 1}, (1, 3), receiving=(2,)) == {1: 0}
    assert roots_of_completed("scatter", (0, 1, 2, 3), {0: 0, 2: 1}, (1, 3)) == {1: 0, 3: 0}


@pytest.mark.invariant("tasks.S1")
def test_S1_a_rank_that_passes_it_on_has_been_asked_by_those_it_passes_it_to() -> None:
    # of four: 0 sends to 1 and 2, 1 to 3. Rank 3 expects it from 2, which does not send: so 1 waits, and is not done
    assert roots_of_completed("broadcast", (0, 1, 2, 3), {0: 0, 3: 2}, (1,)) == {}
    assert roots_of_completed("broadcast", (4, 6, 8), {4: 4, 8: 6}, (6,)) == {6: 4}


@pytest.mark.invariant("tasks.S2")
def test_S2_no_root_is_given_where_another_rank_may_have_been_it() -> None:
    assert roots_of_completed("broadcast", (0, 1, 2), {2: 2}, (1,)) == {}  # rank 0 may be one, or have passed it on
    assert roots_of_completed("broadcast", (0, 1, 2), {2: 1}, (0,)) == {0: 1}
    assert roots_of_completed("broadcast", (0, 1, 2), {}, (0, 1)) == {}
    assert roots_of_completed("broadcast", (0, 1), {5: 0}, (1,)) == {}  # a rank of another group
    assert roots_of_completed("gather", (0, 1, 2), {0: 0, 1: 1}, (2,)) == {}  # both may have had it
    assert roots_of_completed("broadcast", tuple(range(100)), {0: 0, 2: 1}, (1,)) == {}


def _look(rank: int, *, done: bool, root: int) -> Look:
    call = PythonCall(ident=1, name="broadcast", group="1", peer=root, tag=None, objects=())
    ring = Ring(entries=(entry(0, 5, "broadcast", done=done),), count=1, whole=True)
    return Look(
        rank=rank,
        process=f"process:box/{rank}",
        rings=(ring,),
        groups={"0": (0, 1, 2), "1": (0, 1, 2)},
        calls=() if done else (call,),
    )


@pytest.mark.invariant("tasks.S2")
def test_S2_the_task_of_a_broadcast_has_the_root_of_the_rank_that_has_left_it() -> None:
    looks = {0: _look(0, done=False, root=0), 1: _look(1, done=True, root=0), 2: _look(2, done=False, root=1)}
    entries = {rank: next(iter(looks[rank].entries)) for rank in (0, 2)}
    stands = Standing(
        group="1", description="dp", sequence=5, entries=entries, passed=(1,), absent=(), unseen=(), members=(0, 1, 2)
    )
    task = collective_task(stands, "", looks, {0: frozenset(), 1: frozenset(), 2: frozenset()}, {})
    facts = call_facts(task)
    assert (facts.inferred, facts.roots) == ((1,), {0: 0, 1: 0, 2: 1})
    posted = structs.replace(next(iter(looks[1].entries)), done=False)  # enqueued, and never waited for
    ring = Ring(entries=(posted,), count=1, whole=True)
    not_done = {**looks, 1: structs.replace(looks[1], rings=(ring,))}
    task = collective_task(stands, "", not_done, {0: frozenset(), 1: frozenset(), 2: frozenset()}, {})
    assert 1 not in call_facts(task).roots


def _stack(*functions: str) -> Stack:
    frames = tuple(Frame(function=one, language="native") for one in functions)
    return Stack(thread="thread:box/1/2", layer="merged", frames=frames, taken_mono_ns=0, source="no stop")


@pytest.mark.invariant("tasks.S3")
def test_S3_who_receives_is_known_by_the_only_thread_that_is_in_the_collective() -> None:
    waits = "gloo::transport::tcp::UnboundBuffer::waitRecv(int*, std::chrono::duration<long>)"
    sends = waits.replace("waitRecv", "waitSend")
    inside = _stack("futex", waits, "gloo::broadcast(gloo::BroadcastOptions&)")
    assert receives("broadcast", [_stack("epoll_wait"), inside])
    assert not receives("broadcast", [inside, inside])  # which of two it is can't be told
    assert not receives("scatter", [inside])
    assert not receives("broadcast", [_stack(sends, "gloo::broadcast(gloo::BroadcastOptions&)")])
