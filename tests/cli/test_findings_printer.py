"""`watch` prints a verdict when it changes, and not each time that another thread of a healthy job waits."""

from __future__ import annotations

from livedbg.analysis.diagnosis import Diagnosis, Finding, Verdict, VerdictState
from livedbg.cli.hits import FindingsPrinter
from livedbg.model import Severity
from livedbg.model.snapshot import Clock, Snapshot
from livedbg.session.view import Update

STATES = VerdictState


def printed(*looks: tuple[float, VerdictState, str], ended: bool = False) -> list[str]:
    printer = FindingsPrinter(False)
    words = []
    for number, (at_s, state, root) in enumerate(looks, 1):
        at_ns = int(at_s * 1e9)
        verdict = Verdict(state=state, sentence=f"{root}.", roots=(root,))
        snapshot = Snapshot(revision=1, clocks={"box": Clock(at_ns, at_ns)})
        update = Update(snapshot, Diagnosis(verdict), ended=ended and number == len(looks))
        words += [line.split()[1] for line in printer.lines(update)]
    return words


def test_a_healthy_job_whose_roots_change_is_printed_once() -> None:
    assert printed(*[(n, STATES.RUNNING, f"t{n % 5}") for n in range(60)]) == ["RUNNING"]


def test_a_verdict_that_flaps_is_printed_once_it_holds() -> None:
    flapping = [(n, STATES.UNKNOWN if n % 2 else STATES.RUNNING, "t") for n in range(40)]
    assert printed(*flapping) == ["RUNNING"]
    assert printed(*flapping, *[(40 + n, STATES.UNKNOWN, "t") for n in range(6)]) == ["RUNNING", "UNKNOWN"]


def test_a_hang_is_printed_at_once_and_again_when_others_hang() -> None:
    looks = [(0, STATES.RUNNING, "a"), (1, STATES.STALLED, "a"), (2, STATES.STALLED, "a"), (3, STATES.STALLED, "b")]
    assert printed(*looks) == ["RUNNING", "STALLED", "STALLED"]


def test_the_last_verdict_is_printed_whatever_it_is() -> None:
    assert printed((0, STATES.RUNNING, "a"), (1, STATES.EXITED, "a"), ended=True) == ["RUNNING", "EXITED"]


def test_what_is_found_once_all_was_looked_at_is_printed_at_once_also_where_it_is_unknown() -> None:
    printer = FindingsPrinter(False)
    said: list[str] = []
    for at_s, sentence, is_looking in ((0, "Looking: 1", True), (1, "Looking: 2", True), (2, "Stuck", False)):
        snapshot = Snapshot(revision=1, clocks={"box": Clock(at_s * 10**9, at_s * 10**9)})
        verdict = Verdict(state=STATES.UNKNOWN, sentence=sentence)
        said += printer.lines(Update(snapshot, Diagnosis(verdict, is_looking=is_looking)))
    assert [line.partition("UNKNOWN  ")[2] for line in said] == ["Looking: 1", "Stuck"]


def test_findings_of_one_rule_about_one_process_are_all_printed_and_each_once() -> None:
    printer = FindingsPrinter(False)
    said: list[str] = []
    for count in (1, 1, 3, 2, 3):
        findings = {
            f"F{n}": Finding(rule="again", severity=Severity.INFO, sentence=f"f{n}.", entities=("p",))
            for n in range(count)
        }
        snapshot = Snapshot(revision=1, clocks={"box": Clock(1, 1)})
        said += printer.lines(Update(snapshot, Diagnosis(Verdict(state=STATES.RUNNING, sentence="r."), findings)))
    assert [line.split()[2] for line in said] == ["r.", "f0.", "f1.", "f2."]


def test_a_finding_that_the_verdict_says_is_not_said_twice() -> None:
    findings = {
        "F1": Finding(rule="crash", severity=Severity.CRITICAL, sentence="Died.", entities=("p",)),
        "F2": Finding(rule="note", severity=Severity.INFO, sentence="Beside.", entities=("p",)),
    }
    verdict = Verdict(state=STATES.CRASHED, sentence="Died.", chief="F1")
    update = Update(Snapshot(revision=1, clocks={"box": Clock(1, 1)}), Diagnosis(verdict, findings))
    said = [line.partition(" ")[2] for line in FindingsPrinter(False).lines(update)]
    assert said == ["CRASHED  Died. [crash]", "info     Beside. [note]"]
    assert len(list(FindingsPrinter(True).lines(update))) == 3


def test_a_finding_whose_process_becomes_known_is_not_said_again() -> None:
    printer = FindingsPrinter(False)
    said: list[str] = []
    for entities in ((), ("p",), ("p", "t")):
        found = {"F1": Finding(rule="crash", severity=Severity.WARNING, sentence="A race.", entities=entities)}
        snapshot = Snapshot(revision=1, clocks={"box": Clock(1, 1)})
        said += printer.lines(Update(snapshot, Diagnosis(Verdict(state=STATES.RUNNING, sentence="r."), found)))
    assert [line.split(None, 2)[2] for line in said] == ["r.", "A race. [crash]"]


def test_while_a_profile_is_taken_what_is_unknown_midway_is_not_printed() -> None:
    printer = FindingsPrinter(False, profiled=True)
    said: list[str] = []
    for at_s, state in ((0, STATES.UNKNOWN), (9, STATES.UNKNOWN), (19, STATES.STALLED), (29, STATES.UNKNOWN)):
        snapshot = Snapshot(revision=1, clocks={"box": Clock(at_s * 10**9, at_s * 10**9)})
        said += printer.lines(Update(snapshot, Diagnosis(Verdict(state=state, sentence="s."))))
    assert [line.split()[1] for line in said] == ["STALLED"]


def test_that_nothing_is_known_yet_is_printed_once_it_holds_or_nothing_else_comes() -> None:
    unknown = [(n / 4, STATES.UNKNOWN, "t") for n in range(10)]
    assert printed(*unknown) == []
    assert printed(*unknown, (2.5, STATES.RUNNING, "t")) == ["RUNNING"]
    assert printed(*unknown, (9, STATES.UNKNOWN, "t")) == ["UNKNOWN"]
    assert printed(*unknown, (2.6, STATES.STALLED, "t")) == ["STALLED"]
    assert printed(*unknown, ended=True) == ["UNKNOWN"]


def test_a_deadlock_waits_for_its_places_but_not_for_long() -> None:
    def said(*looks: tuple[float, bool]) -> list[str]:
        printer = FindingsPrinter(False)
        lines: list[str] = []
        for at_s, comes in looks:
            text = f"Deadlock at {at_s:g}."
            finding = Finding(
                rule="lock-cycle", severity=Severity.CRITICAL, sentence=text, entities=("t",), places_come=comes
            )
            at_ns = int(at_s * 1e9)
            snapshot = Snapshot(revision=1, clocks={"box": Clock(at_ns, at_ns)})
            verdict = Verdict(state=STATES.DEADLOCK, sentence=text, roots=("t",), chief="F1")
            lines += printer.lines(Update(snapshot, Diagnosis(verdict, {"F1": finding})))
        return [line.partition("DEADLOCK ")[2].partition(" [")[0] for line in lines]

    assert said((1, True), (2, True), (3, False)) == ["Deadlock at 3."]
    assert said((1, True), (4, True), (5.5, True), (6, False)) == ["Deadlock at 5.5."]
    assert said((1, False)) == ["Deadlock at 1."]
