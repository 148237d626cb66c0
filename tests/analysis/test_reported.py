"""What a system reports is a finding, without any rule of its own: the made-up system `toy`."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from livedbg.analysis import Diagnosis, Diagnostician, Finding, VerdictState
from livedbg.analysis.engine import GraphKeeper
from livedbg.analysis.rules import Judged, RuleInput
from livedbg.analysis.rules.said import SaidRule
from livedbg.analysis.verdict import exit_code
from livedbg.model import (
    CauseClass,
    Diagnostic,
    EdgeKind,
    Evidence,
    LogRecord,
    LogSource,
    Severity,
    Task,
    TaskState,
    ThreadState,
)
from livedbg.model import events as ev
from livedbg.model.facts import LockFacts
from livedbg.session.rulebook import all_rules
from tests.analysis.world import SECOND, World

RULES = {"task-failed", "error-reported"}


def diagnosis(world: World, judged: Judged | None = None) -> Diagnosis:
    return Diagnostician(all_rules(), judged=judged).diagnose(world.snapshot())


def found(world: World, judged: Judged | None = None) -> list[Finding]:
    return [finding for finding in diagnosis(world, judged).findings.values() if finding.rule in RULES]


def said(world: World, name: str = "1", severity: Severity = Severity.ERROR, *, code: str = "bad-magic",
         about: tuple[str, ...] = (), resolved: bool = False, **attributes: str) -> None:  # fmt: skip
    diagnostic = Diagnostic(
        id=f"diagnostic:toy/{name}",
        system="toy",
        code=code,
        severity=severity,
        sentence=f"The magic of block {name} is wrong",
        entities=about,
        attributes=attributes,
        resolved=resolved,
        evidence=(Evidence(kind="log", file="toy.log", line=3, text=f"E bad magic {name}"),),
        at_wall_ns=10**18,
    )
    world.store.apply(ev.DiagnosticSeen(diagnostic=diagnostic, **world.stamp()))


def failed(world: World, name: str = "t1", **attributes: str) -> str:
    task = Task(id=f"task:toy/{name}", system="toy", name=name, kernel="Add_F16", state=TaskState.FAILED,
                attributes=attributes, since_wall_ns=10**18)  # fmt: skip
    world.store.apply(ev.TasksSeen(tasks=(task,), **world.stamp()))
    return task.id


@pytest.mark.invariant("reported.A1")
@pytest.mark.parametrize("severity", [Severity.ERROR, Severity.CRITICAL])
def test_an_error_diagnostic_is_a_finding_and_inconclusive(severity: Severity) -> None:
    world = World()
    process = world.process(1)
    said(world, severity=severity, about=(process,))
    [finding] = found(world)
    assert (finding.rule, finding.severity, finding.state) == ("error-reported", severity, VerdictState.UNKNOWN)
    assert finding.sentence == "toy reported an error (bad-magic): The magic of block 1 is wrong."
    assert finding.entities == (process,)
    assert finding.evidence[0].place == "toy.log:3"
    assert finding.since_wall_ns == 10**18
    assert diagnosis(world).verdict.state is VerdictState.UNKNOWN
    assert exit_code(diagnosis(world).verdict, [finding]) == 5


@pytest.mark.parametrize("severity", [Severity.DEBUG, Severity.INFO, Severity.WARNING])
def test_a_warning_is_no_finding(severity: Severity) -> None:
    world = World()
    said(world, severity=severity)
    assert found(world) == []


def test_a_resolved_diagnostic_is_no_finding() -> None:
    world = World()
    said(world)
    assert len(found(world)) == 1
    said(world, resolved=True)
    assert found(world) == []


def test_a_diagnostic_that_a_rule_of_its_system_judges_is_left_to_it() -> None:
    world = World()
    said(world, "1", code="bad-magic")
    said(world, "2", code="bad-magic-again")
    assert len(found(world)) == 2
    [left] = found(world, Judged(diagnostics={"toy": ("bad-magic",)}))
    assert "bad-magic-again" in left.sentence
    assert found(world, Judged(diagnostics={"toy": (".*",)})) == []
    assert len(found(world, Judged(diagnostics={"other": (".*",)}))) == 2


@pytest.mark.invariant("reported.A1")
def test_a_failed_task_is_a_finding_and_inconclusive() -> None:
    world = World()
    task = failed(world)
    waiting = world.task("t2", TaskState.SUBMITTED, None, system="toy")
    world.edge(EdgeKind.DEPENDS_ON, waiting, task)
    [finding] = found(world.later())
    assert (finding.rule, finding.severity, finding.state) == ("task-failed", Severity.ERROR, VerdictState.UNKNOWN)
    assert finding.sentence == "Task t1 Add_F16 of toy failed. 1 task waits for it."
    assert finding.entities == (task,)
    assert diagnosis(world).verdict.state is VerdictState.UNKNOWN


def test_a_failed_task_of_a_system_that_judges_its_tasks_is_left_to_it() -> None:
    world = World()
    failed(world)
    assert found(world, Judged(tasks=frozenset({"toy"}))) == []
    assert len(found(world, Judged(tasks=frozenset({"other"})))) == 1


@pytest.mark.parametrize("after", [TaskState.RUNNING, TaskState.COMPLETED])
def test_a_failed_task_that_was_tried_again_is_no_finding(after: TaskState) -> None:
    world = World()
    failed(world)
    world.task("t1", after, world.now_ns, kernel="Add_F16", system="toy")
    assert found(world) == []


def test_a_failed_task_that_a_diagnostic_explains_is_one_finding() -> None:
    world = World()
    said(world, about=(failed(world),))
    [finding] = found(world)
    assert finding.rule == "error-reported"
    said(world, about=("task:toy/t1",), resolved=True)  # the error is over, yet the task has failed
    [finding] = found(world)
    assert finding.rule == "task-failed"


def test_very_many_are_few_findings_that_count_all() -> None:
    world = World()
    for number in range(1000):
        failed(world, f"t{number}")
        said(world, f"{number}")
    findings = found(world)
    assert len(findings) == 22
    assert {finding.sentence for finding in findings if "990" in finding.sentence} == {
        "990 more tasks of toy failed.",
        "toy reported 990 more errors.",
    }


def busy() -> World:
    """A process whose only thread computes: running, and no hang found."""
    world = World()
    world.process(1, threads=1)
    world.thread(1, state=ThreadState.RUNNING, cpu_ns=0)
    world.later(SECOND)
    world.thread(1, state=ThreadState.RUNNING, cpu_ns=SECOND)
    assert diagnosis(world).verdict.state is VerdictState.RUNNING
    return world


def ended(world: World, status: int) -> None:
    world.store.apply(ev.ProcessExited(id="process:box/1", status=status, **world.stamp()))


def code(world: World) -> int:
    made = diagnosis(world)
    return exit_code(made.verdict, made.findings.values())


@pytest.mark.invariant("reported.A1")
@pytest.mark.parametrize("severity", [Severity.ERROR, Severity.CRITICAL])
def test_a_busy_process_with_an_alarm_of_its_system_is_not_said_to_run_well(severity: Severity) -> None:
    world = busy()
    assert code(world) == 0
    said(world, severity=severity)
    verdict = diagnosis(world).verdict
    assert (verdict.state, code(world)) == (VerdictState.UNKNOWN, 5)
    assert verdict.sentence == "toy reported an error (bad-magic): The magic of block 1 is wrong."


@pytest.mark.invariant("reported.A1")
def test_a_busy_process_with_a_failed_task_is_not_said_to_run_well() -> None:
    world = busy()
    failed(world)
    verdict = diagnosis(world).verdict
    assert (verdict.state, code(world)) == (VerdictState.UNKNOWN, 5)
    assert verdict.sentence == "Task t1 Add_F16 of toy failed."


@pytest.mark.invariant("reported.A1")
def test_beyond_the_first_ten_one_that_decides_does_so_too() -> None:
    world = busy()
    for number in range(10):
        failed(world, f"t{number}")
        world.task(f"t{number}", TaskState.FAILED, 1, kernel="done", system="toy")
    world.task("again", TaskState.COMPLETED, 2, kernel="done", system="toy")
    assert code(world) == 0
    failed(world, "u")
    assert code(world) == 5


def test_a_warning_and_an_error_that_is_over_leave_the_verdict() -> None:
    world = busy()
    said(world, "1", severity=Severity.WARNING)
    said(world, "2", severity=Severity.CRITICAL, resolved=True)
    assert code(world) == 0


def test_a_failed_task_whose_kernel_completed_later_is_a_note() -> None:
    world = busy()
    failed(world)
    done = Task(id="task:toy/t1-again", system="toy", name="t1-again", kernel="Add_F16", state=TaskState.COMPLETED,
                since_wall_ns=10**18)  # fmt: skip
    world.store.apply(ev.TasksSeen(tasks=(done,), **world.stamp()))
    assert code(world) == 5  # not after it
    world.store.apply(ev.TasksSeen(tasks=(replace(done, id="task:toy/t2", since_wall_ns=10**18 + 1),), **world.stamp()))
    assert code(world) == 0
    assert [finding.rule for finding in found(world)] == ["task-failed"]


def test_an_error_whose_log_goes_on_is_a_note_unless_it_is_critical() -> None:
    world = busy()
    log = "log:box/toy.log"
    world.store.apply(ev.LogSourceSeen(source=LogSource(id=log, name="toy.log", lines=900), **world.stamp()))
    lines = tuple(LogRecord(source=log, text=f"step {n}", line=n, wall_ns=10**18 + n * SECOND) for n in range(4, 200))
    world.store.apply(ev.LogsSeen(records=lines, **world.stamp()))
    proof = Evidence(kind="log", file="toy.log", line=3, text="E", log=log, at_wall_ns=10**18)
    error = Diagnostic(id="diagnostic:toy/1", system="toy", code="c", severity=Severity.ERROR, sentence="Bad",
                       evidence=(proof,))  # fmt: skip
    world.store.apply(ev.DiagnosticSeen(diagnostic=error, **world.stamp()))
    assert code(world) == 0
    world.store.apply(ev.DiagnosticSeen(diagnostic=replace(error, severity=Severity.CRITICAL), **world.stamp()))
    assert code(world) == 5


def test_what_a_job_that_ended_well_reported_leaves_the_verdict() -> None:
    world = busy()
    said(world, severity=Severity.CRITICAL)
    failed(world)
    ended(world, 0)
    assert (diagnosis(world).verdict.state, code(world)) == (VerdictState.EXITED, 0)


def test_an_error_about_an_end_that_was_seen_is_a_crash() -> None:
    world = busy()
    other = world.process(2, target=False)
    world.store.apply(ev.ProcessExited(id=other, status=9, **world.stamp()))
    said(world, about=(other,))
    assert (diagnosis(world).verdict.state, code(world)) == (VerdictState.CRASHED, 11)


@pytest.mark.parametrize("alive", [True, False])
def test_an_error_about_an_end_is_a_crash_where_nobody_lives(alive: bool) -> None:
    world = busy() if alive else World()
    error = Diagnostic(id="diagnostic:toy/1", system="toy", code="c", severity=Severity.ERROR,
                       sentence="The run was aborted", cause=CauseClass.PROCESS)  # fmt: skip
    world.store.apply(ev.DiagnosticSeen(diagnostic=error, **world.stamp()))
    assert code(world) == (5 if alive else 11)


def test_they_change_no_worse_verdict() -> None:
    world = World()
    world.process(1)
    lock = world.lock(0x10, facts=LockFacts(ended_owner=99))
    world.waits(world.thread(11), lock)
    before = diagnosis(world.later(SECOND)).verdict
    failed(world)
    said(world)
    after = diagnosis(world)
    assert after.verdict == before
    assert before.state is VerdictState.STALLED
    assert len(found(world)) == 2


@pytest.mark.invariant("reported.A1")
@pytest.mark.parametrize(("severity", "decides"), [(Severity.CRITICAL, True), (Severity.ERROR, False)])
def test_A1_a_critical_message_that_a_system_judges_itself_is_no_all_clear_while_the_job_lives(
    severity: Severity, decides: bool
) -> None:
    world = World()
    world.process(1)
    world.thread(1, "main", waits_in="sleep 100 s", timed=True)
    said = Diagnostic(id="diagnostic:toy/1", system="toy", code="lost", severity=severity, sentence="The card is lost")
    world.store.apply(ev.DiagnosticSeen(diagnostic=said, **world.stamp()))
    rule = SaidRule(name="toy-said", doc="", system="toy", codes={"lost": VerdictState.CRASHED})
    snapshot = world.later().snapshot()
    (found,) = rule.apply(RuleInput(snapshot, GraphKeeper().graph_of(snapshot)))
    assert found.state is (VerdictState.UNKNOWN if decides else None) and found.decides is decides
