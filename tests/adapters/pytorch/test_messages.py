"""Messages of gloo as progress: states built by hand."""

from __future__ import annotations

import os
import threading

import pytest
from msgspec import structs

from livedbg.adapters.pytorch.collectives.adapter import Messages
from livedbg.adapters.pytorch.collectives.joined import Look
from livedbg.adapters.pytorch.collectives.python_calls import PythonCall
from livedbg.adapters.pytorch.collectives.ranks import RankSeen
from livedbg.adapters.pytorch.facts import ENQUEUED, MESSAGES
from livedbg.analysis import VerdictState
from livedbg.model import events as ev
from tests.analysis.world import SECOND, World


def ring(*, stuck: bool = False, silent: bool = False, ago_s: int = 1) -> World:
    """Three ranks without collectives, which exchange messages; the last one's main thread may be in one wait."""
    world = World()
    for rank in range(3):
        process = world.process(10 + rank)
        world.thread(10 + rank, pid=10 + rank, waits_in="Queue.get" if stuck and rank == 2 else "sleep", timed=False)
        for name in (ENQUEUED, MESSAGES):
            world.store.apply(ev.CounterSeen(entity=process, name=name, value=0.0, **world.stamp()))
    world.now_ns += 20 * SECOND
    for rank in range(3):
        if not (stuck and rank == 2):
            world.thread(10 + rank, pid=10 + rank, waits_in="recv", timed=False)
        if not (silent and rank == 2):
            event = ev.CounterSeen(entity=f"process:box/{10 + rank}", name=MESSAGES, value=64.0, **world.stamp())
            world.store.apply(event)
    return world.later(ago_s * SECOND)


@pytest.mark.invariant("rules_progress.P1")
def test_P1_ranks_that_exchange_messages_go_on() -> None:
    one = ring().found("collective-progress")
    assert one.state is VerdictState.RUNNING
    assert one.sentence == "Running: all 3 ranks have exchanged messages in 21 s of watching."
    assert ring(silent=True).finding("collective-progress") is None
    assert ring(ago_s=11).finding("collective-progress") is None


@pytest.mark.invariant("rules_progress.P2")
def test_P2_helpers_may_exchange_messages_while_a_main_thread_is_stuck() -> None:
    assert ring(stuck=True).finding("collective-progress") is None


def seen(*calls: str) -> RankSeen:
    """This process as a rank whose thread is in these calls."""
    own = PythonCall(ident=7, name="", group="0", peer=1, tag=0, objects=())
    called = tuple(structs.replace(own, name=name) for name in calls)
    look = Look(rank=0, process=f"process:box/{os.getpid()}", rings=(), groups={}, calls=called)
    return RankSeen(look, {7: threading.get_native_id()})


@pytest.mark.invariant("collectives_adapter.M1")
def test_M1_what_a_thread_writes_counts_only_while_it_is_in_messages() -> None:
    messages = Messages()
    file = os.open(os.devnull, os.O_WRONLY)
    totals = []
    for calls in (("recv",), ("recv",), (), ("recv",), ("broadcast",), ("work",), ("work",)):
        totals.append(messages.of(seen(*calls), ()))
        os.write(file, bytes(100))
    os.close(file)
    assert totals == [0, 100, 100, 100, 100, 100, 200]
    messages.keep(())
    assert messages.of(seen("recv"), ()) == 0
