"""Errors that a system itself reports: error diagnostics and failed tasks of any system.

A system needs no rule of its own for these. If its own rules say more, it declares that they judge them (`judges_tasks`
and `judges_diagnostics` of livedbg.session.systems).

Invariants:
    reported.A1. While an error of a system or a failed task stands, the verdict is never that the job runs, is idle or
        ended well: it is `crashed` if the error is about an end that was seen, else at least `unknown`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.postmortem.completed import completed_behind_errors
from livedbg.analysis.postmortem.ended import heads, went_well
from livedbg.analysis.postmortem.lines import last_error, shown
from livedbg.analysis.postmortem.survived import goes_on_after, unless_survived
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.words import many, name_of
from livedbg.model import Diagnostic, Evidence, LogSource, Severity, Task, TaskState
from livedbg.text.quantities import byte_size
from livedbg.text.wording import sentence_case, sentences

_SHOWN: Final = 10
"""Findings of a system that stand alone; the others are counted in one."""

T = TypeVar("T", Diagnostic, Task)


class ErrorReported:
    """Rule for an error that a runtime reports."""

    name = "error-reported"
    doc = (
        "A runtime reported an error, in its log or its files, and has not reported since that it is over. Without a "
        "worse finding, the verdict is `crashed` if the error is about an end (it names a process that ended with an "
        "error, or it is about an end and nobody lives), else `unknown`: livedbg can't tell what the error means for "
        "the job. It decides nothing where all of the job ended with status 0, and, unless it is critical, where the "
        "log goes on after it. Diagnostics that a system's own rules judge are left to these rules."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield a finding for each error; those after the first ten of a system are one finding."""
        errors = [d for d in _errors(state) if not (state.judged.judges(d) or d.message.signature)]
        for system, first, others in _by_system(errors):
            yield from (self._finding(error, state) for error in first)
            if others:
                decides = any(_amounts_to(error, state) is not None for error in others)
                yield Finding(
                    rule=self.name,
                    severity=max((error.severity for error in others), key=lambda severity: severity.rank),
                    sentence=f"{system} reported {many(len(others), 'more error')}.",
                    evidence=tuple(proof for error in others[:_SHOWN] for proof in error.evidence[:1]),
                    state=VerdictState.UNKNOWN if decides else None,
                    decides=decides,
                )

    def _finding(self, error: Diagnostic, state: RuleInput) -> Finding:
        amounts_to = _amounts_to(error, state)
        finding = Finding(
            rule=self.name,
            severity=error.severity,
            sentence=sentences(f"{error.system} reported an error ({error.code}): {error.sentence}"),
            claim=error.sentence,
            entities=error.entities,
            evidence=error.evidence,
            since_wall_ns=error.at_wall_ns,
            state=amounts_to,
            cause=error.cause,
            decides=amounts_to is VerdictState.UNKNOWN,
        )
        return unless_survived(finding, state.snapshot)


class TaskFailed:
    """Rule for a task that its runtime reports as failed."""

    name = "task-failed"
    doc = (
        "A runtime reported that a task failed, and has not started it again since. Without a worse finding, the "
        "verdict is `unknown`, unless a later task of the same kernel completed or all of the job ended with status 0. "
        "A task that an error diagnostic names is reported with that diagnostic. Tasks of a system that has rules of "
        "its own for them are left to these rules."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield a finding for each task; those after the first ten of a system are one finding."""
        explained = {entity for error in _errors(state) for entity in error.entities}
        failed = [
            task
            for task in state.tasks_in(TaskState.FAILED)
            if task.system not in state.judged.tasks and task.id not in explained
        ]
        completed = _last_completed(failed, state)
        for system, first, others in _by_system(failed):
            yield from (self._finding(task, state, completed) for task in first)
            if others:
                decides = any(_stands(task, completed, state) for task in others)
                yield Finding(
                    rule=self.name,
                    severity=Severity.ERROR,
                    sentence=f"{many(len(others), 'more task')} of {system} failed.",
                    entities=tuple(task.id for task in others[:_SHOWN]),
                    evidence=tuple(_evidence(task) for task in others[:_SHOWN]),
                    state=VerdictState.UNKNOWN if decides else None,
                    decides=decides,
                )

    def _finding(self, task: Task, state: RuleInput, completed: Mapping[tuple[str, str], _Completed]) -> Finding:
        decides = _stands(task, completed, state)
        where = f" on {', '.join(name_of(place, state.snapshot) for place in task.where)}" if task.where else ""
        behind = state.graph.behind(task.id)
        waits = f" {many(behind, 'task waits', 'tasks wait')} for it." if behind else ""
        return Finding(
            rule=self.name,
            severity=Severity.ERROR,
            sentence=f"{sentence_case(name_of(task.id, state.snapshot))} of {task.system} failed{where}.{waits}",
            entities=(task.id, *task.where),
            evidence=(_evidence(task),),
            next=("read the log lines about it",),
            since_wall_ns=task.since_wall_ns,
            state=VerdictState.UNKNOWN if decides else None,
            decides=decides,
        )


class ErrorLines:
    """Rule for error lines of logs that no decoder understands."""

    name = "error-lines"
    doc = (
        "A log has lines that call themselves an error and of which no decoder makes anything; how many, where the "
        "first is, and its text. Where no process is alive that could tell more, the verdict is `unknown` and not that "
        "nothing is wrong, unless the log ends with the run's completion after the last of them; else they are a "
        "note, for a living program may collect the lines of others. A big log is searched for them too; if 20,000 "
        "lines of it look like errors, the finding says how much of it was not read for them."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        snapshot = state.snapshot
        job = heads(snapshot)
        silent = all(process.exited for process in job) and not went_well(job)
        for source in snapshot.log_sources.values():
            if not source.errors and not source.unread:
                continue
            owner = snapshot.processes.get(source.process or "")
            told = owner is not None and owner.exited and (owner.exit_status or 0) > 0 and source.errors == 1
            if told and last_error(source.process or "", snapshot) is not None:
                continue  # the end of its process says it
            whose = "" if silent else " (the program's, or those of others that it collects)"
            decides = silent and (bool(source.unread) or not completed_behind_errors(source, snapshot))
            yield Finding(
                rule=self.name,
                severity=Severity.WARNING if decides else Severity.INFO,
                sentence=_error_lines(source, whose),
                entities=(source.process,) if source.process else (),
                evidence=shown(_error_evidence(source), source, source.first_error_line, snapshot),
                next=("read these lines: livedbg can't tell whether they end the job",) if decides else (),
                state=VerdictState.UNKNOWN if decides else None,
                decides=decides,
            )


def _error_lines(source: LogSource, whose: str) -> str:
    """Return `3 error lines that livedbg does not understand, the first at a.log:7,012: …`."""
    parts = []
    if source.errors:
        lines = f"{'At least ' if source.unread else ''}{many(source.errors, 'error line')}"
        line = f":{source.first_error_line}" if source.first_error_line is not None else ""
        where = f"{'at' if source.errors == 1 else 'the first at'} {source.name}{line}"
        text = (source.first_error or source.last_error).rstrip(".")
        parts.append(f"{lines}{whose} that livedbg does not understand, {where}: {text}")
    if source.unread:
        parts.append(
            f"{byte_size(source.unread)} of {source.name} were not read for errors: too many lines look like one"
        )
    return f"{'. '.join(parts)}."


def _error_evidence(source: LogSource) -> tuple[Evidence, ...]:
    text, line = source.first_error or source.last_error, source.first_error_line
    proofs = [Evidence(kind="log", text=text, file=source.name, line=line, log=source.id)]
    if source.errors > 1 and source.last_error:
        proofs.append(Evidence(kind="log", text=source.last_error, file=source.name, log=source.id))
    return tuple(proofs)


def _amounts_to(error: Diagnostic, state: RuleInput) -> VerdictState | None:
    snapshot = state.snapshot
    if went_well(heads(snapshot)):
        return None
    named = (snapshot.processes[entity] for entity in error.entities if entity in snapshot.processes)
    if any(process.exited and process.exit_status for process in named):
        return VerdictState.CRASHED
    if error.cause is not None and all(process.exited for process in heads(snapshot)):
        return VerdictState.CRASHED
    if error.severity is not Severity.CRITICAL and goes_on_after(error.evidence, snapshot):
        return None
    return VerdictState.UNKNOWN


class _Completed(NamedTuple):
    mono_ns: int = 0
    wall_ns: int = 0


def _last_completed(failed: Iterable[Task], state: RuleInput) -> dict[tuple[str, str], _Completed]:
    last = {(task.system, task.kernel): _Completed() for task in failed if task.kernel}
    if not last:
        return last
    for task in state.snapshot.tasks.values():
        key = (task.system, task.kernel or "")
        if task.state is TaskState.COMPLETED and key in last:
            mono_ns, wall_ns = last[key]
            last[key] = _Completed(max(mono_ns, task.since_mono_ns or 0), max(wall_ns, task.since_wall_ns or 0))
    return last


def _stands(task: Task, completed: Mapping[tuple[str, str], _Completed], state: RuleInput) -> bool:
    """Return whether the failure of a task decides: nothing shows that its work was done later."""
    again = completed.get((task.system, task.kernel or ""), _Completed())
    done = (task.since_mono_ns is not None and again.mono_ns > task.since_mono_ns) or (
        task.since_wall_ns is not None and again.wall_ns > task.since_wall_ns
    )
    return not done and not went_well(heads(state.snapshot))


def _errors(state: RuleInput) -> Iterator[Diagnostic]:
    for diagnostic in state.snapshot.diagnostics.values():
        if diagnostic.severity.rank >= Severity.ERROR.rank and not diagnostic.resolved:
            yield diagnostic


def _by_system(items: Iterable[T]) -> Iterator[tuple[str, Sequence[T], Sequence[T]]]:
    found: defaultdict[str, list[T]] = defaultdict(list)
    for item in items:
        found[item.system].append(item)
    for system, all_of_it in found.items():
        yield system, all_of_it[:_SHOWN], all_of_it[_SHOWN:]


def _evidence(task: Task) -> Evidence:
    attributes = "".join(f", {name} {value}" for name, value in task.shown().items())
    return Evidence(kind="log", source=task.id, text=f"{task.state}{attributes}", at_wall_ns=task.since_wall_ns)


def rules() -> Sequence[Rule]:
    return (ErrorReported(), TaskFailed(), ErrorLines())
