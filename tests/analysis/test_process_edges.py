"""Edges of the rules about single threads and processes: spinning, asleep in the kernel, stopped, held back, ended."""

from __future__ import annotations

import msgspec
import pytest

from livedbg.analysis import Finding, VerdictState
from livedbg.analysis.blocking import blocking_of, standing_of
from livedbg.analysis.engine import GraphKeeper
from livedbg.analysis.postmortem.ended import heads, how_ended, is_crash, is_interrupt
from livedbg.analysis.rules.base import RuleInput
from livedbg.model import (
    HANG_SEEN,
    Diagnostic,
    Edge,
    EdgeKind,
    EdgeState,
    ExceptionHit,
    Frame,
    Process,
    Severity,
    Stack,
    TaskState,
    Thread,
    ThreadState,
    WaitKind,
)
from livedbg.model import events as ev
from livedbg.model.facts import GroupFacts
from tests.analysis.test_burning import Busy, sampled
from tests.analysis.test_file_locks import HOLDER, PAUSES, held
from tests.analysis.test_held_back import asleep, grouped
from tests.analysis.world import LOOK, SECOND, World

ONE, MAIN = "process:box/1", "thread:box/1/1"
BEGAN = 10**18 + 100 * SECOND


def spinner(*more: tuple[int, ThreadState, int]) -> Busy:
    """A thread that has spun for 17 s, and others (number, state, CPU time since the first look)."""
    world = sampled(*[("spin_wait:31", "step:9", "main")] * 4)
    for tid, state, cpu_ns in more:
        world.thread(tid, f"other{tid}", state=state)
        world.now_ns += 1
        world.thread(tid, f"other{tid}", state=state, cpu_ns=cpu_ns)
    return world


def test_a_spinner_alone_is_what_a_verdict_rests_on() -> None:
    found = spinner().found("spinning")
    assert (found.severity, found.state, found.roots) == (Severity.WARNING, VerdictState.UNKNOWN, (MAIN,))
    assert found.entities == (MAIN,)
    assert found.evidence[1].text == "4 stacks in one place"
    assert (found.evidence[1].source, found.next) == ("py-spy", ("livedbg stacks 1 --for 10s",))
    assert found.sentence == ("Thread 1 (solver) computes or spins in spin_wait (train.py:31) for 13 s or more.")


def test_three_stacks_in_one_place_are_enough() -> None:
    found = sampled(*[("spin_wait:31", "main")] * 3, every_s=6).found("spinning")
    assert found.evidence[1].text == "3 stacks in one place"


def test_a_spinner_beside_one_that_runs_is_a_note() -> None:
    found = spinner((2, ThreadState.RUNNING, 0)).found("spinning")
    assert (found.severity, found.state, found.roots) == (Severity.INFO, None, ())
    assert found.sentence.endswith("for 13 s or more.")


@pytest.mark.parametrize(
    ("state", "cpu_ns", "alone"),
    [
        (ThreadState.WAITING, 0, True),  # it never got on
        (ThreadState.WAITING, SECOND, False),
        (ThreadState.ZOMBIE, 0, True),
        (ThreadState.DISK, 0, True),
    ],
)
def test_what_a_spinner_may_wait_for_runs_or_got_on(state: ThreadState, cpu_ns: int, alone: bool) -> None:
    assert (spinner((2, state, cpu_ns)).found("spinning").state is not None) is alone


@pytest.mark.parametrize(("later_ns", "alone"), [(9 * SECOND, False), (10 * SECOND, True), (11 * SECOND, True)])
def test_one_that_got_on_before_the_threshold_is_not_waited_for(later_ns: int, alone: bool) -> None:
    world = spinner((2, ThreadState.WAITING, SECOND))
    assert (world.look(later_ns).found("spinning").state is not None) is alone


def test_one_that_never_got_on_does_not_hide_another_that_does() -> None:
    world = spinner((2, ThreadState.WAITING, 0), (3, ThreadState.RUNNING, SECOND))
    world.thread(4, state=ThreadState.WAITING)
    assert world.found("spinning").state is None


def test_a_thread_that_has_ended_is_not_waited_for() -> None:
    world = spinner()
    gone = Thread(id="thread:box/1/2", process=ONE, tid=2, state=ThreadState.RUNNING, exited=True)
    world.store.apply(ev.ThreadsSeen(threads=(gone,), **world.stamp()))
    assert world.found("spinning").state is VerdictState.UNKNOWN


def test_those_who_wait_for_a_spinner_take_part() -> None:
    world = spinner()
    world.waits(world.thread(2), MAIN)
    assert world.found("spinning").entities == (MAIN, "thread:box/1/2")


def seen_in(world: World, thread: str, *frames: Frame) -> None:
    """A stack of a thread."""
    stack = Stack(thread=thread, frames=frames, taken_mono_ns=world.now_ns, source="glance", layer="native")
    world.store.apply(ev.StacksSeen(stacks=(stack,), **world.stamp()))


def test_a_spinner_behind_threads_that_do_not_spin_is_found() -> None:
    world = Busy.__new__(Busy)
    World.__init__(world)
    world.process(1)
    gone = Thread(id="thread:box/1/4", process=ONE, tid=4, state=ThreadState.RUNNING, exited=True)
    world.store.apply(ev.ThreadsSeen(threads=(gone,), **world.stamp()))
    for tid in (2, 3, 5):  # one of which no stack is known, one that waits, and one that was seen too seldom
        world.thread(tid, state=ThreadState.WAITING if tid == 3 else ThreadState.RUNNING)
    world.cpu_ns, world.marks = 0, 100
    world.look(0)
    for look in range(4):
        world.look(4 * SECOND)
        for tid in (1, 3, *((5,) if look > 2 else ())):
            seen_in(world, f"thread:box/1/{tid}", Frame(function="spin_wait"), Frame(function="main"))
    world.look(SECOND)
    assert list(world.snapshot().threads)[-1] == MAIN
    assert [f.entities[0] for f in world.diagnosis().findings.values() if f.rule == "spinning"] == [MAIN]


@pytest.mark.parametrize(
    ("functions", "words"),
    [
        (("spin_wait", "step:9", "main"), "computes or spins in spin_wait (train.py:7)"),
        (
            ("poll_all", "MPI_Recv:5", "main"),
            "computes or spins in MPI_Recv (train.py:7)",
        ),  # the innermost line of the user's
        (("relu:3", "forward", "main"), "computes or spins in relu (train.py:3)"),
    ],
)
def test_the_function_that_waits_is_named_or_else_the_user_s_innermost(functions: tuple[str, ...], words: str) -> None:
    assert words in sampled(*[functions] * 4).found("spinning").sentence


def test_a_function_of_no_known_line_is_named_alone() -> None:
    world = Busy()
    for _ in range(4):
        world.look(4 * SECOND)
        seen_in(world, MAIN, Frame(function="relu", module="libtorch.so"), Frame(function="main"))
    assert "computes or spins in relu for" in world.look(SECOND).found("spinning").sentence


@pytest.mark.parametrize(
    ("channel", "syscall", "found"),
    [
        ("folio_wait_bit", "fsync", True),
        ("nfs_wait_bit_killable", "close", True),
        ("handle_userfault", "read", False),
        ("ptrace_stop", "read", False),
        ("cgroup_freezer_wait", "read", False),
        ("do_coredump", "read", False),
        ("wait_for_vfork_done", "execve", False),
        ("", "clone3", False),
        ("", "vfork", False),
        ("", "clone_file", True),
    ],
)
def test_a_sleep_in_the_kernel_that_others_end_is_no_stall(channel: str, syscall: str, found: bool) -> None:
    world = asleep(12, syscall=syscall, channel=channel)
    assert (world.finding("uninterruptible-sleep") is not None) is found


def test_a_sleep_in_the_kernel_has_its_time_and_place() -> None:
    finding = asleep(12).found("uninterruptible-sleep")
    assert (finding.severity, finding.roots, finding.entities) == (Severity.ERROR, (MAIN,), (MAIN,))
    assert finding.since_wall_ns == BEGAN
    assert finding.next[0].startswith("sudo cat /proc/1/task/1/stack ")
    assert "for 12 s or more: what" in asleep(12, channel="").found("uninterruptible-sleep").sentence
    helper = asleep(12, tid=2).found("uninterruptible-sleep")
    assert (helper.severity, helper.roots) == (Severity.WARNING, ())
    assert asleep(10).finding("uninterruptible-sleep") is not None
    assert asleep(9.9).finding("uninterruptible-sleep") is None


def test_a_page_fault_lasts_by_the_kernel_s_clock_if_the_thread_has_not_run() -> None:
    assert asleep(10, syscall=None, last_ran=True).found("uninterruptible-sleep").since_wall_ns == BEGAN
    assert asleep(9.9, syscall=None, last_ran=True).finding("uninterruptible-sleep") is None
    ran = asleep(5, syscall=None, last_ran=True)
    old = ran.threads[MAIN]
    ran.threads[MAIN] = msgspec.structs.replace(old, cpu_ns=1_000_000)
    ran.later()
    ran.threads[MAIN] = msgspec.structs.replace(old, cpu_ns=2_000_000)
    assert ran.later(20 * SECOND).finding("uninterruptible-sleep") is None


def test_a_frozen_thread_in_such_a_sleep_is_told_by_its_group() -> None:
    world = asleep(60)
    frozen = msgspec.structs.replace(world.threads[MAIN], wait=WaitKind.STOP)
    world.threads[MAIN] = frozen
    world.later()
    assert world.later(60 * SECOND).finding("uninterruptible-sleep") is None


@pytest.mark.parametrize(("seconds", "found"), [(9.9, False), (10, True)])
def test_a_thread_that_a_debugger_holds_for_the_threshold(seconds: float, found: bool) -> None:
    world = World()
    world.process(1)
    world.thread(1)
    world.thread(2, state=ThreadState.TRACED, waits_in="stopped by its tracer")
    finding = world.later(int(seconds * SECOND)).finding("traced-process")
    assert (finding is not None) is found
    if finding is not None:
        assert (finding.severity, finding.state, finding.roots) == (Severity.WARNING, None, ())
        world.waits(MAIN, "thread:box/1/2")
        awaited = world.found("traced-process")
        assert (awaited.severity, awaited.roots) == (Severity.ERROR, ("thread:box/1/2",))
        assert awaited.entities == ("thread:box/1/2", MAIN)


@pytest.mark.parametrize(("still_ns", "found"), [(200_000_000 - 1, False), (200_000_000, True)])
def test_a_traced_process_is_stopped_if_none_of_its_threads_changes(still_ns: int, found: bool) -> None:
    world = World()
    world.process(1, ThreadState.TRACED)
    world.thread(1, state=ThreadState.TRACED)
    world.later(SECOND)
    world.thread(2, state=ThreadState.TRACED)
    finding = world.later(still_ns).finding("traced-process")
    assert (finding is not None) is found
    assert finding is None or "stopped by a debugger (traced)" in finding.sentence


def test_processes_that_have_ended_are_neither_stopped_nor_traced() -> None:
    world = World()
    for pid, state in ((1, ThreadState.STOPPED), (2, ThreadState.TRACED)):
        world.exits(world.process(pid, state), 0)
    assert not {"stopped-process", "traced-process"} & {f.rule for f in world.diagnosis().findings.values()}


def test_who_waits_for_a_stopped_process_takes_part_but_for_its_own_threads() -> None:
    world = World()
    world.process(1)
    stopped = world.process(2, ThreadState.STOPPED, notes=("in the background",))
    world.waits(world.thread(2, pid=2), stopped)
    world.waits(world.thread(1), stopped)
    found = world.later().found("stopped-process")
    assert found.entities == (stopped, MAIN)
    assert (found.severity, found.state, found.roots) == (Severity.ERROR, VerdictState.STALLED, (stopped,))
    assert found.evidence[0].text == "state stopped (in the background)"
    alone = World()
    alone.process(1, ThreadState.STOPPED)
    assert alone.found("stopped-process").sentence == "Process 1 (prog1) is stopped by a signal (job control)."


def ended(status: int | None) -> list[Finding]:
    world = World()
    world.exits(world.process(1), status)
    return [f for f in world.diagnosis().findings.values() if f.rule == "crash"]


@pytest.mark.parametrize(
    ("status", "severity", "words", "hint"),
    [
        (-11, Severity.CRITICAL, "Process 1 (prog1) was ended by SIGSEGV.", "coredumpctl"),
        (-9, Severity.CRITICAL, "Process 1 (prog1) was ended by SIGKILL.", "dmesg"),
        (-15, Severity.CRITICAL, "Process 1 (prog1) was ended by SIGTERM.", "read its last log lines"),
        (-1, Severity.CRITICAL, "Process 1 (prog1) was ended by SIGHUP.", "read its last log lines"),
        (3, Severity.ERROR, "Process 1 (prog1) ended with status 3.", "read its last log lines"),
        (1, Severity.ERROR, "Process 1 (prog1) ended with status 1.", "read its last log lines"),
    ],
)
def test_how_a_job_ended_and_what_tells_more(status: int, severity: Severity, words: str, hint: str) -> None:
    [found] = ended(status)
    assert (found.severity, found.sentence, found.state) == (severity, words, VerdictState.CRASHED)
    assert found.next[0].startswith(hint)


@pytest.mark.parametrize("status", [0, None])
def test_an_end_without_a_bad_status_is_no_crash(status: int | None) -> None:
    assert ended(status) == []


def test_the_end_of_a_helper_is_a_note_if_a_signal_ended_it() -> None:
    world = World()
    world.process(1)
    world.thread(1)
    world.exits(world.process(2, ppid=1), -15)
    found = world.found("crash")
    assert (found.severity, found.state) == (Severity.WARNING, None)
    world.exits(world.process(3, ppid=1), 1)
    assert [f.entities for f in world.diagnosis().findings.values() if f.rule == "crash"] == [("process:box/2",)]


def family(heads_ended: dict[int, int | None], *, ran: bool, running: bool = False, still_ns: int = SECOND) -> World:
    """The processes that a job is, some of which have ended; and a child that was killed by SIGSEGV."""
    world = World()
    state = ThreadState.RUNNING if running else ThreadState.WAITING
    for pid, status in heads_ended.items():
        named = Process(id=f"process:box/{pid}", host="box", pid=pid, target=True, named=True)
        world.store.apply(ev.ProcessSeen(process=named, **world.stamp()))
        world.thread(pid, pid=pid, cpu_ns=10)
        world.now_ns += LOOK
        if status is None:
            world.thread(pid, pid=pid, cpu_ns=200_000_000 if ran else 10, state=state)
        else:
            world.exits(named.id, status)
    world.exits(world.process(9, ppid=1), -11)
    world.now_ns += still_ns
    world.store.apply(ev.Tick(**world.stamp()))
    return world


@pytest.mark.parametrize(
    ("world", "crash"),
    [
        (family({1: None}, ran=True), False),
        (family({1: None}, ran=False), True),
        (family({1: None}, ran=True, running=True, still_ns=60 * SECOND), False),
        (family({1: None}, ran=True, still_ns=3 * SECOND - 1), False),
        (family({1: None}, ran=True, still_ns=3 * SECOND), True),
        (family({1: 0, 2: None}, ran=True), False),
        (family({1: 0, 2: None}, ran=False), True),
        (family({1: 0, 2: 0}, ran=True), False),
        (family({1: 0, 2: 1}, ran=True), True),
    ],
)
def test_a_child_that_crashed_is_the_job_s_crash_unless_the_job_goes_on_or_ended_well(
    world: World, crash: bool
) -> None:
    found = {f.entities: f for f in world.diagnosis().findings.values() if f.rule == "crash"}
    assert (found[("process:box/9",)].state is VerdictState.CRASHED) is crash


def test_a_logged_end_explains_bad_statuses_but_no_signal_of_another_process() -> None:
    world = World()
    for pid in (1, 2, 3):
        world.process(pid)
    world.exception("terminate", ONE)
    for pid, status in ((1, 134), (2, 2), (3, -11)):
        world.exits(f"process:box/{pid}", status)
    found = [f.entities for f in world.diagnosis().findings.values() if f.rule == "crash"]
    assert sorted(found) == [(ONE,), ("process:box/3",)]


def test_an_exception_that_is_none_of_a_log_or_an_interrupt_does_not_hide_a_crash() -> None:
    world = World()
    for name, kind, where in (
        ("a", "app::Error", "app::Error"),  # of a catchpoint
        ("b", "KeyboardInterrupt", "log: traceback"),
        ("c", "app::Error", "log: terminate"),
    ):
        hit = ExceptionHit(id=name, type=kind, message="boom", catchpoint=where)
        world.store.apply(ev.ExceptionSeen(hit=hit, **world.stamp()))
    found = world.found("crash")
    assert (found.state, found.evidence[0].source) == (VerdictState.CRASHED, "log: terminate")


@pytest.mark.parametrize(
    ("kind", "words"), [("traceback", "reports an exception of"), ("signal", "reports the end of")]
)
def test_a_log_of_a_living_process_reports_an_exception_or_an_end_of_another(kind: str, words: str) -> None:
    world = World()
    world.process(1)
    world.exception(kind, ONE)
    assert words in world.found("crash").sentence


def test_a_thread_that_was_stopped_just_now_does_not_hide_one_that_was_stopped_before() -> None:
    world = World()
    world.process(1)
    world.thread(1)
    world.thread(2, waits_in="read")
    world.thread(3, state=ThreadState.TRACED, waits_in="stopped by its tracer")
    world.later(11 * SECOND)
    world.thread(2, state=ThreadState.TRACED, waits_in="stopped by its tracer")
    found = [f.entities for f in world.later().diagnosis().findings.values() if f.rule == "traced-process"]
    assert found == [("thread:box/1/3",)]


def test_threads_that_are_over_can_not_serve_and_stopped_ones_stand_still() -> None:
    world = World()
    world.process(1)
    world.process(2, ThreadState.STOPPED)
    world.exits(world.process(3, ThreadState.STOPPED), 0)
    waiting, running = world.thread(1), world.thread(2, state=ThreadState.RUNNING)
    for tid, state in ((3, ThreadState.ZOMBIE), (4, ThreadState.DEAD)):
        world.thread(tid, state=state)
    traced = world.thread(5, state=ThreadState.TRACED)
    gone = Thread(id="thread:box/1/6", process=ONE, tid=6, state=ThreadState.WAITING, exited=True)
    world.store.apply(ev.ThreadsSeen(threads=(gone,), **world.stamp()))
    halted, alive = standing_of(world.snapshot())
    assert halted == {"process:box/2", traced}
    assert alive == {waiting, running, traced}


def test_what_is_held_but_not_described_is_of_the_kind_that_it_is_called() -> None:
    world = World()
    world.process(1)
    holder = world.thread(1)
    for thing in ("pipe:box/9", "mutex:box/1/0x99"):
        world.holds(thing, holder)
    found = blocking_of(world.snapshot())
    assert set(found.pairs) == {("pipe:box/9", holder), ("mutex:box/1/0x99", holder)}
    assert found.any_of == {("pipe:box/9", holder)}


def test_a_process_that_is_waited_for_stands_for_its_threads_unless_it_waits_itself() -> None:
    world = World()
    for pid in (1, 2, 3):
        world.process(pid)
    waiter, child, own = world.thread(1), world.thread(2, pid=2), world.thread(3, pid=3)
    world.waits(waiter, "process:box/2")
    world.waits(waiter, "process:box/3")
    world.waits("process:box/3", "pipe:box/9")
    found = blocking_of(world.snapshot())
    assert found.stand_ins == {"process:box/2"}
    assert {("process:box/2", child), ("process:box/3", own)} <= found.any_of & set(found.pairs)


def test_what_has_not_ended_or_ended_well_has_not_crashed() -> None:
    world = World()
    world.process(1)
    world.exits(world.process(2), 0)
    world.exits(world.process(3), None)
    world.exits(world.process(4), 1)
    snapshot = world.snapshot()
    state = RuleInput(snapshot, GraphKeeper().graph_of(snapshot))
    assert [process.pid for process in snapshot.processes.values() if is_crash(process, state)] == [4]


def test_how_processes_end_in_words() -> None:
    assert [how_ended(status) for status in (None, 0, 3, -1, -11, -64)] == [
        "with an unknown status",
        "with status 0",
        "with status 3",
        "by SIGHUP",
        "by SIGSEGV",
        "by SIGRTMAX",
    ]
    assert how_ended(-99) == "by signal 99"


def test_the_job_is_what_was_named_or_what_has_no_parent_in_it() -> None:
    world = World()
    for pid, ppid in ((1, None), (2, 1), (3, 77)):
        world.process(pid, ppid=ppid)
    world.process(4, ppid=1, target=False)
    assert [process.pid for process in heads(world.snapshot())] == [1, 3]
    named = Process(id="process:box/2", host="box", pid=2, ppid=1, target=True, named=True)
    world.store.apply(ev.ProcessSeen(process=named, **world.stamp()))
    assert [process.pid for process in heads(world.snapshot())] == [2]


@pytest.mark.parametrize(
    ("kind", "interrupt"),
    [("KeyboardInterrupt", True), ("builtins.KeyboardInterrupt", True), ("SIGINT", True), ("SIGTERM", False)],
)
def test_ctrl_c_by_its_names(kind: str, interrupt: bool) -> None:
    assert is_interrupt(ExceptionHit(id="x", type=kind, message="")) is interrupt


def hung(*statuses: int | None) -> World:
    """A hang was found, and then these processes of the job ended."""
    world = World()
    seen = Diagnostic(
        id=HANG_SEEN,
        system="livedbg",
        code="hang",
        severity=Severity.WARNING,
        sentence="Deadlock of 2 threads.",
        entities=(MAIN,),
        attributes={"state": "stalled"},
        at_wall_ns=5,
    )
    world.store.apply(ev.DiagnosticSeen(diagnostic=seen, **world.stamp()))
    for number, status in enumerate(statuses, 1):
        world.exits(world.process(number), status)
    return world


@pytest.mark.parametrize(
    ("statuses", "stays"),
    [
        ((-2,), True),
        ((-1,), True),
        ((-3,), True),
        ((128 + 2,), True),
        ((128 + 15,), True),
        ((128 + 9,), True),
        ((-9, 0), True),
        ((0, -15), True),
        ((-15, -9), True),
        ((-15, -6), False),
        ((128 + 6,), False),
        ((2,), False),
        ((15,), False),
    ],
)
def test_a_hang_stays_one_if_all_that_did_not_end_well_were_ended(statuses: tuple[int, ...], stays: bool) -> None:
    found = hung(*statuses).found("ended-hang")
    assert (found.state is VerdictState.STALLED) is stays
    assert (found.severity is Severity.CRITICAL, bool(found.roots)) == (stays, stays)
    first = next(number for number, status in enumerate(statuses, 1) if status != 0)
    assert found.evidence[0].source == f"wait status of {first}"
    assert found.since_wall_ns == 5
    assert found.sentence.startswith("Deadlock of 2 threads. " if stays else "Before it ended: Deadlock")


def test_a_hang_whose_job_is_not_over_or_ended_well_is_no_ended_one() -> None:
    going_on = hung(-15)
    going_on.process(2)
    assert going_on.finding("ended-hang") is None
    assert hung(0, 0).finding("ended-hang") is None
    assert hung().finding("ended-hang") is None


def interrupted(*frames: Frame, kind: str = "log: traceback", alive: bool = False) -> Finding | None:
    world = World()
    if alive:
        world.process(1)
    hit = ExceptionHit(id="x", type="KeyboardInterrupt", message="", catchpoint=kind, stack=frames, process=ONE)
    world.store.apply(ev.ExceptionSeen(hit=hit, **world.stamp()))
    return world.finding("interrupted")


def test_where_an_interrupt_came() -> None:
    frames = (Frame(function="a", file="<frozen os>", line=3), Frame(function="step", file="/x/train.py", line=9))
    found = interrupted(*frames)
    assert found is not None
    assert (found.sentence, found.state) == (
        "Interrupted by Ctrl-C in step (train.py:9): whether it hung is not known.",
        VerdictState.UNKNOWN,
    )
    assert found.entities == (ONE,)
    nowhere = interrupted()
    assert nowhere is not None and nowhere.sentence.startswith("Interrupted by Ctrl-C: ")
    living = interrupted(alive=True)
    assert living is not None and living.state is None
    assert interrupted(kind="KeyboardInterrupt") is None  # a catchpoint, not a log


def test_an_interrupt_behind_another_exception_is_found() -> None:
    world = World()
    world.exception("traceback")
    hit = ExceptionHit(id="y", type="KeyboardInterrupt", message="", catchpoint="log: traceback")
    world.store.apply(ev.ExceptionSeen(hit=hit, **world.stamp()))
    assert world.finding("interrupted") is not None


@pytest.mark.parametrize(
    "world", [held(waits_in="sigsuspend"), held(waits_in="sem_wait", wakers=(HOLDER,)), held(waits_in=PAUSES)]
)
def test_a_holder_of_a_file_lock_that_can_t_go_on(world: World) -> None:
    found = world.found("file-lock-held")
    assert (found.severity, found.state) == (Severity.ERROR, VerdictState.STALLED)
    assert found.evidence[-1].source == "/proc/2/task/2"
    assert len(found.evidence) == 3
    assert found.since_wall_ns == BEGAN
    assert found.next == ("livedbg stacks 2 --native",)


def test_a_holder_of_a_file_lock_has_a_second_thread_that_goes_on() -> None:
    world = held()
    world.thread(3, "other", pid=2, waits_in="sleep 1 s", timed=True)
    found = world.later(20 * SECOND).found("file-lock-held")
    assert (found.severity, found.state) == (Severity.INFO, VerdictState.UNKNOWN)
    assert "Its first thread is blocked in pause (waits for a signal) for 40 s or more." in found.sentence


def test_a_file_lock_of_two_holders_is_stuck_only_if_both_are() -> None:
    world = held()
    world.process(3, outside="")
    world.thread(3, pid=3, waits_in=PAUSES, timed=False)
    world.holds("flock:box/fe:00:7:10-19", "process:box/3")
    both = world.later(20 * SECOND).found("file-lock-held")
    assert both.state is VerdictState.STALLED
    assert "held by process 2 (prog2) and 1 more." in both.sentence
    assert both.entities[2:] == (HOLDER, "process:box/3")
    world.process(3, outside="handles SIGTERM")
    assert world.later().found("file-lock-held").state is VerdictState.UNKNOWN


def test_a_holder_that_shows_no_thread_and_one_that_waits_for_a_short_time_may_go_on() -> None:
    world = World()
    world.process(1)
    world.process(2, outside="")
    lock = world.resource("flock:box/fe:00:7", "locked")
    world.waits(world.thread(1, waits_in="flock of /tmp/f", timed=False), lock)
    world.holds(lock, HOLDER)
    found = world.later(20 * SECOND).found("file-lock-held")
    assert (found.state, len(found.evidence)) == (VerdictState.UNKNOWN, 2)
    assert found.sentence.endswith("held by process 2 (prog2).")
    world.thread(2, pid=2, waits_in=PAUSES, timed=False)
    assert world.later(10 * SECOND - 1).found("file-lock-held").state is VerdictState.UNKNOWN
    assert world.later(1).found("file-lock-held").state is VerdictState.STALLED


def test_locks_that_nobody_waits_for_or_holds_do_not_hide_one_that_is_held() -> None:
    world = World()
    world.process(1)
    world.process(2, outside="")
    world.lock(0x10)
    world.resource("flock:box/a", "locked")
    free = world.resource("flock:box/b", "locked")
    world.waits(world.thread(5, waits_in="flock of /tmp/b", timed=False), free)
    lock = world.resource("flock:box/c", "locked")
    world.holds(lock, HOLDER)
    world.thread(2, pid=2, waits_in=PAUSES, timed=False)
    world.waits(world.thread(3, waits_in="flock of /tmp/c", timed=True), lock)
    world.waits(world.thread(4, waits_in="flock of /tmp/c", timed=False), lock)
    found = world.later(20 * SECOND).found("file-lock-held")
    assert found.entities == ("thread:box/1/4", lock, HOLDER)


def test_groups_of_one_file_are_one_and_empty_ones_none() -> None:
    world = grouped(1, frozen_by="/g/freezer.state")
    other = world.resource("cgroup:box/b", facts=GroupFacts(frozen_by="/g/freezer.state"))
    world.resource("cgroup:box/c", facts=GroupFacts(frozen_by="/h/freezer.state"))  # nobody is in it
    world.resource("dir:box/d", frozen_by="/i/freezer.state")
    world.edge(EdgeKind.PART_OF, world.process(2), other)
    [found] = [f for f in world.diagnosis().findings.values() if f.rule == "frozen"]
    assert found.roots == (ONE, "process:box/2")
    assert found.next[0].startswith("echo THAWED > /g/freezer.state ")
    assert found.severity is Severity.ERROR
    assert grouped(1, frozen_by="/g/freezer.state").found("frozen").sentence.startswith("Process 1 (prog1) is frozen")


def test_who_waits_for_a_frozen_process_takes_part_once() -> None:
    world = grouped(1, 2, frozen_by="/pod/cgroup.freeze")
    waiter = world.thread(31, pid=3)
    for process in (ONE, "process:box/2"):
        world.waits(waiter, process)
    assert world.later().found("frozen").entities == (ONE, "process:box/2", "cgroup:box/pod", waiter)


def test_severities_and_roots_of_groups_that_lack_something() -> None:
    throttled = grouped(1, 2, throttled=0.9, cores=2.0, throttled_by="/pod/cpu.max").found("throttled")
    assert (throttled.severity, throttled.roots) == (Severity.WARNING, (ONE, "process:box/2"))
    assert "1 other are throttled: control group /pod may" in throttled.sentence
    for facts, severity, rooted in (
        ({"under_oom": True}, Severity.ERROR, True),
        ({"memory_stalled": 0.6}, Severity.WARNING, True),
        ({"killed": 1}, Severity.ERROR, False),
    ):
        found = grouped(1, memory_file="/pod/memory.max", **facts).found("memory-limit")
        assert (found.severity, bool(found.roots)) == (severity, rooted)
        assert "used)" not in found.sentence
    assert "has killed 1 task of control group /pod for" in found.sentence


def crosswise(second: str = "beta") -> World:
    world = World()
    world.process(1)
    a, b = world.thread(11, "alpha"), world.thread(12, second)
    m, n = world.lock(0x10), world.lock(0x20)
    world.holds(m, a)
    world.holds(n, b)
    world.waits(a, n)
    world.waits(b, m)
    return world.later(20 * SECOND)


@pytest.mark.parametrize(
    ("behind", "words"), [(0, "alpha."), (1, "alpha; 1 more waits behind them."), (2, "; 2 more wait behind them.")]
)
def test_those_behind_a_deadlock_are_counted_without_its_members(behind: int, words: str) -> None:
    world = crosswise()
    for tid in range(behind):
        world.waits(world.thread(20 + tid), "mutex:box/1/0x10")
    found = world.later().found("lock-cycle")
    assert words in found.sentence
    assert found.sentence.startswith("Deadlock of 2 threads: alpha → beta → alpha")


def test_threads_of_one_name_are_told_apart_by_number() -> None:
    assert "alpha 11 → alpha 12 → alpha 11" in crosswise("alpha").found("lock-cycle").sentence
    assert "alpha → thread 12 → alpha" in crosswise("").found("lock-cycle").sentence


def test_one_that_waits_for_itself_has_others_behind_it() -> None:
    world = World()
    world.process(1)
    me, lock = world.thread(11, "solo"), world.lock(0x10)
    world.holds(lock, me)
    world.waits(me, lock)
    world.waits(world.thread(12), lock)
    found = world.later().found("self-deadlock")
    assert "waits for a mutex that it holds itself; 1 more waits behind it." in found.sentence
    assert found.roots == (me,)


def ring_of(count: int) -> World:
    world = World()
    world.process(1)
    threads = [world.thread(10 + n, f"t{n}") for n in range(count)]
    locks = [world.lock(0x100 + n) for n in range(count)]
    for n, thread in enumerate(threads):
        world.holds(locks[n], thread)
        world.waits(thread, locks[(n + 1) % count])
    return world.later()


def test_a_ring_of_six_is_told_in_full_and_one_of_seven_is_cut() -> None:
    six = ring_of(6).found("lock-cycle").sentence
    assert six.startswith("Deadlock of 6 threads: t0 → t1 → t2 → t3 → t4 → t5 → t0")
    seven = ring_of(7).found("lock-cycle").sentence
    assert "Deadlock of 7 threads: " in seven and "…" in seven and "t6" not in seven


def test_a_deadlock_that_is_no_ring_lists_its_threads() -> None:
    world = crosswise()
    c, lock = world.thread(13, "gamma"), world.lock(0x30)
    world.holds(lock, c)
    world.edge(EdgeKind.WAITS_FOR, "thread:box/1/11", lock)
    world.waits(c, "mutex:box/1/0x10")
    assert "Deadlock of 3 threads: alpha, beta, gamma" in world.later().found("lock-cycle").sentence


@pytest.mark.parametrize(
    ("kinds", "words"),
    [
        (("mutex", "mutex"), "2 threads: "),
        (("mutex", "rwlock"), "2 threads over 1 read-write lock and 1 mutex: "),
        (("pylock", "pylock"), "2 threads over 2 Python locks: "),
        (("mutex", "gil"), "2 threads over the GIL and 1 mutex: "),
    ],
)
def test_what_a_deadlock_is_over(kinds: tuple[str, str], words: str) -> None:
    world = World()
    world.process(1)
    a, b = world.thread(11, "alpha"), world.thread(12, "beta")
    m, n = (world.lock(0x10 * (at + 1), kind) for at, kind in enumerate(kinds))
    world.holds(m, a)
    world.holds(n, b)
    world.waits(a, n)
    world.waits(b, m)
    [found] = [f for f in world.later().diagnosis().findings.values() if f.rule.endswith("-cycle")]
    assert f"Deadlock of {words}" in found.sentence
    assert found.rule == ("gil-cycle" if "gil" in kinds else "lock-cycle")
    assert not found.inferred


def test_a_thread_and_a_task_that_wait_for_each_other_are_two_threads_in_words() -> None:
    world = World()
    world.process(1)
    thread, task = world.thread(11, "alpha"), world.task("g0", TaskState.SUBMITTED, None)
    world.waits(thread, task)
    world.edge(EdgeKind.DEPENDS_ON, task, thread)
    assert world.later().found("task-cycle").sentence.startswith("Deadlock of 2 threads")


def test_threads_that_wait_for_each_other_to_end() -> None:
    world = World()
    world.process(1)
    a, b = world.thread(11, "alpha"), world.thread(12, "beta")
    world.waits(a, b)
    inferred = Edge(kind=EdgeKind.WAITS_FOR, source=b, target=a, evidence="x", inferred=True, state=EdgeState.PENDING)
    world.store.apply(ev.EdgesAdded(scope="test", edges=(inferred,), **world.stamp()))
    found = world.later().found("join-cycle")
    assert found.sentence.startswith("Deadlock of 2 threads that wait for each other to end: alpha → beta → alpha")
    assert found.inferred
    assert found.entities == (a, b) and len(found.evidence) == 2


def test_a_deadlock_has_the_stacks_of_at_most_three_processes_as_next_steps() -> None:
    world = World()
    threads = []
    for pid in (1, 2, 3, 4):
        world.process(pid)
        threads.append(world.thread(pid, f"t{pid}", pid=pid))
        world.lock(0x10, pid=pid)
        world.holds(f"mutex:box/{pid}/0x10", threads[-1])
    for pid in (1, 2, 3, 4):
        world.waits(threads[pid - 1], f"mutex:box/{pid % 4 + 1}/0x10")
    found = world.later(LOOK).found("lock-cycle")
    assert sum(step.startswith("livedbg stacks") for step in found.next) == 3
    assert found.severity is Severity.CRITICAL
