"""Deadlocks: cycles of waits that no member can leave, by the kind of their members.

Invariants:
    cycles.C3. The mutex inside of the GIL is held for moments only, by the thread that requests or releases the GIL: a
        cycle through both is none, however long a busy machine lets its holder wait for a CPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import islice
from typing import Final

from msgspec import Struct

from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.places import at, is_outdated, places_in, shortest, thing_name
from livedbg.analysis.rules.words import duration, edge_evidence, many, name_of, pids_of, since_wall_ns, waited_ns
from livedbg.model import Evidence, Severity, ids
from livedbg.model.snapshot import Snapshot

_CHANNELS: Final = frozenset({"pipe", "socket", "eventfd"})
_ACTORS: Final = ("thread:", "task:")
_GIL_LOCKS: Final = range(32, 512)
"""Where CPython's `struct _gil_runtime_state` has its locks (3.8 to 3.13: bytes 32 to 208)."""
_WORTH_SAYING_NS: Final = 200_000_000
"""Who a signal interrupts has waited for a moment only, in a deadlock of hours."""
_SHOWN: Final = 6
_NOUNS: Final = {
    "rwlock": "read-write lock",
    "cond": "condition variable",
    "sem": "semaphore",
    "pylock": "Python lock",
    "flock": "file lock",
}
_EVIDENCE: Final = 200
"""Waits inside a cycle that become evidence; a cycle can have millions."""


class CycleRule(Struct, frozen=True):
    """Rule for a kind of cycle."""

    name: str
    doc: str
    fits: Callable[[frozenset[str], int], bool]
    advice: str

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        for cycle in state.graph.cycles:
            if _rule_of(cycle) is self and not _inside_of_gil(cycle):
                yield self._finding(cycle, state)

    def _finding(self, cycle: tuple[str, ...], state: RuleInput) -> Finding:
        snapshot = state.snapshot
        threads = [snapshot.threads[entity] for entity in cycle if entity in snapshot.threads]
        waits = [w for w in (waited_ns(thread, snapshot) for thread in threads) if w is not None]
        since = [s for s in (since_wall_ns(thread, snapshot) for thread in threads) if s is not None]
        actors = [entity for entity in cycle if entity.startswith(_ACTORS)]
        bystanders = max(0, state.graph.behind(actors[0]) - len(actors) + 1) if actors else 0
        whom = "them" if len(actors) > 1 else "it"
        more = f"; {bystanders:,} more {'waits' if bystanders == 1 else 'wait'} behind {whom}" if bystanders else ""
        sentence = shortest(*(f"{story}{more}." for story in _stories(cycle, actors, state)))
        if min(waits, default=0) >= _WORTH_SAYING_NS:
            sentence += f" {'Each has' if len(waits) > 1 else 'It has'} waited for {duration(min(waits))} or more."
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
            holder=_holder(actors, state),
            places_come=any(is_outdated(entity, state) for entity in cycle),
        )


def _holder(actors: Sequence[str], state: RuleInput) -> str:
    waited = state.graph.blockers_of(actors[0]) if actors else ()
    ends = (end for thing in waited for end in (thing, *state.graph.blockers_of(thing)))
    return next((end for end in ends if end in actors[1:]), "")


@lru_cache(maxsize=8)  # every rule asks; a cycle can have a million members
def _rule_of(cycle: tuple[str, ...]) -> CycleRule:
    kinds = Counter(entity.partition(":")[0] for entity in cycle)
    return next(rule for rule in _RULES if rule.fits(frozenset(kinds), kinds["thread"] + kinds["task"]))


def _inside_of_gil(cycle: Sequence[str]) -> bool:
    """Return whether a lock of a cycle is a part of the GIL that is in it too (C3)."""
    gils = [ids.parse(entity).parts for entity in cycle if entity.startswith("gil:")]
    locks = [ids.parse(entity).parts for entity in cycle if entity.startswith(("mutex:", "cond:"))]
    return any(
        gil[:2] == lock[:2] and int(lock[2], 16) - int(gil[2], 16) in _GIL_LOCKS for gil in gils for lock in locks
    )


def _links(cycle: Sequence[str], state: RuleInput) -> Iterable[tuple[str, str]]:
    inside = set(cycle)
    for entity in cycle:
        for blocker in state.graph.blockers_of(entity):
            if blocker in inside:
                yield entity, blocker


def _stories(cycle: tuple[str, ...], actors: Sequence[str], state: RuleInput) -> tuple[str, ...]:
    """Return `Deadlock of 3 threads: scheduler → launcher → allocator → scheduler (step server.cpp:31, :44, :58)`.

    Shorter variants follow, so that one fits a first sentence.
    """
    snapshot = state.snapshot
    if not actors:  # as a foreign adapter or recording may report: processes, or locks, that wait for each other
        members = [entity for entity in cycle if entity.startswith("process:")] or list(cycle)
        more = f", … ({len(members):,} in all)" if len(members) > _SHOWN else ""
        names = ", ".join(name_of(entity, snapshot) for entity in members[:_SHOWN])
        return (f"Deadlock: {names}{more} {_each(members)}",)
    if len(actors) == 1:
        things = [thing_name(entity, snapshot) for entity in cycle if not entity.startswith((*_ACTORS, "process:"))]
        what = f"{things[0]} that it holds itself" if things else "its own end"
        who = name_of(actors[0], snapshot)
        return (f"Deadlock: {who} waits{at(actors[0], state)} for {what}", f"Deadlock: {who} waits for {what}")
    noun = "task" if all(actor.startswith("task:") for actor in actors) else "thread"
    ring = _ring(actors, frozenset(cycle), state)
    shown = (ring or list(actors))[:_SHOWN]
    labels = _labels(shown, snapshot)
    rest = ["…"] if len(actors) > _SHOWN else []
    who = " → ".join([*labels, *rest, labels[0]]) if ring else ", ".join([*labels, *rest])
    over = _over(cycle, snapshot)
    begin = f"Deadlock of {many(len(actors), noun)}"
    known = _known_place(shown, labels, state)
    named, bare = places_in(shown, state) or known, places_in(shown, state, functions=False) or known
    return (
        f"{begin}{over}: {who}{named}",
        f"{begin}: {who}{named}",
        f"{begin}{over}: {who}{bare}",
        f"{begin}: {who}{bare}",
        f"{begin}: {who}",
    )


def _known_place(actors: Sequence[str], labels: Sequence[str], state: RuleInput) -> str:
    """Return ` (python in main train.py:5)`: the first known place and its thread, if not all places are known."""
    named = ((label, places_in((actor,), state)) for actor, label in zip(actors, labels, strict=True))
    return next((f" ({label} in {place[2:]}" for label, place in named if place), "")


def _each(members: Sequence[str]) -> str:
    return "wait for each other" if len(members) > 1 else "waits for itself"


def _ring(actors: Sequence[str], inside: frozenset[str], state: RuleInput) -> list[str]:
    ring = [actors[0]]
    while len(ring) <= _SHOWN:
        following = _next_actors(ring[-1], inside, state)
        if len(following) != 1:
            return []
        [actor] = following
        if actor in ring:
            return ring if actor == ring[0] and len(ring) == len(actors) else []
        ring.append(actor)
    return ring


def _next_actors(actor: str, inside: frozenset[str], state: RuleInput) -> set[str]:
    found: set[str] = set()
    seen = {actor}
    todo = [actor]
    while todo and len(seen) <= _EVIDENCE:
        for blocker in state.graph.blockers_of(todo.pop()):
            if blocker not in inside:
                continue
            if blocker.startswith(_ACTORS):
                found.add(blocker)
            elif blocker not in seen:
                seen.add(blocker)
                todo.append(blocker)
    return found


def _labels(actors: Sequence[str], snapshot: Snapshot) -> list[str]:
    threads = [snapshot.threads.get(actor) for actor in actors]
    count = Counter(thread.title for thread in threads if thread is not None)
    labels = []
    for actor, thread in zip(actors, threads, strict=True):
        if thread is None:
            labels.append(name_of(actor, snapshot).removeprefix("task "))
        elif thread.title and count[thread.title] == 1:
            labels.append(thread.title)
        else:
            labels.append(f"{thread.title or 'thread'} {thread.tid}")
    return labels


def _over(cycle: Sequence[str], snapshot: Snapshot) -> str:
    kinds = Counter(entity.partition(":")[0] for entity in islice(cycle, _EVIDENCE))
    held = {kind: count for kind, count in kinds.items() if kind not in ("thread", "task", "process")}
    if not held and "thread" in kinds:
        return " that wait for each other to end"
    if set(held) <= {"mutex"}:
        return ""
    words = ["the GIL" if kind == "gil" else many(count, _NOUNS.get(kind, kind)) for kind, count in held.items()]
    return f" over {' and '.join(sorted(words, key=str.casefold, reverse=True))}"


def _evidence(cycle: tuple[str, ...], state: RuleInput) -> tuple[Evidence, ...]:
    links = islice(_links(cycle, state), _EVIDENCE)
    found = (edge_evidence(waiter, blocker, state.snapshot) for waiter, blocker in links)
    return tuple(proof for proof in found if proof is not None)


_RULES: Final = (
    CycleRule(
        "task-cycle",
        "Tasks of a runtime that depend on each other in a cycle: none of them can ever become ready. Rests on the "
        "graph that the runtime declared, or on what each task of an event loop awaits.",
        lambda kinds, actors: "task" in kinds and "pylock" not in kinds,
        "correct the dependencies: one of these tasks has to go on without the other",
    ),
    CycleRule(
        "pipe-cycle",
        "Threads, mostly of several processes, each of which reads from or writes to a pipe, socket or eventfd that "
        "only the others can serve (or a process that waits for a child which waits for it to read). Rests on which "
        "processes have the other end open.",
        lambda kinds, actors: bool(kinds & _CHANNELS),
        "close the ends that a process doesn't use, read output while waiting, or give the reads a time limit",
    ),
    CycleRule(
        "gil-cycle",
        "A thread holds the GIL of a Python process and waits for a lock, whose holder waits for the GIL.",
        lambda kinds, actors: "gil" in kinds,
        "release the GIL (Py_BEGIN_ALLOW_THREADS, py::gil_scoped_release) before taking the lock",
    ),
    CycleRule(
        "self-deadlock",
        "A thread, or a task of an event loop, waits for a lock that it holds itself, and the lock isn't recursive.",
        lambda kinds, actors: actors == 1 and "process" not in kinds,
        "don't take the lock twice, or make it recursive",
    ),
    CycleRule(
        "join-cycle",
        "Threads or processes that wait for each other's end.",
        lambda kinds, actors: kinds <= {"thread", "process"},
        "let one of them end without waiting",
    ),
    CycleRule(
        "lock-cycle",
        "Threads (of one or several processes), or tasks of an event loop, each of which holds a lock that the next "
        "one waits for: mutexes, read-write locks, Python locks (also those of asyncio and trio), file locks. Rests on "
        "the owner words in the target's memory, on the `with` and `async with` blocks that Python frames are in, and "
        "on /proc/locks. A task that a timer may end is in no cycle.",
        lambda kinds, actors: True,
        "take these locks in the same order everywhere",
    ),
)


def rules() -> Sequence[Rule]:
    return _RULES
