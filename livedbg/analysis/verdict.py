"""The verdict: from the findings or, without any, from observed progress.

Invariants:
    verdict.V1. `unknown` is never exit code 0: it is 3 where a source that would tell has failed or may not be read,
        else 5.
    verdict.V3. Where nothing is known of how the run ended, the first finding that its rule thinks worth telling
        (`Finding.noted`) is told behind that; it changes no verdict.
    verdict.V4. Where all else that is known are lines that speak of a failure, what a signature has understood of them
        is the sentence; the raw lines are a finding behind it.
    verdict.V2. A verdict with the sentence of a finding names that finding (`Verdict.chief`): screen, report and JSON
        have the same one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import structs

from livedbg.analysis.behaviour import (
    JOB,
    LONG_BLOCKED,
    ORDER,
    Behaviour,
    Standing,
    asks,
    awaits_children,
    awaits_jobs_of_pool,
    burns_for_ns,
    cpu_share,
    doing,
    giver_for,
    held_up,
    in_users_code,
    last_waited_for,
    long_waits,
    main_threads,
    polls_in_loop,
    progressing,
    sleeping_task,
    standings,
    unanswered,
)
from livedbg.analysis.diagnosis import Finding, Verdict, VerdictState
from livedbg.analysis.inconclusive import burns_said, has_waited, idle_said, polls_said, used, watched
from livedbg.analysis.out_of_time import so_far
from livedbg.analysis.progress_seen import calls_seen, loop_of, said_of
from livedbg.analysis.rules.base import INTERRUPTED, SPOKEN, RuleInput
from livedbg.analysis.rules.closed import NoWaker
from livedbg.analysis.rules.odd_one_out import OddOneOut
from livedbg.analysis.rules.places import at, blocked_in
from livedbg.analysis.rules.sight import CANT_SEE
from livedbg.analysis.rules.words import many, name_of, waited_ns
from livedbg.model import CauseClass, Severity, TaskState, Thread, WaitKind
from livedbg.model.snapshot import Snapshot
from livedbg.text.wording import sentence_case

INCONCLUSIVE: Final = 5
"""Exit code of a verdict that is `unknown`."""


_ORDER: Final = (
    VerdictState.CRASHED,
    VerdictState.DEADLOCK,
    VerdictState.STALLED,
    VerdictState.DIVERGED,
    VerdictState.RUNNING,
    VerdictState.EXITED,
    VerdictState.UNKNOWN,
)
_RANK: Final[dict[VerdictState | None, int]] = {state: rank for rank, state in enumerate(_ORDER)}
_BAD: Final = frozenset(_ORDER[:4])
_ROOTS_SHOWN: Final = 20


def ranked(findings: Iterable[Finding], state: RuleInput) -> list[Finding]:
    """Sort findings by importance: verdict, class of cause, severity, and waiters behind.

    An inconclusive finding that decides comes before those that call another part of the job running or ended.
    """

    def weight(finding: Finding) -> tuple[float, int, int, int]:
        amounts_to = _RANK[VerdictState.RUNNING] - 0.5 if finding.decides else _RANK.get(finding.state, len(_ORDER))
        behind = max((state.graph.behind(entity) for entity in finding.entities[:8]), default=0)
        cause = (finding.cause or CauseClass.PROCESS) if finding.state is VerdictState.CRASHED else CauseClass.PROCESS
        return (amounts_to, cause.rank, -finding.severity.rank, -behind)

    return sorted(findings, key=weight)


def verdict_of(findings: Sequence[Finding], state: RuleInput) -> Verdict:
    """Return the verdict, from findings in order of importance."""
    return so_far(_decided(findings, state), state.snapshot)


def _decided(findings: Sequence[Finding], state: RuleInput) -> Verdict:
    chief = next((finding for finding in findings if finding.state is not None), None)
    amounts_to = chief.state if chief is not None else None
    if chief is not None and amounts_to in _BAD:
        alike = [f for f in findings if f.state is amounts_to]
        odd = _odd_among(chief, findings)
        said = chief.sentence if odd is None else f"{odd.sentence} Nothing can wake them."
        named = (root for finding in (*filter(None, (odd,)), *alike) for root in (finding.roots or finding.entities))
        return Verdict(
            state=amounts_to or VerdictState.UNKNOWN,
            sentence=said + _interrupted(findings, amounts_to),
            roots=tuple(dict.fromkeys(named)),
            since_wall_ns=chief.since_wall_ns,
            chief=_id(odd or chief, findings),
        )
    blind = next((finding for finding in findings if is_blind(finding)), None)
    quiet = _without_findings(state, amounts_to)
    if blind is not None:
        return structs.replace(_blinded(blind, quiet), chief=_id(blind, findings))
    if chief is None:
        return _led(quiet, findings, state.snapshot)
    if quiet.state is VerdictState.RUNNING and amounts_to is VerdictState.UNKNOWN and not chief.decides:
        sentence = f"{quiet.sentence} {chief.sentence}"
        return Verdict(state=quiet.state, sentence=sentence, roots=chief.roots, chief=_id(chief, findings))
    if chief.rule == SPOKEN and (known := _understood(findings, state.snapshot)) is not None:
        sentence = f"{known.sentence} How the run ended is not known."
        return structs.replace(quiet, state=VerdictState.UNKNOWN, sentence=sentence, chief=_id(known, findings))
    return Verdict(
        state=amounts_to or quiet.state,
        sentence=chief.sentence,
        roots=chief.roots or quiet.roots,
        since_wall_ns=chief.since_wall_ns,
        chief=_id(chief, findings),
    )


def _understood(findings: Sequence[Finding], snapshot: Snapshot) -> Finding | None:
    """Return the first finding of what was understood of lines that speak of a failure (V4), or None."""
    from livedbg.analysis.postmortem.unexplained import understood_at

    known = understood_at(snapshot)
    said = (one for one in findings if one.evidence and not one.over and one.rule != SPOKEN)
    return next((one for one in said if (one.evidence[0].log, one.evidence[0].line) in known), None)


def _led(quiet: Verdict, findings: Sequence[Finding], snapshot: Snapshot) -> Verdict:
    """Return the verdict of logs whose end is not known, with the first error that may have been it, or a note (V3)."""
    if quiet.state is not VerdictState.UNKNOWN or not snapshot.log_sources or snapshot.processes:
        return quiet
    from livedbg.analysis.postmortem.unexplained import errors_at, warned_at

    errors = errors_at(snapshot)
    told = (one for one in findings if one.severity.rank >= Severity.WARNING.rank and not one.over and one.evidence)
    error = next((one for one in told if (one.evidence[0].log, one.evidence[0].line) in errors), None)
    if error is not None:
        sentence = f"{error.sentence} Whether it ended the run is not known."
        return structs.replace(quiet, sentence=sentence, chief=_id(error, findings))
    warned = warned_at(snapshot)
    report = next(
        (one for one in findings if one.evidence and (one.evidence[0].log, one.evidence[0].line) in warned), None
    )
    if report is None:
        noted = next((one for one in findings if one.noted and not one.over), None)
        if noted is None:
            return quiet
        return structs.replace(quiet, sentence=f"{quiet.sentence} Noted: {noted.sentence}", chief=_id(noted, findings))
    sentence = f"{report.sentence} How the run ended is not known."
    return structs.replace(quiet, sentence=sentence, chief=_id(report, findings))


def _id(finding: Finding, findings: Sequence[Finding]) -> str:
    """Return `F1`: the engine's name of a finding, by its place."""
    return f"F{next(number for number, one in enumerate(findings, 1) if one is finding)}"


def _odd_among(chief: Finding, findings: Sequence[Finding]) -> Finding | None:
    """Return the finding about the missing sibling, if it is among threads that nothing can wake."""
    if chief.rule != NoWaker.name:
        return None
    odd = (finding for finding in findings if finding.rule == OddOneOut.name and finding.state is VerdictState.UNKNOWN)
    return next((finding for finding in odd if set(finding.entities) <= set(chief.entities)), None)


def _interrupted(findings: Sequence[Finding], amounts_to: VerdictState | None) -> str:
    hung = amounts_to in (VerdictState.DEADLOCK, VerdictState.STALLED)
    ended = any(finding.rule == INTERRUPTED and finding.state is not None for finding in findings)
    return " It was ended by Ctrl-C." if hung and ended else ""


def exit_code(verdict: Verdict, findings: Iterable[Finding]) -> int:
    """Return the exit code of the headless commands: 0, 3, 5, 10, 11, 12 (livedbg.cli.group.EXIT_CODES)."""
    findings = tuple(findings)
    if verdict.state is VerdictState.CRASHED:
        return 11
    if verdict.state in (VerdictState.DEADLOCK, VerdictState.STALLED):
        return 10
    if verdict.state is VerdictState.DIVERGED or any(finding.topic for finding in findings):
        return 12
    if verdict.state is VerdictState.UNKNOWN:
        return 3 if any(is_blind(finding) for finding in findings) else INCONCLUSIVE
    return 0


def is_blind(finding: Finding) -> bool:
    """Return whether a finding says that a relevant source has failed, or may not be read."""
    return finding.rule == CANT_SEE and finding.state is VerdictState.UNKNOWN


def _blinded(blind: Finding, quiet: Verdict) -> Verdict:
    """Return the verdict without a relevant source: `unknown`, except for an end that was seen."""
    if quiet.state is VerdictState.EXITED:
        return Verdict(state=quiet.state, sentence=f"{quiet.sentence} {blind.sentence}", roots=quiet.roots)
    return Verdict(state=VerdictState.UNKNOWN, sentence=blind.sentence, roots=blind.entities)


def _without_findings(state: RuleInput, amounts_to: VerdictState | None) -> Verdict:
    snapshot = state.snapshot
    targets = [p for p in snapshot.processes.values() if p.target]
    if targets and all(p.exited for p in targets):
        from livedbg.analysis.postmortem.ended import exited

        return exited(targets, snapshot)
    threads = watched(snapshot)
    roots = tuple(root for root in state.graph.roots if root.startswith(("thread:", "process:", "task:")))
    shown = roots[:_ROOTS_SHOWN]
    if not threads:
        return Verdict(state=VerdictState.UNKNOWN, sentence=_nothing(state), roots=shown)
    stands = [one for one in standings(threads, state) if one.doing.kind is not Behaviour.ENDED]
    judged = [one for one in stands if not awaits_children(one.main, state)] or stands
    busy = progressing([one.end for one in judged] if judged else threads, state)
    unsure = _unsure(judged, busy, state)
    if busy and unsure is None:
        own = progressing(threads, state)
        said = _running(own, threads, state) if own else _waits_for_busy(judged, busy, state)
        return Verdict(state=VerdictState.RUNNING, sentence=said, roots=shown)
    if unsure is not None:
        return Verdict(state=VerdictState.UNKNOWN, sentence=unsure, roots=shown)
    held = held_up(threads, state) or unanswered(threads, state)
    if amounts_to is None and held is None and _all_idle(judged, threads, state):
        return Verdict(state=VerdictState.RUNNING, sentence=_idle(judged, threads, state))
    return Verdict(state=VerdictState.UNKNOWN, sentence=idle_said(threads, state), roots=shown)


def _unsure(stands: Sequence[Standing], busy: Sequence[Thread], state: RuleInput) -> str | None:
    """Return the sentence if a process may be stuck, whatever others do (behaviour.L10), else None."""
    threads = watched(state.snapshot)
    gets_on = {thread.process for thread in busy}
    targets = {thread.process for thread in threads}
    for one in stands:
        open_end = one.doing.kind is Behaviour.BLOCKED or one.end.process not in targets
        long = doing(one.main, state) == LONG_BLOCKED
        if one.doing.kind in (Behaviour.UNSEEN, Behaviour.STOPPED) or (long and open_end):
            return idle_said(threads, state)
    if not busy and (not stands or any(one.doing.kind is Behaviour.COMPUTING for one in stands)):
        computing = [one for one in threads if doing(one, state).kind is Behaviour.COMPUTING]
        if computing:
            return burns_said(computing, state)
    for one in stands:
        process = state.snapshot.processes.get(one.main.process)
        matters = not busy or process is None or process.rank is not None or process.named
        if one.doing.kind is Behaviour.POLLING and matters and one.main.process not in gets_on:
            return polls_said(one.end, state)
    return None


def _waits_long(threads: Sequence[Thread], state: RuleInput) -> tuple[Thread, int] | None:
    for main in main_threads(threads, state.snapshot):
        if doing(main, state) == LONG_BLOCKED and not awaits_children(main, state):
            return main, waited_ns(main, state.snapshot) or 0
    return None


def _all_idle(stands: Sequence[Standing], threads: Sequence[Thread], state: RuleInput) -> bool:
    """Return whether each process serves or sleeps. A sleep says nothing of the threads that it supervises.

    Who has begun to wait for one that sleeps is no such thread, nor is one of a pool whose jobs are awaited.
    """
    idle = (Behaviour.SERVING, Behaviour.SLEEPING)
    served = {one.doing.reason for one in stands if one.doing.kind is Behaviour.SERVING}
    if served - {JOB}:  # an idle worker shows nothing of who gives it jobs
        servers = [one.end for one in stands if one.doing.kind is Behaviour.SERVING]
        waits = [one for one in stands if one.doing.kind not in idle]
        return all(one.end.timed and not asks(servers, one.main.process, state) for one in waits)
    if not stands or any(one.doing.kind not in idle for one in stands):
        return False
    of_pools = {one.main.process: one.main for one in stands if awaits_jobs_of_pool(one.main, state)}
    judged = (one for one in threads if not awaits_children(one, state) and one not in of_pools.values())
    judged = (one for one in judged if one.process not in of_pools or in_users_code(one, state))
    ends = [_briefly_waited_for(thread, state) for thread in judged]
    open_end = any(polls_in_loop(end, state) for end in ends)
    goes_on = (*idle, Behaviour.POLLING, Behaviour.PROGRESSING)
    return not open_end and all(doing(end, state).kind in goes_on for end in ends)


def _briefly_waited_for(thread: Thread, state: RuleInput) -> Thread:
    """Return the last thread of the wait chain of a thread, if it has not waited for the threshold, or joins one.

    Else itself.
    """
    does = doing(thread, state)
    joins = any(blocker.startswith("thread:") for blocker in state.graph.blockers_of(thread.id))
    brief = does.kind is Behaviour.BLOCKED and (joins or does != LONG_BLOCKED) and not thread.timed
    last = last_waited_for(thread, state) if brief else thread
    last = giver_for(last, state) or last
    return last if doing(last, state).kind is Behaviour.SLEEPING else thread


def _idle(stands: Sequence[Standing], threads: Sequence[Thread], state: RuleInput) -> str:
    serving = [one.end for one in stands if one.doing.kind is Behaviour.SERVING]
    asleep = [one.end for one in stands if one.doing.kind is Behaviour.SLEEPING]
    if asleep and all(doing(thread, state).reason == JOB for thread in serving):
        serving = []
    if any(thread.wait is WaitKind.SIGNAL for thread in serving):  # then a helper serves
        serving += [thread for thread in threads if doing(thread, state).kind is Behaviour.SERVING]
    if serving:
        first = next((thread for thread in serving if thread.wait is not WaitKind.SIGNAL), serving[0])
        return _idles(first, doing(first, state).reason, state)
    if asleep and all(doing(thread, state).reason == ORDER for thread in asleep):
        return _idles(asleep[0], ORDER, state)
    parents = [thread for thread in threads if awaits_children(thread, state)]
    return _sleeps(asleep[0] if asleep else stands[0].end, parents, state)


def _nothing(state: RuleInput) -> str:
    snapshot = state.snapshot
    running = next(iter(state.tasks_in(TaskState.RUNNING)), None)
    if running is not None:
        name = sentence_case(name_of(running.id, snapshot))
        return f"{name} was running at the end of the log: it hung or died (no exit status)."
    if snapshot.log_sources or snapshot.statuses:
        from livedbg.analysis.postmortem.unexplained import logs_said

        if said := logs_said(snapshot):
            return said
    named = next((process for process in snapshot.processes.values() if process.named and not process.exited), None)
    if named is not None:
        return f"Nothing is known of {name_of(named.id, snapshot)} yet, but that it lives."
    return "Nothing is known to be stuck." if snapshot.tasks or snapshot.log_count else "Nothing can be seen yet."


def _idles(serving: Thread, what: str, state: RuleInput) -> str:
    who = name_of(serving.id, state.snapshot)
    return f"Idle: {who} waits for {what} ({serving.waits_in}){at(serving.id, state)}; no hang found."


def _running(busy: Sequence[Thread], threads: Sequence[Thread], state: RuleInput) -> str:
    snapshot = state.snapshot
    first = max(busy, key=lambda thread: cpu_share(thread, snapshot))
    stuck = next(long_waits(threads, state), None) or _waits_long(threads, state) or held_up(threads, state)
    mains = main_threads(threads, snapshot)
    burnt = next((thread for thread in mains if burns_for_ns(thread, state) is not None), None)
    said = f"Running: {_how(first, busy, threads, state)}."
    if stuck is not None:
        return f"{said} {sentence_case(has_waited(*stuck, state))}."
    if burnt is not None:
        return f"{said} Main {name_of(burnt.id, snapshot)} computes, or spins: only its stack would tell."
    return f"{said} No hang found."


def _how(first: Thread, busy: Sequence[Thread], threads: Sequence[Thread], state: RuleInput) -> str:
    """Return the best evidence of progress: iterations of a loop, calls, or CPU time."""
    snapshot = state.snapshot
    for thread in (*main_threads(busy, snapshot), first):
        if (loop := loop_of(thread, state)) is not None:
            return f"{name_of(thread.id, snapshot)} {said_of(*loop)}"
    if (calls := calls_seen(first, state)) is not None:
        file = (calls.frame.file or "").rpartition("/")[2]
        places = ", :".join(map(str, calls.lines[:4]))
        return f"{name_of(first.id, snapshot)} goes from call to call in {calls.frame.function} ({file}:{places})"
    most = f"most {name_of(first.id, snapshot)}{used(first, snapshot)}"
    return f"{len(busy)} of {many(len(threads), 'thread')} used CPU time while watched, {most}"


def _waits_for_busy(stands: Sequence[Standing], busy: Sequence[Thread], state: RuleInput) -> str:
    """Return the sentence for targets that wait for a process outside the job that progresses."""
    snapshot = state.snapshot
    one = next(one for one in stands if one.end in busy)
    who = f"{name_of(one.end.id, snapshot)} of process {one.end.process.rpartition('/')[2]}"
    return (
        f"Running: {name_of(one.main.id, snapshot)} waits in {blocked_in(one.main, state)} for {who}, "
        f"which is no target and used CPU time while watched{used(one.end, snapshot)}. No hang found."
    )


def _sleeps(first: Thread, parents: Sequence[Thread], state: RuleInput) -> str:
    snapshot = state.snapshot
    waits = f", and {name_of(parents[0].id, snapshot)} waits for its end" if parents else ""
    task = sleeping_task(first, state)
    who, where = name_of(first.id, snapshot), blocked_in(first, state)
    if task is not None:
        call = state.code.call(snapshot.stacks.get(task.id)) or "sleep"
        who, where = f"{name_of(task.id, snapshot)} of {who}", f"{call}(){at(task.id, state)}"
    return f"Asleep: {who} is in {where} and will wake by itself{waits}; no hang found."
