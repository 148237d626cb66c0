"""Does a path lead from one task to a later one? Many questions at once, in bounded memory.

The tasks lie in a topological order; the answers for up to BATCH sources are carried forward through it as the
bits of one number a task, so that a batch costs one walk over the edges between its first source and last target.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final

import rustworkx as rx

from livedbg.graphs.declared import TaskGraph

BATCH: Final = 2_048
"""Sources that are followed at once."""


class Paths:
    """The order that a graph declares.

    Args:
        graph: the graph. Edges that close a cycle (no runtime writes them) are left out, see `circular`.
    """

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
        """Another order than the submission's: a graph whose edges point back in it."""
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
        """Whether `second` has an edge from `first`."""
        before, rank = self._before[self._rank[second]], self._rank[first]
        at = bisect_left(before, rank)
        return at < len(before) and before[at] == rank

    def without(self, pairs: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
        """Those of the pairs (first, second) with no path from the first to the second."""
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
