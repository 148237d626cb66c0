"""The one answer: the verdict from the findings, or, without any, from what was seen of progress.

Invariants:
    verdict.V1. `unknown` is never exit code 0: it is 3 where a source that would tell has failed or may not be read,
        else 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from livedbg.analysis.closed import closed_sets
from livedbg.analysis.diagnosis import Finding, Verdict, VerdictState
from livedbg.analysis.liveness import (
    awaits_children,
    burning,
    cpu_share,
    idle_thread,
    long_waits,
    main_threads,
    napping,
    progressing,
    ticking,
    unseen_runtimes,
)
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.ends import INTERRUPTED, heads, how_ended
from livedbg.analysis.rules.sight import CANT_SEE
from livedbg.analysis.rules.words import duration, host_of, many, name_of, pids_of, waited_ns
from livedbg.model import POLLS, UNSEEN_RUNTIME, Process, TaskState, Thread
from livedbg.model.snapshot import Snapshot
from livedbg.text.wording import sentence_case

__all__ = ["INCONCLUSIVE", "exit_code", "is_blind", "ranked", "verdict_of"]

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
    """Findings in order of importance: by what they amount to, severity, and what waits behind.

    One that is inconclusive and decides comes before those that call another part of the job running or ended.
    """

    def weight(finding: Finding) -> tuple[float, int, int]:
        amounts_to = _RANK[VerdictState.RUNNING] - 0.5 if finding.decides else _RANK.get(finding.state, len(_ORDER))
        behind = max((state.graph.behind(entity) for entity in finding.entities[:8]), default=0)
        return (amounts_to, -finding.severity.rank, -behind)

    return sorted(findings, key=weight)


def verdict_of(findings: Sequence[Finding], state: RuleInput) -> Verdict:
    """The verdict, from findings in order of importance."""
    chief = next((finding for finding in findings if finding.state is not None), None)
    amounts_to = chief.state if chief is not None else None
    if chief is not None and amounts_to in _BAD:
        alike = [f for f in findings if f.state is amounts_to]
        named = (root for finding in alike for root in (finding.roots or finding.entities))
        return Verdict(
            state=amounts_to or VerdictState.UNKNOWN,
            sentence=chief.sentence + _interrupted(findings, amounts_to),
            roots=tuple(dict.fromkeys(named)),
            since_wall_ns=chief.since_wall_ns,
        )
    blind = next((finding for finding in findings if is_blind(finding)), None)
    quiet = _without_findings(state, amounts_to)
    if blind is not None:
        return _blinded(blind, quiet)
    if chief is None:
        return quiet
    if quiet.state is VerdictState.RUNNING and amounts_to is VerdictState.UNKNOWN and not chief.decides:
        return Verdict(state=quiet.state, sentence=f"{quiet.sentence} {chief.sentence}", roots=chief.roots)
    return Verdict(
        state=amounts_to or quiet.state,
        sentence=chief.sentence,
        roots=chief.roots or quiet.roots,
        since_wall_ns=chief.since_wall_ns,
    )


def _interrupted(findings: Sequence[Finding], amounts_to: VerdictState | None) -> str:
    """How a hang of which only logs tell ended, where its user ended it."""
    hung = amounts_to in (VerdictState.DEADLOCK, VerdictState.STALLED)
    ended = any(finding.rule == INTERRUPTED and finding.state is not None for finding in findings)
    return " It was ended by Ctrl-C." if hung and ended else ""


def exit_code(verdict: Verdict, findings: Iterable[Finding]) -> int:
    """The exit code of the headless commands: 0, 3, 5, 10, 11, 12 (livedbg.cli.table.EXIT_CODES)."""
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
    """Whether a finding says that a source which would tell has failed, or may not be read."""
    return finding.rule == CANT_SEE and finding.state is VerdictState.UNKNOWN


def _blinded(blind: Finding, quiet: Verdict) -> Verdict:
    """The verdict where a source that would tell does not: `unknown`, but for an end that was seen."""
    if quiet.state is VerdictState.EXITED:
        return Verdict(state=quiet.state, sentence=f"{quiet.sentence} {blind.sentence}", roots=quiet.roots)
    return Verdict(state=VerdictState.UNKNOWN, sentence=blind.sentence, roots=blind.entities)


def _without_findings(state: RuleInput, amounts_to: VerdictState | None) -> Verdict:
    snapshot = state.snapshot
    targets = [p for p in snapshot.processes.values() if p.target]
    if targets and all(p.exited for p in targets):
        return _exited(targets, snapshot)
    threads = _watched(snapshot)
    roots = tuple(root for root in state.graph.roots if root.startswith(("thread:", "process:", "task:")))
    shown = roots[:_ROOTS_SHOWN]
    if not threads:
        return Verdict(state=VerdictState.UNKNOWN, sentence=_nothing(state), roots=shown)
    busy = progressing(threads, state)
    if busy:
        return Verdict(state=VerdictState.RUNNING, sentence=_running(busy, threads, state), roots=shown)
    unseen = not unseen_runtimes(snapshot).keys().isdisjoint(thread.process for thread in threads)
    burnt = burning(threads, state) if not unseen else []
    if burnt:
        return Verdict(state=VerdictState.UNKNOWN, sentence=_burns(burnt, state), roots=shown)
    ticks = {thread.id for thread in ticking(threads, state)}
    naps = [thread for thread in napping(threads, state) if thread.id not in ticks]
    serves = amounts_to is None and not unseen and idle_thread(threads, state) is not None
    if naps and not unseen and not serves and not _others_sleep(threads, naps):
        return Verdict(state=VerdictState.UNKNOWN, sentence=_polls(naps[0], state), roots=shown)
    if amounts_to is None and not unseen:
        serving = idle_thread(threads, state)
        if serving is not None:
            return Verdict(state=VerdictState.RUNNING, sentence=_idles(*serving, snapshot))
        asleep = [thread for thread in threads if _asleep(thread)]
        rest = [thread for thread in threads if not _asleep(thread)]
        if asleep and all(awaits_children(thread, state) for thread in rest):
            return Verdict(state=VerdictState.RUNNING, sentence=_sleeps(asleep[0], rest, snapshot))
    return Verdict(state=VerdictState.UNKNOWN, sentence=_idle(threads, state), roots=shown)


def _watched(snapshot: Snapshot) -> list[Thread]:
    """The threads that have not ended, but for those of processes that are no target."""
    others = {process.id for process in snapshot.processes.values() if not process.target}
    return [thread for thread in snapshot.threads.values() if not thread.exited and thread.process not in others]


def _nothing(state: RuleInput) -> str:
    snapshot = state.snapshot
    running = next(iter(state.tasks_in(TaskState.RUNNING)), None)
    if running is not None:
        name = sentence_case(name_of(running.id, snapshot))
        return f"{name} was running where the log ends: hung, or died: no exit status. If the log still grows, it runs."
    return "Nothing is known to be stuck." if snapshot.tasks or snapshot.log_count else "Nothing can be seen yet."


def _idles(serving: Thread, what: str, snapshot: Snapshot) -> str:
    return f"Idle: {name_of(serving.id, snapshot)} waits for {what} ({serving.waits_in}); no hang found."


def _running(busy: Sequence[Thread], threads: Sequence[Thread], state: RuleInput) -> str:
    snapshot = state.snapshot
    first = max(busy, key=lambda thread: cpu_share(thread, snapshot))
    share = cpu_share(first, snapshot)
    used = f" ({share:.0%} of a core)" if share >= 0.005 else ""
    stuck = next(long_waits(threads, state), None)
    burnt = next(iter(burning(main_threads(threads, snapshot), state)), None)
    if burnt is not None and stuck is None:
        name = name_of(burnt.id, snapshot)
        return (
            f"Running: {len(busy)} of {many(len(threads), 'thread')} used CPU time while watched, most "
            f"{name_of(first.id, snapshot)}{used}. Main {name} computes, or spins: only its stack would tell."
        )
    rest = "No hang found." if stuck is None else f"{_has_waited(stuck, snapshot)}."
    return (
        f"Running: {len(busy)} of {many(len(threads), 'thread')} used CPU time while watched, most "
        f"{name_of(first.id, snapshot)}{used}. {rest}"
    )


def _burns(burnt: Sequence[Thread], state: RuleInput) -> str:
    """What is said of threads that only use CPU time."""
    snapshot = state.snapshot
    first = max(burnt, key=lambda thread: cpu_share(thread, snapshot))
    more = f" and {many(len(burnt) - 1, 'other')}" if len(burnt) > 1 else ""
    share = cpu_share(first, snapshot)
    used = f" ({share:.0%} of a core)" if share >= 0.005 else ""
    pid = pids_of((first.id,))[0]
    return (
        f"Inconclusive: {name_of(first.id, snapshot)}{more} {'compute' if more else 'computes'}, or "
        f"{'spin' if more else 'spins'}{used}: no wait, read, write or page fault was seen. "
        f"`livedbg stacks {pid} --glance`, some seconds apart, would tell."
    )


def _others_sleep(threads: Sequence[Thread], naps: Sequence[Thread]) -> bool:
    """Whether a main thread sleeps for longer than the naps of its helpers: it will wake by itself."""
    napping_mains = any(thread.process.rpartition("/")[2] == str(thread.tid) for thread in naps)
    return not napping_mains and any(_asleep(t) for t in threads if t.process.rpartition("/")[2] == str(t.tid))


def _polls(thread: Thread, state: RuleInput) -> str:
    """What is said of a thread that wakes for moments only."""
    snapshot = state.snapshot
    activity = snapshot.activity[thread.id]
    span_s = max(snapshot.now(host_of(thread.id)).mono_ns - activity.first_mono_ns, 1) / 1e9
    pid = pids_of((thread.id,))[0]
    return (
        f"Inconclusive: {name_of(thread.id, snapshot)} wakes about {activity.runs / span_s:.0f} times a second for a "
        "moment and sleeps again: it polls for something, or works in small steps. "
        f"`livedbg stacks {pid}`, some seconds apart, would tell."
    )


def _has_waited(thread: Thread, snapshot: Snapshot) -> str:
    where = thread.waits_in or thread.syscall or "a system call"
    for_how_long = duration(waited_ns(thread, snapshot) or 0)
    return f"Main {name_of(thread.id, snapshot)} has been in {where} for {for_how_long} or more"


def _asleep(thread: Thread) -> bool:
    return thread.timed is True and (thread.waits_in or "").startswith("sleep")


def _sleeps(first: Thread, parents: Sequence[Thread], snapshot: Snapshot) -> str:
    waits = f", and {name_of(parents[0].id, snapshot)} waits for its end" if parents else ""
    return (
        f"Asleep: {name_of(first.id, snapshot)} is in {first.waits_in} and will wake by itself{waits}; no hang found."
    )


def _idle(threads: Sequence[Thread], state: RuleInput) -> str:
    snapshot = state.snapshot
    counts: dict[str, int] = {}
    for thread in threads:
        place = thread.waits_in or thread.syscall or str(thread.state)
        counts[place] = counts.get(place, 0) + 1
    places = sorted(counts.items(), key=lambda item: -item[1])[:3]
    shown = ", ".join(f"{count} in {place}" for place, count in places)
    firsts = [snapshot.activity[t.id].first_mono_ns for t in threads if t.id in snapshot.activity]
    span = snapshot.now().mono_ns - min(firsts) if firsts else 0
    watch = f" in {duration(span)} of watching" if span > 0 else ""
    ticks = ticking(threads, state)
    unseen = next((s for s in snapshot.statuses.values() if s.code in (POLLS, UNSEEN_RUNTIME)), None)
    if unseen is not None:
        command, _, effect = unseen.remedy.partition("   ")
        warned = f"`{command}` ({effect})" if effect else f"`{command}`"  # it may end the program
        return f"Inconclusive: idle, working or stuck. {unseen.sentence} {warned} would tell."
    if ticks:
        first = max(ticks, key=lambda thread: cpu_share(thread, snapshot))
        what = f"Only helper threads that tick used CPU time{watch} ({name_of(first.id, snapshot)})"
    else:
        what = f"No thread used CPU time{watch}"
    because = next(iter(state.once(closed_sets).open_because.values()), "")
    woken = f" {sentence_case(because)}." if because else ""
    stuck = next(long_waits(threads, state), None)
    longest = f" {_has_waited(stuck, snapshot)}." if stuck is not None else ""
    return (
        f"Inconclusive: idle or stuck. {what}, and none waits for another that is blocked ({shown}).{longest}{woken} "
        "`livedbg watch` for a longer time, or the stacks, would tell."
    )


def _exited(processes: Sequence[Process], snapshot: Snapshot) -> Verdict:
    """The end of all processes; `exited` only where the status of those that the job is, is known."""
    job = heads(snapshot) or processes
    first = next((process for process in job if process.exit_status is None), job[0])
    if first.exit_status is None:
        name = sentence_case(name_of(first.id, snapshot))
        sentence = f"{name} has ended; its exit status is not known: its parent has collected it."
        return Verdict(state=VerdictState.UNKNOWN, sentence=sentence)
    how = f" {how_ended(first.exit_status)}"
    more = f" and {many(len(processes) - 1, 'other')}" if len(processes) > 1 else ""
    name = sentence_case(name_of(first.id, snapshot))
    return Verdict(state=VerdictState.EXITED, sentence=f"{name}{more} ended{how}.")
