"""Crashes: ends by a signal, and exceptions in logs that nothing survived."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence
from typing import Final

from livedbg.analysis.behaviour import long_waits
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.inconclusive import has_waited, watched
from livedbg.analysis.place_names import line_of, place_text
from livedbg.analysis.postmortem.ended import ended_on_request, heads, how_ended, is_crash, is_interrupt, went_well
from livedbg.analysis.postmortem.exceptions import (
    aborted_in,
    crashed_in,
    crashed_where,
    exception_text,
    fault_evidence,
    fault_of,
    fault_place,
    in_source,
    is_rethrown,
    log_evidence,
    overflow_text,
    raised_by,
    thrown_as,
    unseen_faults,
    way_of,
    with_raising,
    with_referred,
)
from livedbg.analysis.postmortem.lines import (
    begun_before,
    last_error,
    lines_before,
    proof_of,
    shown,
    traced_before,
)
from livedbg.analysis.postmortem.survived import survived
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.words import name_of
from livedbg.analysis.wording import with_more
from livedbg.logs.last_words import step_of, telling_line
from livedbg.logs.sanitizers import ENDED, WARNED
from livedbg.model import (
    CUT_OFF,
    FAILED_TESTS,
    FAULT,
    TESTS_WENT_ON,
    CauseClass,
    Diagnostic,
    Evidence,
    ExceptionHit,
    Frame,
    Process,
    Severity,
)
from livedbg.model.snapshot import Snapshot
from livedbg.text.sanitize import clean_line
from livedbg.text.wording import clause, sentence_case, sentences

_DUMPED: Final = frozenset(
    -number for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGQUIT)
)
"""Exit statuses of a process whose memory the kernel dumps, where core dumps are on (signal(7))."""
_FEW: Final = 50
_LOGS: Final = 4  # of one crash: the console's, and the debugger's
_SAID: Final = 200  # characters of the error that output ends with
_BEGUN: Final = 120  # characters of a line
_ABORTED: Final = "glibc-abort"
_ABRUPT: Final = ("signal", _ABORTED)
_ENDS: Final = (*_ABRUPT, "assert", "terminate", ENDED)
"""What no program survives, though a run of tests does."""
_TIMES: Final = {_ABORTED: "in {} processes", "traceback": "printed {} times"}
"""How often: each process aborts but once, and who catches an exception, logs and raises it again prints it twice."""


class Crash:
    """Rule for ends by an uncaught exception, an abort or a signal."""

    name = "crash"
    doc = (
        "A process ended by a signal or with a non-zero status, or its log shows something that a process doesn't "
        "survive: "
        "`terminate called`, a failed assertion, an abort of the C library, a fatal Python error, a report with which "
        "a sanitizer ends it (other reports of sanitizers are warnings). A Python traceback counts when no "
        "process is alive that could have caught it; otherwise it is reported only. An exception after which the same "
        "log goes on, or whose process ended with status 0, was handled or survived. The end of a child is no crash of "
        "the job if it was asked to end (SIGTERM), if the job ended well, or while the job makes progress. In the log "
        "of a living process, the end of a program is a note: another program's, whose lines it collects, or a child's."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield a finding for each exception, and for each killed process that none explains."""
        snapshot = state.snapshot
        explained = set()
        for hit in snapshot.exceptions.values():
            if hit.catchpoint is None or not hit.catchpoint.startswith("log") or is_interrupt(hit):
                continue
            if hit.catchpoint != f"log: {FAILED_TESTS}" and state.judged.explained(hit, snapshot):
                if not survived(hit, snapshot):
                    explained.add(hit.process)
                continue
            finding = self._logged(hit, state)
            if finding.state is not None and (name := _shown_in(hit, snapshot)):
                more = f"{name} has it with its stack"
                finding = with_more(finding, more, state=None, severity=Severity.WARNING, over=True)
            if finding.state is not None:
                explained.add(hit.process)
            yield finding
        short = unseen_faults(snapshot)
        told = False
        for process in snapshot.processes.values():
            status = process.exit_status
            if not process.exited or not status or process.id in explained or (explained and not _by_signal(status)):
                continue
            crashed = is_crash(process, state)
            if crashed or _by_signal(status):
                child = short[0] if len(short) == 1 and process in heads(snapshot) and status > 0 else None
                told = told or child is not None
                yield self._ended(process, status, crashed, state, child)
        for process in () if told else short:
            yield self._ended(process, process.exit_status or 0, False, state)

    def _logged(self, hit: ExceptionHit, state: RuleInput) -> Finding:
        snapshot = state.snapshot
        kind = (hit.catchpoint or "").partition(": ")[2]
        owner = snapshot.processes.get(hit.process) if hit.process else None
        about = [owner] if owner else heads(snapshot)
        alive = any(not process.exited for process in about)
        well = went_well(about)
        went_on = survived(hit, snapshot) if not (alive or well) else ""
        fatal = kind != WARNED and not (alive or well or went_on or ended_on_request(snapshot))
        times = _TIMES.get(kind, "{} times")
        again = f" ({times.format(hit.count)})" if hit.count > 1 else ""
        hit = with_raising(hit, snapshot) if fatal and kind == "traceback" else hit
        own = crashed_in(hit, kind, state.code) if fatal else None  # it is said before the text
        text = exception_text(hit, kind in (ENDED, WARNED, FAULT) and (own is None or own != hit.stack[0]))
        text = with_referred(text, hit, snapshot)
        asked = in_source(hit, own, state.code)
        if own is not None and (line := line_of(own)):
            text = text.replace(f"{line}: ", "", 1)
        if fatal and kind == "assert" and (aborted := aborted_in(hit, snapshot)) is not None:
            text = f"{text.rstrip('.')}, in {place_text(aborted)}"
        begun = _begun(hit, kind, snapshot) if fatal else ""
        if begun and kind in _ABRUPT and not hit.stack:
            text, again = f'{text}{again}, after "{begun[:_BEGUN]}"', ""
        if fatal and kind == "signal" and own is None:
            ran = traced_before(hit.source or "", hit.first_line or hit.line or 0, hit.writer, snapshot)
            text = f"{text.rstrip('.')}, as {ran} ran" if ran and ran not in text else text
        root = _of_peer(hit, state) if kind == FAILED_TESTS else None
        if root is not None:
            text = f"{hit.type}: {clause(root.sentence)}; it led to {telling_line(hit.message)}"
        by = raised_by(hit, snapshot) if fatal and kind == "traceback" else ""
        what = crashed_where(hit, kind, state.code, by) if fatal else "An exception was logged"
        fault = fault_of(owner, snapshot) if fatal and owner is not None else None
        place = fault_place(fault, state.code) if fault is not None else ""
        if place and (own is None or own.language == "python"):
            what, text = f"{what}{',' if own is not None else ''} in {place}", exception_text(hit)
            if fault is not None and (way := way_of(fault, hit, snapshot, state.code)):
                text = f"{text.rstrip('.')}; {way}"
        others = alive and not _may_be_own(kind, snapshot.processes.values())
        if others:
            end = "an exception" if kind == "traceback" else "the end"
            what = f"A log that a living process writes reports {end} of another program, or of a child"
        elif owner is not None and alive and not _a_child_failed(owner, snapshot):
            what = "An exception was logged, and its process continues"
        elif went_on == TESTS_WENT_ON and kind in _ENDS:
            what = f"A program that a test ran ended so ({went_on})"
        elif went_on:
            what = f"An exception was logged and handled or survived ({went_on})"
        told = f"{what}: {text.rstrip('.')}{asked}{again}"
        if kind == WARNED:
            told = f"{text.rstrip('.')}{again}; the sanitizer did not end the program for it"
        return Finding(
            rule=self.name,
            severity=Severity.CRITICAL if fatal else Severity.INFO if others else Severity.WARNING,
            sentence=sentences(
                told, sentence_case(hit.related), _beside(hit, state) if fatal and kind == FAULT else ""
            ),
            claim=_cut_at(own) if hit.message == CUT_OFF and own is not None else text,
            entities=tuple(entity for entity in (hit.process, hit.thread) if entity),
            evidence=(*_evidence(hit, text, snapshot), *(fault_evidence(fault) if fault is not None else ())),
            next=_next(hit, fault, snapshot) if fatal else (),
            since_wall_ns=hit.at_wall_ns,
            state=VerdictState.CRASHED if fatal else None,
            over=not fatal,
            cause=CauseClass.PROCESS if root and not state.judged.judges(root) else state.judged.cause_of(hit),
            writer=hit.writer,
        )

    def _ended(
        self, process: Process, status: int, crashed: bool, state: RuleInput, child: Process | None = None
    ) -> Finding:
        """Return how a process ended; `child` is the one that a signal ended before anybody had listed it."""
        how = how_ended(status)
        name = sentence_case(name_of(process.id, state.snapshot))
        fault = fault_of(process, state.snapshot)
        place = fault_place(fault, state.code) if fault is not None else ""
        first = f" after {fault.type}" if fault is not None and fault.type not in how else ""  # a handler aborted
        where = f"{first} in {place}" if place else ""
        if fault is not None and (overflow := overflow_text(fault, state.code)):
            where = f"{first}: {overflow}"
        hint = "read its last log lines, and run it again under `livedbg launch -- COMMAND`"
        if status in _DUMPED:
            hint = "coredumpctl info   shows its core dump, where one is kept"
        if fault is not None and fault.deep:
            hint = "gdb -batch -ex run -ex 'bt -20' --args COMMAND   shows what calls itself"
        elif status == -signal.SIGKILL:
            hint = "dmesg | grep -i oom   tells whether the OOM killer did it"
        if child is not None and (fault := fault_of(child, state.snapshot)) is not None:
            place = fault_place(fault, state.code)
            where = overflow_text(fault, state.code)
            where = f": {where}" if where else f" in {place}" if place else ""
            where = f" after child process {child.pid} was ended {how_ended(child.exit_status)}{where}"
        said = last_error(process.id, state.snapshot) if status > 0 and child is None else None
        if said is not None:
            text = said[1].text[said[1].head :].strip().partition("\n")[0]
            where = f' after "{clean_line(text, _SAID).rstrip(".")}"'
            hint = "read the lines before it, and run it again under `livedbg launch -- COMMAND`"
        return Finding(
            rule=self.name,
            severity=Severity.WARNING if not crashed else Severity.CRITICAL if _by_signal(status) else Severity.ERROR,
            sentence=f"{name} {'was ' if _by_signal(status) else ''}ended {how}{where}{_left_waiting(crashed, state)}.",
            entities=(process.id,),
            evidence=(
                Evidence(kind="proc", source=f"wait status of {process.pid}", text=how),
                *(fault_evidence(fault) if fault is not None else ()),
                *((proof_of(said[1], said[0]),) if said is not None else ()),
            ),
            next=() if place else (hint,),
            state=VerdictState.CRASHED if crashed else None,
        )


def _cut_at(own: Frame) -> str:
    return f"a traceback that is cut off, in {place_text(own)}"


def _begun(hit: ExceptionHit, kind: str, snapshot: Snapshot) -> str:
    """Return what a program did last, by the line before its end; if glibc aborted it, whatever it said last."""
    log, line = hit.source or "", hit.first_line or hit.line or 0
    if kind != _ABORTED:
        return begun_before(log, line, hit.writer, snapshot)
    said = lines_before(log, line, hit.writer, snapshot, hit.count + 1)
    return next((text for text in said if text and text not in hit.message and step_of(text) is None), "")


def _beside(hit: ExceptionHit, state: RuleInput) -> str:
    """Return how another process ended whose dump stands below in the same log, without a rank of its own; or ""."""
    others = [one for one in state.snapshot.exceptions.values() if one.catchpoint == hit.catchpoint and not one.writer]
    below = [one for one in others if one.source == hit.source and (one.line or 0) > (hit.line or 0)]
    if hit.writer or len(below) != 1 or survived(below[0], state.snapshot):
        return ""
    where = crashed_where(below[0], FAULT, state.code).removeprefix("Crashed").strip()
    return f"Another process crashed, too{f', {where}' if where else ''}: {exception_text(below[0])}"


def _shown_in(hit: ExceptionHit, snapshot: Snapshot) -> str:
    """Return the other log in which a debugger shows the same end, of which this one has the shell's word, or ""."""
    if hit.stack or hit.writer or hit.catchpoint != "log: signal" or len(snapshot.log_sources) > _LOGS:
        return ""
    others = [one for one in snapshot.exceptions.values() if one.source != hit.source and one.type == hit.type]
    same = [one for one in others if one.stack and not one.writer and one.catchpoint == hit.catchpoint]
    if len(same) != 1 or len(others) != 1 or hit.count > 1 or survived(same[0], snapshot):
        return ""
    source = snapshot.log_sources.get(same[0].source or "")
    return source.name if source is not None else ""


def _next(hit: ExceptionHit, fault: ExceptionHit | None, snapshot: Snapshot) -> tuple[str, ...]:
    if fault is None:
        return ("run it again under `livedbg launch -- COMMAND`",)
    if is_rethrown(fault) and not thrown_as(hit.type, snapshot):
        return (f"livedbg launch --catch '{hit.type}' -- COMMAND   shows where it was thrown: here it is taken over",)
    return ()


def _of_peer(hit: ExceptionHit, state: RuleInput) -> Diagnostic | None:
    if state.judged.cause_of_text(hit.message).rank < CauseClass.PEER.rank:
        return None
    line = hit.first_line or hit.line or 0
    told = [
        said
        for said in state.snapshot.diagnostics.values()
        if said.log == hit.source
        and said.severity.rank >= Severity.ERROR.rank
        and said.cause in (CauseClass.HOST, CauseClass.DEVICE, CauseClass.PROCESS)
        and said.message.first < line
    ]
    return max(told, key=lambda said: said.message.first, default=None)


def _evidence(hit: ExceptionHit, text: str, snapshot: Snapshot) -> tuple[Evidence, ...]:
    """Return the crash; if it names no place, also the output before it."""
    found = log_evidence(hit, text, snapshot)
    source = snapshot.log_sources.get(hit.source or "")
    if source is None or any(frame.file for frame in hit.stack) or len(snapshot.exceptions) > _FEW:
        return found
    return shown(found, source, hit.first_line, snapshot)


def _a_child_failed(process: Process, snapshot: Snapshot) -> bool:
    parents = (process.pid, process.ppid)
    children = (child for child in snapshot.processes.values() if child.ppid in parents and child.ppid is not None)
    return any(child.exited and child.exit_status for child in children if child.host == process.host)


def _left_waiting(crashed: bool, state: RuleInput) -> str:
    """Return `; main thread 7 has been in Queue.get in collect (a.py:51) for 20 s or more`, of one that is stuck."""
    waiting = next(long_waits(watched(state.snapshot), state), None) if crashed else None
    return f"; {has_waited(*waiting, state)}" if waiting is not None else ""


def _by_signal(status: int) -> bool:
    return status < 0


def _may_be_own(kind: str, processes: Iterable[Process]) -> bool:
    """Return whether a logged crash may be of a living process: a traceback of Python code, a sanitizer's warning.

    Nothing survives the others: another program wrote them, whose lines the process collects, or an ended child.
    """
    if kind == "traceback":
        return any("python" in f"{process.exe} {process.command[:1]}".lower() for process in processes)
    return kind == WARNED


def rules() -> Sequence[Rule]:
    return (Crash(),)
