"""The arcs of the wait-for graph, and the data kept of them from one state to the next.

Invariants:
    wiring.W1. `rewired` returns what `wired` would for the changed set of arcs.
    wiring.W2. The cost of `rewired` depends on the change, not on the size, as long as `order.reordered` succeeds; else
        the order is made from nothing.
"""

from __future__ import annotations

import gc
from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct

from livedbg.analysis.layered import Arc, LayeredDigraph
from livedbg.analysis.order import Order, ordered, reordered


class Wiring(Struct, frozen=True):
    """Blocking relations, by numbers.

    Attributes:
        order: of the nodes, with the parts of the graph that hold cycles.
        roots: (-direct waiters, name) of all that is waited for and waits for nothing, sorted.
    """

    names: Sequence[str]
    arcs: LayeredDigraph
    order: Order
    roots: list[tuple[int, str]]


@contextmanager
def _no_collection() -> Iterator[None]:
    """Disable garbage collection: millions of new tuples would set off one full collection after another."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def wired(names: Sequence[str], arcs: Iterable[Arc]) -> Wiring:
    """Return the wiring of arcs (blocked, blocker), each given once."""
    with _no_collection():
        graph = LayeredDigraph.of(len(names), list(arcs))
        ends = (_root(node, names, graph) for node in graph.sinks())
        return Wiring(names, graph, ordered(graph), sorted(root for root in ends if root is not None))


def rewired(old: Wiring, added: Collection[Arc], removed: Collection[Arc]) -> Wiring:
    """Return the wiring with arcs added (which it must not have) and removed (which it must have)."""
    arcs = old.arcs.changed(added, removed)
    order = reordered(old.order, arcs, added, removed)
    if order is None:
        arcs = arcs.flat()
        with _no_collection():
            order = ordered(arcs)
    touched = {node for arc in (*added, *removed) for node in arc}
    return Wiring(old.names, arcs, order, _roots_after(old.roots, old.names, touched, old.arcs, arcs))


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
