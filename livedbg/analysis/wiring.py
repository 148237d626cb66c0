"""The arcs of the wait-for graph, and what is kept of them from one state to the next.

Invariants:
    W1. `rewired` gives what `wired` would give of the changed set of arcs.
    W2. What `rewired` costs depends on the change, not on the size, as long as the search for new cycles stays
        within SEARCH steps; beyond that all cycles are looked for anew.
"""

from __future__ import annotations

import gc
from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from livedbg.analysis.layered import Arc, LayeredDigraph

__all__ = ["SEARCH", "Wiring", "rewired", "wired"]

SEARCH: Final = 30_000
"""Nodes and arcs that are looked at for new cycles before all are looked for anew."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """Who is blocked by whom, by numbers.

    Attributes:
        names: number -> name.
        cyclic: the nodes on cycles.
        roots: (-direct waiters, name) of all that is waited for and waits for nothing, sorted.
    """

    names: Sequence[str]
    arcs: LayeredDigraph
    cyclic: frozenset[int]
    roots: list[tuple[int, str]]


@contextmanager
def _no_collection() -> Iterator[None]:
    """Millions of new tuples would set off one full garbage collection after another."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def wired(names: Sequence[str], arcs: Iterable[Arc]) -> Wiring:
    """The wiring of arcs (blocked, by what), each given once."""
    with _no_collection():
        graph = LayeredDigraph.of(len(names), list(arcs))
        ends = (_root(node, names, graph) for node in graph.sinks())
        return Wiring(names, graph, frozenset(graph.cyclic()), sorted(root for root in ends if root is not None))


def rewired(old: Wiring, added: Collection[Arc], removed: Collection[Arc]) -> Wiring:
    """The wiring with some arcs more, which it has not, and some less, which it has."""
    arcs = old.arcs.changed(added, removed)
    cyclic = _cyclic_after(old.cyclic, arcs, added, removed)
    touched = {node for arc in (*added, *removed) for node in arc}
    return Wiring(old.names, arcs, cyclic, _roots_after(old.roots, old.names, touched, old.arcs, arcs))


def _cyclic_after(
    before: frozenset[int], arcs: LayeredDigraph, came: Iterable[Arc], went: Iterable[Arc]
) -> frozenset[int]:
    """A cycle of the changed graph either is one of before, or goes through an arc that came."""
    found = set(before)
    if any(source in before and target in before for source, target in went):
        if len(before) > SEARCH:
            return frozenset(arcs.cyclic())
        found = {node for part in arcs.parts_among(before) for node in part}
    left = SEARCH
    for arc in came:
        through, looked = arcs.cycle_through(arc, left)
        left -= looked
        if through is None or left <= 0:
            return frozenset(arcs.cyclic())
        found |= through
    return before if found == before else frozenset(found)


def _roots_after(
    roots: list[tuple[int, str]], names: Sequence[str], touched: set[int], before: LayeredDigraph, after: LayeredDigraph
) -> list[tuple[int, str]]:
    changed = roots
    for node in touched:
        old, new = _root(node, names, before), _root(node, names, after)
        if old == new:
            continue
        if changed is roots:
            changed = roots.copy()
        if old is not None:
            del changed[bisect_left(changed, old)]
        if new is not None:
            insort(changed, new)
    return changed


def _root(node: int, names: Sequence[str], arcs: LayeredDigraph) -> tuple[int, str] | None:
    waiters = arcs.in_degree(node)
    return (-waiters, names[node]) if waiters and not arcs.out_degree(node) else None
