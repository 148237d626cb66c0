"""Edges of the rule `crash`: what a log and a wait status say together, and whose line it is."""

from __future__ import annotations

import pytest

from livedbg.analysis import Diagnostician, Finding, VerdictState
from livedbg.analysis.engine import GraphKeeper
from livedbg.analysis.postmortem.ended import was_hung
from livedbg.analysis.rules import Judged
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.crashes import Crash
from livedbg.logs.sanitizers import ENDED, WARNED
from livedbg.model import (
    HANG_SEEN,
    Diagnostic,
    ExceptionHit,
    Frame,
    LogRecord,
    LogSource,
    Process,
    Severity,
    ThreadState,
)
from livedbg.model import events as ev
from livedbg.session.rulebook import all_rules
from tests.analysis.world import SECOND, World

ONE, TWO = "process:box/1", "process:box/2"


def logged(
    world: World,
    kind: str = "traceback",
    process: str | None = ONE,
    *,
    survived: str = "",
    count: int = 1,
    stack: tuple[Frame, ...] = (),
    message: str = "boom\nmore",
) -> World:
    """A log shows an exception."""
    hit = ExceptionHit(
        id=f"{kind}/{process}",
        type="app::Error",
        message=message,
        process=process,
        catchpoint=f"log: {kind}",
        survived=survived,
        count=count,
        stack=stack,
    )
    world.store.apply(ev.ExceptionSeen(hit=hit, **world.stamp()))
    return world


def over(*statuses: int | None) -> World:
    """Processes 1, 2, … that ended so; None: it lives."""
    world = World()
    for pid, status in enumerate(statuses, 1):
        world.process(pid)
        if status is not None:
            world.exits(f"process:box/{pid}", status)
    return world


def crashes(world: World, judged: Judged | None = None) -> list[Finding]:
    found = Diagnostician(all_rules(), judged=judged).diagnose(world.snapshot()).findings.values()
    return [finding for finding in found if finding.rule == "crash"]


@pytest.mark.parametrize("status", [1, 2, 134])
def test_a_logged_exception_and_the_status_it_leads_to_are_one_crash(status: int) -> None:
    [found] = crashes(logged(over(status)))
    assert found.sentence == "Crashed: app::Error: boom."
    assert (found.state, found.severity) == (VerdictState.CRASHED, Severity.CRITICAL)
    assert found.next[-1] == "run it again under `livedbg launch -- COMMAND`"


def test_an_exception_explains_the_status_of_another_process_but_not_the_signal_that_ended_it() -> None:
    assert [found.entities for found in crashes(logged(over(1, 3)))] == [(ONE,)]
    assert {found.entities for found in crashes(logged(over(1, -1)))} == {(ONE,), (TWO,)}


def test_an_exception_in_the_log_of_what_ended_well_was_handled() -> None:
    [found] = crashes(logged(over(0)))
    assert (found.state, found.severity) == (None, Severity.WARNING)
    assert found.sentence == "An exception was logged: app::Error: boom."
    assert found.next == ()
    [child] = crashes(logged(over(0, 0), process=None))
    assert child.state is None


def test_an_exception_of_a_log_alone_is_a_crash_if_anything_else_than_a_good_end_is_known() -> None:
    assert [found.state for found in crashes(logged(over(0, 3), process=None))] == [VerdictState.CRASHED]
    assert [found.state for found in crashes(logged(World(), process=None))] == [VerdictState.CRASHED]


def test_an_exception_that_was_survived_does_not_explain_the_end() -> None:
    world = logged(over(3), survived="3 more steps were logged")
    found = {finding.sentence: finding.state for finding in crashes(world)}
    assert found == {
        "An exception was logged and handled or survived (3 more steps were logged): app::Error: boom.": None,
        "Process 1 (prog1) ended with status 3.": VerdictState.CRASHED,
    }


@pytest.mark.parametrize(
    ("survived", "sentences"), [("", []), ("3 more steps were logged", ["Process 1 (prog1) ended with status 3."])]
)
def test_an_exception_of_which_a_system_tells_the_cause_is_left_to_it(survived: str, sentences: list[str]) -> None:
    judged = Judged(explains=(lambda hit, snapshot: True,))
    assert [found.sentence for found in crashes(logged(over(3), survived=survived), judged)] == sentences


@pytest.mark.parametrize(
    ("process", "sentence"),
    [
        (ONE, "An exception was logged, and its process continues: app::Error: boom."),
        (None, "An exception was logged: app::Error: boom."),
    ],
)
def test_an_exception_of_a_living_python_program(process: str | None, sentence: str) -> None:
    world = World()
    world.process(1, exe="/usr/bin/python3.11")
    [found] = crashes(logged(world, process=process))
    assert (found.sentence, found.state, found.severity) == (sentence, None, Severity.WARNING)


@pytest.mark.parametrize(
    ("exe", "command", "own"),
    [
        ("/usr/bin/python3.11", ("x",), True),
        ("/opt/PyPy/bin/Python", ("x",), True),
        ("/usr/bin/env", ("python3", "train.py"), True),
        ("/usr/bin/tail", ("tail", "-f", "/var/log/python.log"), False),
        ("/usr/bin/tail", (), False),
    ],
)
def test_a_traceback_may_be_of_a_living_process_only_if_that_runs_python(
    exe: str, command: tuple[str, ...], own: bool
) -> None:
    world = World()
    process = Process(id=ONE, host="box", pid=1, exe=exe, command=command)
    world.store.apply(ev.ProcessSeen(process=process, **world.stamp()))
    world.process(2, exe="/bin/sh")  # one that runs Python is enough
    [found] = crashes(logged(world))
    others = "A log that a living process writes reports an exception of another program, or of a child"
    assert found.sentence.startswith(others) is not own
    assert found.severity is (Severity.WARNING if own else Severity.INFO)


STACK = (Frame(function="free", module="libasan.so"), Frame(function="update", file="/x/model.cpp", line=12))


@pytest.mark.parametrize(
    ("kind", "status", "sentence", "state"),
    [
        (ENDED, 1, "Crashed: app::Error, in update at model.cpp:12: boom.", VerdictState.CRASHED),
        (
            WARNED,
            1,
            "app::Error, in update at model.cpp:12: boom; the sanitizer did not end the program for it.",
            None,
        ),
        (
            WARNED,
            None,
            "app::Error, in update at model.cpp:12: boom; the sanitizer did not end the program for it.",
            None,
        ),
        ("traceback", 1, "Crashed in update (model.cpp:12): app::Error: boom.", VerdictState.CRASHED),
    ],
)
def test_a_sanitizer_s_report_says_where(
    kind: str, status: int | None, sentence: str, state: VerdictState | None
) -> None:
    stack = STACK[1:]
    [found] = [f for f in crashes(logged(over(status), kind, stack=stack)) if f.evidence[0].kind == "log"]
    assert (found.sentence, found.state) == (sentence, state)


@pytest.mark.parametrize(
    ("count", "message", "sentence"),
    [
        (1, "boom", "Crashed: app::Error: boom."),
        (2, "boom", "Crashed: app::Error: boom (printed 2 times)."),
        (1, "", "Crashed: app::Error."),
    ],
)
def test_how_often_an_exception_came_and_what_it_said(count: int, message: str, sentence: str) -> None:
    [found] = crashes(logged(over(1), count=count, message=message))
    assert found.sentence == sentence


def test_an_end_by_signal_beside_a_head_that_lives_is_worth_a_warning() -> None:
    world = over(None, -15)
    world.thread(1)
    [found] = crashes(world)
    assert found.sentence == "Process 2 (prog2) was ended by SIGTERM."


def test_evidence_of_a_stopped_process_has_its_time() -> None:
    world = World()
    world.process(1, ThreadState.STOPPED)
    assert world.found("stopped-process").evidence[0].at_wall_ns == world.stamp()["wall_ns"]
    assert world.found("stopped-process").evidence[0].text == "state stopped"


def hung(*statuses: int | None, resolved: bool = False) -> World:
    world = over(*statuses)
    seen = Diagnostic(
        id=HANG_SEEN,
        system="livedbg",
        code="hang",
        severity=Severity.WARNING,
        sentence="Deadlock of 2 threads.",
        attributes={"state": "deadlock"},
        resolved=resolved,
    )
    world.store.apply(ev.DiagnosticSeen(diagnostic=seen, **world.stamp()))
    return world


@pytest.mark.parametrize(
    ("world", "state"),
    [
        (over(-15), None),
        (hung(-15), VerdictState.DEADLOCK),
        (hung(-15, resolved=True), None),
        (hung(), None),  # a log alone
        (hung(-15, None), None),  # a part of the job lives
        (hung(0, 0), None),
    ],
)
def test_a_hang_lasts_to_the_end_only_of_a_job_that_is_known_and_over(world: World, state: VerdictState | None) -> None:
    assert was_hung(world.snapshot()) is state


def test_a_rule_asked_alone_names_each_end_once() -> None:
    snapshot = over(-6, -6).snapshot()
    found = list(Crash().apply(RuleInput(snapshot, GraphKeeper().graph_of(snapshot))))
    assert [finding.entities for finding in found] == [(ONE,), (TWO,)]
    assert all(finding.next[0].startswith("coredumpctl") for finding in found)


@pytest.mark.parametrize(
    ("status", "state", "severity"),
    [(-1, None, Severity.WARNING), (-11, VerdictState.CRASHED, Severity.CRITICAL)],
)
def test_a_child_of_a_head_of_which_no_progress_is_known_crashes_unless_it_was_asked_to_end(
    status: int, state: VerdictState | None, severity: Severity
) -> None:
    world = World()
    head = Process(id=ONE, host="box", pid=1, named=True)
    world.store.apply(ev.ProcessSeen(process=head, **world.stamp()))
    world.exits(world.process(2, ppid=1), status)
    world.now_ns += 20 * SECOND
    world.store.apply(ev.Tick(**world.stamp()))
    [found] = crashes(world)
    assert (found.state, found.severity) == (state, severity)


@pytest.mark.parametrize(("waited_s", "timed", "told"), [(20, False, True), (5, False, False), (20, True, False)])
def test_who_is_left_waiting_for_one_that_a_signal_ended_is_said(waited_s: int, timed: bool, told: bool) -> None:
    world = World()
    world.store.apply(ev.ProcessSeen(process=Process(id=ONE, host="box", pid=1, named=True), **world.stamp()))
    world.exits(world.process(2, ppid=1), -11)
    world.thread(1, "main", waits_in="read of pipe 3", timed=timed)
    world.later(waited_s * SECOND)
    world.store.apply(ev.Tick(**world.stamp()))
    left = "; main thread 1 (main) has been in read of pipe 3 for 20 s or more" if told else ""
    [found] = crashes(world)
    assert found.sentence == f"Process 2 (prog2) was ended by SIGSEGV{left}."


def _printed(world: World, *lines: tuple[str, Severity]) -> World:
    """Process 1 printed these lines to its standard error."""
    errors = [text for text, severity in lines if severity is Severity.ERROR]
    source = LogSource(
        id="log:box/1/stderr", name="stderr", process=ONE, lines=len(lines), errors=len(errors), last_error=errors[-1]
    )
    world.store.apply(ev.LogSourceSeen(source=source, **world.stamp()))
    records = tuple(
        LogRecord(source=source.id, text=text, severity=severity, line=number)
        for number, (text, severity) in enumerate(lines, 1)
    )
    world.store.apply(ev.LogsSeen(records=records, **world.stamp()))
    return world


def test_a_status_is_said_with_the_error_that_the_output_ends_with() -> None:
    error = ("error: 12 is not a multiple of 8", Severity.ERROR)
    world = _printed(over(3), ("begins", Severity.INFO), error, ("see the manual", Severity.INFO))
    findings = Diagnostician(all_rules()).diagnose(world.snapshot()).findings.values()
    assert [finding.sentence for finding in findings] == [
        'Process 1 (prog1) ended with status 3 after "error: 12 is not a multiple of 8".'
    ]
    goes_on = [(f"step {number}", Severity.INFO) for number in range(9)]
    [found] = crashes(_printed(over(3), error, *goes_on))
    assert found.sentence == "Process 1 (prog1) ended with status 3."
    assert not crashes(_printed(over(0), error))
