"""When a log shows that its program went on after an error: each case by a state that is built by hand."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.postmortem.survived import goes_on_after, survived, unless_survived
from livedbg.model import Diagnostic, Evidence, ExceptionHit, LogRecord, LogSource, Severity
from livedbg.model import events as ev
from tests.analysis.world import SECOND, World

LOG, OTHER = "log:box/train.log", "log:box/other.log"
WALL = 10**18
STEP = "loss 0.5 accuracy 0.7"
GOES_ON = "its log goes on with ordinary lines"


class Log(World):
    """A log with an error in line 10."""

    def __init__(self, lines: int | None = None, last_s: float | None = None) -> None:
        super().__init__()
        last_ns = None if last_s is None else WALL + int(last_s * SECOND)
        for name in (LOG, OTHER):
            source = LogSource(id=name, name=name, lines=lines, last_wall_ns=last_ns)
            self.store.apply(ev.LogSourceSeen(source=source, **self.stamp()))

    def add(
        self,
        number: int | None,
        *texts: str,
        at_s: float | None = None,
        severity: Severity = Severity.INFO,
        source: str = LOG,
    ) -> Log:
        """Lines from one number on, or the newest ones, whose numbers are not known; `[rank3]: ` tells the writer."""
        wall_ns = None if at_s is None else WALL + int(at_s * SECOND)
        records = tuple(
            LogRecord(
                source=source,
                text=text.rpartition("]: ")[2],
                writer=text.rpartition("]: ")[0].removeprefix("["),
                line=None if number is None else number + place,
                wall_ns=wall_ns,
                severity=severity,
            )
            for place, text in enumerate(texts)
        )
        self.store.apply(ev.LogsSeen(records=records, **self.stamp()))
        return self

    def error(
        self, line: int | None, at_s: float | None = None, *, source: str | None = LOG, survived: str = ""
    ) -> ExceptionHit:
        """An exception that the log shows."""
        wall_ns = None if at_s is None else WALL + int(at_s * SECOND)
        hit = ExceptionHit(
            id=f"{source}:{line}", type="E", message="", source=source, line=line, at_wall_ns=wall_ns, survived=survived
        )
        self.store.apply(ev.ExceptionSeen(hit=hit, **self.stamp()))
        return hit

    def after(self, line: int | None = 10, at_s: float | None = None, *, source: str | None = LOG) -> str:
        """What shows that the program went on after an error in line 10."""
        return survived(self.error(line, at_s, source=source), self.snapshot())


@pytest.mark.invariant("survived.V1")
@pytest.mark.parametrize(("count", "said"), [(0, ""), (4, ""), (5, GOES_ON), (6, GOES_ON)])
def test_V1_five_ordinary_lines_are_more_than_what_a_crash_leaves_behind(count: int, said: str) -> None:
    assert Log().add(9, STEP, "E: boom", *[STEP] * count).after() == said


@pytest.mark.invariant("survived.V2")
@pytest.mark.parametrize("line", ["srun: error: exit 1", "", "| Pool 0 |", "  at frame", "real 0m3s", "x = f(1)"])
def test_V2_lines_that_a_crash_leaves_behind_are_not_counted(line: str) -> None:
    assert Log().add(11, *[line] * 240).after() == ""  # all of them are known
    assert Log().add(11, *[line] * 40, *[STEP] * 4).after() == ""
    assert Log().add(11, *[line] * 40, *[STEP] * 5).after() == GOES_ON


@pytest.mark.invariant("survived.V2")
def test_V2_warnings_and_records_of_several_lines_are_not_counted() -> None:
    assert Log().add(11, *[STEP] * 40, severity=Severity.WARNING).after() == ""
    assert Log().add(11, *[f"{STEP}\n{STEP}"] * 40).after() == ""


def test_lines_before_the_error_are_not_counted() -> None:
    assert Log().add(1, *[STEP] * 10, *[STEP] * 4).after() == ""


@pytest.mark.invariant("survived.V1")
@pytest.mark.parametrize(
    ("count", "later_s", "said"),
    [(1, 30, ""), (2, 29.999, ""), (2, 30, "its log goes on for 30 s"), (2, 70, "its log goes on for 70 s")],
)
def test_V1_two_ordinary_lines_are_enough_half_a_minute_later(count: int, later_s: float, said: str) -> None:
    assert Log().add(11, *[STEP] * count, at_s=5 + later_s).after(at_s=5) == said


@pytest.mark.parametrize(("error_s", "lines_s"), [(None, 90), (0, None), (None, None)])
def test_without_times_two_lines_are_not_enough(error_s: float | None, lines_s: float | None) -> None:
    assert Log().add(11, *[STEP] * 4, at_s=lines_s).after(at_s=error_s) == ""


@pytest.mark.invariant("survived.V2")
@pytest.mark.parametrize(
    ("count", "later_s", "said"),
    [(40, 29, ""), (4, 30, ""), (5, 30, "its log goes on for 30 s")],
)
def test_V2_other_ranks_count_only_half_a_minute_later(count: int, later_s: float, said: str) -> None:
    log = Log().add(9, f"[rank3]: {STEP}", "[rank3]: E: boom", at_s=0)
    assert log.add(11, *[f"[rank1]: {STEP}"] * count, at_s=later_s).after(at_s=0) == said


def test_the_rank_that_erred_goes_on_with_its_own_lines() -> None:
    log = Log().add(8, f"[rank1]: {STEP}", f"[rank3]: {STEP}", "[rank3]: E: boom")
    assert log.add(11, *[f"[rank3]: {STEP}"] * 5).after() == GOES_ON
    assert log.add(16, f"[rank1]: {STEP}").after() == GOES_ON


def test_a_test_run_that_ends_after_it_went_on() -> None:
    assert Log().add(11, "==== 3 passed, 1 warning in 0.12s ====").after() == "the test run went on after it"
    assert Log().add(11, "3 passed by the gate").after() == ""


@pytest.mark.invariant("survived.V5")
@pytest.mark.parametrize(
    ("attempt", "folder", "size", "said"),
    [
        (1, "a", 10, "a later attempt of the job was started after it"),
        *((1, "a", 0, ""), (1, "b", 10, ""), (0, "a", 10, "")),
    ],
)
def test_V5_a_later_attempt_that_has_written_decides(attempt: int, folder: str, size: int, said: str) -> None:
    log = Log()
    for name, path, number, bytes_ in (
        (LOG, "/srv/a/attempt_0/1/stderr.log", 0, 10),
        (OTHER, f"/srv/{folder}/attempt_{attempt}/0/stderr.log", attempt, size),
    ):
        source = LogSource(id=name, name=name, path=path, attempt=number, size=bytes_)
        log.store.apply(ev.LogSourceSeen(source=source, **log.stamp()))
    assert log.add(10, "E: boom").after() == said


@pytest.mark.parametrize("before", [1, 4])
def test_what_comes_after_the_next_error_is_counted_anew(before: int) -> None:
    log = Log().add(11, *[STEP] * before, "RuntimeError: boom")
    log.error(11 + before)
    assert log.add(12 + before, *[STEP] * 4).after() == ""
    assert log.add(16 + before, STEP).after() == GOES_ON


def test_what_comes_long_after_is_counted_anew_after_the_next_error_too() -> None:
    log = Log().add(11, STEP, at_s=40)
    log.error(12)
    assert log.add(12, STEP, at_s=50).after(at_s=0) == ""
    assert log.add(13, STEP, at_s=51).after(at_s=0) == "its log goes on for 51 s"


@pytest.mark.parametrize(
    ("source", "survived", "counted_anew"), [(LOG, "", True), (LOG, "more steps", False), (OTHER, "", False)]
)
def test_errors_that_were_survived_or_are_of_another_log_hide_nothing(
    source: str, survived: str, counted_anew: bool
) -> None:
    log = Log().add(11, *[STEP] * 5)
    log.error(13, source=source, survived=survived)
    assert log.after() == ("" if counted_anew else GOES_ON)


@pytest.mark.parametrize(
    ("severity", "where", "counted_anew"),
    [
        (Severity.ERROR, LOG, True),
        (Severity.CRITICAL, LOG, True),
        (Severity.WARNING, LOG, False),
        (Severity.ERROR, OTHER, False),
    ],
)
def test_what_a_system_reports_as_an_error_is_one(severity: Severity, where: str, counted_anew: bool) -> None:
    log = Log().add(11, *[STEP] * 5)
    proof = Evidence(kind="log", file="train.log", line=13, text="E", log=where)
    found = Diagnostic(id="d", system="toy", code="bad", severity=severity, sentence="Bad.", evidence=(proof,))
    log.store.apply(ev.DiagnosticSeen(diagnostic=found, **log.stamp()))
    assert log.after() == ("" if counted_anew else GOES_ON)


def test_an_exception_of_no_known_line_or_log_shows_nothing() -> None:
    log = Log().add(11, *[STEP] * 5)
    assert log.after(None) == ""
    assert log.after(source=None) == ""
    assert log.after(source="log:box/gone") == ""
    assert log.after() == GOES_ON


def test_what_a_decoder_knows_to_be_survived_is() -> None:
    log = Log()
    assert survived(log.error(None, survived="2 more steps"), log.snapshot()) == "2 more steps"


@pytest.mark.invariant("survived.V1")
@pytest.mark.parametrize(
    ("lines", "later_s", "said"),
    [
        (209, None, ""),
        (210, None, "its log goes on for 200 lines"),
        (29, 90, ""),
        (30, 30, "its log goes on for 30 s"),
        (30, 29.999, ""),
        (210, 29, "its log goes on for 200 lines"),
    ],
)
def test_V1_lines_that_are_no_longer_known_count_by_number_and_time(
    lines: int, later_s: float | None, said: str
) -> None:
    assert Log(lines, None if later_s is None else 5 + later_s).after(at_s=5) == said


def test_a_log_whose_lines_are_still_being_counted_shows_nothing() -> None:
    assert Log(None, 90).after(at_s=0) == ""


@pytest.mark.parametrize(("first", "said"), [(209, ""), (210, "its log goes on for 200 lines")])
def test_lines_before_the_first_known_one_count(first: int, said: str) -> None:
    assert Log(500, 0).add(first, "exit").after() == said


def test_the_time_of_the_first_known_line_that_has_one_counts() -> None:
    log = Log(500).add(40, "exit").add(41, "exit", at_s=31).add(42, "exit", at_s=99)
    assert log.after(at_s=1) == "its log goes on for 30 s"


def test_errors_among_the_lines_that_are_not_known_begin_anew() -> None:
    log = Log(400)
    log.error(205, 20)
    assert log.after(at_s=0) == ""
    log = Log(405)
    log.error(205, 20)
    assert log.after(at_s=0) == "its log goes on for 200 lines"
    log = Log(400)
    log.error(30, 30)
    assert log.after(at_s=0) == "its log goes on for 30 s"


def test_an_error_among_the_known_lines_is_not_one_before_them() -> None:
    log = Log(500).add(210, "exit")
    log.error(210)
    assert log.after() == "its log goes on for 200 lines"


def test_records_without_a_number_are_counted_from_the_end() -> None:
    assert Log(15).add(None, *[STEP] * 5).after() == GOES_ON  # 11 to 15
    assert Log(14).add(None, *[STEP] * 5).after() == ""  # the first is the line of the error
    assert Log(16).add(None, *[STEP] * 4, "exit\nexit").after() == ""
    assert Log(17).add(None, *[STEP] * 5, "exit\nexit").after() == GOES_ON
    assert Log(16).add(None, *[STEP] * 5, "exit\nexit").after() == ""
    assert Log().add(None, *[STEP] * 9).after() == ""  # nor is the end known


def test_records_without_a_number_come_before_those_that_have_one() -> None:
    assert Log(99).add(None, *[STEP] * 3).add(14, *[STEP] * 2).after() == GOES_ON  # 11 to 15
    assert Log(99).add(None, *[STEP] * 3).add(13, *[STEP] * 2).after() == ""
    assert Log(99).add(None, *[STEP] * 9).add(3, STEP).after() == ""


def test_lines_of_other_logs_are_not_counted() -> None:
    assert Log().add(11, *[STEP] * 9, source=OTHER).after() == ""
    log = Log().add(11, *[STEP] * 5)
    assert (log.after(source=OTHER), log.after()) == ("", GOES_ON)


def proofs(*places: tuple[str, int | None]) -> Sequence[Evidence]:
    return [Evidence(kind="log", file="x.log", line=line, text="E", log=log) for log, line in places]


@pytest.mark.parametrize(
    ("places", "said"),
    [
        ([], ""),
        ([(LOG, 10)], GOES_ON),
        ([(LOG, 10), (LOG, 12)], ""),  # after the last of its lines
        ([(LOG, 12), (LOG, 10)], ""),
        ([(LOG, 10), (OTHER, 99)], GOES_ON),
        ([(LOG, None)], ""),
        ([("", 10)], ""),
    ],
)
def test_what_rests_on_several_lines_is_survived_after_the_last_of_one_log(
    places: list[tuple[str, int | None]], said: str
) -> None:
    assert goes_on_after(proofs(*places), Log().add(11, *[STEP] * 5).snapshot()) == said


def test_the_lines_of_a_message_do_not_come_after_it() -> None:
    own = [Evidence(kind="log", file="train.log", line=10, text="E: stopped\nat a place\nin a file", log=LOG)]
    log = Log().add(11, *[STEP] * 5)
    assert goes_on_after(own, log.snapshot()) == ""
    assert goes_on_after(own, log.add(16, *[STEP] * 3).snapshot()) == GOES_ON


def test_what_does_not_rest_on_a_log_is_not_survived_by_one() -> None:
    log = Log().add(11, *[STEP] * 5)
    assert goes_on_after([Evidence(kind="file", file="x", line=10, text="E", log=LOG)], log.snapshot()) == ""


def test_a_runtime_s_own_lines_show_that_it_is_not_at_its_end() -> None:
    own = re.compile("^scheduler ").search
    log = Log().add(11, *[STEP] * 4, "scheduler step", *[STEP] * 4)
    assert goes_on_after(proofs((LOG, 10)), log.snapshot(), own) == ""
    assert goes_on_after(proofs((LOG, 10)), log.snapshot()) == GOES_ON
    log.add(20, STEP)
    assert goes_on_after(proofs((LOG, 10)), log.snapshot(), own) == GOES_ON


def crash(*entities: str, kind: str = "log", state: VerdictState = VerdictState.CRASHED) -> Finding:
    proof = [*proofs((LOG, 10)), Evidence(kind=kind, file="train.log", line=10, text="E", log=LOG)]
    return Finding(
        rule="toy-crash",
        severity=Severity.CRITICAL,
        sentence="Toy crashed.",
        entities=entities,
        evidence=tuple(proof),
        state=state,
        roots=entities,
    )


@pytest.mark.invariant("survived.V3")
def test_V3_a_system_s_crash_after_which_its_log_goes_on_is_none() -> None:
    found = unless_survived(crash("task:toy/1"), Log().add(11, *[STEP] * 5).snapshot())
    assert (found.state, found.severity, found.roots) == (None, Severity.WARNING, ())
    assert found.sentence == f"Toy crashed. It was handled or survived: {GOES_ON}."
    assert found.entities == ("task:toy/1",)


@pytest.mark.invariant("survived.V3")
@pytest.mark.parametrize(
    "finding", [crash(kind="proc"), crash(state=VerdictState.STALLED), crash(state=VerdictState.DIVERGED)]
)
def test_V3_what_a_wait_status_shows_and_what_is_no_crash_is_left_as_it_is(finding: Finding) -> None:
    assert unless_survived(finding, Log().add(11, *[STEP] * 5).snapshot()) is finding


@pytest.mark.invariant("survived.V3")
@pytest.mark.parametrize(
    ("named", "statuses", "was_survived"),
    [
        ((), (), False),
        ((), (0,), True),
        ((), (0, 0), True),
        ((), (0, 3), False),
        ((), (1,), False),
        ((), (-1,), False),
        ((), (None,), False),
        (("process:box/1",), (0, 3), True),
        (("process:box/2",), (0, 3), False),
        (("process:box/9",), (0,), True),  # of a process that is not known, the job tells
    ],
)
def test_V3_what_ended_with_status_0_has_survived(
    named: tuple[str, ...], statuses: tuple[int | None, ...], was_survived: bool
) -> None:
    log = Log()
    for pid, status in enumerate(statuses, 1):
        log.process(pid)
        if status is not None:
            log.exits(f"process:box/{pid}", status)
    found = unless_survived(crash(*named), log.snapshot())
    assert (found.state is None) is was_survived
    assert found.sentence.endswith("It was handled or survived: its process ended with status 0.") is was_survived
