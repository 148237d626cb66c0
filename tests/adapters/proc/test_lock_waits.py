"""Each kind of lock, waited for in a real program: who waits, for what, who holds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from livedbg.model import ThreadState
from livedbg.model.facts import LockFacts, facts_of

Sample = Any
Looker = Callable[..., Sample]


@pytest.mark.parametrize(("mode", "kind"), [("mutex", "normal"), ("recursive", "recursive"), ("robust", "robust")])
def test_cycle_of_three_mutexes(sample: Looker, mode: str, kind: str) -> None:
    seen = sample(mode)
    for waiter, lock, owner in (("t0", "m1", "t1"), ("t1", "m2", "t2"), ("t2", "m0", "t0")):
        mutex = seen.lock_id("mutex", lock)
        assert set(seen.waits(seen.thread_id(waiter))) == {mutex}
        assert set(seen.holders(mutex)) == {seen.thread_id(owner)}
        assert seen.told[owner] in seen.holders(mutex)[seen.thread_id(owner)].evidence
        assert kind in seen.resource(mutex).attributes["kind"]
        assert seen.thread(waiter).waits_in == "pthread_mutex_lock"
        assert seen.thread(waiter).syscall == "futex"
        assert seen.thread(waiter).state is ThreadState.WAITING
    assert seen.waits(seen.thread_id("main")) == {}


def test_pi_mutexes_in_a_cycle_close_although_the_kernel_parked_one(sample: Looker) -> None:
    seen = sample("pi")
    threads = {seen.thread_id(name): int(name[1]) for name in ("t0", "t1", "t2")}
    parked = 0
    for thread, number in threads.items():
        edges = seen.waits(thread).values()
        owner = next(t for t, n in threads.items() if n == (number + 1) % 3)
        reached = {holder for e in edges for holder in seen.holders(e.target)} | {e.target for e in edges}
        assert owner in reached
        if all(edge.inferred for edge in edges):
            parked += 1
            assert all("EDEADLK" in edge.evidence for edge in edges)
        else:
            assert set(seen.waits(thread)) == {seen.lock_id("mutex", f"m{(number + 1) % 3}")}
    assert parked in (1, 2, 3)  # threads that close the cycle at once are all refused


@pytest.mark.parametrize(
    ("mode", "timed"), [("hold", False), ("pi-chain", False), ("errorcheck", False), ("timed", True)]
)
def test_a_thread_waits_for_a_mutex_that_a_sleeping_one_holds(sample: Looker, mode: str, timed: bool) -> None:
    seen = sample(mode)
    mutex = seen.lock_id("mutex", "m0")
    assert seen.waits(seen.thread_id("t1"))[mutex].timed is timed
    assert seen.thread("t1").timed is timed
    assert set(seen.holders(mutex)) == {seen.thread_id("t0")}


def test_a_mutex_whose_owner_has_exited_names_it_and_has_no_holder(sample: Looker) -> None:
    seen = sample("owner-exited")
    mutex = seen.lock_id("mutex", "m0")
    assert mutex in seen.waits(seen.thread_id("t1"))
    assert seen.holders(mutex) == {}
    assert facts_of(seen.resource(mutex).facts, LockFacts).ended_owner == int(seen.told["t0"])


@pytest.mark.parametrize("mode", ["shared-mutex", "shared-robust"])
def test_a_process_shared_mutex_is_held_by_a_thread_of_the_other_process(sample: Looker, mode: str) -> None:
    seen = sample(mode)
    mutex = seen.lock_id("mutex", "lock")
    assert mutex in seen.waits(seen.thread_id("main"))
    child = seen.told["child"]
    assert set(seen.holders(mutex)) == {f"thread:box/{child}/{child}"}
    assert "process-shared" in seen.resource(mutex).attributes["kind"]


@pytest.mark.parametrize(("mode", "timed"), [("cond", False), ("cond-timed", True)])
def test_condition_variable(sample: Looker, mode: str, timed: bool) -> None:
    seen = sample(mode)
    cond = seen.lock_id("cond", "cond")
    assert seen.waits(seen.thread_id("t0"))[cond].timed is timed
    assert seen.thread("t0").waits_in == ("pthread_cond_timedwait" if timed else "pthread_cond_wait")
    assert seen.holders(cond) == {}


def test_condition_variable_on_the_stack_of_who_holds_a_lock(sample: Looker) -> None:
    """It is answered by another thread; a thread that glibc parks in a cycle of PI mutexes waits on its stack, too."""
    seen = sample("asks")
    assert set(seen.waits(seen.thread_id("t0"))) == {seen.lock_id("cond", "cond")}
    assert set(seen.waits(seen.thread_id("t1"))) == {seen.lock_id("mutex", "m0")}


def test_semaphore(sample: Looker) -> None:
    seen = sample("sem")
    assert set(seen.waits(seen.thread_id("t0"))) == {seen.lock_id("sem", "sem")}
    assert seen.thread("t0").waits_in == "sem_wait"


def test_barrier_says_how_many_arrived(sample: Looker) -> None:
    seen = sample("barrier")
    barrier = seen.lock_id("barrier", "bar")
    assert set(seen.waits(seen.thread_id("t0"))) == set(seen.waits(seen.thread_id("t1"))) == {barrier}
    assert seen.resource(barrier).attributes == {"arrived": "2", "needed": "3"}


def test_join_waits_for_the_thread(sample: Looker) -> None:
    seen = sample("join")
    assert set(seen.waits(seen.thread_id("t1"))) == {seen.thread_id("t0")}
    assert seen.thread("t1").waits_in == "pthread_join"


def test_readers_and_writers_wait_for_the_writer_that_holds_a_rwlock(sample: Looker) -> None:
    seen = sample("rwlock-writer")
    lock = seen.lock_id("rwlock", "rw")
    assert set(seen.waits(seen.thread_id("t1"))) == set(seen.waits(seen.thread_id("t2"))) == {lock}
    assert set(seen.holders(lock)) == {seen.thread_id("t0")}
    assert seen.thread("t1").waits_in == "pthread_rwlock_rdlock"
    assert seen.thread("t2").waits_in == "pthread_rwlock_wrlock"


def test_a_writer_waits_for_readers_that_a_rwlock_does_not_name(sample: Looker) -> None:
    seen = sample("rwlock-reader")
    lock = seen.lock_id("rwlock", "rw")
    assert set(seen.waits(seen.thread_id("t1"))) == {lock}
    assert seen.holders(lock) == {}
    assert seen.resource(lock).state == "held by 1 reader"


def test_the_lock_of_a_stdio_stream(sample: Looker) -> None:
    seen = sample("stdio")
    (lock,) = seen.waits(seen.thread_id("t1"))
    assert set(seen.holders(lock)) == {seen.thread_id("t0")}
    assert seen.thread("t1").waits_in == "lock of a stdio stream"


def test_a_futex_of_unknown_use_is_just_a_futex(sample: Looker) -> None:
    seen = sample("raw")
    (futex,) = seen.waits(seen.thread_id("t0"))
    assert futex.startswith("futex:")
    assert seen.holders(futex) == {}
