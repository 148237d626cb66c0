"""Keeps the wait-for graph from one snapshot to the next, and changes it by what changed.

Invariant:
    K1. The graph of a snapshot answers as the one of a fresh keeper would.
"""

from __future__ import annotations

from itertools import chain
from typing import Final

from livedbg.analysis.blocking import Blocking, Split, blocking_among, split_edges, standing_of
from livedbg.analysis.graph import LARGE, Graph
from livedbg.analysis.memo import ShardMemo
from livedbg.analysis.wiring import Pair, Wiring, rewired, wired
from livedbg.model import Edge, EdgeKey, EdgeKind, EdgeState
from livedbg.snapshot import EMPTY, Snapshot

__all__ = ["GraphKeeper"]

_MUCH: Final = 100_000
"""Changed pairs above which all is made anew."""

_OLD_NAMES: Final = 100_000
"""Names of the past that are kept at most, beside as many as there were in the beginning."""


class GraphKeeper:
    """The graph of one snapshot after another."""

    def __init__(self) -> None:
        self._snapshot: Snapshot = EMPTY
        self._standing = standing_of(EMPTY)
        self._splits: ShardMemo[EdgeKey, Edge, Split] = ShardMemo(split_edges)
        self._graph: Graph | None = None
        self._pairs: frozenset[Pair] = frozenset()  # of the graph, but for the plain dependencies

    def graph_of(self, snapshot: Snapshot) -> Graph:
        """The graph of `snapshot`; the former one while edges, resources and who is alive are the same."""
        before, self._snapshot = self._snapshot, snapshot
        standing = self._standing
        if snapshot.threads is not before.threads or snapshot.processes is not before.processes:
            standing = standing_of(snapshot)
        same = snapshot.edges is before.edges and snapshot.resources is before.resources and standing == self._standing
        self._standing = standing
        if self._graph is None or not same:
            self._graph = self._next(snapshot)
        return self._graph

    def _next(self, snapshot: Snapshot) -> Graph:
        changes = self._splits.update(snapshot.edges)
        others = list(chain.from_iterable(split.others for split in self._splits.results))
        blocking = blocking_among(others, snapshot)
        former, pairs = self._pairs, frozenset(blocking.pairs)
        self._pairs = pairs
        large = len(snapshot.edges) >= LARGE
        graph = self._graph
        if graph is None or not large or not graph.large or any(old is None for old, _ in changes):
            return self._anew(snapshot, blocking, large)
        maybe = set(pairs ^ former)
        for old, new in changes:
            assert old is not None
            maybe.update((source, target) for _, source, target in set(old.depends) ^ set(new.depends))
        wiring = graph.wiring
        if len(maybe) > _MUCH or len(wiring.names) > 2 * wiring.fresh + _OLD_NAMES:
            return self._anew(snapshot, blocking, large)
        added: list[Pair] = []
        removed: list[Pair] = []
        for pair in sorted(maybe):
            now = pair in pairs or _depends(snapshot, pair)
            if now != _wired(wiring, pair):
                (added if now else removed).append(pair)
        return Graph(snapshot, rewired(wiring, added, removed), blocking, large=True)

    def _anew(self, snapshot: Snapshot, blocking: Blocking, large: bool) -> Graph:
        sources, targets = [], []
        for split in self._splits.results:
            sources += [key[1] for key in split.depends]
            targets += [key[2] for key in split.depends]
        for source, target in dict.fromkeys(blocking.pairs):
            if not _depends(snapshot, (source, target)):
                sources.append(source)
                targets.append(target)
        return Graph(snapshot, wired(sources, targets), blocking, large=large)


def _depends(snapshot: Snapshot, pair: Pair) -> bool:
    """Whether a plain dependency makes a pair."""
    edge = snapshot.edges.get(EdgeKey(EdgeKind.DEPENDS_ON, *pair))
    return edge is not None and edge.state is EdgeState.PENDING and not pair[1].startswith("process:")


def _wired(wiring: Wiring, pair: Pair) -> bool:
    source, target = wiring.numbers.get(pair[0]), wiring.numbers.get(pair[1])
    return source is not None and target is not None and wiring.arcs.has((source, target))
