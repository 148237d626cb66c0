"""Queue operations that wait for each other, while a thread could still signal one of the semaphores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from livedbg.adapters.iree.facts import semaphore_facts
from livedbg.adapters.iree.rules.semaphores import who_could_signal
from livedbg.adapters.iree.rules.waited import longest_wait
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.words import duration, edge_evidence, many
from livedbg.model import Severity

_SHOWN: Final = 6


class OpenCircle:
    """A circle of waits that a thread of the process could still end."""

    name = "iree-circle"
    doc = (
        "Operations of IREE queues wait for values of semaphores that each other signals, and a thread of the process, "
        "which does not wait for them, could still signal one: `unknown`, with that thread. Without such a thread it "
        "is a deadlock. Rests on the semaphores and queues in the process's memory."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """One finding a circle."""
        told: set[str] = set()
        for resource in state.snapshot.resources.values():
            outside = who_could_signal(resource, state.snapshot)
            if not outside or semaphore_facts(resource).wanted is None or resource.id in told:
                continue
            circle = _circle(resource.id, state)
            longest = longest_wait(resource.id, state)
            if not circle or longest is None or longest[1] < state.settings.thread_stall_ns:
                continue
            told.update(circle)
            tasks = [entity for entity in circle if entity.startswith("task:")]
            proofs = [edge_evidence(one, other, state.snapshot) for one, other in pairwise(circle)]
            yield Finding(
                rule=self.name,
                severity=Severity.WARNING,
                sentence=(
                    f"{many(len(tasks), 'queue operation waits', 'queue operations wait')} for each other, and a "
                    f"thread has waited behind them for {duration(longest[1])}: {outside}."
                ),
                entities=tuple(circle),
                evidence=tuple(proof for proof in proofs[:_SHOWN] if proof is not None),
                next=("check the fences of these calls: which should be signalled first, and by whom",),
                state=VerdictState.UNKNOWN,
                decides=True,
                roots=tuple(tasks),
            )


def _circle(start: str, state: RuleInput) -> list[str]:
    """From a semaphore along what it waits for, until it comes again; [] if it does not."""
    came_from: dict[str, str] = {}
    todo = [start]
    while todo:
        entity = todo.pop()
        for blocker in state.graph.blockers_of(entity):
            if blocker == start:
                path = [entity]
                while path[-1] != start:
                    path.append(came_from[path[-1]])
                return path[::-1]
            if blocker not in came_from:
                came_from[blocker] = entity
                todo.append(blocker)
    return []


def rules() -> Sequence[Rule]:
    """The rules of this module."""
    return (OpenCircle(),)
