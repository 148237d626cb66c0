"""Rules for torch.distributed jobs that make progress or sleep, and so don't hang.

Invariants:
    rules_progress.P1. A job goes on only if every seen rank has enqueued a collective, or has had messages, within the
        threshold.
    rules_progress.P2. Messages don't count while a main thread has been in one wait for the threshold: a helper thread
        may exchange them for as long as the job hangs.
"""

from __future__ import annotations

from collections.abc import Iterable

from livedbg.adapters.pytorch.facts import ENQUEUED, MESSAGES
from livedbg.adapters.pytorch.rules.calls import calls_of
from livedbg.adapters.pytorch.rules.threads import main_thread
from livedbg.analysis.behaviour import Behaviour, doing
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.places import blocked_in
from livedbg.analysis.rules.words import duration, waited_ns
from livedbg.model import Evidence, Severity, Thread, WaitKind
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
        asleep = [thread for thread in mains if thread is not None and _asleep(thread)]
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


def _asleep(thread: Thread) -> bool:
    return thread.wait is WaitKind.SLEEP
