"""Judges how a job ended, as its host logged it: the cause, or a consequence of another one, and where.

Invariants:
    host_rules.H1. A line about another process decides nothing: neither one with a pid that is no target's, nor any
        while a target lives.
    host_rules.H2. A launcher's summary is no cause if the logs hold one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from livedbg.adapters.hosts.library_calls import awaited_in, collective_in, library_call, with_public_name
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.place_names import place_text
from livedbg.analysis.postmortem.completed import completed_in
from livedbg.analysis.postmortem.ended import is_interrupt, lives
from livedbg.analysis.postmortem.lines import known_lines, named_elsewhere
from livedbg.analysis.postmortem.survived import any_line, goes_on_after, survived, unless_survived
from livedbg.analysis.postmortem.tested import tests_open
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.said import in_test, steps_of, thrown_at
from livedbg.analysis.rules.signatures import explained
from livedbg.analysis.rules.words import many
from livedbg.analysis.user_code import Inside, UserCode
from livedbg.analysis.wording import with_more
from livedbg.logs.printed_waits import MUTEX, only_takes, waiting_call
from livedbg.model import FAILED_TESTS, Diagnostic, ExceptionHit, Frame, Severity, TaskState
from livedbg.model.snapshot import Snapshot
from livedbg.session.signatures import book


class Kind(StrEnum):
    """The nearness of a line to the cause (`kind` of the room's signatures)."""

    CAUSE = "cause"  # from outside: the kernel for memory, a scheduler at a limit, a node that failed
    ABORTED = "aborted"  # the program ended itself on purpose
    KILLED = "killed"  # SIGKILL, and it isn't said by whom
    WORKER = "worker"  # a helper process of the program ended by a fault
    LOST = "lost"  # the program lost a helper process, and it isn't said how that ended
    SUMMARY = "summary"  # a launcher's account of who ended first, and how
    CANCELLED = "cancelled"  # asked to end, and it isn't said why: somebody's wish, or since a part of it failed


_STACK: Final = "stack"
"""Kind of the signature of a stack that somebody printed."""
_WAITING: Final = "stack-waiting"
"""Kind of that of a thread beside the main one, which waits."""
_ACTIVE: Final = "stack-active"
"""Kind of that of a thread beside the main one, which runs."""
_TITLE: Final = "stack-process"
"""Kind of that of the name that a process gave itself."""
_IN, _COLLECTIVE, _WAITS, _WAIT = "in", "in the collective", "waits in", "wait in"
_PLACES: Final = 3
_PROOFS: Final = 6
_SUMMED_UP: Final = 12  # lines
_RANK: Final = {kind: rank for rank, kind in enumerate(Kind)}


class HostEnded:
    """Judges the host's report of how a job ended."""

    name = "host-ended"
    doc = (
        "A log says how a job or a process of it ended: the kernel's OOM killer, a limit of Slurm or Kubernetes, a "
        "failed node, SIGKILL from an unknown sender, `MPI_Abort`, or a launcher's account of who ended first. A crash "
        "if no target lives and the log does not go on after it. A launcher's account, and what ends the rest, are "
        "notes where the logs hold an error of the program or a cause. A kernel's line about a process that the other "
        "logs do not name is `unknown`, and so are a shell's `Killed` after which the log goes on, and a job that was "
        "asked to end without a reason (SIGTERM, a step that Slurm cancelled). Where a task was still running as a "
        "time limit was reached, the limit is a note: what hung is the question."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield one finding for each kind of ending in the logs, the cause first."""
        found: dict[Kind, list[Diagnostic]] = {}
        for said in state.snapshot.diagnostics.values():
            if said.system == "hosts" and said.code in _RANK:
                found.setdefault(Kind(said.code), []).append(said)
        for kind in Kind:
            if kind in found:
                told = sorted(found[kind], key=_order)
                yield self._finding(kind, told, state, found)

    def _finding(
        self, kind: Kind, told: Sequence[Diagnostic], state: RuleInput, found: Mapping[Kind, Sequence[Diagnostic]]
    ) -> Finding:
        snapshot = state.snapshot
        first = told[0]
        others = [said for said in told[1:] if said.sentence != first.sentence]
        other = f"{others[0].sentence}." if len(others) == 1 else f"{many(len(others), 'more line')} of this kind."
        more = f" {other}" if others else ""
        at = (
            thrown_at(first, state)
            if kind in (Kind.WORKER, Kind.LOST)
            else in_test(first, state)
            if kind is Kind.ABORTED
            else ""
        )
        finding = Finding(
            rule=self.name,
            severity=Severity.CRITICAL if kind in (Kind.CAUSE, Kind.KILLED) else Severity.ERROR,
            sentence=f"{first.sentence}{at}.{more}",
            claim=first.sentence,
            evidence=tuple(proof for said in told for proof in said.evidence)[:_PROOFS],
            next=steps_of(first),
            since_wall_ns=first.at_wall_ns,
            state=VerdictState.CRASHED,
        )
        if "limit" in first.message.marks:
            finding = with_more(finding, tests_open(snapshot))
        before = {other for other in found if _RANK[other] < _RANK[kind]}
        if kind is Kind.KILLED and _fault_came_first(first, found.get(Kind.SUMMARY, ())):
            before.add(Kind.SUMMARY)
        if why := _why_undecided(kind, first, state, before):
            return _note(finding, why)
        seen = _reported_elsewhere(first, found.get(Kind.KILLED, ()), snapshot)
        if kind is Kind.CAUSE and not seen and _is_unknown_elsewhere(first, snapshot):
            return _note(finding, "The other logs do not name that process.", VerdictState.UNKNOWN)
        if kind is Kind.CANCELLED or (kind is Kind.KILLED and Kind.CANCELLED in found):
            why = "No reason is logged: cancelled by a user, or another part of the job failed."
            return _note(finding, why, VerdictState.UNKNOWN)
        final = "final" in first.message.marks  # what follows is no progress
        judged = unless_survived(finding, snapshot, any_line if final else None)
        if judged is finding and kind is Kind.KILLED and _is_from_shell(first) and _goes_on(first, snapshot):
            return _note(finding, "The log goes on after it: it may be a helper's end.", VerdictState.UNKNOWN)
        if judged is finding and "outside" in first.message.marks and _had_completed(first, snapshot):
            return _note(finding, "The run says before it that it completed.", VerdictState.UNKNOWN)
        return judged


class StacksPrinted:
    """Reports where threads were when somebody printed their stacks."""

    name = "stacks-printed"
    doc = (
        "A log holds stacks that somebody printed with py-spy, faulthandler, gdb, pstack, lldb or Visual Studio: where "
        "the main threads are in the user's code, and those that wait for a mutex, and what they called there, the "
        "place that the fewest share first. What waits without a time limit is said to wait; a timed wait is none. The "
        "verdict is `unknown`, for a stack does not say how long it stands there; nothing, if the log goes on."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        snapshot = state.snapshot
        hosts = [said for said in snapshot.diagnostics.values() if said.system == "hosts"]
        told = [said for said in hosts if said.code == _STACK] or [said for said in hosts if said.code == _WAITING]
        active = [said for said in hosts if said.code == _ACTIVE]
        if not told:
            return
        known = {said.evidence[0].place for said in told}
        if len(active) == 1 and active[0].evidence[0].place not in known:  # of many, each may only look for work
            told += active
        titles = {said.message.values["who"]: said.message.values["title"] for said in hosts if said.code == _TITLE}
        at: dict[_Place, list[str]] = {}
        for said in told:
            who = said.writer or said.message.values.get("who", "")
            label = titles.get(who, "")
            own = said.message.values.get("label", "")
            who = f"{label}, {who}" if label else f"{who} ({own})" if own else who
            place = _place_in(said.stack, state.code, said.message.values.get("awaits", ""))
            at.setdefault(place, []).append(who)
        places = sorted(at.items(), key=lambda place: (place[0].how == _IN, len(place[1])))
        where = [_some(who, place) for place, who in places[:_PLACES]]
        more = f"; {many(len(places) - _PLACES, 'more place')}" if len(places) > _PLACES else ""
        alone = _lock_of(told[0], state.code) if len(told) == 1 else ""
        newest = max(told, key=lambda said: said.message.last)
        stands = not lives(snapshot) and not goes_on_after(newest.evidence, snapshot)
        yield Finding(
            rule=self.name,
            severity=Severity.WARNING,
            sentence=f"{'Stacks' if len(told) > 1 else 'A stack'} printed: {', '.join(where)}{more}{alone}.",
            evidence=tuple(proof for said in told for proof in said.evidence)[:_PROOFS],
            next=steps_of(newest),
            since_wall_ns=newest.at_wall_ns,
            state=VerdictState.UNKNOWN if stands else None,
            decides=stands,
        )


def _lock_of(said: Diagnostic, code: UserCode) -> str:
    """Return which mutex the only stack waits for, and who asked for it: its holder would be in another one."""
    if said.message.values.get("awaits", "") != MUTEX:
        return ""
    outer = said.stack[waiting_call(said.stack)[0] :]
    by = code.frame_of(outer)
    above = outer[outer.index(by) + 1 :] if by is not None else ()
    asked = next((place_text(frame) for frame in above if by is not None and frame.function != by.function), "")
    return f"{', called by ' * bool(asked)}{asked}. Who holds the mutex is not shown"


class _Place(NamedTuple):
    """A thread's place: how it is there, and where."""

    how: str
    where: str


def _place_in(stack: Sequence[Frame], code: UserCode, awaits: str) -> _Place:
    """Return the user's frame with what it called: `in fill (plant.c:15), in pthread_mutex_lock (libpthread.so.0)`.

    Of a call that waits: `waits in MPI_Bcast (libmpi.so.12), in fill (plant.c:15)`, or `in the collective all_reduce`;
    of one of the C library (`awaits`) `waits in fill (plant.c:15), for a mutex`.
    """
    for at, says in ((awaited_in(stack), _WAITS), (collective_in(stack), _COLLECTIVE)):
        if at is not None:
            caller = code.frame_of(stack[at + 1 :])
            places = [place_text(frame) for frame in (with_public_name(stack[at]), caller) if frame is not None]
            return _Place(says, ", in ".join(places))
    call = library_call(stack)
    waiter = waiting_call(stack)[0] if awaits else len(stack)
    if waiter < len(stack) and (call is None or call <= waiter):
        named = (frame for frame in stack[waiter:] if not frame.function.startswith("?"))
        by = code.frame_of(stack[waiter:]) or next(named, stack[waiter])
        return _Place(_WAITS, f"{place_text(by)}, {awaits}")
    outside = stack if call is None else stack[call + 1 :]
    own = code.frame_of([frame for frame in outside if not only_takes(frame)]) or code.frame_of(outside)
    if call is None:
        own = own or next((frame for frame in stack if not frame.function.startswith(("_", "?"))), stack[0])
        inner = stack[: next(at for at, frame in enumerate(stack) if frame is own)]
        packages = (frame for frame in inner if code.inside(frame) in (Inside.PACKAGE, Inside.FRAMEWORK))
        called = next(packages, None) if own.language == "python" else None
        called = called or next((frame for frame in inner[::-1] if frame.function != "??"), None)
    else:
        called = stack[call]
    return _Place(_IN, ", in ".join(place_text(frame) for frame in (own, called) if frame is not None))


def _some(who: Sequence[str], place: _Place) -> str:
    if len(who) == 1:
        return f"{who[0]} {place.how} {place.where}"
    threads = place.how == _WAITS and all("thread" in one for one in who)
    some = many(len(who), "thread") if threads else f"{who[0]} and {many(len(who) - 1, 'other')}"
    return f"{some} {_WAIT if place.how == _WAITS else place.how} {place.where}"


def _why_undecided(kind: Kind, first: Diagnostic, state: RuleInput, before: set[Kind]) -> str:
    """Return why an ending decides nothing, in a sentence; "" if it does."""
    snapshot = state.snapshot
    targets = [process for process in snapshot.processes.values() if process.target]
    pid = first.message.pid
    if targets and pid and all(process.pid != pid for process in targets):
        return "It is no process of the target."
    if lives(snapshot):
        return "The target lives."
    if kind is Kind.CAUSE:
        hung = "limit" in first.message.marks and any(state.tasks_in(TaskState.RUNNING))
        return "What was still running then is the question." if hung else ""
    if kind in (Kind.WORKER, Kind.LOST, Kind.SUMMARY):
        return ""  # livedbg.analysis.postmortem.causes says what it follows from
    if before or (kind is not Kind.KILLED and _has_program_error(snapshot)):
        return "It follows from what was said before it."
    return ""


def _fault_came_first(first: Diagnostic, told: Sequence[Diagnostic]) -> bool:
    """Return whether the launcher reported a fault of another process before: then it kills the others for that.

    Where it sums up its ranks one below the other, they stand in any order.
    """
    log, line = _place(first)
    line += _SUMMED_UP if first.late and not _is_from_shell(first) else 0
    faults = (_place(said) for said in told if "fault" in said.message.marks)
    return any(its_log == log and its_line < line for its_log, its_line in faults)


def _has_program_error(snapshot: Snapshot) -> bool:
    """Return whether the logs hold an error of the program itself; that tests failed, without any reason, is none."""
    hits = (hit for hit in snapshot.exceptions.values() if (hit.catchpoint or "").startswith("log"))
    hits = (hit for hit in hits if hit.message or hit.stack or hit.catchpoint != f"log: {FAILED_TESTS}")
    if any(not is_interrupt(hit) and not survived(hit, snapshot) for hit in hits):
        return True
    reported = (said for said in snapshot.diagnostics.values() if said.system != "hosts")
    return any(said.severity.rank >= Severity.CRITICAL.rank for said in reported)


def _is_unknown_elsewhere(first: Diagnostic, snapshot: Snapshot) -> bool:
    """Return whether a process is named that the other logs never mention."""
    pid = first.message.pid
    return pid is not None and named_elsewhere(pid, first.log, snapshot) is False


def _reported_elsewhere(first: Diagnostic, killed: Sequence[Diagnostic], snapshot: Snapshot) -> bool:
    """Return whether another log reports the same end: of this process, or of an unnamed one that may be this one."""
    for said in killed:
        if said.log == first.log:
            continue
        pid = said.message.pid
        if pid and pid == first.message.pid:
            return True
        goes_on = _is_from_shell(said) and _goes_on(said, snapshot)
        if not pid and not goes_on and "interpreter" in first.message.marks:
            return True
    name = first.message.values.get("name")
    others = (said.message.values.get("killed") for said in snapshot.diagnostics.values() if said.log != first.log)
    return bool(name) and name in others


def _is_from_shell(first: Diagnostic) -> bool:
    """Return whether the line is from a shell, which may go on, about one of its children."""
    return "shell" in first.message.marks


def _goes_on(first: Diagnostic, snapshot: Snapshot) -> bool:
    """Return whether the same log goes on with lines that no wrapper prints at an end."""
    log, line = _place(first)
    source = snapshot.log_sources.get(log)
    return source is not None and any(one.ordinary and one.number > line for one in known_lines(source, snapshot))


def _had_completed(first: Diagnostic, snapshot: Snapshot) -> bool:
    """Return whether the same log reports the completion of the run right before it."""
    log, line = _place(first)
    source = snapshot.log_sources.get(log)
    return source is not None and bool(completed_in(source, snapshot, line))


def _note(finding: Finding, why: str, state: VerdictState | None = None) -> Finding:
    return with_more(finding, why, severity=Severity.WARNING, state=state, decides=state is VerdictState.UNKNOWN)


def _order(said: Diagnostic) -> tuple[int, int]:
    return (said.at_wall_ns or 0, _place(said)[1])


def _place(said: Diagnostic) -> tuple[str, int]:
    """Return the log, and the first line's number, or 0 if unknown."""
    return said.log, said.message.first


def explains(hit: ExceptionHit, snapshot: Snapshot) -> bool:
    """Return whether an exception only reports that a helper process has ended, which the rule judges."""
    stacks = (_STACK, _WAITING, _ACTIVE, _TITLE)
    if hit.catchpoint == "log: signal" and explained(hit, snapshot, lambda _: (), lambda said: said.code not in stacks):
        return True
    found = book()[0].found(f"{hit.type}: {hit.message}", "hosts")
    return any(one.said.code in (Kind.CAUSE, Kind.WORKER, Kind.LOST, Kind.SUMMARY) for one in found)


def rules() -> Sequence[Rule]:
    """Return the rules of this room."""
    return (HostEnded(), StacksPrinted())
