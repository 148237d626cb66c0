"""What a verdict names and counts: how many roots, which thread of several, for how long, and what is left out."""

from __future__ import annotations

import pytest

from livedbg.analysis import NO_DIAGNOSIS, Finding, Verdict, VerdictState
from livedbg.analysis.behaviour import Behaviour, burns_for_ns, cpu_share, doing
from livedbg.analysis.engine import GraphKeeper
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.verdict import ranked, verdict_of
from livedbg.model import EdgeKind, LogRecord, Severity, TaskState, Thread, ThreadState
from livedbg.model import events as ev
from tests.analysis.world import LOOK, SECOND, World


def verdict(world: World) -> Verdict:
    return world.diagnosis().verdict


def seen(world: World) -> RuleInput:
    snapshot = world.snapshot()
    return RuleInput(snapshot, GraphKeeper().graph_of(snapshot))


def finding(name: str, state: VerdictState | None, *entities: str, decides: bool = False) -> Finding:
    return Finding(
        rule=name, severity=Severity.WARNING, sentence=f"{name}.", state=state, entities=entities, decides=decides
    )


@pytest.mark.parametrize(("count", "shown"), [(19, 19), (20, 20), (21, 20)])
def test_a_verdict_without_a_finding_names_twenty_roots_at_most(count: int, shown: int) -> None:
    world = World()
    world.process(1)
    for number in range(count):
        world.waits(world.thread(100 + number), world.thread(200 + number, waits_in="read of socket 3"))
    assert len(verdict(world.later()).roots) == shown


def test_only_threads_processes_and_tasks_are_roots() -> None:
    world = World()
    world.process(1)
    world.waits(world.thread(11), "pipe:box/9")
    world.edge(EdgeKind.DEPENDS_ON, "task:x/a", "task:x/b")
    world.waits(world.thread(12), world.process(2))
    found = verdict(world.later()).roots
    assert set(found) == {"task:x/b", "process:box/2"}


def test_a_divergence_comes_before_what_is_open_and_all_that_diverges_is_named() -> None:
    kinds = VerdictState
    given = [
        finding("open", kinds.UNKNOWN, "a", decides=True),
        finding("first", kinds.DIVERGED, "b"),
        finding("second", kinds.DIVERGED, "c"),
    ]
    state = seen(World())
    order = ranked(given, state)
    assert [found.rule for found in order] == ["first", "second", "open"]
    found = verdict_of(order, state)
    assert (found.state, found.sentence, found.roots) == (kinds.DIVERGED, "first.", ("b", "c"))


def test_who_waits_behind_the_eighth_that_takes_part_counts() -> None:
    world = World()
    world.process(1)
    threads = [world.thread(10 + number, waits_in="read of socket 3") for number in range(8)]
    alone = world.thread(30, waits_in="read of socket 4")
    world.waits(world.thread(40), threads[-1])
    few = finding("few", VerdictState.STALLED, alone)
    many = finding("many", VerdictState.STALLED, *threads)
    assert [found.rule for found in ranked([few, many], seen(world.later()))] == ["many", "few"]


def test_findings_that_nobody_waits_behind_stay_in_their_order() -> None:
    world = World()
    alone = world.thread(1, waits_in="read of socket 3")
    given = [finding("first", VerdictState.STALLED, alone), finding("about-nobody", VerdictState.STALLED)]
    state = seen(world.later())
    assert [found.rule for found in ranked(given, state)] == ["first", "about-nobody"]
    assert [found.rule for found in ranked(given[::-1], state)] == ["about-nobody", "first"]


def naps(*who: tuple[int, int], asleep: int | None = None) -> World:
    """Threads (pid, tid) that sleep for moments again and again; a main thread that sleeps for long."""
    world = World()
    for pid in {pid for pid, _ in who} | ({asleep} if asleep is not None else set()):
        world.process(pid)
    for look in range(20):
        for pid, tid in who:
            switches = look * 30
            world.thread(tid, pid=pid, waits_in="sleep 0.01 s", timed=True, cpu_ns=look * 10**6, switches=switches)
        if asleep is not None:
            world.thread(asleep, pid=asleep, waits_in="sleep 1,000 s", timed=True, cpu_ns=0, switches=1)
        for pid in {pid for pid, tid in who} - {tid for _, tid in who}:
            world.thread(pid, pid=pid, waits_in="pthread_join", timed=False, cpu_ns=0, switches=1)
        world.now_ns += LOOK
    return world


def test_of_several_that_nap_the_first_is_named() -> None:
    world = naps((1, 1), (3, 3))
    assert verdict(world).state is VerdictState.UNKNOWN
    assert verdict(world).sentence.startswith("Inconclusive: thread 1 wakes about ")
    assert "`livedbg stacks 1`" in verdict(world).sentence


def test_a_main_thread_that_polls_is_not_excused_by_another_process_that_sleeps() -> None:
    both = verdict(naps((1, 1), (1, 2), asleep=5))
    assert both.state is VerdictState.UNKNOWN
    assert "it polls for something" in both.sentence


@pytest.mark.parametrize("asleep", [None, 5])
def test_a_helper_that_naps_is_not_excused_by_a_main_thread_that_sleeps(asleep: int | None) -> None:
    world = naps((1, 2), asleep=asleep)
    world.waits("thread:box/1/1", "thread:box/1/2")
    assert "polls for something" in verdict(world).sentence


@pytest.mark.parametrize(
    ("runs", "span_ns", "cpu_ns", "naps"),
    [
        (0, SECOND, 10, False),  # the kernel does not count
        (1, SECOND, 10, True),
        (3, 3 * SECOND + 1, 10, True),
        (3, SECOND, 40_000_000, True),  # however long each look takes it
        (1000, SECOND, 49_999_999, True),  # 5 % of a core
        (1000, SECOND, 50_000_000, False),
    ],
)
def test_who_wakes_from_naps_and_uses_little_of_a_core_polls(runs: int, span_ns: int, cpu_ns: int, naps: bool) -> None:
    world = World()
    world.process(1)
    for done, after in ((0, 0), (1, span_ns)):
        world.now_ns += after
        world.thread(1, waits_in="sleep 0.01 s", timed=True, cpu_ns=done * cpu_ns, switches=done * runs)
    state = seen(world)
    kinds = [doing(thread, state).kind for thread in state.snapshot.threads.values()]
    assert (Behaviour.POLLING in kinds) is naps


@pytest.mark.invariant("behaviour.L6")
@pytest.mark.parametrize(
    ("cpu_ns", "moved", "now", "polls"),
    [
        (160_000_000, 0, ThreadState.WAITING, True),  # 0.2 ms a time
        (160_000_000, 0, ThreadState.RUNNING, True),  # it is seen while it looks
        (161_000_000, 0, ThreadState.WAITING, False),  # it works between
        (160_000_000, 64 * 800 - 1, ThreadState.WAITING, True),
        (160_000_000, 64 * 800, ThreadState.WAITING, False),  # it has something to do
        (160_000_000, None, ThreadState.WAITING, False),  # not known
    ],
)
def test_L6_a_loop_of_many_short_looks_polls_whatever_they_add_up_to(
    cpu_ns: int, moved: int | None, now: ThreadState, polls: bool
) -> None:
    """`while not done(): time.sleep(0.001)` takes a tenth of a core."""
    world = World()
    world.process(1)
    world.thread(1, waits_in="sleep 0.001 s", timed=True, moved=None if moved is None else 0)
    world.later(SECOND)
    waits = {"waits_in": "sleep 0.001 s", "timed": True} if now is ThreadState.WAITING else {}
    world.thread(1, state=now, **waits, cpu_ns=cpu_ns, switches=800, moved=moved)
    found = verdict(world)
    assert found.state is (VerdictState.UNKNOWN if polls else VerdictState.RUNNING)


def test_L6_who_was_last_seen_in_a_wait_without_a_time_limit_does_not_poll() -> None:
    """Two threads that hand each other work wake as often."""
    world = World()
    world.process(1)
    world.thread(1, waits_in="sleep 0.001 s", timed=True, moved=0)
    world.later(SECOND)
    world.thread(1, waits_in="pthread_cond_wait", timed=False, moved=0, cpu_ns=80_000_000, switches=400)
    world.later(SECOND)
    world.thread(1, state=ThreadState.RUNNING, moved=0, cpu_ns=160_000_000, switches=800)
    assert verdict(world).state is VerdictState.RUNNING


@pytest.mark.parametrize(
    ("waits_in", "timed"), [("sleep 1 s", None), ("sleep 1 s", False), ("poll", True), (None, True)]
)
def test_what_does_not_sleep_for_a_time_does_not_nap(waits_in: str | None, timed: bool | None) -> None:
    world = World()
    for runs in (0, 9):
        world.thread(1, waits_in=waits_in, timed=timed, cpu_ns=runs, switches=runs)
        world.now_ns += LOOK
    state = seen(world)
    assert not any(doing(one, state).kind is Behaviour.POLLING for one in state.snapshot.threads.values())


def test_the_share_of_a_core_is_of_the_time_that_was_watched_and_not_queued_for() -> None:
    world = World()
    world.process(1)
    for done in (0, 1):
        world.now_ns += done * 10 * SECOND
        world.thread(1, cpu_ns=done * SECOND, queued_ns=done * 5 * SECOND)
        world.thread(2, cpu_ns=done * 20 * SECOND)  # a counter of two clocks
        world.thread(3, cpu_ns=0)
    snapshot = world.snapshot()
    shares = {thread.tid: cpu_share(thread, snapshot) for thread in snapshot.threads.values()}
    assert shares == {1: 0.2, 2: 1.0, 3: 0.0}
    assert cpu_share(Thread(id="thread:box/1/9", process="process:box/1", tid=9), snapshot) == 0.0


def test_a_thread_that_was_never_sampled_does_not_burn() -> None:
    stranger = Thread(id="thread:box/1/9", process="process:box/1", tid=9, state=ThreadState.RUNNING, marks=1)
    assert burns_for_ns(stranger, seen(World())) is None


def test_one_sample_is_no_time_of_watching() -> None:
    world = World()
    world.process(1)
    world.thread(1, waits_in="sem_wait")
    assert "No thread used CPU time, and none waits" in verdict(world).sentence
    assert "No thread used CPU time in 0.3 s of watching" in verdict(world.later()).sentence


def test_without_any_thread_that_was_sampled_no_time_of_watching_is_given() -> None:
    world = World()
    world.process(1)
    world.store.apply(ev.Tick(**world.stamp()))
    assert verdict(world).sentence == "Nothing can be seen yet."


def test_before_the_first_sample_nothing_is_known_and_a_finding_claims_only_what_it_says() -> None:
    assert NO_DIAGNOSIS.revision == 0
    assert NO_DIAGNOSIS.verdict.state is VerdictState.UNKNOWN
    graph = NO_DIAGNOSIS.graph
    assert (graph.behind("thread:box/1/1"), list(graph.roots), list(graph.cycles)) == (0, [], [])
    assert not (*graph.waits_of("x"), *graph.waiters_of("x"), *graph.blockers_of("x"), *graph.chain("x"))
    plain = Finding(rule="r", severity=Severity.INFO, sentence="s.")
    assert (plain.decides, plain.inferred) == (False, False)


def test_a_server_whose_helper_naps_is_idle() -> None:
    world = World()
    world.process(1)
    main = world.thread(1, "main", waits_in="accept on *:80", timed=False, cpu_ns=0, switches=0)
    world.waits(main, world.resource("socket:box/7", "listening", listening=True))
    for look in range(20):
        world.thread(2, "naps", waits_in="sleep 0.01 s", timed=True, cpu_ns=look * 10**6, switches=look * 30)
        world.now_ns += LOOK
    found = verdict(world)
    assert found.state is VerdictState.RUNNING
    assert found.sentence == "Idle: thread 1 (main) waits for connections (accept on *:80); no hang found."


def asleep(*children: str | None, parent: str = "waitpid of any child") -> World:
    """A parent that waits for its children, which sleep or wait in some call."""
    world = World()
    world.process(1)
    main = world.thread(1, "sh", waits_in=parent, timed=False)
    for pid, waits_in in enumerate(children, 2):
        world.process(pid, ppid=1)
        timed = (waits_in or "").startswith("sleep")
        world.thread(pid, f"c{pid}", pid=pid, waits_in=waits_in, timed=timed)
        world.waits(main, f"process:box/{pid}")
    return world.later(20 * SECOND)


@pytest.mark.parametrize(
    ("world", "state", "words"),
    [
        (
            asleep("sleep 100 s"),
            VerdictState.RUNNING,
            "Asleep: thread 2 (c2) is in sleep 100 s and will wake by itself, and thread 1 (sh) waits for its end; no "
            "hang found.",
        ),
        (asleep("sleep 100 s", "sleep 9 s"), VerdictState.RUNNING, "Asleep: thread 2 (c2) is in sleep 100 s"),
        (
            asleep("sleep 100 s", "sem_wait"),
            VerdictState.UNKNOWN,
            "Inconclusive: main thread 3 (c3) has been in sem_wait",
        ),
        (asleep("sleep 100 s", parent="sem_wait"), VerdictState.UNKNOWN, "Inconclusive: idle or stuck."),
        (asleep("sem_wait"), VerdictState.UNKNOWN, "Inconclusive: main thread 2 (c2) has been in sem_wait"),
    ],
)
def test_all_is_asleep_only_if_each_thread_sleeps_or_waits_for_such_a_child(
    world: World, state: VerdictState, words: str
) -> None:
    found = verdict(world)
    assert found.state is state
    assert found.sentence.startswith(words)


def test_one_that_sleeps_alone_waits_for_nobody() -> None:
    world = World()
    world.process(1)
    world.thread(1, "cron", waits_in="sleep 60 s", timed=True)
    sentence = verdict(world.later()).sentence
    assert sentence == "Asleep: thread 1 (cron) is in sleep 60 s and will wake by itself; no hang found."


def computing(*threads: tuple[int, float]) -> World:
    """Threads of one process (number, share of a core) that only use CPU time; the last one also makes calls."""
    world = World()
    world.process(1)
    for done in (0, 1):
        world.now_ns += done * 20 * SECOND
        for tid, share in threads:
            thread = Thread(
                id=f"thread:box/1/{tid}",
                process="process:box/1",
                tid=tid,
                name=f"t{tid}",
                state=ThreadState.RUNNING,
                cpu_ns=int(done * 20 * SECOND * share),
                marks=done * 9 if (tid, share) == threads[-1] else 9,
            )
            world.store.apply(ev.ThreadsSeen(threads=(thread,), **world.stamp()))
    return world


def test_a_main_thread_that_computes_beside_one_that_works_may_spin() -> None:
    found = verdict(computing((1, 0.9), (2, 0.5)))
    assert found.state is VerdictState.UNKNOWN
    assert found.sentence.startswith("Inconclusive: thread 1 (t1) computes, or spins (90% of a core)")


def test_a_helper_that_computes_beside_a_main_thread_that_works_is_not_mentioned() -> None:
    sentence = verdict(computing((2, 0.9), (1, 0.5))).sentence
    assert sentence.endswith("most thread 1 (t1) (50% of a core). No hang found.")


def test_of_several_that_compute_the_busiest_is_named() -> None:
    found = verdict(computing((2, 0.2), (3, 0.9), (4, 0.004), (5, 0.0)))
    assert "thread 3 (t3) and 2 others compute, or spin (90% of a core): no wait" in found.sentence
    assert "`livedbg stacks 1 --for 10s`" in found.sentence


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (TaskState.RUNNING, "Task g0 K was running at the end of the log: it hung or died (no exit status)."),
        (TaskState.COMPLETED, "Nothing is known to be stuck."),
        (TaskState.SUBMITTED, "Nothing is known to be stuck."),
    ],
)
def test_a_log_alone_that_ends_in_a_task(state: TaskState, words: str) -> None:
    world = World()
    world.task("g0", state, None, system="toy")
    found = verdict(world)
    assert found.state is VerdictState.UNKNOWN
    assert found.sentence.startswith(words)


def test_lines_of_a_log_are_something_that_was_seen() -> None:
    world = World()
    world.store.apply(ev.LogsSeen(records=(LogRecord(source="log:box/x", text="step"),), **world.stamp()))
    assert verdict(world).sentence == "Nothing is known to be stuck."


def test_a_job_has_ended_only_if_all_that_is_watched_has() -> None:
    world = World()
    world.exits(world.process(1), 0)
    world.process(2, target=False)
    assert verdict(world).state is VerdictState.EXITED
    world.process(3)
    assert verdict(world).sentence == "Nothing can be seen yet."


@pytest.mark.parametrize(("later_ns", "found"), [(10 * SECOND - 1, False), (10 * SECOND, True)])
def test_a_count_that_rose_within_the_threshold_shows_that_computing_is_progress(later_ns: int, found: bool) -> None:
    world = World()
    world.process(1)
    for value in (0, 1):
        world.counter("ring:toy/1", value, 10)
    world.counter("ring:toy/2", 0, 10)  # one that never rose shows nothing
    for done in (0, 1):
        world.now_ns += done * later_ns
        thread = Thread(
            id="thread:box/1/1",
            process="process:box/1",
            tid=1,
            state=ThreadState.RUNNING,
            cpu_ns=done * SECOND,
            marks=9,
        )
        world.store.apply(ev.ThreadsSeen(threads=(thread,), **world.stamp()))
    state = seen(world)
    kinds = [doing(thread, state).kind for thread in state.snapshot.threads.values()]
    assert (Behaviour.COMPUTING in kinds) is found
