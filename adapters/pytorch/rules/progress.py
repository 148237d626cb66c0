"""Rules for torch.distributed jobs that make progress, with a rank that is late or without, or sleep: they don't hang.

Invariants:
    rules_progress.P1. A job goes on only if every seen rank has enqueued a collective, or has had messages, within the
        threshold.
    rules_progress.P2. Messages don't count while a main thread has been in one wait for the threshold: a helper thread
        may exchange them for as long as the job hangs.
    rules_progress.L1. An absent rank is called late, and not stuck, only up to 1.5 times its former delays.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from livedbg.adapters.pytorch.collectives.late import LATE
from livedbg.adapters.pytorch.facts import ENQUEUED, MESSAGES, LateFacts
from livedbg.adapters.pytorch.rules.calls import Call, calls_of
from livedbg.adapters.pytorch.rules.threads import main_thread
from livedbg.analysis.behaviour import Behaviour, doing
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.places import blocked_in
from livedbg.analysis.rules.words import duration, waited_ns
from livedbg.model import Diagnostic, Evidence, Severity, ThreadState, WaitKind
from livedbg.model.facts import read_facts
from livedbg.model.snapshot import Counter


def _ranks(state: RuleInput, name: str = ENQUEUED) -> dict[str, Counter]:
    processes = state.snapshot.processes
    return {
        key.entity: counter
        for key, counter in state.snapshot.counters.items()
        if key.name == name and key.entity in processes and not processes[key.entity].exited
    }


class CollectiveProgress:
    """All ranks go through collectives."""

    name = "collective-progress"
    doc = (
        "Every rank that is seen has enqueued collectives of torch.distributed while it was watched, or gloo has "
        "written messages for it (`send`, `isend`, and what announces a receive), the last within the threshold "
        "(10 s): the job runs. Messages count only where no main thread of a rank is in one wait for the threshold. "
        "Rests on the count in each rank's Flight Recorder, and on what gloo's threads have written "
        "(/proc/PID/task/TID/io)."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        ranks = _ranks(state)
        if len(ranks) < 2:
            return
        messages = _ranks(state, MESSAGES) if _mains_move(ranks, state) else {}
        enqueue = {process for process, counter in ranks.items() if _rises(counter, state)}
        exchange = {process for process, counter in messages.items() if _rises(counter, state)}
        if not ranks.keys() <= enqueue | exchange:
            return
        used = [*(ranks[one] for one in enqueue), *(messages[one] for one in exchange - enqueue)]
        newest_ns = max(state.snapshot.now().mono_ns, *(one.changed_mono_ns for one in used))
        watched_ns = newest_ns - min(one.first_mono_ns for one in used)
        had = "entered collectives" if not exchange - enqueue else "exchanged messages"
        yield Finding(
            rule=self.name,
            severity=Severity.INFO,
            sentence=f"Running: all {len(ranks)} ranks have {had} in {duration(watched_ns)} of watching.",
            entities=tuple(ranks),
            evidence=(
                Evidence(
                    kind="memory" if not exchange - enqueue else "proc",
                    source="Flight Recorder" if not exchange - enqueue else "/proc/PID/task/TID/io",
                    text=f"the counts of all {len(ranks)} ranks have risen",
                    at_wall_ns=state.snapshot.now().wall_ns or None,
                ),
            ),
            state=VerdictState.RUNNING,
        )


def _rises(counter: Counter, state: RuleInput) -> bool:
    now_ns = state.snapshot.now().mono_ns
    return counter.changes > 0 and now_ns - counter.changed_mono_ns < state.settings.thread_stall_ns


def _mains_move(processes: Iterable[str], state: RuleInput) -> bool:
    """Return whether no main thread has been in one wait for the threshold (P2)."""
    mains = [main_thread(process, state) for process in processes]
    waits = [waited_ns(main, state.snapshot) or 0 for main in mains if main is not None]
    return len(waits) == len(mains) and max(waits, default=0) < state.settings.thread_stall_ns


class RanksAsleep:
    """All ranks sleep, and none waits for another."""

    name = "ranks-asleep"
    doc = (
        "The main thread of every rank that is seen sleeps for a time of its own (`time.sleep`), and no rank waits in "
        "a collective: as between epochs. They wake by themselves. Ranks that sleep for moments again and again, and "
        "do next to nothing between, may poll for something that never comes, and are not reported. Rests on the "
        "system calls of the main threads and on the Flight Recorders."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        ranks = _ranks(state)
        mains = [main_thread(process, state) for process in ranks]
        asleep = [thread for thread in mains if thread is not None and thread.wait is WaitKind.SLEEP]
        if len(ranks) < 2 or len(asleep) < len(ranks) or any(call.waiting for call in calls_of(state)):
            return
        if any(doing(thread, state).kind is Behaviour.POLLING for thread in asleep):
            return
        yield Finding(
            rule=self.name,
            severity=Severity.INFO,
            sentence=(
                f"Asleep: all {len(asleep)} ranks sleep, the first in {blocked_in(asleep[0], state)}, and will wake by "
                "themselves; none waits in a collective."
            ),
            entities=tuple(thread.id for thread in asleep),
            state=VerdictState.RUNNING,
        )


_LONGER: Final = 1.5


def _known(state: RuleInput) -> list[Diagnostic]:
    found = state.snapshot.diagnostics.values()
    return [one for one in found if one.code == LATE and one.system == "pytorch" and not one.resolved]


def is_usual(call: Call, process: str, state: RuleInput) -> bool:
    """Return whether an absent rank was equally late before (L1)."""
    most = [read_facts(one, LateFacts).most_ns for one in _known(state) if one.entities == (process,)]
    return any(call.age_ns <= one * _LONGER for one in most)


class LateRank:
    """A rank that is late to each collective."""

    name = LATE
    doc = (
        "One rank of a group came last to each of the last 5 collectives, a second and more after every other rank and "
        "by a fifth of the time between them or more, after they had met: it holds the others up, and the job runs. "
        "While they wait for it again it counts as late for half as long again as it was before; then it is missing. "
        "Rests on the times at which the ranks enqueued the collectives, in their Flight Recorders."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        waiting = [call for call in calls_of(state) if call.waiting]
        now_ns = state.snapshot.now().wall_ns
        for said in _known(state):
            (process,) = said.entities
            if not _may_still_come(process, state):
                continue
            fresh = now_ns - read_facts(said, LateFacts).last_wall_ns < state.settings.thread_stall_ns
            goes_on = all(_only_missing(process, call) and is_usual(call, process, state) for call in waiting)
            runs = goes_on and (bool(waiting) or fresh)
            if not fresh and not any(_only_missing(process, call) for call in waiting):
                continue  # nobody waits for it now
            yield Finding(
                rule=self.name,
                severity=Severity.WARNING,
                sentence=f"{'Running, but slow: ' if runs else 'Slow before: '}{said.sentence}.",
                entities=(process,),
                evidence=said.evidence,
                next=(f"livedbg stacks {process.rpartition('/')[2]} --for 5", "livedbg watch --all-ranks PID"),
                since_wall_ns=said.at_wall_ns,
                state=VerdictState.RUNNING if runs else None,
                roots=(process,),
            )


def _may_still_come(process: str, state: RuleInput) -> bool:
    """Return whether it may still come: it has not ended, and is not stopped."""
    known, main = state.snapshot.processes.get(process), main_thread(process, state)
    halted = (ThreadState.STOPPED, ThreadState.TRACED)
    if known is None or main is None or known.exited:
        return False
    return known.state not in halted and main.state not in halted


def _only_missing(process: str, call: Call) -> bool:
    """Return whether exactly this rank is missing in a collective."""
    return [call.processes.get(rank) for rank in (*call.facts.absent, *call.facts.unseen, *call.facts.ended)] == [
        process
    ]
