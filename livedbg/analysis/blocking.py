"""Blocking relations: derived from the edges of the state.

    waits_for  X -> Y         X is blocked by Y
    depends_on T1 -> T2       T1 is blocked by T2
    holds      T -> R         R is blocked by T: it is released when T runs on

A process that is waited for, or that holds something, is blocked by its live threads: any one of them can act for it. A
stopped process is blocked by nothing: only a signal from outside helps; its threads are blocked by it.

Invariants:
    blocking.B1. Only pending edges block (the store keeps them apart).
    blocking.B2. A wait for an inner part (the semaphore inside a Python lock) doesn't count beside the same waiter's
        wait for the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct, field

from livedbg.model import Edge, EdgeKey, EdgeKind, Resource, Thread, ThreadState
from livedbg.model.snapshot import Snapshot

_SERVED: Final = frozenset({"pipe", "socket", "eventfd"})
"""Kinds of resources that any one of their holders can serve."""

_HALTED: Final = frozenset({ThreadState.STOPPED, ThreadState.TRACED})
_OVER: Final = frozenset({ThreadState.ZOMBIE, ThreadState.DEAD})


class Blocking(Struct):
    """Blocking relations.

    Attributes:
        pairs: (blocked, blocker).
        any_of: pairs that are alternatives: any one of a blocked entity's is enough to unblock it.
        timed: entities that continue by themselves after some time, or by something outside of the graph.
        stand_ins: processes that are in the graph for their threads only.
    """

    pairs: list[tuple[str, str]] = field(default_factory=list)
    any_of: set[tuple[str, str]] = field(default_factory=set)
    timed: set[str] = field(default_factory=set)
    stand_ins: set[str] = field(default_factory=set)


def blocking_of(snapshot: Snapshot) -> Blocking:
    """Return the blocking relations of a state, without `Snapshot.dependencies`, which block as they are."""
    pending = list(snapshot.waits.values())
    found = Blocking()
    inner = _parts(pending)
    actors = set()
    halted = {p.id for p in snapshot.processes.values() if p.state in _HALTED and not p.exited}
    for edge in pending:
        if edge.kind is EdgeKind.WAITS_FOR:
            if _superseded(edge, inner, snapshot.edges) or _halted(edge.source, snapshot.threads):
                continue
            _wait(edge, found)
            actors.add(edge.target)
        elif edge.kind is EdgeKind.HOLDS:
            _hold(edge, found, snapshot.resources)
            actors.add(edge.source)
        elif edge.kind is EdgeKind.DEPENDS_ON:
            found.pairs.append((edge.source, edge.target))
            actors.add(edge.target)
    _stand_ins(snapshot, actors, halted, found)
    return found


def standing_of(snapshot: Snapshot) -> tuple[frozenset[str], frozenset[str]]:
    """Return the stopped processes and threads, and the living threads: the inputs of `blocking_of`."""
    halted = {p.id for p in snapshot.processes.values() if p.state in _HALTED and not p.exited}
    halted.update(t.id for t in snapshot.threads.values() if t.state in _HALTED)
    alive = (t.id for t in snapshot.threads.values() if not t.exited and t.state not in _OVER)
    return frozenset(halted), frozenset(alive)


def _parts(pending: Iterable[Edge]) -> dict[str, list[str]]:
    parts: dict[str, list[str]] = {}
    for edge in pending:
        if edge.kind is EdgeKind.PART_OF and not edge.source.startswith(("thread:", "task:")):
            parts.setdefault(edge.source, []).append(edge.target)
    return parts


def _superseded(edge: Edge, inner: Mapping[str, list[str]], edges: Mapping[EdgeKey, Edge]) -> bool:
    """Return whether the same waiter waits for the whole that the target is a part of (B2)."""
    wholes = inner.get(edge.target, ())
    return any(EdgeKey(EdgeKind.WAITS_FOR, edge.source, whole) in edges for whole in wholes)


def _halted(entity: str, threads: Mapping[str, Thread]) -> bool:
    thread = threads.get(entity)
    return thread is not None and thread.state in _HALTED


def _wait(edge: Edge, found: Blocking) -> None:
    pair = (edge.source, edge.target)
    found.pairs.append(pair)
    if edge.any_of:
        found.any_of.add(pair)
    if edge.timed and not edge.target.startswith("gil:"):  # take_gil asks again and again
        found.timed.add(edge.source)


def _hold(edge: Edge, found: Blocking, resources: Mapping[str, Resource]) -> None:
    pair = (edge.target, edge.source)
    found.pairs.append(pair)
    resource = resources.get(edge.target)
    kind = resource.kind if resource is not None else edge.target.partition(":")[0]
    if edge.any_of or kind in _SERVED:
        found.any_of.add(pair)
    if resource is not None and resource.outside:
        found.timed.add(resource.id)


def _stand_ins(snapshot: Snapshot, actors: set[str], halted: set[str], found: Blocking) -> None:
    waiting = {waiter for waiter, _ in found.pairs}
    for thread in snapshot.threads.values():
        if thread.exited or thread.state in _OVER:
            continue
        if thread.process in halted:
            if thread.id in actors:
                found.pairs.append((thread.id, thread.process))
        elif thread.process in actors:
            pair = (thread.process, thread.id)
            found.pairs.append(pair)
            found.any_of.add(pair)
            if thread.process not in waiting:
                found.stand_ins.add(thread.process)
