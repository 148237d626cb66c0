"""Edges of the rules of locks and deadlocks: who is counted, who is named, and what hides nothing that comes after."""

from __future__ import annotations

import pytest

from livedbg.analysis import Finding, VerdictState
from livedbg.analysis.rules.base import Settings
from livedbg.model import EdgeKind, Severity, TaskState, ThreadState
from livedbg.model.facts import LockFacts
from livedbg.session.rulebook import diagnostician
from tests.analysis.test_burning import Busy
from tests.analysis.test_file_locks import held
from tests.analysis.test_verdicts import EVENT, forked, gil, holder
from tests.analysis.world import LOOK, SECOND, World

ONE = "process:box/1"


def by_rule(world: World, rule: str, threshold_s: float = 10.0) -> list[Finding]:
    diagnosis = diagnostician(Settings(thread_stall_s=threshold_s)).diagnose(world.snapshot())
    return [finding for finding in diagnosis.findings.values() if finding.rule == rule]


def dead_owner(waiters: int) -> Finding:
    world = World()
    world.process(1)
    lock = world.lock(0x10, facts=LockFacts(ended_owner=99))
    for number in range(waiters):
        world.waits(world.thread(11 + number), lock)
    return world.later().found("dead-owner")


@pytest.mark.parametrize(
    ("waiters", "more"),
    [(1, "release it."), (2, "release it. 1 more thread waits for it."), (3, " 2 more threads wait for it.")],
)
def test_those_who_wait_beside_the_named_one_are_counted(waiters: int, more: str) -> None:
    sentence = dead_owner(waiters).sentence
    assert sentence.endswith(more) and sentence.startswith("Thread 11 waits for a mutex whose owner, thread 99, has")
    world = forked(0, 1)
    for number in range(waiters - 1):
        world.waits(world.thread(30 + number, pid=2), "pylock:box/2/0x10")
    assert f"{more} At the fork" in world.later().found("fork-held-lock").sentence


def test_of_a_lock_without_an_owner_eight_waits_are_evidence_and_two_processes_are_next() -> None:
    assert [len(dead_owner(waiters).evidence) for waiters in (7, 8, 9)] == [7, 8, 8]
    world = World()
    lock = world.lock(0x10, facts=LockFacts(ended_owner=99))
    for pid in (1, 2, 3):
        world.process(pid)
        world.waits(world.thread(pid, pid=pid), lock)
    steps = world.later().found("dead-owner").next
    assert steps[:2] == ("livedbg stacks 1 --native", "livedbg stacks 2 --native") and len(steps) == 3


def test_the_root_of_a_lock_of_the_fork_is_the_thread_that_is_named() -> None:
    world = forked(0, 1)
    for number in (30, 31):
        world.waits(world.thread(number, f"w{number}", pid=2), "pylock:box/2/0x10")
    found = world.later().found("fork-held-lock")
    thread, lock = found.roots
    assert found.sentence.startswith(f"Thread {thread.rpartition('/')[2]} ") and lock == "pylock:box/2/0x10"
    assert found.entities[:2] == (lock, thread) and len(found.entities) == 4
    assert len(found.evidence) == 4  # each wait, and what the memory says of the lock


@pytest.mark.parametrize(
    ("owner", "parent", "found"),
    [
        (7, 1, "fork-held-lock"),  # a living thread of the parent has that number
        (8, 1, "dead-owner"),
        (7, None, "dead-owner"),
        (None, 1, None),
    ],
)
def test_who_held_a_lock_at_the_fork(owner: int | None, parent: int | None, found: str | None) -> None:
    world = World()
    world.process(1)
    world.thread(7, "keeper", waits_in="sem_wait")
    world.process(2, ppid=parent)
    world.waits(world.thread(2, pid=2), world.lock(0x10, pid=2, facts=LockFacts(ended_owner=owner)))
    rules = {finding.rule for finding in world.later(20 * SECOND).diagnosis().findings.values()}
    assert rules & {"fork-held-lock", "dead-owner"} == ({found} if found else set())
    if found == "fork-held-lock":
        sentence = world.found(found).sentence
        assert "no thread of the child can release it." in sentence
        assert sentence.endswith("At the fork, thread 7 (keeper) of the parent process held it.")
        assert not world.found(found).inferred


def test_a_lock_of_no_process_was_not_held_at_a_fork() -> None:
    world = World()
    world.process(1)
    world.waits(world.thread(11), world.resource("flock:box/fe:00:7", "locked", facts=LockFacts(ended_owner=99)))
    world.waits(world.thread(12), world.resource("mutex:shm", "locked", facts=LockFacts(ended_owner=99)))
    unseen = world.lock(0x10, pid=9, facts=LockFacts(ended_owner=99))  # in memory of a process that is not known
    world.waits(world.thread(13), unseen)
    assert {finding.roots for finding in by_rule(world.later(), "dead-owner")} >= {(unseen,)}
    assert len(by_rule(world, "dead-owner")) == 3 and world.finding("fork-held-lock") is None


def test_a_living_owner_beside_one_that_has_ended() -> None:
    world = World()
    world.process(1)
    lock = world.lock(0x10, "rwlock")
    world.holds(lock, world.thread(13, waits_in="read of socket 3"), world.thread(14, state=ThreadState.ZOMBIE))
    world.waits(world.thread(11), lock)
    assert "whose owner, thread 14, has ended" in world.later().found("dead-owner").sentence
    world.thread(14, state=ThreadState.WAITING)
    assert world.later().finding("dead-owner") is None


def test_a_stall_is_more_severe_than_what_may_be_one() -> None:
    sure, note = (
        holder(EVENT, 20 * SECOND).found("held-lock"),
        holder("read of socket 3", 20 * SECOND).found("held-lock"),
    )
    assert sure.severity is Severity.ERROR and not any("watch" in step for step in sure.next)
    assert note.severity is Severity.WARNING and note.next[-1].startswith("livedbg watch 1 ")


def test_a_lock_whose_holder_waits_does_not_hide_one_whose_holder_runs() -> None:
    world = holder("read of socket 3", SECOND)
    for number in (14, 15):  # more behind the first one, so that it comes first
        world.waits(world.thread(number), "mutex:box/1/0x10")
    kept, runs = world.lock(0x40), world.thread(16, "runs", state=ThreadState.RUNNING)
    world.holds(kept, runs)
    world.waits(world.thread(17), kept)
    found = world.later().found("lock-convoy")
    assert (found.roots, found.entities) == ((runs,), (runs, kept, "thread:box/1/17"))
    assert found.sentence == "Thread 16 (runs) holds a mutex and is running; 1 thread waits for it."


@pytest.mark.parametrize("state", [ThreadState.STOPPED, ThreadState.TRACED, ThreadState.ZOMBIE, ThreadState.RUNNING])
def test_a_holder_that_is_not_blocked_in_a_call_is_left_to_other_rules(state: ThreadState) -> None:
    world = holder("read of socket 3", 20 * SECOND)
    world.thread(11, state=state, waits_in="read of socket 3")
    assert world.later(20 * SECOND).finding("held-lock") is None
    assert gil(state, watched_ns=20 * SECOND).finding("gil-held") is None


def test_a_lock_that_is_no_finding_hides_no_other_of_the_same_rule() -> None:
    """One holder waits with a time limit for somebody, one holds the GIL; the third one's lock comes after these."""
    world = World()
    world.process(1)
    runs = world.thread(11, "runs", state=ThreadState.RUNNING)
    hog, keeper = (world.thread(tid, name, waits_in="read of socket 3") for tid, name in ((12, "hog"), (13, "keeper")))
    locks = (world.lock(0x10), world.lock(0x20, "gil"), world.lock(0x30), world.lock(0x40))
    for number, (lock, owner) in enumerate(zip(locks, (runs, hog, keeper, keeper), strict=True)):
        world.holds(lock, owner)
        for tid in range(10 - 2 * number):  # the first of them has most behind it
            world.waits(world.thread(100 * (1 + number) + tid), lock)
    found = by_rule(world.later(20 * SECOND), "held-lock")
    assert [finding.roots for finding in found] == [(keeper,)]
    assert found[0].entities[1] == locks[2]  # the one of its two with more behind it


def test_who_does_not_sleep_holds_the_gil_for_long_from_the_threshold_on() -> None:
    short = gil(ThreadState.WAITING, watched_ns=300_000_000)
    assert not by_rule(short, "gil-held", threshold_s=0.5) and by_rule(short, "gil-held", threshold_s=0.3)
    sleeps = gil(ThreadState.WAITING, "sleep 0.5 s", watched_ns=300_000_000)
    assert by_rule(sleeps, "gil-held", threshold_s=0.5) and not by_rule(sleeps, "gil-held", threshold_s=0.6)


def test_a_holder_in_a_deadlock_is_left_to_the_deadlock() -> None:
    world = holder("pthread_mutex_lock", 20 * SECOND)
    other = world.lock(0x20)
    world.holds(other, "thread:box/1/12")
    world.waits("thread:box/1/11", other)
    world.waits(world.thread(13), other)
    world.later(20 * SECOND)
    assert world.found("lock-cycle") and world.finding("held-lock") is None
    world.thread(11, state=ThreadState.RUNNING)
    assert world.later().finding("lock-convoy") is None


def test_what_is_no_lock_is_held_by_nobody_and_hides_no_lock() -> None:
    world = World()
    world.process(1)
    pipe = world.resource("pipe:box/7", "empty")
    world.holds(pipe, world.thread(11, waits_in="sleep 3600 s"))
    world.waits(world.thread(12), pipe)
    assert world.later(20 * SECOND).finding("held-lock") is None
    lock, keeper = world.lock(0x10), world.thread(13, waits_in="read of socket 3")
    world.holds(lock, keeper)
    world.waits(world.thread(14), lock)
    assert world.later(20 * SECOND).found("held-lock").roots == (keeper,)


def test_only_file_locks_are_file_locks_and_one_in_a_deadlock_is_left_to_that() -> None:
    for lock, found in (("flock:box/fe:00:7:10-19", True), ("mutex:box/2/0x10", False)):
        world = World()
        for pid in (1, 2):
            world.process(pid, threads=1, outside="handles SIGTERM")
        world.waits(world.thread(1, waits_in="fcntl lock of /tmp/f", timed=False), world.resource(lock, "locked"))
        world.holds(lock, "process:box/2")
        theirs = world.thread(2, pid=2, waits_in="read of pipe 3", timed=False)
        assert (world.later(20 * SECOND).finding("file-lock-held") is not None) == found
        world.waits(theirs, "thread:box/1/1")
        world.later(20 * SECOND)
        assert world.diagnosis().verdict.state is VerdictState.DEADLOCK and world.finding("file-lock-held") is None


def test_a_deadlock_through_the_end_of_a_process() -> None:
    world = World()
    for pid in (1, 2):
        world.process(pid, threads=1, outside="")
    world.waits(world.thread(1, "parent", waits_in="waitpid"), "process:box/2")
    world.waits(world.thread(2, "child", pid=2, waits_in="pthread_join"), "thread:box/1/1")
    sentence = world.later().found("join-cycle").sentence
    assert sentence.startswith("Deadlock of 2 threads that wait for each other to end: child → parent → child.")


@pytest.mark.parametrize(("timed", "call", "stalled"), [
    (True, EVENT, False), (False, EVENT, True), (True, "sleep 3600 s", True),
])  # fmt: skip
def test_a_holder_that_may_give_up_releases_its_lock(timed: bool, call: str, stalled: bool) -> None:
    world = World()
    world.process(1)
    me, lock = world.thread(11, waits_in=call, timed=timed), world.lock(0x10)
    world.holds(lock, me)
    world.waits(world.thread(12), lock)
    world.waits(me, world.resource("cond:box/1/0x90"))
    expected = VerdictState.STALLED if stalled else VerdictState.UNKNOWN
    assert world.later(20 * SECOND).found("held-lock").state is expected


def test_who_holds_the_gil_and_has_a_time_limit_is_no_stall() -> None:
    assert gil(ThreadState.WAITING, timed=True, watched_ns=20 * SECOND).finding("gil-held") is None
    found = gil(ThreadState.WAITING, timed=False, watched_ns=20 * SECOND).found("gil-held")
    assert found.sentence.endswith("blocked in read of socket 3 for 20 s or more; 1 thread can't run Python.")
    assert found.roots == ("thread:box/1/11",) and found.entities[2:] == ("thread:box/1/12",)


def test_a_deadlock_takes_the_holder_of_the_gil_that_is_in_it_and_no_other() -> None:
    world = gil(ThreadState.WAITING, watched_ns=20 * SECOND)
    hog, waiter = "thread:box/1/11", "thread:box/1/12"
    a, b = world.thread(21, "a"), world.thread(22, "b")
    world.waits(a, b)
    world.waits(b, a)
    assert world.later(20 * SECOND).found("gil-held").roots == (hog,)
    world.waits(hog, waiter)
    assert world.later(20 * SECOND).finding("gil-held") is None and world.found("gil-cycle")


def closed(world: World, pid: int, *, ppid: int | None = None, others: int = 0) -> str:
    """A process that nothing can wake."""
    me = world.process(pid, ppid=ppid, threads=1 + others, outside="")
    for tid in range(pid, pid + 1 + others):
        world.thread(tid, f"t{tid}", pid=pid, waits_in="sem_wait", timed=False, wakers=(me,))
    return me


@pytest.mark.parametrize(("apart_ns", "found"), [(200_000_000 - 1, False), (200_000_000, True)])
def test_nothing_can_wake_a_process_is_said_from_two_samples_on(apart_ns: int, found: bool) -> None:
    world = World()
    closed(world, 1)
    world.later(apart_ns)
    assert bool(by_rule(world, "no-waker", threshold_s=0.1)) == found


def test_of_many_processes_that_nothing_can_wake_the_rest_is_one_finding() -> None:
    world = World()
    for number in range(18):
        closed(world, 100 * (1 + number), others=number)
    found = by_rule(world.later(20 * SECOND), "no-waker")
    assert len(found) == 17
    [rest] = [finding for finding in found if finding.sentence == "Nothing can wake 2 more processes."]
    named = {finding.entities[0] for finding in found if finding is not rest}
    assert len(rest.entities) == 2 and not named & set(rest.entities)
    assert all(name.split("/")[1] == name.split("/")[2] for name in rest.entities)  # their main threads
    assert (rest.state, rest.severity) == (VerdictState.STALLED, Severity.ERROR)


def test_of_a_set_of_three_processes_two_are_the_next_step() -> None:
    world = World()
    for pid in (1, 2, 3):
        world.process(pid, threads=1, outside="")
        world.thread(pid, pid=pid, waits_in="sem_wait", timed=False, wakers=(f"process:box/{pid % 3 + 1}",))
    found = world.later(20 * SECOND).found("no-waker")
    assert found.next == ("livedbg stacks 1 --native", "livedbg stacks 2 --native")
    assert found.sentence.endswith("nothing can wake these 3 processes.")
    assert len(found.roots) == 3 and len(found.evidence) == 6


def test_of_several_children_at_work_the_first_is_named() -> None:
    world = World()
    closed(world, 1)
    for pid in (2, 3):
        world.process(pid, ppid=1)
        world.thread(pid, pid=pid, waits_in="read of socket 3")
    world.later(20 * SECOND)
    for pid in (2, 3):
        world.thread(pid, pid=pid, waits_in="read of socket 3", cpu_ns=SECOND)
    found = world.later(SECOND).found("no-waker")
    assert "but process 2 (prog2), a child, makes progress" in found.sentence
    assert (found.severity, found.state, found.roots) == (Severity.INFO, None, ())


def test_who_waits_for_a_deadlock_s_outsider_as_well_is_told_in_its_order() -> None:
    world = World()
    world.process(1)
    a, b, c = (world.thread(11 + number, name) for number, name in enumerate("abc"))
    outsider = world.thread(9, "free", waits_in="sleep 3600 s")
    for one, other in ((a, b), (b, c), (c, a)):
        world.waits(one, other)
        world.edge(EdgeKind.WAITS_FOR, one, outsider)
    sentence = world.later().found("join-cycle").sentence
    assert sentence.startswith("Deadlock of 3 threads that wait for each other to end: a → b → c → a.")


def ring_of_tasks(count: int) -> World:
    world = World()
    names = [world.task(f"t{number:03}", TaskState.SUBMITTED, None, kernel="") for number in range(count)]
    for one, other in zip(names, [*names[1:], names[0]], strict=True):
        world.edge(EdgeKind.DEPENDS_ON, one, other)
    return world


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (2, "t000 → t001 → t000."),
        (6, "t000 → t001 → t002 → t003 → t004 → t005 → t000."),
        (7, "t000 → t001 → t002 → t003 → t004 → t005 → … → t000."),
    ],
)
def test_a_ring_is_told_as_one_as_far_as_a_sentence_goes(count: int, words: str) -> None:
    assert ring_of_tasks(count).found("task-cycle").sentence == f"Deadlock of {count} tasks: {words}"


@pytest.mark.parametrize("count", [3, 6])
def test_a_ring_with_a_short_cut_is_no_ring(count: int) -> None:
    world = ring_of_tasks(count)
    world.edge(EdgeKind.DEPENDS_ON, f"task:nvfuser/t{count - 1:03}", "task:nvfuser/t001")
    names = ", ".join(f"t{number:03}" for number in range(count))
    assert world.found("task-cycle").sentence == f"Deadlock of {count} tasks: {names}."


def test_of_a_long_cycle_two_hundred_waits_are_evidence() -> None:
    assert [len(ring_of_tasks(count).found("task-cycle").evidence) for count in (199, 200, 201)] == [199, 200, 200]


@pytest.mark.parametrize(
    ("behind", "words"), [(0, "a."), (1, "a; 1 more waits behind them."), (2, "a; 2 more wait behind them.")]
)
def test_those_behind_a_deadlock_are_counted(behind: int, words: str) -> None:
    world = World()
    world.process(1)
    a, b = world.thread(11, "a"), world.thread(12, "b")
    world.waits(a, b)
    world.waits(b, a)
    for number in range(behind):
        world.waits(world.thread(20 + number), a)
    assert f"a → b → {words}" in world.later().found("join-cycle").sentence


def test_a_deadlock_of_four_processes_names_three_commands() -> None:
    world = World()
    names = []
    for pid in (1, 2, 3, 4):
        world.process(pid)
        names.append(world.thread(pid, f"p{pid}", pid=pid))
    for one, other in zip(names, [*names[1:], names[0]], strict=True):
        world.waits(one, other)
    steps = world.later().found("join-cycle").next
    assert steps[:3] == tuple(f"livedbg stacks {pid} --native" for pid in (1, 2, 3)) and len(steps) == 4


def test_threads_of_one_name_or_none_are_told_apart_by_number() -> None:
    world = World()
    world.process(1)
    names = [world.thread(11, "same"), world.thread(12, "same"), world.thread(13), world.thread(14, "other")]
    for one, other in zip(names, [*names[1:], names[0]], strict=True):
        world.waits(one, other)
    assert "same 11 → same 12 → thread 13 → other → same 11" in world.later().found("join-cycle").sentence


@pytest.mark.parametrize(
    ("kinds", "words"),
    [
        (("mutex", "mutex"), "Deadlock of 2 threads: "),
        (("gil", "mutex"), "Deadlock of 2 threads over the GIL and 1 mutex: "),
        (("rwlock", "rwlock"), "Deadlock of 2 threads over 2 read-write locks: "),
        (("sem", "mutex"), "Deadlock of 2 threads over 1 semaphore and 1 mutex: "),
    ],
)
def test_what_a_deadlock_is_over(kinds: tuple[str, str], words: str) -> None:
    world = World()
    world.process(1)
    a, b = world.thread(11, "a"), world.thread(12, "b")
    m, n = (world.lock(0x10 * (1 + number), kind) for number, kind in enumerate(kinds))
    for thread, takes, has in ((a, m, n), (b, n, m)):
        world.waits(thread, takes)
        world.holds(has, thread)
    sentence = world.later().diagnosis().verdict.sentence
    assert sentence.startswith(words) and "a → b → a" in sentence


def test_a_knot_that_is_no_ring_is_listed() -> None:
    world = World()
    world.process(1)
    a, b, c = (world.thread(11 + number, name) for number, name in enumerate("abc"))
    for one, other in ((a, b), (a, c), (b, a), (c, a)):
        world.waits(one, other)
    assert ": a, b, c." in world.later().found("join-cycle").sentence


def test_several_processes_that_hold_a_file_lock_must_all_be_stuck() -> None:
    world = held()
    world.process(3, threads=1, outside="")
    third = world.thread(3, "too", pid=3, waits_in="pause (waits for a signal)", timed=False)
    world.holds("flock:box/fe:00:7:10-19", "process:box/3")
    found = world.later(20 * SECOND).found("file-lock-held")
    assert found.state is VerdictState.STALLED and " and 1 more." in found.sentence
    assert set(found.entities[2:]) == {"process:box/2", "process:box/3"}
    world.thread(3, "too", pid=3, state=ThreadState.RUNNING)
    assert world.later().found("file-lock-held").state is VerdictState.UNKNOWN
    assert third in world.threads


def test_a_file_lock_that_is_no_finding_does_not_hide_the_next_one() -> None:
    world = World()
    world.process(1, threads=1, outside="handles SIGTERM")
    world.lock(0x10)
    world.resource("flock:box/fe:00:1:0-1", "locked")  # nobody waits
    world.process(2, threads=1, outside="")
    lock = world.resource("flock:box/fe:00:7:10-19", "locked")
    world.holds(lock, "process:box/2")
    world.thread(2, "has", pid=2, waits_in="pause", timed=False)
    world.waits(world.thread(1, waits_in="fcntl lock of /tmp/f", timed=False), lock)
    assert not by_rule(world.later(10 * SECOND - 1), "file-lock-held")
    [found] = by_rule(world.later(1), "file-lock-held")
    assert found.entities == ("thread:box/1/1", lock, "process:box/2") and len(found.evidence) == 3
    assert found.next == ("livedbg stacks 2 --native",)


def test_where_another_thread_gets_on_a_spin_is_a_note() -> None:
    def spins(other: dict[str, object], *, later_ns: int = LOOK) -> Finding:
        world = Busy()
        world.thread(2, "other", **other)  # type: ignore[arg-type]
        for _ in range(6):
            world.stack("spin_until", "train")
            world.look(3 * SECOND)
        return world.found("spinning")

    blocked = spins({"waits_in": "sem_wait"})
    assert (blocked.severity, blocked.state, blocked.roots) == (
        Severity.WARNING,
        VerdictState.UNKNOWN,
        ("thread:box/1/1",),
    )
    assert "computes or spins in spin_until" in blocked.sentence and blocked.sentence.endswith("or more.")
    runs = spins({"state": ThreadState.RUNNING})
    assert (runs.severity, runs.state, runs.roots) == (Severity.INFO, None, ())
    assert runs.sentence.endswith("or more.")
