"""Rule for a rank that is late to every collective while the job goes on.

Invariants:
    rules_late.L1. An absent rank is called late, and not stuck, only up to 1.5 times its former delays.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from livedbg.adapters.pytorch.collectives.late import LATE
from livedbg.adapters.pytorch.facts import LateFacts
from livedbg.adapters.pytorch.rules.calls import Call, calls_of
from livedbg.adapters.pytorch.rules.threads import main_thread
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import RuleInput
from livedbg.model import Diagnostic, Severity, ThreadState
from livedbg.model.facts import read_facts

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
