"""Claims of living processes are reported only once they were read again."""

from __future__ import annotations

import pytest
from msgspec import structs

from livedbg.analysis import VerdictState
from livedbg.analysis.engine import claim_of
from livedbg.model import Edge, EdgeKind, ThreadState
from livedbg.model import events as ev
from livedbg.model.claims import Claim
from livedbg.model.facts import LockFacts
from livedbg.session.rulebook import diagnose
from livedbg.state.store import Store
from tests.analysis.world import SECOND, World

A, B = "thread:box/1/11", "thread:box/1/12"


def crossed(*, timed: bool = False, runs: int = 5) -> World:
    """Two threads in a cycle of two mutexes."""
    world = World()
    world.process(1)
    for tid in (11, 12):
        world.thread(tid, timed=timed, switches=runs)
    first, second = world.resource("mutex:box/1/0x10"), world.resource("mutex:box/1/0x20")
    for thread, held, wanted in ((A, first, second), (B, second, first)):
        world.edge(EdgeKind.HOLDS, thread, held)
        world.edge(EdgeKind.WAITS_FOR, thread, wanted)
    return world.later()


def begin(world: World) -> None:
    """Somebody reads claims again from now on."""
    world.store.apply(ev.ClaimsRead(**world.stamp()))


def made(world: World) -> Claim:
    """The one claim that the diagnosis makes."""
    (claim,) = diagnose(world.store.snapshot()).claims.values()
    return claim


@pytest.mark.invariant("claims.C1")
def test_C1_a_claim_is_held_back_until_it_was_read_again() -> None:
    world = crossed()
    assert diagnose(world.store.snapshot()).verdict.state is VerdictState.DEADLOCK  # nobody reads anything again
    begin(world)
    held = diagnose(world.store.snapshot())
    assert held.verdict.state is not VerdictState.DEADLOCK and not held.findings
    assert held.unread == held.claims.keys() and len(held.claims) == 1
    world.store.apply(ev.ClaimsRead(claims=(made(world),), **world.stamp()))
    said = diagnose(world.store.snapshot())
    assert said.verdict.state is VerdictState.DEADLOCK and not said.unread
    world.store.apply(ev.ClaimsRead(withdrawn=tuple(said.claims), **world.stamp()))
    assert not diagnose(world.store.snapshot()).findings


@pytest.mark.invariant("claims.C3")
def test_C3_a_claim_that_can_not_be_confirmed_is_unknown_and_says_why() -> None:
    world = crossed()
    begin(world)
    uncertain = structs.replace(made(world), confirmed=False)
    world.store.apply(ev.ClaimsRead(claims=(uncertain,), **world.stamp()))
    said = diagnose(world.store.snapshot())
    assert said.verdict.state is VerdictState.UNKNOWN and said.unread == said.claims.keys()
    assert "not certain: it could not be read twice" in said.verdict.sentence


@pytest.mark.invariant("claims.C2")
def test_C2_a_thread_that_has_run_has_the_claim_read_again_and_meanwhile_it_stands() -> None:
    world = crossed()
    begin(world)
    world.store.apply(ev.ClaimsRead(claims=(made(world),), **world.stamp()))
    world.thread(11, timed=False, switches=6)
    again = diagnose(world.store.snapshot())
    assert again.verdict.state is VerdictState.DEADLOCK and again.unread == again.claims.keys()


@pytest.mark.invariant("claims.C2")
def test_C2_only_threads_that_can_not_have_run_if_they_wait_are_compared() -> None:
    world = crossed()
    snapshot = world.store.snapshot()
    (found,) = diagnose(snapshot).findings.values()
    both = claim_of(found, snapshot)
    assert both is not None and both.still == {A: 5, B: 5}
    world.thread(12, timed=True, switches=5)
    world.thread(11, timed=False, switches=None)
    (finding,) = diagnose(world.store.snapshot()).findings.values()
    claim = claim_of(finding, world.store.snapshot())
    assert claim is not None and claim.still == {}


@pytest.mark.invariant("claims.C2")
def test_C2_who_waits_for_the_gil_wakes_to_ask_for_it() -> None:
    world = crossed()
    gil = world.resource("gil:box/1/0x30")
    world.edge(EdgeKind.WAITS_FOR, B, gil)
    snapshot = world.store.snapshot()
    claims = [claim_of(finding, snapshot) for finding in diagnose(snapshot).findings.values()]
    assert [claim.still for claim in claims if claim is not None] == [{A: 5}]


def test_an_owner_that_has_ended_is_part_of_the_claim() -> None:
    world = World()
    world.process(1)
    waiter = world.thread(11, timed=False, switches=2)
    lock = world.resource("mutex:box/1/0x10", facts=LockFacts(ended_owner=77))
    world.edge(EdgeKind.WAITS_FOR, waiter, lock)
    begin(world.later())
    assert made(world).gone == ("thread:box/1/77",)
    other = world.resource("mutex:box/1/0x10", facts=LockFacts(ended_owner=78))
    assert other == lock and "thread:box/1/78" in made(world).key  # another owner is another claim


def test_what_has_ended_or_was_written_is_no_claim() -> None:
    world = crossed()
    begin(world)
    world.store.apply(ev.ProcessExited(id="process:box/1", status=1, **world.stamp()))
    assert not diagnose(world.store.snapshot()).claims


def test_a_keyframe_has_the_claims() -> None:
    world = crossed()
    begin(world)
    world.store.apply(ev.ClaimsRead(claims=(made(world),), **world.stamp()))
    other = Store()
    other.apply_all(world.store.keyframe())
    assert other.snapshot().claims == world.store.snapshot().claims != {}
    assert world.store.copy().snapshot().claims == world.store.snapshot().claims


def test_a_wait_of_a_moment_is_not_said_of_a_deadlock() -> None:
    world = crossed()
    assert "waited for 0.3 s or more" in world.found("lock-cycle").sentence
    world.thread(11, timed=False, switches=6, cpu_ns=1)
    assert "waited" not in world.found("lock-cycle").sentence


@pytest.mark.invariant("store.F7")
def test_F7_a_thread_with_the_number_of_another_has_not_waited_for_it() -> None:
    world = World()
    world.process(1)
    world.thread(11, timed=False, switches=9)
    old = structs.replace(world.threads[A], start_ticks=100)
    world.store.apply(ev.ThreadsSeen(threads=(old,), **world.stamp()))
    world.now_ns += 60 * SECOND
    world.store.apply(ev.ThreadsSeen(threads=(structs.replace(old, cpu_ns=1),), **world.stamp()))
    before = world.store.snapshot().activity[A]
    assert before.cpu_total_ns == 1 and before.first_mono_ns < world.now_ns
    world.store.apply(ev.ThreadsSeen(threads=(structs.replace(old, start_ticks=101),), **world.stamp()))
    now = world.store.snapshot().activity[A]
    assert now.first_mono_ns == now.waiting_since_mono_ns == world.now_ns and now.cpu_total_ns == 0


@pytest.mark.invariant("store.F7")
def test_F7_a_process_with_the_number_of_another_begins_anew() -> None:
    world = World()
    process = world.process(1)
    world.thread(11)
    world.thread(12)
    edge = Edge(kind=EdgeKind.WAITS_FOR, source=A, target="thread:box/1/12")
    world.store.apply(ev.EdgesReplaced(scope=f"proc/{process}", edges=(edge,), **world.stamp()))
    count = ev.CounterSeen(entity=process, name="units", value=7, **world.stamp())
    world.store.apply(count)
    snapshot = world.store.snapshot()
    known = snapshot.processes[process]
    world.store.apply(ev.ProcessSeen(process=structs.replace(known, start_ticks=5), **world.stamp()))
    again = world.store.snapshot()
    assert snapshot.counters and snapshot.edges and snapshot.threads
    assert not again.counters and not again.threads and not again.edges


def test_a_thread_that_runs_is_not_compared() -> None:
    world = crossed()
    world.thread(11, state=ThreadState.RUNNING, switches=9)
    claims = [claim_of(one, world.store.snapshot()) for one in diagnose(world.store.snapshot()).findings.values()]
    assert all(A not in claim.still for claim in claims if claim is not None)
