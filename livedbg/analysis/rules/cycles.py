"""Deadlocks: circles of waits that nobody in them can leave, told apart by what they run through."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Final

from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.words import duration, edge_evidence, many, name_of, pids_of, since_wall_ns, waited_ns
from livedbg.model import Evidence, Severity

__all__ = ["rules"]

_CHANNELS: Final = frozenset({"pipe", "socket", "eventfd"})
_ACTORS: Final = ("thread:", "task:")
_SHOWN: Final = 6
_TOLD: Final = 200
"""Waits inside a circle that are gone through for the sentence and the evidence; a circle can have millions."""


@dataclass(frozen=True, slots=True)
class CycleRule:
    """A sort of circle."""

    name: str
    doc: str
    fits: Callable[[frozenset[str], int], bool]
    advice: str

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """The circles of this sort."""
        for cycle in state.graph.cycles:
            if _rule_of(cycle) is self:
                yield self._finding(cycle, state)

    def _finding(self, cycle: tuple[str, ...], state: RuleInput) -> Finding:
        snapshot = state.snapshot
        threads = [snapshot.threads[entity] for entity in cycle if entity in snapshot.threads]
        waits = [w for w in (waited_ns(thread, snapshot) for thread in threads) if w is not None]
        since = [s for s in (since_wall_ns(thread, snapshot) for thread in threads) if s is not None]
        actors = [entity for entity in cycle if entity.startswith(_ACTORS)]
        bystanders = max(0, state.graph.behind(actors[0]) - len(actors) + 1) if actors else 0
        sentence = f"Deadlock: {_story(cycle, state)}"
        if waits:
            sentence += f", for at least {duration(min(waits))}"
        sentence += "."
        if bystanders:
            sentence += f" {many(bystanders, 'more waiter')} behind {'them' if len(actors) > 1 else 'it'}."
        evidence = _evidence(cycle, state)
        stacks = tuple(f"livedbg stacks {pid} --native" for pid in pids_of(cycle)[:3])
        return Finding(
            rule=self.name,
            severity=Severity.CRITICAL,
            sentence=sentence,
            entities=cycle,
            evidence=evidence,
            next=(*stacks, self.advice),
            inferred=any(proof.kind == "inference" for proof in evidence),
            since_wall_ns=max(since, default=None),
            state=VerdictState.DEADLOCK,
            roots=tuple(entity for entity in cycle if entity.startswith(_ACTORS)) or cycle,
        )


@lru_cache(maxsize=8)  # every rule asks; a circle can have a million members
def _rule_of(cycle: tuple[str, ...]) -> CycleRule:
    """The rule for a circle."""
    kinds = Counter(entity.partition(":")[0] for entity in cycle)
    return next(rule for rule in _RULES if rule.fits(frozenset(kinds), kinds["thread"]))


def _links(cycle: Sequence[str], state: RuleInput) -> Iterable[tuple[str, str]]:
    """The waits inside the circle."""
    inside = set(cycle)
    for entity in cycle:
        for blocker in state.graph.blockers_of(entity):
            if blocker in inside:
                yield entity, blocker


def _story(cycle: tuple[str, ...], state: RuleInput) -> str:
    """Who waits for what that who holds."""
    snapshot, inside = state.snapshot, set(cycle)
    links = list(islice(_links(cycle, state), _TOLD + 1))
    waits = [(actor, target) for actor, target in links if actor.startswith(_ACTORS)]
    parts = [
        f"{name_of(actor, snapshot)} waits for {_target(actor, target, inside, state)}"
        for actor, target in waits[:_SHOWN]
    ]
    if len(links) > _TOLD:
        return "; ".join(parts) + f"; and so on, in a circle of {len(cycle):,}"
    more = len(waits) - _SHOWN
    return "; ".join(parts) + (f"; and {more} more" if more > 0 else "")


def _target(actor: str, target: str, inside: set[str], state: RuleInput) -> str:
    snapshot = state.snapshot
    text = name_of(target, snapshot)
    holders = [b for b in state.graph.blockers_of(target) if b in inside]
    if target.startswith("task:"):
        return text
    if target.startswith(("thread:", "process:")):
        return f"{text} to end"
    if actor in holders and len(holders) == 1:
        return f"{text}, which it holds itself"
    who = " or ".join(name_of(holder, snapshot) for holder in holders[:3])
    verb = "serves" if target.partition(":")[0] in _CHANNELS else "holds"
    return f"{text}, which {who} {verb}" if who else text


def _evidence(cycle: tuple[str, ...], state: RuleInput) -> tuple[Evidence, ...]:
    links = islice(_links(cycle, state), _TOLD)
    found = (edge_evidence(waiter, blocker, state.snapshot) for waiter, blocker in links)
    return tuple(proof for proof in found if proof is not None)


_RULES: Final = (
    CycleRule(
        "task-cycle",
        "Tasks of a runtime that depend on each other in a circle: none can ever become ready. Rests on the graph that "
        "the runtime declared.",
        lambda kinds, threads: "task" in kinds,
        "correct the declared dependencies: one of these edges has to go",
    ),
    CycleRule(
        "pipe-cycle",
        "Threads, mostly of several processes, each of which reads from or writes to a pipe, socket or eventfd that "
        "only the others can serve (or a process that waits for a child which waits for it to read). Rests on which "
        "processes have the other end open.",
        lambda kinds, threads: bool(kinds & _CHANNELS),
        "close the ends that a process doesn't use, read output while waiting, or give the reads a time limit",
    ),
    CycleRule(
        "gil-cycle",
        "A thread holds the GIL of a Python process and waits for a lock, whose holder waits for the GIL.",
        lambda kinds, threads: "gil" in kinds,
        "release the GIL (Py_BEGIN_ALLOW_THREADS, py::gil_scoped_release) before taking the lock",
    ),
    CycleRule(
        "self-deadlock",
        "A thread waits for a lock that it holds itself: the lock isn't recursive.",
        lambda kinds, threads: threads == 1 and "process" not in kinds,
        "don't take the lock twice, or make it recursive",
    ),
    CycleRule(
        "join-cycle",
        "Threads or processes that wait for each other's end.",
        lambda kinds, threads: kinds <= {"thread", "process"},
        "let one of them end without waiting",
    ),
    CycleRule(
        "lock-cycle",
        "Threads (of one or several processes) each of which holds a lock that the next one waits for: mutexes, "
        "read-write locks, Python locks, file locks. Rests on the owner words in the target's memory and on "
        "/proc/locks.",
        lambda kinds, threads: True,
        "take these locks in the same order everywhere",
    ),
)


def rules() -> Sequence[Rule]:
    """The rules of this module."""
    return _RULES
