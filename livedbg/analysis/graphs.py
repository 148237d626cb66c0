"""Keeps the wait-for graph from one snapshot to the next, and changes it by what changed.

Invariant:
    graph_keeper.K1. The graph of a snapshot answers as the one of a fresh keeper would.
"""

from __future__ import annotations

from itertools import chain
from typing import Final

from livedbg.analysis.blocking import blocking_of, standing_of
from livedbg.analysis.graph import LARGE, Graph
from livedbg.analysis.layered import Arc
from livedbg.analysis.wiring import rewired, wired
from livedbg.model import EdgeKey, EdgeKind
from livedbg.model.snapshot import EMPTY, Snapshot

__all__ = ["GraphKeeper"]

_MUCH: Final = 100_000
"""Changed arcs above which all is made anew."""


class GraphKeeper:
    """The graph of one snapshot after another."""

    def __init__(self) -> None:
        self._snapshot: Snapshot = EMPTY
        self._standing = standing_of(EMPTY)
        self._graph: Graph | None = None
        self._others: frozenset[Arc] = frozenset()  # of the graph, but for the plain dependencies

    def graph_of(self, snapshot: Snapshot) -> Graph:
        """The graph of `snapshot`; the former one while edges, resources and who is alive are the same."""
        before, self._snapshot = self._snapshot, snapshot
        standing = self._standing
        if snapshot.threads is not before.threads or snapshot.processes is not before.processes:
            standing = standing_of(snapshot)
        same = snapshot.edges is before.edges and snapshot.resources is before.resources and standing == self._standing
        self._standing = standing
        if self._graph is None or not same:
            self._graph = self._next(before, snapshot, self._graph)
        return self._graph

    def _next(self, before: Snapshot, snapshot: Snapshot, graph: Graph | None) -> Graph:
        blocking, names = blocking_of(snapshot), snapshot.names
        pairs = dict.fromkeys(blocking.pairs)
        arcs = {(names.of(a), names.of(b)): None for a, b in pairs if not _depends(snapshot, a, b)}
        former, self._others = self._others, frozenset(arcs)
        large = len(snapshot.edges) >= LARGE
        if graph is not None and large and graph.large and names is before.names:
            maybe = _changed(before, snapshot)
            if maybe is not None:
                maybe |= former ^ self._others
                added = sorted(arc for arc in maybe if _is_arc(arc, snapshot, self._others))
                now = set(added)
                wiring = graph.wiring
                fresh = [arc for arc in added if not wiring.arcs.has(arc)]
                gone = [arc for arc in sorted(maybe) if arc not in now and wiring.arcs.has(arc)]
                return Graph(snapshot, rewired(wiring, fresh, gone), blocking, large=True)
        plain = chain.from_iterable(shard.values() for shard in snapshot.dependencies.shards)
        return Graph(snapshot, wired(names.names, chain(plain, arcs)), blocking, large=large)


def _changed(before: Snapshot, after: Snapshot) -> set[Arc] | None:
    """The plain dependencies that came or went; None when it is better to begin anew."""
    old, new = before.dependencies.shards, after.dependencies.shards
    if len(old) != len(new):
        return None
    found: set[Arc] = set()
    for then, now in zip(old, new, strict=True):
        if then is not now:
            found.update(now[key] if key in now else then[key] for key in then.keys() ^ now.keys())
            if len(found) > _MUCH:
                return None
    return found


def _is_arc(arc: Arc, snapshot: Snapshot, others: frozenset[Arc]) -> bool:
    names = snapshot.names.names
    return arc in others or _depends(snapshot, names[arc[0]], names[arc[1]])


def _depends(snapshot: Snapshot, source: str, target: str) -> bool:
    """Whether a plain dependency blocks one by the other."""
    return EdgeKey(EdgeKind.DEPENDS_ON, source, target) in snapshot.dependencies
