"""Cycles of the wait-for graph, kept up to date by an order of all nodes.

Every node has a place such that an arc leads to a lower one, except inside a cycle, whose members share theirs. An arc
that fits the order closes no cycle, which is seen at once; for one that doesn't, only the places between its ends have
to be searched, and the nodes found are moved there (Bender, Fineman, Gilbert, Tarjan, "A New Approach to Incremental
Cycle Detection and Related Problems", 2015, search such an order from both ends; here the end that is done first is
moved, to numbers between those of its neighbours).

Invariants:
    order.O1. An arc leads to a lower place, or both its ends are in the same part.
    order.O2. `parts` are the strongly connected components that hold a cycle, as of an order made from nothing.
    order.O3. The cost of `reordered` depends on the nodes between the places of the ends, and is limited to SEARCH.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise
from typing import Final, TypeAlias

from msgspec import Struct

from livedbg.analysis.layered import Arc, LayeredDigraph

SEARCH: Final = 30_000
"""Nodes and arcs that are looked at for one change before the order is better made from nothing."""

Part: TypeAlias = frozenset[int]


class Order(Struct, frozen=True):
    """An order of the nodes of a graph.

    Attributes:
        places: node -> place; a node beyond the end has its number as its place.
        parts: node -> all nodes that it lies on cycles with; other nodes are missing.
    """

    places: array[float]
    parts: Mapping[int, Part]


def ordered(arcs: LayeredDigraph) -> Order:
    """Return the order of a graph, from nothing."""
    number = arcs.sorted_nodes()
    if number is not None:
        places = array("d", bytes(8 * len(number)))
        for place, node in enumerate(number):
            places[node] = -place
        return Order(places, {})
    components, loops = arcs.components(), arcs.loops()
    places = array("d", bytes(8 * sum(map(len, components))))
    parts: dict[int, Part] = {}
    for place, members in enumerate(components, -len(components)):
        for node in members:
            places[node] = place
        if len(members) > 1 or members[0] in loops:
            parts.update(dict.fromkeys(members, frozenset(members)))
    return Order(places, parts)


def reordered(old: Order, arcs: LayeredDigraph, added: Iterable[Arc], removed: Iterable[Arc]) -> Order | None:
    """Return the order after a change; None if it takes more than SEARCH, or no number is left between two places."""
    change = _Change(old, arcs)
    apart = {part for a, b in removed if (part := old.parts.get(a)) is not None and b in part}
    done = all(change.split(part) for part in apart) and all(change.join(arc) for arc in added)
    return Order(change.places, change.parts) if done else None


def _holds_cycle(members: Collection[int], arcs: LayeredDigraph) -> bool:
    one = next(iter(members))
    return len(members) > 1 or arcs.has((one, one))


class _Change:
    """An order being changed: data of the former one is copied before the first write."""

    def __init__(self, old: Order, arcs: LayeredDigraph) -> None:
        self.places = old.places
        self.parts = old.parts
        self._old = old
        self._arcs = arcs
        self._left = SEARCH

    def join(self, arc: Arc) -> bool:
        """Add an arc to the order; return False if that would take too much."""
        source, target = arc
        part = self.parts.get(source)
        if self._place(source) > self._place(target) or (part is not None and target in part):
            return True
        if source == target:
            self._merge({source})
            return True
        search = _Search(arc, self)
        if not search.run(self._left):
            return False
        self._left -= sum(search.looked)
        ring = search.ring()
        if ring:
            self._merge(ring)
        stays, limit = self._place(arc[search.done]), search.limit[search.done]
        return self._move(search.found[search.done] - ring, ring, stays, limit, below=search.done == 0)

    def split(self, part: Part) -> bool:
        """Split a part that lost an arc, if it falls apart; return False if that would take too much."""
        if len(part) > self._left:
            return False
        components = self._arcs.components_among(part)
        self._left -= len(part)
        if len(components) == 1 and _holds_cycle(components[0], self._arcs):
            return True
        here = self._place(next(iter(part)))
        near = {other for node in part for other in (*self._arcs.successors(node), *self._arcs.predecessors(node))}
        around = [self._place(node) for node in near - part]
        low = max((place for place in around if place < here), default=here - 1)
        high = min((place for place in around if place > here), default=here + 1)
        numbers = _between(low, high, len(components))
        if numbers is None:
            return False
        for node in part:
            del self._own_parts()[node]
        for number, members in zip(numbers, components, strict=True):
            for node in members:
                self._put(node, number)
            if _holds_cycle(members, self._arcs):
                self._own_parts().update(dict.fromkeys(members, frozenset(members)))
        return True

    def place(self, node: int) -> float:
        return self._place(node)

    @property
    def arcs(self) -> LayeredDigraph:
        return self._arcs

    def _place(self, node: int) -> float:
        return self.places[node] if node < len(self.places) else float(node)

    def _put(self, node: int, place: float) -> None:
        if self.places is self._old.places:
            self.places = self.places[:]
        if node >= len(self.places):
            self.places.extend(map(float, range(len(self.places), node + 1)))
        self.places[node] = place

    def _own_parts(self) -> dict[int, Part]:
        if self.parts is self._old.parts:
            self.parts = dict(self._old.parts)
        assert isinstance(self.parts, dict)
        return self.parts

    def _merge(self, ring: set[int]) -> None:
        part = frozenset(ring)
        self._own_parts().update(dict.fromkeys(part, part))

    def _move(self, nodes: set[int], ring: set[int], stays: float, limit: float | None, *, below: bool) -> bool:
        former = sorted({self._place(node) for node in nodes})
        if limit is None:
            limit = stays - len(former) - 1 if below else stays + len(former) + 1
        numbers = _between(min(stays, limit), max(stays, limit), len(former))
        if numbers is None:
            return False
        place_of = dict(zip(former, numbers, strict=True))
        for node in nodes:
            self._put(node, place_of[self._place(node)])
        for node in ring:
            self._put(node, stays)
        return True


class _Search:
    """A search from both ends of an arc, within the places between them, until one end is exhausted.

    Attributes:
        found: nodes reached from each end: 0 from the target with the arcs, 1 from the source against them.
        limit: the nearest place outside that an arc from `found` leads to.
    """

    def __init__(self, arc: Arc, change: _Change) -> None:
        source, target = arc
        self.found = ({target}, {source})
        self.done = 0
        self.limit: list[float | None] = [None, None]
        self.looked = [0, 0]
        self._ends = (source, target)
        self._todo = ([target], [source])
        self._place = change.place
        self._low, self._high = change.place(source), change.place(target)
        arcs = change.arcs
        self._steps = (arcs.successors, arcs.predecessors)
        self._degrees = (arcs.out_degree, arcs.in_degree)

    def run(self, most: int) -> bool:
        """Run the search; return False if it would take more than `most`."""
        cost = [self._cost(0), self._cost(1)]
        while all(self._todo):
            side = 0 if cost[0] <= cost[1] else 1
            if cost[side] + self.looked[1 - side] > most:
                return False
            self._step(side)
            cost[side] = self._cost(side)
        self.done = 0 if not self._todo[0] else 1
        return True

    def ring(self) -> set[int]:
        within, back = self.found[self.done], self._steps[1 - self.done]
        start = self._ends[self.done]
        if start not in within:
            return set()
        ring, todo = {start}, [start]
        while todo:
            fresh = [node for node in back(todo.pop()) if node in within and node not in ring]
            ring.update(fresh)
            todo += fresh
        return ring

    def _cost(self, side: int) -> int:
        todo = self._todo[side]
        return self.looked[side] + 1 + self._degrees[side](todo[-1]) if todo else self.looked[side]

    def _step(self, side: int) -> None:
        found, place = self.found[side], self._place
        near = self._steps[side](self._todo[side].pop())
        self.looked[side] += 1 + len(near)
        for node in near:
            if node in found:
                continue
            at = place(node)
            if at >= self._low if side == 0 else at <= self._high:
                found.add(node)
                self._todo[side].append(node)
            else:
                near_by = self.limit[side]
                self.limit[side] = at if near_by is None else max(near_by, at) if side == 0 else min(near_by, at)


def _between(low: float, high: float, count: int) -> list[float] | None:
    step = (high - low) / (count + 1)
    numbers = [low + step * place for place in range(1, count + 1)]
    row = [low, *numbers, high]
    return numbers if all(a < b for a, b in pairwise(row)) else None
