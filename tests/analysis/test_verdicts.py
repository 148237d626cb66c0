"""Each rule on a small state of its own: what it says, and what it keeps quiet about."""

from __future__ import annotations

import pytest

from livedbg.analysis import Verdict, VerdictState
from livedbg.analysis.diagnosis import Finding
from livedbg.analysis.rules import Rule
from livedbg.analysis.verdict import exit_code
from livedbg.model import EdgeKind, Severity, SourceHealth, TaskState, ThreadState
from livedbg.model.facts import LockFacts
from livedbg.session.rulebook import all_rules
from tests.analysis.world import LOOK, SECOND, World, two_locks


def verdict(world: World) -> Verdict:
    return world.diagnosis().verdict


@pytest.mark.invariant("rules.R2")
def test_lock_cycle_names_its_threads_and_locks_only() -> None:
    world = two_locks()
    finding = world.found("lock-cycle")
    assert set(finding.entities) == {
        "thread:box/1/11",
        "thread:box/1/12",
        "mutex:box/1/0x10",
        "mutex:box/1/0x20",
    }
    assert verdict(world).state is VerdictState.DEADLOCK
    assert set(verdict(world).roots) == {"thread:box/1/11", "thread:box/1/12"}
    assert finding.sentence == (
        "Deadlock of 2 threads: alpha → beta → alpha; 1 more waits behind them. Each has waited for 0.3 s or more."
    )
    assert {proof.place for proof in finding.evidence} >= {
        "thread 11 (alpha) waits for mutex 0x20",
        "thread 12 (beta) holds mutex 0x20",
    }
    assert len(finding.evidence) == 4
    assert finding.next[0] == "livedbg stacks 1 --native"


def test_self_deadlock() -> None:
    world = World()
    world.process(1)
    me, lock = world.thread(11), world.lock(0x10)
    world.holds(lock, me)
    world.waits(me, lock)
    assert "that it holds itself" in world.later().found("self-deadlock").sentence


def test_a_timed_wait_is_no_deadlock() -> None:
    world = World()
    world.process(1)
    a, b, m, n = world.thread(11), world.thread(12, timed=True), world.lock(1), world.lock(2)
    world.holds(m, a)
    world.holds(n, b)
    world.waits(a, n)
    world.waits(b, m, timed=True)
    assert verdict(world.later()).state is not VerdictState.DEADLOCK


@pytest.mark.parametrize("kind", ["gil", "mutex"])
def test_waits_for_the_gil_count_as_lasting_though_they_are_timed(kind: str) -> None:
    world = World()
    world.process(1)
    a, b, gil, m = world.thread(11), world.thread(12), world.lock(1, kind), world.lock(2)
    world.holds(gil, a)
    world.waits(a, m)
    world.holds(m, b)
    world.waits(b, gil, timed=True)
    assert (verdict(world.later()).state is VerdictState.DEADLOCK) == (kind == "gil")


def test_join_cycle() -> None:
    world = World()
    world.process(1)
    a, b = world.thread(11, waits_in="pthread_join"), world.thread(12, waits_in="pthread_join")
    world.waits(a, b)
    world.waits(b, a)
    assert "to end" in world.later().found("join-cycle").sentence


def pipes(*, helper: ThreadState | None) -> World:
    """Two processes, each of which waits for the other's word; the second may have another thread."""
    world = World()
    p, q = world.process(1), world.process(2, ppid=1)
    a, b = world.thread(1, pid=1, waits_in="read of pipe 3"), world.thread(2, pid=2, waits_in="read of pipe 4")
    ab, ba = world.resource("pipe:box/7"), world.resource("pipe:box/8")
    world.waits(a, ba)
    world.waits(b, ab)
    world.holds(ba, q)
    world.holds(ab, p)
    if helper is not None:
        world.thread(3, pid=2, state=helper, waits_in="poll of 1 descriptor")
    return world.later()


def test_pipe_cycle_across_processes() -> None:
    finding = pipes(helper=None).found("pipe-cycle")
    assert {"thread:box/1/1", "thread:box/2/2", "pipe:box/7", "pipe:box/8"} <= set(finding.entities)


@pytest.mark.parametrize("helper", [ThreadState.RUNNING, ThreadState.WAITING])
def test_a_process_with_another_live_thread_may_still_serve(helper: ThreadState) -> None:
    assert verdict(pipes(helper=helper)).state is not VerdictState.DEADLOCK


def test_a_process_whose_other_thread_is_a_zombie_can_not() -> None:
    assert verdict(pipes(helper=ThreadState.ZOMBIE)).state is VerdictState.DEADLOCK


def test_a_pipe_with_a_second_writer_is_no_cycle() -> None:
    world = pipes(helper=None)
    world.process(3)
    world.thread(9, pid=3, waits_in="pause")
    world.holds("pipe:box/8", "process:box/2", "process:box/3")
    assert verdict(world).state is not VerdictState.DEADLOCK


def test_task_cycle() -> None:
    world = World()
    a, b = (world.task(name, TaskState.SUBMITTED, 0) for name in ("g1", "g2"))
    world.edge(EdgeKind.DEPENDS_ON, a, b)
    world.edge(EdgeKind.DEPENDS_ON, b, a)
    assert set(world.found("task-cycle").entities) == {a, b}


def test_an_inner_semaphore_does_not_hide_the_lock() -> None:
    world = two_locks()
    sem = world.resource("sem:box/1/0x30")
    world.waits("thread:box/1/11", sem, timed=True)
    assert verdict(world).state is not VerdictState.DEADLOCK
    world.edge(EdgeKind.PART_OF, sem, "mutex:box/1/0x20")
    assert verdict(world).state is VerdictState.DEADLOCK


def test_dead_owner() -> None:
    world = World()
    world.process(1)
    lock = world.lock(0x10, facts=LockFacts(ended_owner=99))
    world.waits(world.thread(11), lock)
    finding = world.later().found("dead-owner")
    assert "thread 99, has ended" in finding.sentence
    assert verdict(world).state is VerdictState.STALLED
    assert verdict(world).roots == (lock,)


def test_fork_held_lock_instead_of_dead_owner() -> None:
    world = World()
    world.process(1)
    world.thread(1, "main")
    world.thread(99, "holder")
    world.process(2, ppid=1)
    child, lock = world.thread(2, pid=2), world.lock(0x10, pid=2, facts=LockFacts(ended_owner=99))
    world.waits(child, lock)
    finding = world.later().found("fork-held-lock")
    assert finding.entities == (lock, child)
    assert world.finding("dead-owner") is None


def forked(others: int, wait_s: int, forked: str = "owner") -> World:
    """A child that waits for a Python lock that its parent held at the fork, beside other threads."""
    world = World()
    world.process(2)
    why = "at the fork, a thread of the parent was its owner."
    facts = LockFacts(forked=forked, inherited=why)
    child, lock = world.thread(2, pid=2), world.lock(0x10, "pylock", pid=2, facts=facts)
    world.waits(child, lock)
    for tid in range(3, 3 + others):
        world.thread(tid, pid=2, waits_in="poll of 1 descriptor")
    return world.later(wait_s * SECOND)


@pytest.mark.parametrize(
    ("others", "wait_s", "state", "words"),
    [
        (0, 1, VerdictState.STALLED, "no thread of the child can release it"),
        (1, 9, VerdictState.UNKNOWN, "only the other thread of the child can release it"),
        (2, 10, VerdictState.STALLED, "only 2 other threads of the child can release it"),
    ],
)
def test_another_thread_of_a_forked_child_can_release_a_python_lock(
    others: int, wait_s: int, state: VerdictState, words: str
) -> None:
    finding = forked(others, wait_s).found("fork-held-lock")
    assert (finding.state, finding.inferred) == (state, others > 0)
    assert words in finding.sentence


@pytest.mark.parametrize(
    ("others", "wait_s", "state"), [(0, 9, VerdictState.UNKNOWN), (0, 10, VerdictState.STALLED), (1, 10, None)]
)
def test_a_lock_without_an_owner_most_likely_was_held_at_the_fork(
    others: int, wait_s: int, state: VerdictState | None
) -> None:
    """A thread of the child may have taken it by hand, and may release it."""
    finding = forked(others, wait_s, "likely").found("fork-held-lock")
    assert finding.state is (state or VerdictState.UNKNOWN) and finding.inferred
    assert "most likely held at the fork" in finding.sentence


def test_who_waits_for_the_same_lock_can_not_release_it() -> None:
    world = forked(0, 1)
    world.waits(world.thread(3, pid=2), "pylock:box/2/0x10")
    world.waits(world.thread(4, pid=2), "thread:box/2/3")
    assert not world.later().found("fork-held-lock").inferred


def gil(
    holder: ThreadState,
    waits_in: str = "read of socket 3",
    *,
    waiter: bool = True,
    timed: bool | None = None,
    watched_ns: int = LOOK,
) -> World:
    world = World()
    world.process(1)
    hog, other = world.thread(11, "hog", state=holder, waits_in=waits_in, timed=timed), world.thread(12)
    lock = world.lock(0x10, "gil")
    world.holds(lock, hog)
    if waiter:
        world.waits(other, lock)
    return world.later(watched_ns)


def test_gil_held_in_a_call() -> None:
    world = gil(ThreadState.WAITING, watched_ns=11 * SECOND)
    assert world.found("gil-held").roots == ("thread:box/1/11",)
    assert verdict(world).state is VerdictState.STALLED


def test_gil_held_for_a_moment_or_by_a_thread_whose_wait_ends_is_no_stall() -> None:
    assert gil(ThreadState.WAITING, watched_ns=9 * SECOND).finding("gil-held") is None
    takes_it = gil(ThreadState.WAITING, "pthread_cond_timedwait", timed=True, watched_ns=11 * SECOND)
    assert takes_it.finding("gil-held") is None


def test_gil_held_by_a_running_thread_is_no_stall() -> None:
    world = gil(ThreadState.RUNNING)
    assert world.finding("gil-held") is None
    assert verdict(world).state is VerdictState.RUNNING


@pytest.mark.parametrize(("waits_in", "stalled"), [("sleep 3600 s", True), ("read of socket 3", False)])
def test_gil_held_while_nobody_waits_for_it(waits_in: str, stalled: bool) -> None:
    assert (gil(ThreadState.WAITING, waits_in, waiter=False).finding("gil-held") is not None) == stalled


EVENT = "pthread_cond_wait"
"""A wait that only threads of its process can end."""


def holder(waits_in: str, watched_ns: int) -> World:
    """A thread that holds a lock and waits, and one that waits for the lock."""
    world = World()
    world.process(1)
    me, other, lock = world.thread(11, waits_in=waits_in), world.thread(12), world.lock(0x10)
    world.holds(lock, me)
    world.waits(other, lock)
    if waits_in == EVENT:
        world.waits(me, world.resource("cond:box/1/0x90"))
    return world.later(watched_ns)


def test_workers_that_take_turns_to_accept_are_no_stall() -> None:
    world = holder(EVENT, 60 * SECOND)
    assert verdict(world).state is VerdictState.STALLED
    world.waits("thread:box/1/11", world.resource("socket:box/7", "listening", listening=True))
    assert verdict(world.later(60 * SECOND)).state is VerdictState.UNKNOWN


@pytest.mark.parametrize(
    ("waits_in", "watched_ns", "state"),
    [
        ("read of socket 3", 11 * SECOND, VerdictState.UNKNOWN),  # its peer may answer
        (EVENT, 11 * SECOND, VerdictState.STALLED),
        ("sleep 3600 s", SECOND // 3, VerdictState.STALLED),
        ("sleep 30 s", 11 * SECOND, VerdictState.UNKNOWN),
    ],
)
def test_held_lock_is_a_stall_only_if_nobody_can_end_its_wait(
    waits_in: str, watched_ns: int, state: VerdictState
) -> None:
    world = holder(waits_in, watched_ns)
    assert world.found("held-lock").state is state
    assert verdict(world).state is state
    assert verdict(world).roots == ("thread:box/1/11",)


@pytest.mark.parametrize("waits_in", [EVENT, "read of socket 3", "sleep 0.5 s", "sleep 30 s"])
def test_below_the_threshold_nothing_is_said_of_a_held_lock(waits_in: str) -> None:
    assert holder(waits_in, 10 * SECOND - 1).finding("held-lock") is None


@pytest.mark.invariant("enders.E1")
@pytest.mark.parametrize(
    ("changes", "by"),
    [
        ({"waits_in": "pthread_cond_wait"}, ""),  # it has waited as long
        ({"waits_in": "pthread_cond_wait", "timed": True}, "thread 13 (other), which will wake by itself"),
        ({"state": ThreadState.RUNNING}, "thread 13 (other), which runs"),
        ({"waits_in": "sigwait"}, "thread 13 (other), which waits for a signal"),
        ({"waits_in": "read of socket 5"}, "thread 13 (other), which waits for somebody who is not known"),
    ],
)
def test_E1_another_thread_that_is_not_stuck_may_end_the_wait_of_a_holder(changes: dict[str, object], by: str) -> None:
    """A request that is answered under a lock, by a working thread or one with a timer, looks the same as a hang."""
    world = holder(EVENT, LOOK)
    other = world.thread(13, "other", **changes)  # type: ignore[arg-type]
    if changes.get("waits_in") == EVENT:
        world.waits(other, world.resource("cond:box/1/0x80"))
    found = world.later(20 * SECOND).found("held-lock")
    assert found.state is (VerdictState.UNKNOWN if by else VerdictState.STALLED)
    assert (f"Its wait may be ended by {by}." in found.sentence) if by else ("may be" not in found.sentence)


@pytest.mark.invariant("enders.E1")
def test_E1_who_has_just_run_and_who_has_the_other_end_may_end_a_wait() -> None:
    world = holder(EVENT, 20 * SECOND)
    late = world.thread(13, "late", waits_in=EVENT)
    world.waits(late, world.resource("cond:box/1/0x80"))
    assert "thread 13 (late), which has just run" in world.later(SECOND).found("held-lock").sentence
    world = holder("read of pipe 3", LOOK)
    pipe = world.resource("pipe:box/7")
    world.waits("thread:box/1/11", pipe)
    world.resource("pipe:box/7", outside="any process that may open /tmp/fifo")
    assert "any process that may open" in world.later(20 * SECOND).found("held-lock").sentence


def test_who_holds_a_lock_and_waits_with_a_time_limit_may_give_up() -> None:
    world = World()
    world.process(1)
    me, other, lock = world.thread(11, waits_in="pthread_mutex_timedlock", timed=True), world.thread(12), world.lock(0)
    world.holds(lock, me)
    world.waits(other, lock)
    assert verdict(world.later(30 * SECOND)).state is VerdictState.UNKNOWN
    world.thread(11, waits_in="sleep 700 s", timed=True)
    assert verdict(world.later(30 * SECOND)).state is VerdictState.STALLED


def test_who_waits_for_one_that_may_give_up_is_not_stuck_either() -> None:
    world = World()
    world.process(1)
    timed, other = world.thread(11, waits_in="pthread_mutex_timedlock", timed=True), world.thread(12)
    one, two = world.lock(1), world.lock(2)
    world.holds(one, timed)
    world.holds(two, other)
    world.waits(timed, two, timed=True)
    world.waits(other, one)
    assert verdict(world.later(30 * SECOND)).state is VerdictState.UNKNOWN


@pytest.mark.parametrize("waits_in", ["read of socket 3", "sleep 3600 s"])
def test_a_name_stands_in_the_verdict_as_it_is(waits_in: str) -> None:
    world = World()
    world.process(1)
    me, other, lock = world.thread(11, "DataLoader_GPU0", waits_in=waits_in), world.thread(12), world.lock(0x10)
    world.holds(lock, me)
    world.waits(other, lock)
    sentence = verdict(world.later(11 * SECOND)).sentence
    assert sentence.startswith("Thread 11 (DataLoader_GPU0) holds a mutex, blocked in ")


def test_a_name_of_a_kernel_stands_in_the_verdict_as_it_is() -> None:
    world = World()
    slow = world.task("g1", TaskState.RUNNING, world.now_ns, kernel="Add_F16_GPU0", system="toy")
    world.edge(EdgeKind.DEPENDS_ON, world.task("g2", TaskState.SUBMITTED, 0, system="toy"), slow)
    assert verdict(world.later(11 * SECOND)).sentence.startswith("Task g1 Add_F16_GPU0 ")


def test_lock_convoy_is_running() -> None:
    world = World()
    world.process(1)
    me, other, lock = world.thread(11, "spinner", state=ThreadState.RUNNING), world.thread(12), world.lock(0x10)
    world.holds(lock, me)
    world.waits(other, lock)
    assert "is running" in world.later().found("lock-convoy").sentence
    assert verdict(world).state is VerdictState.RUNNING
    assert verdict(world).roots == (me,)


def test_stopped_process_with_its_remedy() -> None:
    world = World()
    world.process(1)
    child = world.process(2, ThreadState.STOPPED, ppid=1)
    world.thread(2, pid=2, state=ThreadState.STOPPED)
    world.waits(world.thread(1, waits_in="waitpid of 2"), child)
    finding = world.later().found("stopped-process")
    assert finding.next == ("kill -CONT 2",)
    assert "1 thread waits for it" in finding.sentence
    assert verdict(world).roots == (child,)


def test_a_lock_held_in_a_stopped_process_leads_to_the_process() -> None:
    world = World()
    stopped = world.process(2, ThreadState.STOPPED)
    world.process(1)
    me, other, lock = world.thread(2, pid=2, state=ThreadState.STOPPED), world.thread(11), world.lock(0x10)
    world.holds(lock, me)
    world.waits(other, lock)
    assert world.later().diagnosis().graph.roots[0] == stopped


def test_traced_process() -> None:
    world = World()
    world.process(1, ThreadState.TRACED, notes=("traced by 77",))
    assert "traced by 77" in world.later().found("traced-process").sentence


@pytest.mark.parametrize(("kind", "alive", "crashed"), [("terminate", False, True), ("traceback", True, False)])
def test_crash_in_a_log(kind: str, alive: bool, crashed: bool) -> None:
    world = World()
    process = world.process(1)
    world.exception(kind, process)
    if not alive:
        world.exits(process, 134)
    found = world.found("crash")
    assert (found.state is VerdictState.CRASHED) == crashed
    assert "app::Error: boom." in found.sentence
    assert (exit_code(verdict(world), [found]) == 11) == crashed


def test_a_traceback_in_a_log_without_any_process_is_a_crash() -> None:
    world = World()
    world.exception("traceback")
    assert verdict(world).state is VerdictState.CRASHED


def test_crash_by_a_signal() -> None:
    world = World()
    world.exits(world.process(1), -11)
    assert "ended by SIGSEGV" in world.found("crash").sentence


def test_exited() -> None:
    world = World()
    world.exits(world.process(1), 0)
    assert verdict(world).state is VerdictState.EXITED
    assert "with status 0" in verdict(world).sentence


def test_a_task_is_stalled_by_what_its_kernel_used_to_take() -> None:
    world = World()
    world.task("g0", TaskState.RUNNING, world.now_ns, system="inductor")
    world.task("g0", TaskState.COMPLETED, world.now_ns + 4 * SECOND // 10, system="inductor")
    slow = world.task("g1", TaskState.RUNNING, world.now_ns, system="inductor")
    waiter = world.task("g2", TaskState.SUBMITTED, world.now_ns, system="inductor")
    world.edge(EdgeKind.DEPENDS_ON, waiter, slow)
    assert world.later(3 * SECOND).finding("task-stalled") is None
    finding = world.later(37 * SECOND).found("task-stalled")
    assert finding.roots == (slow,)
    assert "for 40 s; its kernel's 1 completed run took 0.4 s at most. 1 task waits behind it" in finding.sentence


@pytest.mark.parametrize("behind", [True, False])
def test_a_task_of_an_unknown_kernel_is_stalled_only_if_others_wait(behind: bool) -> None:
    world = World()
    slow = world.task("g1", TaskState.RUNNING, world.now_ns, system="inductor")
    if behind:
        world.edge(EdgeKind.DEPENDS_ON, world.task("g2", TaskState.SUBMITTED, 0, system="inductor"), slow)
    assert (world.later(11 * SECOND).finding("task-stalled") is not None) == behind


def test_no_progress() -> None:
    world = World()
    for value in range(4):
        world.counter("ring:toy/1", value, 10)
        world.later(SECOND)
    assert world.finding("no-progress") is None
    assert "stayed at 3 of 10" in world.later(30 * SECOND).found("no-progress").sentence


def test_no_progress_needs_a_count_that_ever_rose() -> None:
    world = World()
    world.counter("ring:toy/1", 0, 10)
    assert world.later(100 * SECOND).finding("no-progress") is None


def test_what_cant_be_seen_is_said() -> None:
    world = World()
    world.process(1)
    world.status("gdb isn't installed.")
    finding = world.found("cant-see")
    assert finding.sentence == "gdb isn't installed."
    assert finding.next == ("mend it",)
    assert finding.state is None
    world.status("all is well", SourceHealth.OK)
    assert world.finding("cant-see") is None


def test_a_server_in_accept_is_idle_by_design() -> None:
    world = World()
    world.process(1)
    main, pool = world.thread(1, "main", waits_in="accept on :80"), world.thread(2, "pool", waits_in="cond")
    world.waits(main, world.resource("socket:box/5", "listen", listening=True))
    world.waits(pool, world.resource("cond:box/1/0x5"))
    assert verdict(world.later(100 * SECOND)).state is VerdictState.RUNNING
    assert "waits for connections" in verdict(world).sentence


def test_a_sleeping_cron_is_no_stall() -> None:
    world = World()
    world.process(1)
    world.thread(1, waits_in="sleep 3600 s", timed=True)
    assert verdict(world.later(100 * SECOND)).state is VerdictState.RUNNING


def test_a_shell_that_waits_for_a_busy_child_is_running() -> None:
    world = World()
    world.process(1)
    child = world.process(2, ThreadState.RUNNING, ppid=1)
    world.waits(world.thread(1, waits_in="waitpid of 2"), child)
    world.thread(2, pid=2, state=ThreadState.RUNNING)
    assert verdict(world.later()).state is VerdictState.RUNNING


def test_a_condition_that_nobody_signals_is_unknown() -> None:
    world = World()
    world.process(1)
    world.waits(world.thread(1, waits_in="pthread_cond_wait"), world.resource("cond:box/1/0x5"))
    assert verdict(world.later()).state is VerdictState.UNKNOWN
    assert "would tell" in verdict(world).sentence


def test_cpu_used_between_two_looks_is_running() -> None:
    world = World()
    world.process(1)
    world.thread(1, cpu_ns=10)
    world.later()
    world.thread(1, cpu_ns=1_000_000)
    assert verdict(world.later()).state is VerdictState.RUNNING


@pytest.mark.parametrize(
    ("state", "topic", "code"),
    [
        (VerdictState.RUNNING, "", 0),
        (VerdictState.UNKNOWN, "", 5),
        (VerdictState.EXITED, "", 0),
        (VerdictState.STALLED, "", 10),
        (VerdictState.DEADLOCK, "", 10),
        (VerdictState.CRASHED, "", 11),
        (VerdictState.DIVERGED, "", 12),
        (VerdictState.RUNNING, "precision", 12),
        (VerdictState.STALLED, "dependency", 10),
    ],
)
def test_exit_codes(state: VerdictState, topic: str, code: int) -> None:
    findings = [Finding(rule="r", severity=Severity.INFO, sentence="s", topic=topic)]
    assert exit_code(Verdict(state=state, sentence=""), findings) == code


@pytest.mark.invariant("rules.R3")
def test_R3_rules_are_documented_and_named_apart() -> None:
    rules = all_rules()
    assert all(isinstance(rule, Rule) and rule.doc.endswith(".") for rule in rules)
    assert len({rule.name for rule in rules}) == len(rules)
    made = {f.rule for f in two_locks().diagnosis().findings.values()}
    assert made <= {rule.name for rule in rules}
