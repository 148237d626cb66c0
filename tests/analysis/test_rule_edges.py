"""Edges of the rules that say DEADLOCK or STALLED: what is just enough, or too little, and which of several counts.

`make mutants` shows which edges no test looks at (docs/mutants.md).
"""

from __future__ import annotations

import pytest

from livedbg.analysis import VerdictState
from livedbg.analysis.closed import closed_sets
from livedbg.analysis.graph import dead_nodes
from livedbg.analysis.rules.base import Settings
from livedbg.analysis.rules.progress import limit_ns
from livedbg.model import Edge, EdgeKind, EdgeState, Severity, TaskState, ThreadState
from livedbg.model import events as ev
from livedbg.model.facts import LockFacts
from livedbg.model.snapshot import Durations
from tests.analysis.test_burning import Busy
from tests.analysis.test_verdicts import EVENT, forked, gil, holder
from tests.analysis.world import LOOK, SECOND, World

ONE = "process:box/1"
BEGAN = 10**18 + 100 * SECOND


def crosswise(*, then_s: int = 5) -> World:
    """Two threads that wait for each other, the second one since `then_s` later."""
    world = World()
    world.process(1)
    first, m, n = world.thread(11, "alpha"), world.lock(0x10), world.lock(0x20)
    world.later(then_s * SECOND)
    second = world.thread(12, "beta")
    world.holds(m, first)
    world.holds(n, second)
    world.waits(first, n)
    world.waits(second, m)
    return world.later(20 * SECOND)


def test_a_deadlock_has_lasted_since_the_last_of_its_threads_waits() -> None:
    finding = crosswise().found("lock-cycle")
    assert "Each has waited for 20 s or more." in finding.sentence
    assert finding.since_wall_ns == BEGAN + 5 * SECOND


def test_a_closed_set_has_waited_for_as_long_as_the_last_of_its_threads() -> None:
    world = World()
    world.process(1, threads=2, outside="")
    world.thread(1, "main", waits_in="pthread_join", timed=False, wakers=(ONE,))
    world.later(6 * SECOND)
    world.thread(2, "worker", waits_in="sem_wait", timed=False, wakers=(ONE,))
    world.later(9 * SECOND)
    assert [found.waited_ns for found in closed_sets(world.snapshot()).sets] == [9 * SECOND]
    assert world.finding("no-waker") is None
    finding = world.later(SECOND).found("no-waker")
    assert "for 10 s or more" in finding.sentence
    assert finding.since_wall_ns == BEGAN + 6 * SECOND


def test_threads_that_have_ended_do_not_shorten_the_wait_of_a_closed_set() -> None:
    world = World()
    world.process(1, threads=2, outside="")
    world.thread(1, "main", waits_in="sem_wait", timed=False, wakers=(ONE,))
    world.later(15 * SECOND)
    world.thread(2, "over", state=ThreadState.ZOMBIE, waits_in=None)
    [found] = closed_sets(world.later().snapshot()).sets
    assert [thread.tid for thread in found.threads] == [1]
    assert found.waited_ns == 15 * SECOND + LOOK


def test_a_process_that_has_ended_is_in_no_closed_set_and_wakes_nobody() -> None:
    world = World()
    for pid in (1, 2):
        world.process(pid, threads=1, outside="")
    world.thread(1, timed=False, wakers=("process:box/2",))
    world.thread(2, pid=2, timed=False, wakers=("process:box/2",))
    world.later(SECOND)
    world.exits("process:box/2", 0)
    world.threads.pop("thread:box/2/2")
    closed = closed_sets(world.later().snapshot())
    assert closed.sets == []
    assert closed.open_because == {ONE: "process 2 (prog2) could wake process 1 (prog1)"}


def test_of_several_that_could_wake_a_process_one_is_named_always_the_same() -> None:
    world = World()
    world.process(1, threads=1, outside="")
    world.thread(1, timed=False, wakers=("process:box/7", "process:box/5", ONE))
    assert closed_sets(world.later().snapshot()).open_because == {ONE: "process 5 could wake process 1 (prog1)"}


def test_three_processes_in_a_row_are_open_if_the_last_one_is() -> None:
    world = World()
    for pid in (1, 2, 3):
        world.process(pid, threads=1, outside="" if pid < 3 else "handles SIGTERM")
        world.thread(pid, pid=pid, timed=False, wakers=(f"process:box/{min(pid + 1, 3)}",))
    closed = closed_sets(world.later().snapshot())
    assert closed.sets == []
    assert set(closed.open_because) == {"process:box/1", "process:box/2", "process:box/3"}


def test_targets_come_first_in_a_closed_set() -> None:
    world = World()
    world.process(1, threads=1, outside="", target=False)
    world.process(2, threads=1, outside="")
    world.thread(1, "helper", timed=False, wakers=("process:box/2",))
    world.thread(2, "job", pid=2, timed=False, wakers=(ONE,))
    [found] = closed_sets(world.later(20 * SECOND).snapshot()).sets
    assert [process.pid for process in found.processes] == [2, 1]
    assert world.found("no-waker").roots == ("thread:box/2/2", "thread:box/1/1")


def test_a_lock_whose_owner_has_ended_has_blocked_since_the_first_of_its_waiters() -> None:
    world = World()
    world.process(1)
    lock = world.lock(0x10, facts=LockFacts(ended_owner=99))
    world.waits(world.thread(11), lock)
    world.later(5 * SECOND)
    world.waits(world.thread(12), lock)
    finding = world.later(SECOND).found("dead-owner")
    assert finding.since_wall_ns == BEGAN
    assert finding.sentence.endswith("no thread can release it. 1 more thread waits for it.")


def test_a_lock_that_a_dead_thread_and_a_living_one_hold_may_be_released() -> None:
    world = World()
    world.process(1)
    lock = world.lock(0x10, facts=LockFacts(ended_owner=99))
    world.waits(world.thread(11), lock)
    world.holds(lock, world.thread(12, waits_in="sleep 1 s"))
    assert world.later(20 * SECOND).finding("dead-owner") is None


def test_a_lock_that_nobody_waits_for_is_no_finding_whoever_has_ended() -> None:
    world = World()
    world.process(1)
    world.lock(0x10, facts=LockFacts(ended_owner=99))
    world.thread(11)
    assert world.later(20 * SECOND).finding("dead-owner") is None


@pytest.mark.parametrize("state", [ThreadState.ZOMBIE, ThreadState.DEAD])
def test_a_holder_that_is_a_zombie_has_ended(state: ThreadState) -> None:
    world = World()
    world.process(1)
    lock = world.lock(0x10)
    world.holds(lock, world.thread(12, state=state, waits_in=None))
    world.waits(world.thread(11), lock)
    assert "whose owner, thread 12, has ended" in world.later().found("dead-owner").sentence


def test_one_waiter_that_has_waited_long_is_enough_for_a_lock_of_the_parent() -> None:
    world = forked(1, 6)
    world.waits(world.thread(5, pid=2), "pylock:box/2/0x10")
    assert world.later(3 * SECOND).found("fork-held-lock").state is VerdictState.UNKNOWN
    assert world.later(SECOND).found("fork-held-lock").state is VerdictState.STALLED


def test_a_thread_of_the_child_that_has_ended_releases_nothing() -> None:
    world = forked(1, 1)
    world.thread(3, pid=2, state=ThreadState.ZOMBIE, waits_in=None)
    assert not world.later().found("fork-held-lock").inferred


def test_a_lock_of_the_parent_that_a_thread_of_the_child_has_taken_since_is_no_finding() -> None:
    world = forked(1, 1)
    world.holds("pylock:box/2/0x10", "thread:box/2/3")
    assert world.later(20 * SECOND).finding("fork-held-lock") is None


@pytest.mark.parametrize(("watched_ns", "stalled"), [(10 * SECOND - 1, False), (10 * SECOND, True)])
def test_the_threshold_itself_is_long_enough(watched_ns: int, stalled: bool) -> None:
    assert (gil(ThreadState.WAITING, watched_ns=watched_ns).finding("gil-held") is not None) == stalled
    assert (holder(EVENT, watched_ns).finding("held-lock") is not None) == stalled


@pytest.mark.parametrize(("call", "stalled"), [("sleep 10 s", True), ("sleep 9.9 s", False), ("sleep 1e+2 s", True)])
def test_with_the_gil_a_sleep_for_the_threshold_is_long_enough(call: str, stalled: bool) -> None:
    assert (gil(ThreadState.WAITING, call).finding("gil-held") is not None) == stalled


@pytest.mark.parametrize(("call", "stalled"), [("sleep 600 s", True), ("sleep 599 s", False), ("sleep 6e+2 s", True)])
def test_with_a_lock_only_a_sleep_of_ten_minutes_is_a_stall_at_once(call: str, stalled: bool) -> None:
    assert (holder(call, LOOK).finding("held-lock") is not None) == stalled


@pytest.mark.parametrize(("watched_ns", "stalled"), [(200_000_000 - 1, False), (200_000_000, True)])
def test_a_long_sleep_at_one_look_alone_proves_nothing(watched_ns: int, stalled: bool) -> None:
    assert (holder("sleep 3600 s", watched_ns).finding("held-lock") is not None) == stalled
    assert (gil(ThreadState.WAITING, "sleep 3600 s", watched_ns=watched_ns).finding("gil-held") is not None) == stalled


def test_a_holder_of_the_gil_in_uninterruptible_sleep_is_blocked_too() -> None:
    assert gil(ThreadState.DISK, watched_ns=11 * SECOND).finding("gil-held") is not None


def test_the_gil_of_a_thread_that_has_no_other_beside_it_holds_nobody_up() -> None:
    world = World()
    world.process(1)
    lock = world.lock(0x10, "gil")
    world.holds(lock, world.thread(11, waits_in="read of socket 3"))
    assert world.later(20 * SECOND).finding("gil-held") is None
    world.thread(12, waits_in="sem_wait")
    assert "no other thread can run Python" in world.later().found("gil-held").sentence


def test_who_holds_a_lock_and_waits_for_another_thread_is_not_the_root() -> None:
    world = holder("pthread_join", 20 * SECOND)
    world.waits("thread:box/1/11", world.thread(13, "slow", waits_in="sleep 100 s"))
    assert world.later(20 * SECOND).finding("held-lock") is None


def test_who_holds_two_locks_is_one_finding_by_the_one_with_more_behind_it() -> None:
    world = holder("read of socket 3", SECOND)
    world.holds(world.lock(0x20), "thread:box/1/11")
    for tid in (13, 14):
        world.waits(world.thread(tid), "mutex:box/1/0x20")
    found = [f for f in world.later(20 * SECOND).diagnosis().findings.values() if f.rule == "held-lock"]
    assert [finding.entities[:2] for finding in found] == [("thread:box/1/11", "mutex:box/1/0x20")]


@pytest.mark.parametrize(
    ("longest_s", "limit_s"),
    [(None, 10.0), (0.05, 2.0), (0.2, 2.0), (0.3, 3.0), (30.0, 300.0)],
)
def test_a_kernel_may_take_ten_times_as_long_as_ever_and_two_seconds(longest_s: float | None, limit_s: float) -> None:
    longest = None if longest_s is None else Durations(1, int(longest_s * SECOND), int(longest_s * SECOND))
    assert limit_ns(longest, Settings()) == limit_s * SECOND


@pytest.mark.parametrize(("after_s", "stalled"), [(9.9, False), (10, True)])
def test_a_task_is_stalled_from_the_threshold_on(after_s: float, stalled: bool) -> None:
    world = World()
    slow = world.task("g1", TaskState.RUNNING, world.now_ns, system="toy")
    world.edge(EdgeKind.DEPENDS_ON, world.task("g2", TaskState.SUBMITTED, 0, system="toy"), slow)
    world.later(int(after_s * SECOND))
    assert (world.finding("task-stalled") is not None) == stalled
    if stalled:
        assert world.found("task-stalled").since_wall_ns == BEGAN


def test_a_task_that_waits_itself_is_not_the_one_that_is_stalled() -> None:
    world = World()
    first, second = (world.task(name, TaskState.RUNNING, world.now_ns, system="toy") for name in ("g1", "g2"))
    world.edge(EdgeKind.DEPENDS_ON, second, first)
    world.edge(EdgeKind.DEPENDS_ON, world.task("g3", TaskState.SUBMITTED, 0, system="toy"), second)
    world.later(20 * SECOND)
    assert [f.roots for f in world.diagnosis().findings.values() if f.rule == "task-stalled"] == [(first,)]


@pytest.mark.parametrize(
    ("step_s", "still_s", "over"), [(0.5, 9, False), (0.5, 10, True), (4, 39, False), (4, 40, True)]
)
def test_a_count_that_rises_slowly_may_stay_as_it_is_for_ten_steps(step_s: float, still_s: int, over: bool) -> None:
    world = World()
    for value in range(4):
        world.counter("ring:toy/1", value, 10)
        world.later(int(step_s * SECOND))
    world.later(int((still_s - step_s) * SECOND))
    assert (world.finding("no-progress") is not None) == over


def test_a_count_that_has_reached_its_end_is_no_stall() -> None:
    world = World()
    for value in range(11):
        world.counter("ring:toy/1", value, 10)
        world.later(SECOND)
    assert world.later(100 * SECOND).finding("no-progress") is None


def test_a_thread_spins_for_as_long_as_both_its_cpu_time_and_its_stack_say() -> None:
    world = Busy()
    world.look(8 * SECOND)
    for _ in range(4):
        world.stack("spin_until", "train")
        world.look(3 * SECOND)
    finding = world.found("spinning")
    assert "for 12 s or more" in finding.sentence
    assert finding.since_wall_ns == BEGAN + 8 * SECOND


@pytest.mark.parametrize(
    ("role", "other", "found"),
    [("", True, True), ("core 8", True, False), ("core 8", False, True), ("compile worker", True, True)],
)
def test_threads_of_a_simulator_poll_by_design(role: str, other: bool, found: bool) -> None:
    world = Busy()
    world.look(8 * SECOND)
    for _ in range(4):
        world.stack("spin_until", "train")
        world.look(3 * SECOND)
    if other:
        world.thread(9, state=ThreadState.RUNNING, cpu_ns=world.now_ns)
    roles = dict.fromkeys(world.threads, role)
    world.store.apply(ev.ThreadRolesSeen(roles=roles, **world.stamp()))
    if role.startswith("core"):
        core = world.resource("core:box/1/8", "idle")
        for thread in world.threads:
            world.edge(EdgeKind.RUNS_ON, core, thread)
    assert (world.finding("spinning") is not None) is found


def test_two_stacks_in_one_place_prove_nothing() -> None:
    world = Busy()
    for _ in range(2):
        world.stack("spin_until", "train")
        world.look(30 * SECOND)
    assert world.finding("spinning") is None


def test_a_thread_that_got_on_is_no_spinner_before_ten_of_its_usual_steps() -> None:
    world = Busy().look(4 * SECOND, 1)
    for _ in range(13):
        world.stack("spin_until", "train")
        world.look(3 * SECOND)
    assert world.finding("spinning") is None
    world.stack("spin_until", "train")
    assert world.look(SECOND).finding("spinning") is not None


@pytest.mark.parametrize(("halted", "stuck"), [(ThreadState.STOPPED, True), (ThreadState.WAITING, False)])
def test_a_lock_is_held_up_by_its_holder_s_process_only_if_that_is_stopped(halted: ThreadState, stuck: bool) -> None:
    world = World()
    world.process(1)
    world.process(2, halted)
    lock = world.lock(0x10)
    world.holds(lock, world.thread(21, pid=2, waits_in="sem_wait", state=halted))
    world.waits(world.thread(11), lock)
    assert ("process:box/2" in world.later().diagnosis().verdict.roots) == stuck


def test_a_wait_that_is_over_blocks_nobody() -> None:
    world = crosswise()
    world.edge(EdgeKind.WAITS_FOR, "thread:box/1/12", "mutex:box/1/0x10", state=EdgeState.SATISFIED)
    assert world.later().diagnosis().verdict.state is not VerdictState.DEADLOCK


def test_what_an_inner_part_of_one_lock_hides_is_that_wait_alone() -> None:
    """Thread 11 waits for a lock and for the semaphore inside it; the waits that come after that one still count."""
    world = World()
    world.process(1)
    a, b = world.thread(11, "alpha"), world.thread(12, "beta")
    whole, inner, other = world.lock(0x30, "pylock"), world.lock(0x31, "sem"), world.lock(0x40)
    world.edge(EdgeKind.PART_OF, inner, whole, state=EdgeState.PENDING)
    world.waits(a, inner)
    world.waits(a, whole)
    world.holds(whole, b)
    world.holds(other, a)
    world.waits(b, other)
    assert world.later().diagnosis().verdict.state is VerdictState.DEADLOCK
    assert inner not in world.found("lock-cycle").entities


def test_any_of_several_that_can_serve_a_pipe_ends_the_wait_and_all_of_them_stuck_do_not() -> None:
    world = World()
    for pid in (1, 2, 3):
        world.process(pid)
        world.thread(pid, pid=pid, waits_in="read of pipe 3")
        world.resource(f"pipe:box/{pid}", "empty")
        world.waits(f"thread:box/{pid}/{pid}", f"pipe:box/{pid}")
    world.holds("pipe:box/1", "process:box/2", "process:box/3")
    world.holds("pipe:box/2", "process:box/1")
    assert world.later().diagnosis().verdict.state is not VerdictState.DEADLOCK
    world.holds("pipe:box/3", "process:box/1")
    assert world.later().diagnosis().verdict.state is VerdictState.DEADLOCK


def test_what_something_outside_serves_ends_the_wait() -> None:
    world = World()
    for pid, outside in ((1, {"outside": "a named FIFO"}), (2, {})):
        world.process(pid)
        world.waits(world.thread(pid, pid=pid), world.resource(f"pipe:box/{pid}", "empty", **outside))
    world.holds("pipe:box/1", "process:box/2")
    world.holds("pipe:box/2", "process:box/1")
    assert world.later().diagnosis().verdict.state is not VerdictState.DEADLOCK


@pytest.mark.parametrize(
    ("arcs", "choices", "timed", "dead"),
    [
        ({1: [2], 2: [1]}, {}, set(), {1, 2}),
        ({1: [2], 2: [1]}, {}, {2}, set()),
        ({1: [2], 2: [1, 3]}, {}, set(), {1, 2}),
        ({1: [2, 3], 2: [1]}, {1: {2, 3}}, set(), set()),
        ({1: [2, 3], 2: [1], 3: [1]}, {1: {2, 3}}, set(), {1, 2, 3}),
        ({1: [2, 3, 4], 2: [1], 4: [4]}, {1: {2, 3}}, set(), {1, 2, 4}),
        ({1: [2], 2: [3]}, {}, set(), set()),
    ],
)
def test_who_can_never_go_on(
    arcs: dict[int, list[int]], choices: dict[int, set[int]], timed: set[int], dead: set[int]
) -> None:
    assert dead_nodes(lambda node: arcs.get(node, []), [1], choices, timed) == dead


def test_what_is_known_to_be_dead_is_not_looked_at_again() -> None:
    def successors(node: int) -> list[int]:
        assert node != 3
        return {1: [2], 2: [3]}.get(node, [])

    assert dead_nodes(successors, [1], {}, set(), known={3}) == {1, 2, 3}


def test_a_parent_s_finding_is_a_note_only_while_a_living_child_of_its_own_works() -> None:
    world = World()
    world.process(1, threads=1, outside="")
    world.thread(1, "main", waits_in="sem_wait", timed=False, wakers=(ONE,))
    world.process(2, ppid=1)
    world.process(3, ppid=2)
    world.process(9, ppid=8)
    for pid in (2, 3, 9):
        world.thread(pid, pid=pid, waits_in="sleep 1 s", timed=True)
    world.later(20 * SECOND)
    world.thread(9, pid=9, waits_in="sleep 1 s", timed=True, cpu_ns=4 * SECOND)
    assert world.later(SECOND).found("no-waker").severity is Severity.WARNING
    world.thread(3, pid=3, waits_in="sleep 1 s", timed=True, cpu_ns=4 * SECOND)
    assert world.later(SECOND).found("no-waker").severity is Severity.INFO
    world.exits("process:box/3", 0)
    world.threads.pop("thread:box/3/3")
    assert world.later(SECOND).found("no-waker").severity is Severity.WARNING


def test_a_lock_that_is_no_finding_does_not_hide_the_next_one() -> None:
    world = World()
    world.process(1)
    world.thread(1, "main", waits_in="sem_wait")
    free, child = world.lock(0x1), world.thread(30, waits_in="read")
    world.holds(free, child)
    for number, kind in ((0x2, "mutex"), (0x3, "pylock"), (0x4, "gil")):  # held, and nobody waits
        world.holds(world.lock(number, kind), child)
    dead = world.lock(0x10, facts=LockFacts(ended_owner=99))
    world.waits(world.thread(11), dead)
    forked_lock = world.lock(0x20, "pylock", facts=LockFacts(forked="owner", inherited="its owner is in the parent"))
    world.waits(world.thread(12), forked_lock)
    gil_lock, hog = world.lock(0x30, "gil"), world.thread(13, "hog", waits_in="read of socket 3")
    world.holds(gil_lock, hog)
    world.waits(world.thread(14, waits_in="take_gil"), gil_lock)
    kept, keeper = world.lock(0x40), world.thread(15, "keeper", waits_in="read of socket 4")
    world.holds(kept, keeper)
    world.waits(world.thread(16), kept)
    world.later(20 * SECOND)
    assert world.found("dead-owner").roots == (dead,)
    assert forked_lock in world.found("fork-held-lock").entities
    assert hog in {f.roots[0] for f in world.diagnosis().findings.values() if f.rule == "gil-held"}
    assert "1 thread can't run Python" in world.diagnosis().findings[_by(world, "gil-held", hog)].sentence
    assert world.found("held-lock").roots == (keeper,)


def _by(world: World, rule: str, root: str) -> str:
    return next(name for name, f in world.diagnosis().findings.items() if f.rule == rule and root in f.roots)


def test_a_thread_that_passes_on_a_wait_does_not_hide_another_that_holds_a_lock() -> None:
    world = holder("pthread_join", SECOND)
    world.waits("thread:box/1/11", world.thread(13, "slow", waits_in="sleep 100 s"))
    kept, keeper = world.lock(0x40), world.thread(15, "keeper", waits_in="read of socket 4")
    world.holds(kept, keeper)
    world.waits(world.thread(16), kept)
    assert world.later(20 * SECOND).found("held-lock").roots == (keeper,)


def test_a_kernel_of_which_no_run_has_ended_is_not_known() -> None:
    assert limit_ns(Durations(0, 0, 0), Settings()) == 10 * SECOND


def test_one_that_waits_for_itself_is_one() -> None:
    world = World()
    world.process(1)
    me, lock = world.thread(11, "solo"), world.lock(0x10)
    world.holds(lock, me)
    world.waits(me, lock)
    assert "It has waited for 20 s or more." in world.later(20 * SECOND).found("self-deadlock").sentence


def test_the_holder_of_a_file_lock_in_uninterruptible_sleep_may_go_on() -> None:
    world = World()
    world.process(1, threads=1, outside="handles SIGTERM")
    world.process(2, threads=1, outside="")
    lock = world.resource("flock:box/fe:00:7:10-19", "locked", kind="POSIX")
    world.waits(world.thread(1, waits_in="fcntl lock of /tmp/f", timed=False, wakers=("process:box/2",)), lock)
    world.thread(2, pid=2, state=ThreadState.DISK, waits_in="fsync", timed=False, wakers=("process:box/2",))
    world.holds(lock, "process:box/2")
    assert world.later(20 * SECOND).found("file-lock-held").state is VerdictState.UNKNOWN


@pytest.mark.parametrize(
    ("kind", "count", "words"),
    [
        ("process", 2, "Deadlock: process 2 (prog2), process 3 (prog3) wait for each other."),
        ("process", 1, "Deadlock: process 2 (prog2) waits for itself."),
        ("mutex", 2, "Deadlock: mutex 0x2, mutex 0x3 wait for each other."),
        ("process", 6, "process 6 (prog6), process 7 (prog7) wait for each other."),
        ("process", 7, "process 7 (prog7), … (7 in all) wait for each other."),
        ("mutex", 8, "Deadlock: mutex 0x2, mutex 0x3, mutex 0x4, mutex 0x5, mutex 0x6, mutex 0x7, … (8 in all) wait"),
    ],
)
def test_a_cycle_without_a_thread_or_task_has_its_sentence_too(kind: str, count: int, words: str) -> None:
    """As a foreign adapter or a recording may report it."""
    world = World()
    if kind == "process":
        members = [world.process(pid) for pid in range(2, 2 + count)]
    else:
        members = [world.lock(number) for number in range(2, 2 + count)]
    for one, following in zip(members, [*members[1:], members[0]], strict=True):
        world.waits(one, following)
    found = world.later().diagnosis().verdict
    assert (found.state, set(found.roots)) == (VerdictState.DEADLOCK, set(members))
    assert words in found.sentence


def gil_cycle(kind: str, seen_ns: int, waits_from_ns: int, mutex_at: int = 0x1000) -> World:
    """A holds the GIL (or a Python lock), as was seen at one time, and waits for a mutex from another time on.

    B holds the mutex and waits for what A has.
    """
    world = World()
    world.process(1)
    lock, mutex = world.lock(0x100, kind), world.lock(mutex_at)
    a, b = world.thread(11, "a", state=ThreadState.RUNNING), world.thread(12, "b", waits_in="futex wait")
    began_ns = world.now_ns
    edges = (
        Edge(kind=EdgeKind.HOLDS, source=a, target=lock, since_mono_ns=began_ns + seen_ns),
        Edge(kind=EdgeKind.WAITS_FOR, source=b, target=lock, since_mono_ns=began_ns + seen_ns, timed=kind == "gil"),
    )
    world.store.apply(ev.EdgesAdded(scope="python", edges=edges, **world.stamp()))
    world.now_ns = began_ns + waits_from_ns
    world.thread(11, "a", cpu_ns=1000)
    world.holds(mutex, b)
    world.waits(a, mutex)
    return world.later()


@pytest.mark.invariant("cycles.C3")
@pytest.mark.parametrize(
    ("mutex_at", "deadlock"),
    [(0x150, False), (0x120, False), (0x2FF, False), (0x300, True), (0x11F, True), (0x88, True)],
)
@pytest.mark.parametrize("later_s", [0, 10])
def test_C3_a_cycle_through_the_gil_and_the_mutex_inside_of_it_is_none(
    mutex_at: int, deadlock: bool, later_s: int
) -> None:
    """A thread that asks for the GIL has its mutex for a moment, on a busy machine for seconds."""
    world = gil_cycle("gil", 3 * SECOND, 2 * SECOND, mutex_at)
    if later_s:
        world.later(later_s * SECOND)
    assert (world.finding("gil-cycle") is not None) is deadlock
