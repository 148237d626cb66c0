"""Edges of the verdict: which of several findings, threads and processes it names, and from which time on."""

from __future__ import annotations

import pytest

from livedbg.analysis import Finding, Verdict, VerdictState
from livedbg.analysis.engine import GraphKeeper
from livedbg.analysis.rules.base import INTERRUPTED, RuleInput
from livedbg.analysis.rules.sight import CANT_SEE
from livedbg.analysis.verdict import exit_code, ranked, verdict_of
from livedbg.model import EdgeKind, Process, Severity, TaskState, Thread, ThreadState
from livedbg.model import events as ev
from tests.analysis.test_verdicts import EVENT, holder
from tests.analysis.world import SECOND, World


def verdict(world: World) -> Verdict:
    return world.diagnosis().verdict


def busy(**used_s: float) -> World:
    """Threads that have used so many seconds of CPU time in ten; t1 is the main thread."""
    world = World()
    world.process(1)
    for after in (0, 10):
        world.now_ns += after * SECOND
        for name, seconds in used_s.items():
            cpu_ns = int(seconds * SECOND) if after else 0
            world.thread(int(name[1:]), name, waits_in="read of socket 3", cpu_ns=cpu_ns)
    return world


def test_the_busiest_thread_is_named_with_how_many_others_were_busy() -> None:
    sentence = verdict(busy(t1=2, t2=5, t3=0)).sentence
    assert sentence.startswith(
        "Running: 2 of 3 threads used CPU time while watched, most thread 2 (t2) (50% of a core)"
    )


@pytest.mark.parametrize(("used_s", "share"), [(0.05, " (0% of a core)"), (0.049, ""), (0.06, " (1% of a core)")])
def test_a_share_of_a_core_is_given_from_half_a_percent_on(used_s: float, share: str) -> None:
    assert f"most thread 1 (t1){share}. " in verdict(busy(t1=used_s)).sentence


def test_how_long_was_watched_is_counted_from_the_first_thread_that_was_seen() -> None:
    world = World()
    world.process(1)
    world.thread(1, "main", waits_in="poll of 2 descriptors")
    world.later(3 * SECOND)
    world.thread(2, "late", waits_in="sem_wait")
    assert "No thread used CPU time in 4.0 s of watching" in verdict(world.later(SECOND)).sentence


def test_the_busiest_of_those_that_only_tick_is_named() -> None:
    world = World()
    world.process(1)
    world.thread(1, "main", waits_in="sem_wait")
    for after, used in ((0, 0), (20, 1)):
        world.now_ns += after * SECOND
        for tid in (2, 3, 4):
            cpu_ns = used * (tid if tid != 4 else 1) * SECOND // 100
            world.thread(tid, waits_in="sleep 1 s", timed=True, cpu_ns=cpu_ns)
    assert "Only helper threads that tick used CPU time in 20 s of watching (thread 3)" in verdict(world).sentence


def test_the_three_commonest_waits_are_shown() -> None:
    world = World()
    world.process(1)
    waits = ["sem_wait", "poll", "poll", "poll", "read", "read", "futex wait", "futex wait"]
    for tid, waits_in in enumerate(waits, 1):
        world.thread(tid, waits_in=waits_in)
    assert "(3 in poll, 2 in read, 2 in futex wait)" in verdict(world.later()).sentence


@pytest.mark.parametrize(("wait_s", "said"), [(9.9, False), (10, True)])
def test_a_long_wait_of_a_main_thread_is_said_from_the_threshold_on(wait_s: float, said: bool) -> None:
    world = World()
    world.process(1)
    world.thread(1, "main", waits_in="sem_wait")
    assert ("main thread 1 (main) has been in sem_wait" in verdict(world.later(int(wait_s * SECOND))).sentence) == said


def test_a_long_wait_is_said_also_if_another_main_thread_has_a_time_limit() -> None:
    world = World()
    for pid, timed in ((1, True), (2, False)):
        world.process(pid)
        world.thread(pid, f"main{pid}", pid=pid, waits_in="sem_wait", timed=timed)
    assert "main thread 2 (main2) has been in sem_wait for 20 s or more" in verdict(world.later(20 * SECOND)).sentence


@pytest.mark.parametrize(("waited_s", "named"), [(25, 2), (15, 2), (5, 2), (40, 1)])
def test_of_those_that_wait_the_one_that_has_waited_longest_is_named_and_not_one_that_naps(
    waited_s: int, named: int
) -> None:
    """Process 2 waits for what process 1 or a socket's other end may do; process 1 polls, process 3 came later."""
    world = World()
    world.process(2)
    late = world.thread(2, "main2", pid=2, waits_in="recv on socket 3")
    socket = world.resource("socket:box/9", "established")
    world.waits(late, socket)
    if waited_s < 40:
        world.later((30 - waited_s) * SECOND)
    world.process(1)
    world.thread(1, "main1", waits_in="poll of 1 descriptor", timed=waited_s < 40)
    world.holds(socket, "process:box/1")
    world.process(3)
    world.thread(3, "main3", pid=3, waits_in="sem_wait")
    said = verdict(world.later(waited_s * SECOND)).sentence
    assert f"main thread {named} (main{named}) has been in" in said


def shell(*targets: bool) -> World:
    """A shell that waits for children, which sleep; those that are no targets are not watched."""
    world = World()
    world.process(1)
    me = world.thread(1, "sh", waits_in="waitpid of any child")
    for pid, target in enumerate(targets, 2):
        world.process(pid, ppid=1, target=target)
        world.thread(pid, pid=pid, waits_in="sleep 100 s", timed=True)
    world.waits(me, *(f"process:box/{pid}" for pid in range(2, 2 + len(targets))))
    return world.later(20 * SECOND)


@pytest.mark.parametrize(
    ("targets", "state"),
    [((True,), VerdictState.RUNNING), ((True, True), VerdictState.RUNNING), ((True, False), VerdictState.UNKNOWN)],
)
def test_a_shell_is_idle_only_if_all_its_children_are_watched_and_asleep(
    targets: tuple[bool, ...], state: VerdictState
) -> None:
    found = verdict(shell(*targets))
    assert found.state is state
    assert ("and thread 1 (sh) waits for its end" in found.sentence) == (state is VerdictState.RUNNING)


def test_of_two_findings_alike_the_one_with_more_behind_it_comes_first() -> None:
    world = holder(EVENT, 0)
    world.holds(world.lock(0x20), world.thread(21, "hub", waits_in=EVENT))
    world.waits("thread:box/1/21", world.resource("cond:box/1/0x91"))
    for tid in (22, 23):
        world.waits(world.thread(tid), "mutex:box/1/0x20")
    found = verdict(world.later(20 * SECOND))
    assert found.sentence.startswith("Thread 21 (hub) holds ")
    assert found.roots == ("thread:box/1/21", "thread:box/1/11")


@pytest.mark.parametrize(
    ("statuses", "state", "words"),
    [
        ((0,), VerdictState.EXITED, "Process 1 (prog1) ended with status 0."),
        ((0, 0), VerdictState.EXITED, "Process 1 (prog1) and 1 other ended with status 0."),
        ((0, None), VerdictState.UNKNOWN, "Process 2 (prog2) has ended; its exit status is not known"),
        ((None, 0), VerdictState.UNKNOWN, "Process 1 (prog1) has ended; its exit status is not known"),
    ],
)
def test_all_have_exited_only_if_each_status_is_known(
    statuses: tuple[int | None, ...], state: VerdictState, words: str
) -> None:
    world = World()
    for pid in range(1, len(statuses) + 1):
        world.process(pid)
    for pid, status in enumerate(statuses, 1):
        world.exits(f"process:box/{pid}", status)
    found = verdict(world)
    assert found.state is state
    assert found.sentence.startswith(words)


SEGV, TERM, KILL = -11, -15, -9


@pytest.mark.invariant("ended.E3")
@pytest.mark.parametrize(
    ("statuses", "words"),
    [
        ((0, 0, 0), "Process 1 (prog1) and 2 others ended with status 0."),
        ((0, SEGV), "Process 1 (prog1) ended with status 0; process 2 (prog2) ended by SIGSEGV."),
        ((0, 3, 0), "Process 1 (prog1) and 1 other ended with status 0; process 2 (prog2) ended with status 3."),
        ((0, None), "Process 1 (prog1) ended with status 0; the exit status of process 2 (prog2) is not known."),
        (
            (0, None, 0, TERM, 1),
            "Process 1 (prog1) and 1 other ended with status 0; process 4 (prog4) ended by SIGTERM; process 5 (prog5) "
            "ended with status 1; the exit status of process 2 (prog2) is not known.",
        ),
        (
            (0, *[None] * 4, TERM, TERM),
            "Process 1 (prog1) ended with status 0; process 6 (prog6), process 7 (prog7) ended by SIGTERM; the exit "
            "status of 4 others is not known.",
        ),
        (
            (0, KILL, SEGV, 1, 2, 2),
            "Process 1 (prog1) ended with status 0; process 3 (prog3) ended by SIGSEGV; process 2 (prog2) ended by "
            "SIGKILL; process 4 (prog4) ended with status 1; 2 more ended in other ways.",
        ),
        (
            (None, 0, 3),
            "Process 1 (prog1) has ended; its exit status is not known: its parent has collected it. Process 3 (prog3) "
            "ended with status 3; process 2 (prog2) ended with status 0.",
        ),
    ],
)
def test_a_status_is_said_of_those_that_ended_with_it_only(statuses: tuple[int | None, ...], words: str) -> None:
    """The first process is the job; the others are its children, and their ends are no crash of it."""
    world = World()
    for pid in range(1, len(statuses) + 1):
        world.process(pid, ppid=1 if pid > 1 else 0)
    for pid, status in enumerate(statuses, 1):
        world.exits(f"process:box/{pid}", status)
    found = verdict(world)
    assert found.sentence == words
    assert found.state is (VerdictState.UNKNOWN if statuses[0] is None else VerdictState.EXITED)


def test_a_job_of_two_that_were_named_is_a_crash_if_the_second_one_failed() -> None:
    world = World()
    for pid in (1, 2):
        world.process(pid)
    for pid, status in ((1, 0), (2, SEGV)):
        world.exits(f"process:box/{pid}", status)
    assert verdict(world).state is VerdictState.CRASHED


def test_a_part_of_something_does_not_wait_for_it() -> None:
    world = World()
    world.process(1)
    whole, inner = world.lock(0x30, "pylock"), world.lock(0x31, "sem")
    world.edge(EdgeKind.PART_OF, inner, whole)
    world.waits(world.thread(11), inner)
    world.holds(whole, world.thread(12, state=ThreadState.WAITING, waits_in="read"))
    assert inner in world.later(20 * SECOND).diagnosis().graph.blockers_of("thread:box/1/11")
    assert not list(world.diagnosis().graph.blockers_of(inner))


def finding(name: str, state: VerdictState | None, **more: object) -> Finding:
    what: dict[str, object] = {"severity": Severity.WARNING, "entities": (f"thread:box/1/{name}",), **more}
    return Finding(rule=name, sentence=f"{name}.", state=state, **what)  # type: ignore[arg-type]


def looked_at(world: World) -> RuleInput:
    snapshot = world.snapshot()
    return RuleInput(snapshot, GraphKeeper().graph_of(snapshot))


RUNS = busy(t1=5)
"""A state that is `running` without any finding."""


def test_findings_are_ranked_by_what_they_amount_to_then_severity() -> None:
    kinds = VerdictState
    given = [
        finding("note", None),
        finding("unknown", kinds.UNKNOWN),
        finding("unknown-error", kinds.UNKNOWN, severity=Severity.ERROR),
        finding("ended", kinds.EXITED),
        finding("runs", kinds.RUNNING),
        finding("open", kinds.UNKNOWN, decides=True),
        finding("stall", kinds.STALLED),
        finding("dead", kinds.DEADLOCK),
        finding("crash", kinds.CRASHED),
    ]
    wanted = ["crash", "dead", "stall", "open", "runs", "ended", "unknown-error", "unknown", "note"]
    assert [found.rule for found in ranked(given, looked_at(World()))] == wanted


def test_an_inconclusive_finding_that_decides_is_the_verdict_and_another_one_is_added() -> None:
    state = looked_at(RUNS)
    quiet = verdict_of([], state)
    assert quiet.state is VerdictState.RUNNING
    added = verdict_of([finding("note", None), finding("odd", VerdictState.UNKNOWN, roots=("a",))], state)
    assert (added.state, added.sentence, added.roots) == (VerdictState.RUNNING, f"{quiet.sentence} odd.", ("a",))
    decided = verdict_of([finding("odd", VerdictState.UNKNOWN, decides=True, since_wall_ns=5)], state)
    assert (decided.state, decided.sentence, decided.since_wall_ns) == (VerdictState.UNKNOWN, "odd.", 5)
    runs = verdict_of([finding("it", VerdictState.RUNNING)], state)
    assert (runs.state, runs.sentence, runs.roots) == (VerdictState.RUNNING, "it.", quiet.roots)


def test_an_inconclusive_finding_where_nothing_runs_is_the_verdict() -> None:
    world = World()
    world.process(1)
    world.waits(world.thread(1), world.thread(2))
    state = looked_at(world.later())
    quiet = verdict_of([], state)
    assert quiet.state is VerdictState.UNKNOWN and quiet.roots
    own = verdict_of([finding("odd", VerdictState.UNKNOWN, roots=("a",))], state)
    assert (own.state, own.sentence, own.roots) == (VerdictState.UNKNOWN, "odd.", ("a",))
    assert verdict_of([finding("odd", VerdictState.UNKNOWN)], state).roots == quiet.roots


@pytest.mark.parametrize("bad", [VerdictState.DEADLOCK, VerdictState.STALLED])
def test_a_hang_that_its_user_ended_says_so(bad: VerdictState) -> None:
    state = looked_at(World())
    ended = finding(INTERRUPTED, VerdictState.UNKNOWN)
    assert verdict_of([finding("hang", bad), ended], state).sentence == "hang. It was ended by Ctrl-C."
    assert verdict_of([finding("hang", bad)], state).sentence == "hang."
    assert verdict_of([finding("hang", bad), finding(INTERRUPTED, None)], state).sentence == "hang."
    assert verdict_of([finding("bug", VerdictState.CRASHED), ended], state).sentence == "bug."


def test_all_findings_alike_name_their_roots_or_what_takes_part_each_once() -> None:
    given = [
        finding("1", VerdictState.STALLED, roots=("b", "a"), since_wall_ns=7),
        finding("2", VerdictState.STALLED, entities=("c", "a")),
        finding("3", VerdictState.UNKNOWN, roots=("d",)),
    ]
    found = verdict_of(given, looked_at(World()))
    assert (found.roots, found.since_wall_ns, found.sentence) == (("b", "a", "c"), 7, "1.")


@pytest.mark.parametrize(
    ("state", "findings", "code"),
    [
        (VerdictState.CRASHED, (), 11),
        (VerdictState.DEADLOCK, (), 10),
        (VerdictState.STALLED, (), 10),
        (VerdictState.DIVERGED, (), 12),
        (VerdictState.RUNNING, (finding("x", None, topic="precision"),), 12),
        (VerdictState.RUNNING, (finding("x", None),), 0),
        (VerdictState.EXITED, (), 0),
        (VerdictState.UNKNOWN, (), 5),
        (VerdictState.UNKNOWN, (finding(CANT_SEE, None),), 5),
        (VerdictState.UNKNOWN, (finding("x", VerdictState.UNKNOWN), finding(CANT_SEE, VerdictState.UNKNOWN)), 3),
        (VerdictState.STALLED, (finding("x", None, topic="precision"),), 10),
    ],
)
def test_exit_codes(state: VerdictState, findings: tuple[Finding, ...], code: int) -> None:
    assert exit_code(Verdict(state=state, sentence=""), findings) == code


def test_a_blind_source_is_the_verdict_but_for_a_hang_or_an_end_that_was_seen() -> None:
    blind = finding(CANT_SEE, VerdictState.UNKNOWN)
    said = verdict_of([blind], looked_at(RUNS))
    assert (said.state, said.sentence, said.roots) == (VerdictState.UNKNOWN, f"{CANT_SEE}.", blind.entities)
    assert verdict_of([finding("hang", VerdictState.STALLED), blind], looked_at(RUNS)).state is VerdictState.STALLED
    ended = World()
    ended.exits(ended.process(1), 0)
    over = verdict_of([blind], looked_at(ended))
    assert over.state is VerdictState.EXITED and over.sentence.endswith(f"ended with status 0. {CANT_SEE}.")


@pytest.mark.parametrize(
    ("others", "words"),
    [
        (0, "thread 1 (t1) computes, or spins ("),
        (1, "thread 1 (t1) and 1 other compute, or spin ("),
        (2, "thread 1 (t1) and 2 others compute, or spin ("),
    ],
)
def test_how_many_compute_or_spin(others: int, words: str) -> None:
    world = World()
    world.process(1)
    for cpu_ns in (0, SECOND):
        world.now_ns += SECOND
        for tid in range(1, others + 2):
            thread = Thread(
                id=f"thread:box/1/{tid}",
                process="process:box/1",
                tid=tid,
                name=f"t{tid}",
                state=ThreadState.RUNNING,
                cpu_ns=cpu_ns // tid,
                marks=9,
            )
            world.store.apply(ev.ThreadsSeen(threads=(thread,), **world.stamp()))
    found = verdict(world)
    assert found.state is VerdictState.UNKNOWN
    assert words in found.sentence


def test_where_threads_sit_is_said_by_the_best_that_is_known() -> None:
    world = World()
    world.process(1)
    calls = ((1, "futex wait", "futex"), (2, "futex wait", "futex"), (3, None, "read"), (4, None, None))
    for tid, waits_in, syscall in calls:
        thread = Thread(
            id=f"thread:box/1/{tid}",
            process="process:box/1",
            tid=tid,
            state=ThreadState.WAITING,
            waits_in=waits_in,
            syscall=syscall,
        )
        world.store.apply(ev.ThreadsSeen(threads=(thread,), **world.stamp()))
    assert "(2 in futex wait, 1 in read, 1 in waiting)" in verdict(world).sentence


def test_of_a_target_that_nobody_has_looked_at_yet_it_is_said_that_it_lives() -> None:
    world = World()
    named = Process(id="process:box/1", host="box", pid=1, command=("/usr/bin/python", "a.py"), named=True)
    world.store.apply(ev.ProcessSeen(process=named, **world.stamp()))
    assert verdict(world).sentence == "Nothing is known of process 1 (python) yet, but that it lives."


def test_nothing_that_is_stuck_is_not_nothing_that_is_seen() -> None:
    world = World()
    world.process(1)
    assert verdict(world).sentence == "Nothing can be seen yet."
    world.task("g0", TaskState.COMPLETED, world.now_ns)
    assert verdict(world).sentence == "Nothing is known to be stuck."


def test_threads_that_have_ended_and_those_of_others_are_not_watched() -> None:
    world = World()
    world.process(1)
    world.process(2, target=False)
    world.thread(1, waits_in="sem_wait")
    gone = Thread(id="thread:box/1/9", process="process:box/1", tid=9, waits_in="read", exited=True)
    world.store.apply(ev.ThreadsSeen(threads=(gone,), **world.stamp()))
    world.thread(2, pid=2, state=ThreadState.RUNNING, cpu_ns=0)
    world.later()
    world.thread(2, pid=2, state=ThreadState.RUNNING, cpu_ns=SECOND)
    found = verdict(world)
    assert found.state is VerdictState.UNKNOWN
    assert "(1 in sem_wait)" in found.sentence
