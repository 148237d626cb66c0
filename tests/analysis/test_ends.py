"""How jobs end: what is a crash, what stays a hang, and what is neither."""

from __future__ import annotations

import msgspec
import pytest

from livedbg.analysis.diagnosis import Verdict, VerdictState
from livedbg.analysis.postmortem.ended import HangFacts
from livedbg.model import HANG_SEEN, Diagnostic, ExceptionHit, LogSource, Process, Severity, TaskState
from livedbg.model import events as ev
from livedbg.session.last_hang import LastHang
from tests.analysis.world import SECOND, World

STATES = VerdictState


def job(child_status: int | None, head_status: int | None = None, *, busy: bool = False) -> Verdict:
    """A job of process 1 whose child 2 ended; process 1 ended too, or is busy, or sits in a wait."""
    world = World()
    head = world.process(1)
    known = msgspec.structs.replace(world.snapshot().processes[head], named=True)
    world.store.apply(ev.ProcessSeen(process=known, **world.stamp()))
    world.thread(1, waits_in="waitpid of any child", cpu_ns=10)
    child = world.process(2, ppid=1)
    world.later()
    if busy:
        world.thread(1, waits_in="waitpid of any child", cpu_ns=200_000_000)
    if child_status is not None:
        world.exits(child, child_status)
    if head_status is not None:
        world.exits(head, head_status)
    return world.later(SECOND).later(SECOND if busy else 20 * SECOND).diagnosis().verdict


@pytest.mark.parametrize(
    ("child", "head", "state"),
    [
        (-15, 0, STATES.EXITED),  # a supervisor ends its helper
        (-15, None, STATES.UNKNOWN),
        (-9, 0, STATES.EXITED),  # a time-out of a test that passes
        (-11, 0, STATES.EXITED),  # a test of a crash
        (1, 0, STATES.EXITED),  # grep that finds nothing
        (1, None, STATES.UNKNOWN),
        (-13, None, STATES.UNKNOWN),  # yes | head
        (-9, None, STATES.CRASHED),  # a worker that the kernel killed, and its parent waits on
        (-11, 1, STATES.CRASHED),
        (None, -11, STATES.CRASHED),
        (None, -9, STATES.CRASHED),
        (None, 1, STATES.CRASHED),
        (None, 134, STATES.CRASHED),
    ],
)
@pytest.mark.invariant("ended.E2")
def test_E2_the_end_of_a_helper_is_no_crash_of_the_job(
    child: int | None, head: int | None, state: VerdictState
) -> None:
    said = job(child, head)
    assert said.state is state, said.sentence


def test_a_job_that_goes_on_after_a_child_crashed_is_running() -> None:
    assert job(-11, busy=True).state is VerdictState.RUNNING


def test_the_status_of_the_end_is_said_and_an_unknown_one_is_not_a_good_one() -> None:
    assert "process 1 (prog1) was ended by SIGSEGV" in job(None, -11).sentence.replace("P", "p")
    assert "with status 3" in job(None, 3).sentence
    world = World()
    world.exits(world.process(1))
    assert world.diagnosis().verdict.state is VerdictState.UNKNOWN
    assert "exit status is not known" in world.diagnosis().verdict.sentence


def hung_then(status: int | None, *, resolved: bool = False, logged: bool = False) -> Verdict:
    world = World()
    head = world.process(1)
    seen = Diagnostic(
        id=HANG_SEEN,
        system="livedbg",
        code="hang",
        severity=Severity.WARNING,
        sentence="Deadlock of 2 threads.",
        entities=("thread:box/1/11",),
        attributes={"state": "deadlock"},
        resolved=resolved,
    )
    world.store.apply(ev.DiagnosticSeen(diagnostic=seen, **world.stamp()))
    if logged:
        world.exception("traceback", head)
    world.exits(head, status)
    return world.diagnosis().verdict


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (-2, STATES.DEADLOCK),
        (130, STATES.DEADLOCK),
        (-15, STATES.DEADLOCK),
        (-9, STATES.DEADLOCK),
        (None, STATES.DEADLOCK),
        (-6, STATES.CRASHED),  # its own watchdog
        (1, STATES.CRASHED),
        (0, STATES.EXITED),  # it was slow
    ],
)
@pytest.mark.invariant("ended.E1")
def test_E1_a_hang_that_somebody_ended_stays_a_hang(status: int | None, state: VerdictState) -> None:
    said = hung_then(status)
    assert said.state is state
    assert ("Deadlock of 2 threads." in said.sentence) == (state is STATES.DEADLOCK)
    assert hung_then(status, resolved=True).state is not STATES.DEADLOCK


@pytest.mark.invariant("ended.E1")
@pytest.mark.parametrize(
    ("status", "state"),
    [
        (-2, STATES.DEADLOCK),
        (130, STATES.DEADLOCK),
        (1, STATES.CRASHED),  # an exception of its own ended it
        (None, STATES.CRASHED),  # one may have
    ],
)
def test_E1_what_is_logged_while_a_hang_is_ended_by_its_user_did_not_end_it(
    status: int | None, state: VerdictState
) -> None:
    """A KeyboardInterrupt's traceback that was read while it was being printed, say."""
    assert hung_then(status, logged=True).state is state


@pytest.mark.invariant("last_hang.H1")
def test_H1_the_hang_before_the_end_is_on_the_stream() -> None:
    world = World()
    now_s = [0.0]
    hang = LastHang(world.stamp, lambda: now_s[0])
    end = ev.ProcessExited(id="process:box/1", status=-2, **world.stamp())
    assert hang.before([end]) == []
    hang.note(Verdict(state=STATES.STALLED, sentence="It hangs."))
    hang.note(Verdict(state=STATES.RUNNING, sentence="It handles Ctrl-C."))
    assert hang.before([ev.Tick(**world.stamp())]) == []
    [seen] = hang.before([end])
    assert isinstance(seen, ev.DiagnosticSeen) and seen.diagnostic.facts == HangFacts()
    now_s[0] = 3600.0
    [seen] = hang.before([end])
    assert isinstance(seen, ev.DiagnosticSeen) and seen.diagnostic.resolved
    assert hang.before([end]) == []


@pytest.mark.invariant("last_hang.H1")
def test_H1_a_hang_that_is_the_last_verdict_is_not_over_however_long_ago_that_was() -> None:
    world = World()
    now_s = [0.0]
    hang = LastHang(world.stamp, lambda: now_s[0])
    hang.note(Verdict(state=STATES.DEADLOCK, sentence="It hangs."))
    now_s[0] = 60.0
    [seen] = hang.before([ev.ProcessExited(id="process:box/1", status=-2, **world.stamp())])
    assert isinstance(seen, ev.DiagnosticSeen) and seen.diagnostic.facts == HangFacts(state=STATES.DEADLOCK)


def test_an_interrupt_in_a_log_is_no_crash() -> None:
    world = World()
    hit = ExceptionHit(id="x", type="KeyboardInterrupt", message="", catchpoint="log: traceback")
    world.store.apply(ev.ExceptionSeen(hit=hit, **world.stamp()))
    said = world.diagnosis().verdict
    assert said.state is VerdictState.UNKNOWN and "Ctrl-C" in said.sentence


def test_a_log_that_ends_with_a_running_task_is_inconclusive() -> None:
    world = World()
    world.task("g0", TaskState.RUNNING, world.now_ns)
    said = world.diagnosis().verdict
    assert said.state is VerdictState.UNKNOWN and "hung or died (no exit status)" in said.sentence
    world.task("g0", TaskState.COMPLETED, world.now_ns)
    assert "hung" not in world.diagnosis().verdict.sentence


@pytest.mark.parametrize("kind", ["terminate", "signal", "glibc-abort", "assert", "fatal-python-error", "traceback"])
def test_what_a_living_log_collector_writes_is_not_its_own(kind: str) -> None:
    world = World()
    collector = world.process(1)
    world.thread(1)
    world.exception(kind, collector)
    source = LogSource(id="log:box/all.log", name="all.log", process=collector, errors=3, last_error="ERROR of app 7")
    world.store.apply(ev.LogSourceSeen(source=source, **world.stamp()))
    said = [one for one in world.diagnosis().findings.values() if one.rule in {"crash", "error-lines"}]
    assert len(said) == 2
    assert {one.severity for one in said} == {Severity.INFO} and {one.state for one in said} == {None}
    assert any("another program, or of a child" in one.sentence for one in said)
    world.exits(collector, -11)
    assert world.diagnosis().verdict.state is VerdictState.CRASHED


def test_a_traceback_of_a_living_python_program_is_its_own() -> None:
    world = World()
    process = Process(id="process:box/1", host="box", pid=1, exe="/usr/bin/python3.11", command=("python", "train.py"))
    world.store.apply(ev.ProcessSeen(process=process, **world.stamp()))
    world.thread(1)
    world.exception("traceback", process.id)
    said = next(one for one in world.diagnosis().findings.values() if one.rule == "crash")
    assert said.state is None and said.severity is Severity.WARNING and "its process continues" in said.sentence
