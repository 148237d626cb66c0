"""Processes that are stopped, traced or crashed."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence
from typing import Final

from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.postmortem.ended import ended_on_request, heads, how_ended, is_crash, is_interrupt, went_well
from livedbg.analysis.postmortem.exceptions import crashed_where, exception_text, log_evidence
from livedbg.analysis.postmortem.lines import shown
from livedbg.analysis.postmortem.survived import survived
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.places import at, waiting
from livedbg.analysis.rules.words import duration, name_of, thread_evidence
from livedbg.logs.sanitizers import ENDED, WARNED
from livedbg.model import FAILED_TESTS, FAULT, Evidence, ExceptionHit, Process, Severity, ThreadState
from livedbg.model.snapshot import Snapshot
from livedbg.text.wording import sentence_case, sentences

_DUMPED: Final = frozenset(
    -number for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGQUIT)
)
"""Exit statuses of a process whose memory the kernel dumps, where core dumps are on (signal(7))."""


_FEW: Final = 50
_SURE_NS: Final = 200_000_000
"""What lasts from one sample to the next, at least so long, is no passing thing."""


def _process_finding(name: str, process: Process, sentence: str, steps: tuple[str, ...], state: RuleInput) -> Finding:
    behind = state.graph.behind(process.id)
    waiters = tuple(w for w in state.graph.waiters_of(process.id) if not w.startswith(f"thread:{process.id[8:]}/"))
    notes = f" ({', '.join(process.notes)})" if process.notes else ""
    where = at(waiters[0], state) if len(waiters) == 1 else ""
    return Finding(
        rule=name,
        severity=Severity.ERROR,
        sentence=f"{sentence}; {waiting(process.id, state)} for it{where}." if behind else f"{sentence}.",
        entities=(process.id, *waiters),
        evidence=(
            Evidence(
                kind="proc",
                source=f"/proc/{process.pid}/status",
                text=f"state {process.state}{notes}",
                at_wall_ns=state.snapshot.now(process.host).wall_ns or None,
            ),
        ),
        next=steps,
        state=VerdictState.STALLED,
        roots=(process.id,),
    )


class StoppedProcess:
    """A process that was stopped by a signal."""

    name = "stopped-process"
    doc = (
        "A process is stopped by job control (SIGSTOP, SIGTSTP, or a read from the terminal in the background); it "
        "continues when it gets SIGCONT. Rests on its state in /proc."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """One finding a process."""
        for process in state.snapshot.processes.values():
            if process.state is ThreadState.STOPPED and not process.exited:
                sentence = f"{sentence_case(name_of(process.id, state.snapshot))} is stopped by a signal (job control)"
                yield _process_finding(self.name, process, sentence, (f"kill -CONT {process.pid}",), state)


class TracedProcess:
    """A process that a debugger has stopped."""

    name = "traced-process"
    doc = (
        "A process is stopped by a debugger or tracer (state `t`) until that resumes it, and was so from one sample to "
        "the next: under strace a program stops and runs on all the time. Rests on its state and on TracerPid in /proc."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """One finding a process."""
        for process in state.snapshot.processes.values():
            if process.state is ThreadState.TRACED and not process.exited and self._stays(process, state):
                by = next((note for note in process.notes if note.startswith("traced by ")), "traced")
                name = sentence_case(name_of(process.id, state.snapshot))
                steps = (
                    "continue it in that debugger, or detach",
                    f"cat /proc/{process.pid}/status | grep TracerPid",
                )
                yield _process_finding(self.name, process, f"{name} is stopped by a debugger ({by})", steps, state)
        yield from self._single_threads(state)

    def _single_threads(self, state: RuleInput) -> Iterable[Finding]:
        """Threads that a debugger has stopped for the threshold, while their process runs (gdb's non-stop mode)."""
        snapshot = state.snapshot
        for thread in snapshot.threads.values():
            activity, process = snapshot.activity.get(thread.id), snapshot.processes.get(thread.process)
            if thread.state is not ThreadState.TRACED or thread.exited or activity is None or process is None:
                continue
            for_ns = snapshot.now(process.host).mono_ns - activity.changed_mono_ns
            if process.state is ThreadState.TRACED or for_ns < state.settings.thread_stall_ns:
                continue
            waiters = tuple(state.graph.waiters_of(thread.id))
            yield Finding(
                rule=self.name,
                severity=Severity.ERROR if waiters else Severity.WARNING,
                sentence=(
                    f"{sentence_case(name_of(thread.id, snapshot))} is stopped by a debugger for {duration(for_ns)} or "
                    f"more{f'; {waiting(thread.id, state)} for it' if waiters else ''}."
                ),
                entities=(thread.id, *waiters),
                evidence=(thread_evidence(thread, state),),
                next=("continue it in that debugger, or detach", f"grep TracerPid /proc/{process.pid}/status"),
                state=VerdictState.STALLED if waiters else None,
                roots=(thread.id,) if waiters else (),
            )

    def _stays(self, process: Process, state: RuleInput) -> bool:
        """Whether none of its threads has changed for a while."""
        mono_ns = state.snapshot.now(process.host).mono_ns
        seen = (state.snapshot.activity.get(thread.id) for thread in state.snapshot.threads_of(process.id))
        return all(activity is None or mono_ns - activity.changed_mono_ns >= _SURE_NS for activity in seen)


class Crash:
    """Something ended by an uncaught exception, an abort or a signal."""

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
        """One finding an exception; one a killed process that none explains."""
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
            if finding.state is not None:
                explained.add(hit.process)
            yield finding
        for process in snapshot.processes.values():
            status = process.exit_status
            if not process.exited or not status or process.id in explained or (explained and not _by_signal(status)):
                continue
            crashed = is_crash(process, state)
            if crashed or _by_signal(status):
                yield self._ended(process, status, crashed, state)

    def _logged(self, hit: ExceptionHit, state: RuleInput) -> Finding:
        snapshot = state.snapshot
        kind = (hit.catchpoint or "").partition(": ")[2]
        owner = snapshot.processes.get(hit.process) if hit.process else None
        about = [owner] if owner else heads(snapshot)
        alive = any(not process.exited for process in about)
        well = went_well(about)
        went_on = survived(hit, snapshot) if not (alive or well) else ""
        fatal = kind != WARNED and not (alive or well or went_on or ended_on_request(snapshot))
        again = f" ({hit.count} times)" if hit.count > 1 else ""
        text = exception_text(hit, kind in (ENDED, WARNED, FAULT))
        what = crashed_where(hit, kind, state.code) if fatal else "An exception was logged"
        others = alive and not _may_be_own(kind, snapshot.processes.values())
        if others:
            end = "an exception" if kind == "traceback" else "the end"
            what = f"A log that a living process writes reports {end} of another program, or of a child"
        elif owner is not None and alive and not _a_child_failed(owner, snapshot):
            what = "An exception was logged, and its process continues"
        elif went_on:
            what = f"An exception was logged and handled or survived ({went_on})"
        if kind == WARNED:
            what = "A sanitizer reported, without ending the program"
        steps = ["read the log lines before it"]
        if fatal:
            steps.append("run it again under `livedbg launch -- COMMAND`")
        return Finding(
            rule=self.name,
            severity=Severity.CRITICAL if fatal else Severity.INFO if others else Severity.WARNING,
            sentence=sentences(f"{what}: {text.rstrip('.')}{again}", sentence_case(hit.related)),
            claim=text,
            entities=tuple(entity for entity in (hit.process, hit.thread) if entity),
            evidence=_evidence(hit, text, snapshot),
            next=tuple(steps),
            since_wall_ns=hit.at_wall_ns,
            state=VerdictState.CRASHED if fatal else None,
            cause=state.judged.cause_of(hit),
            writer=hit.writer,
        )

    def _ended(self, process: Process, status: int, crashed: bool, state: RuleInput) -> Finding:
        how = how_ended(status)
        name = sentence_case(name_of(process.id, state.snapshot))
        hint = "read its last log lines, and run it again under `livedbg launch -- COMMAND`"
        if status in _DUMPED:
            hint = "coredumpctl info   shows its core dump, where one is kept"
        elif status == -signal.SIGKILL:
            hint = "dmesg | grep -i oom   tells whether the kernel killed it for memory"
        return Finding(
            rule=self.name,
            severity=Severity.WARNING if not crashed else Severity.CRITICAL if _by_signal(status) else Severity.ERROR,
            sentence=f"{name} was ended {how}." if _by_signal(status) else f"{name} ended {how}.",
            entities=(process.id,),
            evidence=(Evidence(kind="proc", source=f"wait status of {process.pid}", text=how),),
            next=(hint,),
            state=VerdictState.CRASHED if crashed else None,
        )


def _evidence(hit: ExceptionHit, text: str, snapshot: Snapshot) -> tuple[Evidence, ...]:
    """The crash; where it tells no place, also what was printed before it."""
    found = log_evidence(hit, text, snapshot)
    source = snapshot.log_sources.get(hit.source or "")
    if source is None or any(frame.file for frame in hit.stack) or len(snapshot.exceptions) > _FEW:
        return found
    return shown(found, source, hit.first_line, snapshot)


def _a_child_failed(process: Process, snapshot: Snapshot) -> bool:
    """Whether a child or sibling of a process, which may write to the same log, has ended with an error."""
    parents = (process.pid, process.ppid)
    children = (child for child in snapshot.processes.values() if child.ppid in parents and child.ppid is not None)
    return any(child.exited and child.exit_status for child in children if child.host == process.host)


def _by_signal(status: int) -> bool:
    return status < 0


def _may_be_own(kind: str, processes: Iterable[Process]) -> bool:
    """Whether what a log shows may be of a process that is alive: a traceback of Python code, a sanitizer's warning.

    Nothing survives the others, so another program wrote them, whose lines the process collects, or a child that ended.
    """
    if kind == "traceback":
        return any("python" in f"{process.exe} {process.command[:1]}".lower() for process in processes)
    return kind == WARNED


def rules() -> Sequence[Rule]:
    """The rules of this module."""
    return (Crash(), StoppedProcess(), TracedProcess())
