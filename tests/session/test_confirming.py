"""Claims are read again by the session before they are reported."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence

import pytest

from livedbg.analysis import VerdictState
from livedbg.linux.ending import blocked_call, has_ended, runs_if_blocked
from livedbg.model import Edge, EdgeKind, Process, Resource, Thread, ThreadState
from livedbg.model.claims import Claim
from livedbg.model.errors import TargetGone
from livedbg.model.events import ClaimsRead, EdgesReplaced, Event, ProcessSeen, ResourcesSeen, ThreadsSeen
from livedbg.model.snapshot import EMPTY
from livedbg.session.adapter import Adapter, Context, Request
from livedbg.session.confirming import AGAIN, IN_VAIN, Confirming
from livedbg.session.live import LiveView
from livedbg.session.rulebook import diagnose
from livedbg.session.view import Update
from livedbg.state.store import Store
from tests.conftest import Target, eventually

REQUEST = Request(host="box", once=True)
"""The threads are of another host: they are not looked up here."""
PID, TIDS = 4, (41, 42)


def thread_of(tid: int, runs: int = 3) -> Thread:
    """A thread that waits for a mutex."""
    return Thread(
        id=f"thread:elsewhere/{PID}/{tid}",
        process=f"process:elsewhere/{PID}",
        tid=tid,
        state=ThreadState.WAITING,
        syscall="futex",
        waits_in="pthread_mutex_lock",
        timed=False,
        switches=runs,
    )


class Crossed(Adapter):
    """Shows two threads in a cycle of mutexes, which its two readings joined; read again, they are as is wished.

    Args:
        again: what each reading but the first finds: whether the cycle is there, and how often the threads have run.
    """

    name = "crossed"
    sees = "a cycle"
    cost = "none"

    def __init__(self, again: Callable[[int], tuple[bool, int]]) -> None:
        self.again = again
        self.readings = 0

    async def run(self, context: Context) -> None:
        process = Process(id=f"process:elsewhere/{PID}", host="elsewhere", pid=PID, named=True)
        context.emit(ProcessSeen(process=process, **context.stamp()))
        self.show(context, there=True, runs=3)
        context.settled()

    async def reread(self, context: Context) -> None:
        self.readings += 1
        there, runs = self.again(self.readings)
        self.show(context, there=there, runs=runs)

    def show(self, context: Context, *, there: bool, runs: int) -> None:
        threads = tuple(thread_of(tid, runs) for tid in TIDS)
        locks = [f"mutex:elsewhere/{PID}/{at:#x}" for at in (16, 32)]
        edges = [
            Edge(kind=kind, source=thread.id, target=lock)
            for thread, held, wanted in zip(threads, locks, reversed(locks), strict=True)
            for kind, lock in ((EdgeKind.HOLDS, held), (EdgeKind.WAITS_FOR, wanted))
        ]
        context.emit(
            ThreadsSeen(threads=threads, **context.stamp()),
            ResourcesSeen(resources=tuple(Resource(id=lock, kind="mutex") for lock in locks), **context.stamp()),
            EdgesReplaced(scope="crossed", edges=tuple(edges if there else edges[:2]), **context.stamp()),
        )


def session(adapter: Adapter) -> tuple[list[Update], list[Event]]:
    """All updates and events of a session that samples once."""
    updates: list[Update] = []
    events: list[Event] = []

    def sink(batch: Sequence[Event]) -> None:
        events.extend(batch)

    view = LiveView(REQUEST, adapters=[adapter], sink=sink)
    view.subscribe(updates.append)
    view.start()
    assert view.wait_ended(100)
    view.stop()
    return updates, events


@pytest.mark.invariant("session.N7")
def test_N7_a_claim_that_does_not_hold_when_it_is_read_again_is_in_no_update() -> None:
    adapter = Crossed(lambda _number: (False, 3))
    updates, events = session(adapter)
    assert adapter.readings == 1
    assert updates[-1].snapshot.threads and not any(update.diagnosis.findings for update in updates)
    assert not any(event.claims for event in events if isinstance(event, ClaimsRead))


@pytest.mark.invariant("session.N7")
def test_N7_the_first_full_sample_has_the_claims_that_hold() -> None:
    adapter = Crossed(lambda _number: (True, 3))
    updates, events = session(adapter)
    assert updates[-1].diagnosis.verdict.state is VerdictState.DEADLOCK and adapter.readings == 1
    store = Store()
    store.apply_all(events)  # as a recording has it
    assert diagnose(store.snapshot()).verdict == updates[-1].diagnosis.verdict


@pytest.mark.invariant("confirming.K1")
def test_K1_a_thread_that_ran_before_it_was_read_again_has_the_claim_read_once_more() -> None:
    adapter = Crossed(lambda number: (True, 3 + min(number, 2)))
    updates, _ = session(adapter)
    assert adapter.readings == 3  # it runs twice: the third reading finds what the second one left
    assert updates[-1].diagnosis.verdict.state is VerdictState.DEADLOCK


@pytest.mark.invariant("claims.C3")
def test_C3_a_claim_whose_threads_run_all_the_time_is_not_certain() -> None:
    adapter = Crossed(lambda number: (True, 3 + number))
    updates, _ = session(adapter)
    assert adapter.readings >= IN_VAIN and updates[-1].diagnosis.verdict.state is VerdictState.UNKNOWN
    assert not any(update.diagnosis.verdict.state is VerdictState.DEADLOCK for update in updates)


@pytest.mark.invariant("confirming.K3")
@pytest.mark.parametrize("error", [TargetGone("Gone."), OSError(11, "it changes too fast"), ZeroDivisionError("a bug")])
def test_K3_what_can_not_be_read_again_is_not_certain(error: Exception) -> None:
    def again(_number: int) -> tuple[bool, int]:
        raise error

    adapter = Crossed(again)
    updates, _ = session(adapter)
    assert adapter.readings >= IN_VAIN and updates[-1].diagnosis.verdict.state is VerdictState.UNKNOWN
    assert not any(update.diagnosis.verdict.state is VerdictState.DEADLOCK for update in updates)


WAITER = """
import os, sys, threading
lock = threading.Lock()
lock.acquire()
thread = threading.Thread(target=lock.acquire, daemon=True)
thread.start()
print(thread.native_id, flush=True)
sys.stdin.readline()
lock.release()
thread.join()
print("over", flush=True)
sys.stdin.readline()
"""


@pytest.mark.invariant("confirming.K1")
def test_K1_a_real_thread_that_runs_meanwhile_refutes_the_claim(spawn: Callable[..., Target]) -> None:
    target = spawn([sys.executable, "-c", WAITER], wait_for=None)
    tid = int(target.line())
    eventually(lambda: runs_if_blocked(target.pid, tid) is not None)
    runs = runs_if_blocked(target.pid, tid)
    assert runs is not None
    name = f"thread:box/{target.pid}/{tid}"
    claim = Claim("some-rule", {name: runs})
    confirming = Confirming("box")
    reading = confirming.begin([claim], EMPTY)
    assert confirming.end(reading, {claim.key: claim}, EMPTY) == (claim,)
    reading = confirming.begin([claim], EMPTY)
    assert confirming.end(reading, {}, EMPTY) == ()  # nobody claims it any more
    reading = confirming.begin([claim], EMPTY)
    target.stdin.write(b"go\n")
    target.stdin.flush()
    assert target.line() == "over"
    assert confirming.end(reading, {claim.key: claim}, EMPTY) == ()
    eventually(lambda: runs_if_blocked(target.pid, tid) is None and has_ended(target.pid, tid))


@pytest.mark.invariant("confirming.K1")
def test_K1_who_is_said_to_have_ended_must_be_gone() -> None:
    here, gone = f"thread:box/{os.getpid()}/{threading.get_native_id()}", f"thread:box/{os.getpid()}/{2**22}"
    confirming = Confirming("box")
    for name, holds in ((here, False), (gone, True)):
        claim = Claim("dead-owner", {}, (name,))
        reading = confirming.begin([claim], EMPTY)
        assert bool(confirming.end(reading, {claim.key: claim}, EMPTY)) is holds


INTERRUPTED = """
import os, signal, sys, threading
signal.signal(signal.SIGUSR1, lambda *_: None)
lock = threading.Lock()
lock.acquire()
print(threading.get_native_id(), flush=True)
lock.acquire()
"""


@pytest.mark.invariant("confirming.K2")
def test_K2_a_wait_that_signals_interrupt_has_to_stand_several_readings(spawn: Callable[..., Target]) -> None:
    target = spawn([sys.executable, "-c", INTERRUPTED], wait_for=None)
    tid = int(target.line())
    name = f"thread:box/{target.pid}/{tid}"
    confirming = Confirming("box")
    confirmed: list[bool] = []
    eventually(lambda: blocked_call(target.pid, tid) is not None)
    for _ in range(AGAIN):
        before = runs_if_blocked(target.pid, tid)
        assert before is not None
        claim = Claim("lock-cycle", {name: before})
        reading = confirming.begin([claim], EMPTY)
        os.kill(target.pid, 10)
        eventually(lambda before=before: (runs_if_blocked(target.pid, tid) or before) != before)
        confirmed.append(bool(confirming.end(reading, {claim.key: claim}, EMPTY)))
    assert confirmed == [False] * (AGAIN - 1) + [True]


def test_a_process_under_a_number_that_was_used_again_has_ended() -> None:
    assert not has_ended(os.getpid())
    assert has_ended(os.getpid(), start_ticks=1)
    assert has_ended(2**22)
