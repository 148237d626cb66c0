"""What findings rest on and name: evidence, places, times, and which of several tasks, counters and sources."""

from __future__ import annotations

from dataclasses import replace

import pytest

from livedbg.analysis import Finding, VerdictState
from livedbg.analysis.blocking import blocking_of
from livedbg.analysis.engine import GraphKeeper
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.places import blocked_in, call_at, places_in, thing_name, user_frame
from livedbg.analysis.rules.words import edge_evidence, pids_of, since_wall_ns, thread_evidence, waited_ns
from livedbg.model import (
    SOURCE_FAILED,
    Diagnostic,
    Edge,
    EdgeKind,
    EdgeState,
    Evidence,
    Frame,
    LogSource,
    Process,
    Severity,
    SourceHealth,
    SourceStatus,
    Stack,
    Task,
    TaskState,
    Thread,
    ThreadState,
)
from livedbg.model import events as ev
from livedbg.model.snapshot import Clock
from tests.analysis.world import LOOK, SECOND, World

ONE, MAIN = "process:box/1", "thread:box/1/1"
MUTEX = "mutex:box/1/0x10"
BEGAN = 10**18 + 100 * SECOND


def all_of(world: World, rule: str) -> list[Finding]:
    return [finding for finding in world.diagnosis().findings.values() if finding.rule == rule]


def linked(kind: EdgeKind, evidence: str, *, inferred: bool = False) -> World:
    world = World()
    world.process(1)
    world.thread(1, "main")
    world.lock(0x10)
    source, target = (MAIN, MUTEX)
    edge = Edge(kind=kind, source=source, target=target, state=EdgeState.PENDING, evidence=evidence, inferred=inferred)
    world.store.apply(ev.EdgesAdded(scope="test", edges=(edge,), **world.stamp()))
    return world


@pytest.mark.parametrize(
    ("kind", "evidence", "inferred", "wanted"),
    [
        (EdgeKind.WAITS_FOR, "futex word 0x7f is 2", False, ("memory", "waits for", "futex word 0x7f is 2")),
        (EdgeKind.WAITS_FOR, "syscall read", False, ("proc", "waits for", "syscall read")),
        (EdgeKind.WAITS_FOR, "the word at 0x7f", True, ("inference", "waits for", "the word at 0x7f")),
        (EdgeKind.DEPENDS_ON, "log line", False, ("proc", "depends on", "log line")),
        (EdgeKind.HOLDS, "owner", False, ("proc", "holds", "owner")),
        (EdgeKind.WAITS_FOR, "", False, ("proc", "waits for", "waits_for")),
    ],
)
def test_a_link_is_evidence_in_words(
    kind: EdgeKind, evidence: str, inferred: bool, wanted: tuple[str, str, str]
) -> None:
    world = linked(kind, evidence, inferred=inferred)
    pair = (MUTEX, MAIN) if kind is EdgeKind.HOLDS else (MAIN, MUTEX)
    proof = edge_evidence(*pair, world.snapshot())
    what, verb, text = wanted
    assert proof is not None
    assert (proof.kind, proof.source) == (what, f"thread 1 (main) {verb} mutex 0x10")
    assert (proof.text, proof.at_wall_ns) == (text, BEGAN)
    assert edge_evidence(*reversed(pair), world.snapshot()) is None


def test_how_long_a_thread_has_waited_and_since_when() -> None:
    world = World()
    world.process(1)
    world.thread(1)
    world.thread(2, state=ThreadState.RUNNING)
    world.later(4 * SECOND)
    snapshot = world.later().snapshot()
    waits = snapshot.threads[MAIN]
    assert waited_ns(waits, snapshot) == 4 * SECOND + LOOK
    assert since_wall_ns(waits, snapshot) == BEGAN
    for tid in (2, 9):
        other = Thread(id=f"thread:box/1/{tid}", process=ONE, tid=tid)
        assert (waited_ns(other, snapshot), since_wall_ns(other, snapshot)) == (None, None)


def test_a_wait_that_began_after_the_last_event_of_its_host_is_no_negative_time() -> None:
    world = World()
    world.thread(1)
    snapshot = world.snapshot()
    earlier = replace(snapshot, clocks={"box": Clock(mono_ns=world.now_ns - SECOND, wall_ns=BEGAN)})
    assert waited_ns(earlier.threads[MAIN], earlier) == 0


def test_evidence_of_a_thread_has_its_cpu_time_only_if_it_was_sampled() -> None:
    world = World()
    world.process(1)
    for done in (0, 1):
        world.thread(1, cpu_ns=done * 1_500_000_000)
        world.now_ns += LOOK
    snapshot = world.snapshot()
    sampled = thread_evidence(snapshot.threads[MAIN], rule_input(world))
    assert sampled.text == "waiting in pthread_mutex_lock, used 1.50 s of CPU while it was watched"
    other = Thread(id="thread:box/1/7", process=ONE, tid=7, state=ThreadState.RUNNING)
    assert thread_evidence(other, rule_input(world)).text == "running"
    assert thread_evidence(other, rule_input(world)).source == "/proc/1/task/7"


def test_pids_come_once_and_lowest_first() -> None:
    assert pids_of(("thread:box/7/8", "process:box/3", MUTEX, "thread:box/7/9", "task:toy/1")) == [3, 7]


def rule_input(world: World) -> RuleInput:
    snapshot = world.snapshot()
    return RuleInput(snapshot, GraphKeeper().graph_of(snapshot))


def stacked(world: World, thread: str, *frames: Frame) -> None:
    stack = Stack(thread=thread, frames=frames, taken_mono_ns=world.now_ns, source="glance")
    world.store.apply(ev.StacksSeen(stacks=(stack,), **world.stamp()))


OWN = Frame(function="serve", file="/x/server.cpp", line=31)


@pytest.mark.parametrize(
    ("frame", "own"),
    [
        (Frame(function="f", file="/x/server.cpp", line=31), True),
        (Frame(function="f", file="/x/server.cpp"), False),
        (Frame(function="f", line=31), False),
        (Frame(function="f", file="/usr/lib/python3.11/queue.py", line=3), False),
        (Frame(function="f", file="/x/site-packages/torch/a.py", line=3), False),
        (Frame(function="f", file="/x/eval.c", line=3, module="libpython3.11.so.1.0"), False),
        (Frame(function="f", file="/x/eval.c", line=3, module="libmine.so"), True),
    ],
)
def test_a_line_is_the_user_s_own_by_its_file_and_module(frame: Frame, own: bool) -> None:
    world = World()
    world.thread(1)
    stacked(world, MAIN, frame, Frame(function="main", file="/x/main.cpp", line=5))
    found = user_frame(MAIN, rule_input(world))
    assert found is not None
    assert (found.function == "f") is own
    assert user_frame("thread:box/1/9", rule_input(world)) is None


def test_a_call_is_said_with_the_users_line_unless_it_is_the_users_function() -> None:
    world = World()
    world.thread(1)
    assert call_at("synchronize", MAIN, rule_input(world)) == "synchronize"
    stacked(world, MAIN, Frame(function="train(int)", file="/x/train.cpp", line=31))
    assert call_at("synchronize", MAIN, rule_input(world)) == "synchronize in train (train.cpp:31)"
    assert call_at("train", MAIN, rule_input(world)) == "train"


def test_the_lines_of_several_threads_are_given_only_if_all_are_known() -> None:
    world = World()
    threads = [world.thread(tid) for tid in (1, 2, 3, 4)]
    for thread, file, line in zip(threads, ("/x/a.py", "/x/a.py", "/y/b.py"), (3, 5, 7), strict=False):
        stacked(world, thread, Frame(function="f", file=file, line=line))
    state = rule_input(world)
    assert places_in(threads[:3], state) == " (f a.py:3, :5, b.py:7)"
    assert places_in([threads[2], threads[0]], state) == " (f b.py:7, a.py:3)"
    assert places_in(threads, state) == ""
    assert places_in((), state) == ""


@pytest.mark.parametrize(
    ("waits_in", "syscall", "words"),
    [
        ("pause", "pause", "pause() in serve (server.cpp:31)"),
        ("read of socket 3", "read", "read of socket 3 in serve (server.cpp:31)"),
        (None, "futex", "futex() in serve (server.cpp:31)"),
        (None, None, "a call in serve (server.cpp:31)"),
    ],
)
def test_what_a_thread_is_blocked_in(waits_in: str | None, syscall: str | None, words: str) -> None:
    world = World()
    thread = Thread(id=MAIN, process=ONE, tid=1, waits_in=waits_in, syscall=syscall)
    world.store.apply(ev.ThreadsSeen(threads=(thread,), **world.stamp()))
    stacked(world, MAIN, OWN)
    assert blocked_in(thread, rule_input(world)) == words


def test_a_thing_has_no_address_in_a_sentence() -> None:
    world = World()
    world.lock(0x10)
    world.resource("gil:box/1/0x20")
    world.resource("pipe:box/9")
    names = [
        thing_name(entity, world.snapshot()) for entity in (MUTEX, "gil:box/1/0x20", "pipe:box/9", "latch:box/1/0x3")
    ]
    assert names == ["a mutex", "the GIL", "pipe 9", "a latch"]


def test_a_thread_that_has_ended_does_not_keep_others_from_standing_for_their_process() -> None:
    world = World()
    for pid in (1, 2):
        world.process(pid)
    for tid, state, exited in ((2, ThreadState.WAITING, True), (3, ThreadState.ZOMBIE, False)):
        gone = Thread(id=f"thread:box/2/{tid}", process="process:box/2", tid=tid, state=state, exited=exited)
        world.store.apply(ev.ThreadsSeen(threads=(gone,), **world.stamp()))
    alive = world.thread(4, pid=2)
    world.waits(world.thread(1), "process:box/2")
    pairs = blocking_of(world.snapshot()).pairs
    assert [pair for pair in pairs if pair[0] == "process:box/2"] == [("process:box/2", alive)]


def own_channel(**attributes: str) -> World:
    world = World()
    world.process(1)
    pipe = world.resource("pipe:box/9", **attributes)
    world.holds(pipe, ONE)
    world.waits(world.thread(2, "second"), pipe)
    world.waits(world.thread(3, "third"), pipe)
    return world.later(20 * SECOND)


def test_a_wait_for_its_own_pipe_rests_on_the_link_and_on_what_could_end_it() -> None:
    found = own_channel(outside="process 1 handles SIGTERM").found("own-channel")
    assert (found.roots, found.entities) == (("thread:box/1/2",), ("thread:box/1/2", "pipe:box/9"))
    assert [proof.place for proof in found.evidence] == [
        "thread 2 (second) waits for pipe 9",
        "/proc: who else could end the wait",
    ]
    assert found.evidence[1].text == "process 1 handles SIGTERM"
    assert (found.severity, found.next) == (Severity.INFO, ("livedbg stacks 1 --native",))
    assert own_channel().finding("own-channel") is None


def test_a_pipe_that_another_process_has_too_or_nobody_is_not_its_own() -> None:
    world = own_channel(outside="process 1 handles SIGTERM")
    world.holds("pipe:box/9", world.process(2))
    assert world.finding("own-channel") is None
    world = World()
    world.process(1)
    world.waits(world.thread(1), world.resource("pipe:box/9", outside="a FIFO"))
    assert world.later().finding("own-channel") is None
    world = World()
    world.process(1)
    pipe = world.resource("pipe:box/9", outside="a FIFO")
    world.holds(pipe, ONE)
    world.waits("task:toy/1", pipe)
    assert world.later().finding("own-channel") is None


def status(world: World, health: SourceHealth, code: str, target: str = ONE, remedy: str = "mend it") -> None:
    said = SourceStatus(
        source=f"native{code}", target=target, health=health, code=code, sentence=f"No {code or 'x'}.", remedy=remedy
    )
    world.store.apply(ev.StatusSeen(status=said, **world.stamp()))


@pytest.mark.parametrize(
    ("health", "code", "named", "over", "wanted"),
    [
        (SourceHealth.FAILED, SOURCE_FAILED, False, False, (Severity.WARNING, VerdictState.UNKNOWN)),
        (SourceHealth.FAILED, "gdb", True, False, (Severity.WARNING, None)),
        (SourceHealth.DEGRADED, SOURCE_FAILED, True, False, (Severity.INFO, None)),
        (SourceHealth.DEGRADED, "other-user", True, False, (Severity.WARNING, VerdictState.UNKNOWN)),
        (SourceHealth.DEGRADED, "other-user", False, False, (Severity.INFO, None)),
        (SourceHealth.DEGRADED, "other-user", True, True, (Severity.INFO, None)),
        (SourceHealth.FAILED, "other-user", True, False, (Severity.WARNING, None)),
    ],
)
def test_what_keeps_livedbg_from_answering(
    health: SourceHealth, code: str, named: bool, over: bool, wanted: tuple[Severity, VerdictState | None]
) -> None:
    world = World()
    process = Process(id=ONE, host="box", pid=1, named=named)
    world.store.apply(ev.ProcessSeen(process=process, **world.stamp()))
    if over:
        world.exits(ONE, 0)
    status(world, health, code)
    found = world.found("cant-see")
    assert (found.severity, found.state) == wanted
    assert found.entities == (ONE,)
    assert found.next == ("mend it",)
    assert found.evidence[0].text == f"{health} {code}"


def test_a_source_of_no_process_names_none_and_one_that_works_is_no_finding() -> None:
    world = World()
    status(world, SourceHealth.OK, "fine")
    assert world.finding("cant-see") is None
    status(world, SourceHealth.DEGRADED, "", target="log:box/x", remedy="")
    found = world.found("cant-see")
    assert (found.entities, found.next, found.evidence[0].text) == ((), (), "degraded")


def test_tasks_that_are_no_stall_do_not_hide_one_that_is() -> None:
    world = World()
    world.task("left-to-its-system", TaskState.RUNNING, world.now_ns, system="ascend")
    timeless = world.task("timeless", TaskState.RUNNING, None, system="toy")
    alone = world.task("alone", TaskState.RUNNING, world.now_ns, system="toy")
    waits = world.task("waits", TaskState.RUNNING, world.now_ns, system="toy")
    slow = world.task("slow", TaskState.RUNNING, world.now_ns, system="toy")
    world.edge(EdgeKind.DEPENDS_ON, waits, slow)
    for number in range(4):
        world.edge(EdgeKind.DEPENDS_ON, world.task(f"s{number}", TaskState.SUBMITTED, 0, system="toy"), slow)
    world.edge(EdgeKind.DEPENDS_ON, world.task("t", TaskState.SUBMITTED, 0, system="toy"), timeless)
    [found] = all_of(world.later(20 * SECOND), "task-stalled")
    assert found.roots == (slow,)
    assert alone not in found.entities
    assert "5 tasks wait behind it, 5 directly." in found.sentence
    assert len(found.evidence) == 4  # the run times and three of those that wait
    assert found.evidence[0].text == "none completed"


def test_a_task_s_time_of_day_is_enough() -> None:
    world = World()
    slow = Task(
        id="task:toy/slow",
        system="toy",
        name="slow",
        state=TaskState.RUNNING,
        since_wall_ns=BEGAN,
        where=("core:toy/3",),
    )
    world.store.apply(ev.TasksSeen(tasks=(slow,), **world.stamp()))
    world.edge(EdgeKind.DEPENDS_ON, world.task("t", TaskState.SUBMITTED, 0, system="toy"), slow.id)
    assert world.later(10 * SECOND - 1).finding("task-stalled") is None
    found = world.later(1).found("task-stalled")
    assert found.sentence.startswith("Task slow has been RUNNING on core 3 for 10 s. 1 task waits behind it")
    assert (found.since_wall_ns, found.entities) == (BEGAN, (slow.id, "core:toy/3"))


def counted(name: str, world: World, *, steps: int = 4, total: float = 10) -> None:
    for value in range(steps):
        world.counter(name, value, total)
        world.later(SECOND)


def test_a_count_that_may_still_rise_does_not_hide_one_that_stays() -> None:
    world = World()
    for value in range(4):
        world.counter("ring:toy/slow", value, 10)
        world.later(5 * SECOND)
    counted("ring:toy/stuck", world)
    found = all_of(world.later(12 * SECOND), "no-progress")
    assert [finding.entities for finding in found] == [("ring:toy/stuck",)]
    assert found[0].sentence.startswith("completed of ring stuck has stayed at 3 of 10 for 13 s; ")
    assert found[0].sentence.endswith("before that it rose every 1.0 s.")
    now_ns = world.snapshot().now().wall_ns
    assert (found[0].since_wall_ns, found[0].inferred) == (now_ns - 13 * SECOND, True)


@pytest.mark.parametrize(("share", "found"), [(0.0, True), (0.49, True), (0.5, False), (0.9, False)])
def test_a_count_that_stays_is_a_stall_only_while_no_thread_is_busy(share: float, found: bool) -> None:
    world = World()
    world.process(1)
    counted("ring:toy/1", world)
    for done in (0, 1):
        world.thread(1, state=ThreadState.RUNNING, cpu_ns=int(done * 20 * SECOND * share))
        world.now_ns += 20 * SECOND if not done else 0
    world.store.apply(ev.Tick(**world.stamp()))
    assert (world.finding("no-progress") is not None) is found


@pytest.mark.parametrize(("threads", "found"), [(7, True), (8, False)])
def test_many_threads_that_share_a_full_machine_are_busy_together(threads: int, found: bool) -> None:
    world = World()
    world.process(1)
    counted("ring:toy/1", world)
    for done in (0, 1):
        for tid in range(1, threads + 1):
            world.thread(tid, state=ThreadState.RUNNING, cpu_ns=done * 20 * SECOND // 15)
        world.now_ns += 20 * SECOND if not done else 0
    world.store.apply(ev.Tick(**world.stamp()))
    assert (world.finding("no-progress") is not None) is found


def test_a_count_that_rose_all_at_once_has_no_pace() -> None:
    """A log that is read shows all its counts in one moment."""
    world = World()
    for value in range(4):
        world.counter("ring:toy/1", value, 10)
    assert world.later(30 * SECOND).finding("no-progress") is None


def test_counters_of_a_system_that_judges_its_tasks_are_left_to_it() -> None:
    world = World()
    counted("run:ascend/main", world)
    assert world.later(30 * SECOND).finding("no-progress") is None


def test_one_busy_thread_beside_idle_ones_is_enough() -> None:
    world = World()
    world.process(1)
    counted("ring:toy/1", world)
    for done in (0, 1):
        world.thread(1, cpu_ns=0)
        world.thread(2, state=ThreadState.RUNNING, cpu_ns=done * 20 * SECOND)
        world.now_ns += 20 * SECOND if not done else 0
    assert world.finding("no-progress") is None


def test_a_thread_in_a_page_fault_of_which_no_last_run_is_known_is_no_stall() -> None:
    world = World()
    world.process(1)
    thread = Thread(id=MAIN, process=ONE, tid=1, state=ThreadState.DISK)
    world.threads[MAIN] = thread
    assert world.later(60 * SECOND).later(60 * SECOND).finding("uninterruptible-sleep") is None


def test_of_errors_that_are_counted_together_each_gives_one_line_of_evidence() -> None:
    world = World()
    proofs = tuple(Evidence(kind="log", file="toy.log", line=line, text="E") for line in (1, 2))
    for number in range(12):
        error = Diagnostic(
            id=f"d{number}", system="toy", code="bad", severity=Severity.ERROR, sentence="Bad", evidence=proofs
        )
        world.store.apply(ev.DiagnosticSeen(diagnostic=error, **world.stamp()))
    found = all_of(world, "error-reported")
    assert len(found) == 11
    assert found[-1].sentence == "toy reported 2 more errors."
    assert [proof.place for proof in found[-1].evidence] == ["toy.log:1", "toy.log:1"]


def test_those_who_wait_are_threads_only_if_all_are() -> None:
    world = World()
    world.process(1)
    stopped = world.process(2, ThreadState.STOPPED)
    world.waits(world.thread(1), stopped)
    assert world.found("stopped-process").sentence.endswith(" 1 thread waits for it.")
    world.waits("task:toy/1", stopped)
    assert world.found("stopped-process").sentence.endswith(" 2 others wait for it.")


def test_a_traced_thread_whose_process_is_not_known_yet_or_that_has_ended_is_no_finding() -> None:
    world = World()
    world.thread(2, state=ThreadState.TRACED, waits_in="stopped by its tracer")
    assert world.later(60 * SECOND).finding("traced-process") is None
    world.process(1)
    assert world.found("traced-process").entities == ("thread:box/1/2",)
    gone = Thread(id="thread:box/1/2", process=ONE, tid=2, state=ThreadState.TRACED, exited=True)
    world.store.apply(ev.ThreadsSeen(threads=(gone,), **world.stamp()))
    assert world.finding("traced-process") is None


@pytest.mark.parametrize(
    ("errors", "line", "process", "where", "about"),
    [
        (1, 7, None, "app.log:7", ()),
        (2, 7, ONE, "app.log:7", (ONE,)),
        (1, None, ONE, "app.log", (ONE,)),
    ],
)
def test_error_lines_are_of_their_log_and_the_place_of_the_first_is_given(
    errors: int, line: int | None, process: str | None, where: str, about: tuple[str, ...]
) -> None:
    world = World()
    source = LogSource(
        id="log:box/app.log",
        name="app.log",
        errors=errors,
        last_error="E boom",
        first_error_line=line,
        process=process,
    )
    world.store.apply(ev.LogSourceSeen(source=source, **world.stamp()))
    found = world.found("error-lines")
    assert (found.evidence[0].place, found.entities) == (where, about)
