"""Numbers for names, the arcs between them, and what is kept of them from one state to the next.

Invariants:
    W1. `rewired` gives what `wired` would give of the changed set of pairs (but for the numbers).
    W2. What `rewired` costs depends on the change, not on the size, as long as the search for new cycles stays
        within SEARCH steps; beyond that all cycles are looked for anew.
"""

from __future__ import annotations

import gc
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeAlias

from livedbg.analysis.layered import Arc, LayeredDigraph

__all__ = ["SEARCH", "Pair", "Wiring", "rewired", "wired"]

Pair: TypeAlias = tuple[str, str]

SEARCH: Final = 30_000
"""Nodes and arcs that are looked at for new cycles before all are looked for anew."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """Who is blocked by whom, by numbers.

    Attributes:
        names: number -> name; only ever appended to, and shared by the wirings that come from one another.
        numbers: the reverse.
        cyclic: the nodes on cycles.
        roots: (-direct waiters, name) of all that is waited for and waits for nothing, sorted.
        fresh: how many names it began with, for telling when too many are of the past.
    """

    names: list[str]
    numbers: dict[str, int]
    arcs: LayeredDigraph
    cyclic: frozenset[int]
    roots: list[tuple[int, str]]
    fresh: int


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


def wired(sources: list[str], targets: list[str]) -> Wiring:
    """The wiring of pairs (blocked, by what), each given once, as two lists of the same length."""
    with _no_collection():
        ends = dict.fromkeys(sources)
        ends.update(dict.fromkeys(targets))
        names = list(ends)
        numbers = dict(zip(names, range(len(names)), strict=True))
        number = numbers.__getitem__
        arcs = LayeredDigraph.of(len(names), list(zip(map(number, sources), map(number, targets), strict=True)))
        waits = set(sources)
        roots = [(-arcs.in_degree(numbers[name]), name) for name in dict.fromkeys(targets) if name not in waits]
        roots.sort()
        return Wiring(names, numbers, arcs, frozenset(arcs.cyclic()), roots, len(names))


def rewired(old: Wiring, added: Iterable[Pair], removed: Iterable[Pair]) -> Wiring:
    """The wiring with some pairs more, which it has not, and some less, which it has."""
    numbers, names = old.numbers, old.names
    came: list[Arc] = []
    for pair in added:
        for name in pair:
            if name not in numbers:
                numbers[name] = len(names)
                names.append(name)
        came.append((numbers[pair[0]], numbers[pair[1]]))
    went = [(numbers[source], numbers[target]) for source, target in removed]
    arcs = old.arcs.changed(came, went)
    cyclic = _cyclic_after(old.cyclic, arcs, came, went)
    touched = {node for arc in (*came, *went) for node in arc}
    roots = _roots_after(old.roots, names, touched, old.arcs, arcs)
    return Wiring(names, numbers, arcs, cyclic, roots, old.fresh)


def _cyclic_after(before: frozenset[int], arcs: LayeredDigraph, came: list[Arc], went: list[Arc]) -> frozenset[int]:
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
    roots: list[tuple[int, str]], names: list[str], touched: set[int], before: LayeredDigraph, after: LayeredDigraph
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


def _root(node: int, names: list[str], arcs: LayeredDigraph) -> tuple[int, str] | None:
    waiters = arcs.in_degree(node)
    return (-waiters, names[node]) if waiters and not arcs.out_degree(node) else None
