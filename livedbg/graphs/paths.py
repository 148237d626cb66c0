"""Path queries between tasks, many at once in bounded memory, and layers of a directed graph.

The tasks are in a topological order; the answers for up to BATCH sources are carried forward through it as the bits of
one number a task, so that a batch costs one walk over the edges between its first source and last target.

The layer of a node is one below the lowest of its predecessors. Edges that close a cycle, as a depth-first search from
the sources meets them, are set aside: they lead upwards.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import rustworkx as rx

from livedbg.graphs.declared import TaskGraph

BATCH: Final = 2_048
"""Sources that are followed at once."""


class Paths:
    """The order that a graph declares, without edges that close a cycle (no runtime writes them, see `circular`)."""

    def __init__(self, graph: TaskGraph) -> None:
        nodes = list(graph.tasks)
        nodes += [raw for raw in graph.predecessors.keys() | graph.successors.keys() if raw not in graph.tasks]
        self.circular = False
        self._rank = {raw: rank for rank, raw in enumerate(nodes)}
        pairs = [(self._rank[pred], self._rank[succ]) for succ, preds in graph.predecessors.items() for pred in preds]
        if any(pred >= succ for pred, succ in pairs):
            self._sort(nodes, pairs)
        self._before: list[list[int]] = [[] for _ in nodes]
        for succ, preds in graph.predecessors.items():
            own = self._rank[succ]
            self._before[own] = sorted(rank for rank in (self._rank[pred] for pred in preds) if rank < own)

    def _sort(self, nodes: Sequence[int], pairs: Sequence[tuple[int, int]]) -> None:
        """Sort a graph whose edges point back in the order of submission."""
        sorter: rx.PyDiGraph[int, None] = rx.PyDiGraph()
        sorter.add_nodes_from(list(range(len(nodes))))
        sorter.add_edges_from_no_data(list(pairs))
        try:
            order = list(rx.topological_sort(sorter))
        except rx.DAGHasCycle:
            self.circular = True
            return
        self._rank = {nodes[index]: rank for rank, index in enumerate(order)}

    def direct(self, first: int, second: int) -> bool:
        """Return whether `second` has an edge from `first`."""
        before, rank = self._before[self._rank[second]], self._rank[first]
        at = bisect_left(before, rank)
        return at < len(before) and before[at] == rank

    def without(self, pairs: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
        """Return the pairs (first, second) with no path from the first to the second."""
        rank = self._rank
        asked: dict[int, list[tuple[int, tuple[int, int]]]] = {}
        for pair in pairs:
            asked.setdefault(rank[pair[0]], []).append((rank[pair[1]], pair))
        sources = sorted(asked)
        found: set[tuple[int, int]] = set()
        for at in range(0, len(sources), BATCH):
            found |= self._batch(sources[at : at + BATCH], asked)
        return found

    def _batch(
        self, sources: Sequence[int], asked: dict[int, list[tuple[int, tuple[int, int]]]]
    ) -> set[tuple[int, int]]:
        bits = {source: 1 << number for number, source in enumerate(sources)}
        low = sources[0]
        high = max(target for source in sources for target, _ in asked[source])
        reached: list[int] = []
        for rank in range(low, high + 1):
            bit = bits.get(rank, 0)
            for before in self._before[rank]:
                if before >= low:
                    bit |= reached[before - low]
            reached.append(bit)
        return {
            pair
            for source in sources
            for target, pair in asked[source]
            if target <= source or not reached[target - low] & bits[source]
        }


Ends: TypeAlias = tuple[str, str]
"""Where an edge begins and ends."""


@dataclass(frozen=True, slots=True)
class Layers:
    """A graph's nodes in layers from above; `turned` are edges that lead upwards, or to their own node."""

    rows: tuple[tuple[str, ...], ...] = ()
    turned: frozenset[Ends] = frozenset()


def layered(nodes: Collection[str], edges: Iterable[Ends]) -> Layers:
    """Put nodes into layers by their longest path; earlier nodes come first where nothing else decides."""
    after: dict[str, dict[str, None]] = defaultdict(dict)
    for first, second in edges:
        after[first][second] = None
    entered = {second for seconds in after.values() for second in seconds}
    turned = frozenset(_turned([*(node for node in nodes if node not in entered), *nodes], after))
    return Layers(tuple(map(tuple, _by_longest_path(nodes, after, turned))), turned)


def _turned(starts: Sequence[str], after: Mapping[str, Iterable[str]]) -> Iterator[Ends]:
    on_the_way: dict[str, bool] = {}  # False: left for good
    for start in starts:
        if start in on_the_way:
            continue
        on_the_way[start] = True
        way = [(start, iter(after.get(start, ())))]
        while way:
            node, following = way[-1]
            second = next(following, None)
            if second is None:
                on_the_way[node] = False
                way.pop()
            elif on_the_way.get(second):
                yield node, second
            elif second not in on_the_way:
                on_the_way[second] = True
                way.append((second, iter(after.get(second, ()))))


def _by_longest_path(
    nodes: Iterable[str], after: Mapping[str, Iterable[str]], turned: Collection[Ends]
) -> Iterator[list[str]]:
    waiting = dict.fromkeys(nodes, 0)
    for first, seconds in after.items():
        for second in seconds:
            waiting[second] += (first, second) not in turned
    current = [node for node, count in waiting.items() if not count]
    while current:
        yield current
        following: list[str] = []
        for first in current:
            for second in after.get(first, ()):
                if (first, second) not in turned:
                    waiting[second] -= 1
                    if not waiting[second]:
                        following.append(second)
        current = following
