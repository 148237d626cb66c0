"""Keeps the wait-for graph from one snapshot to the next, while nothing that it is made of changed."""

from __future__ import annotations

from livedbg.analysis.blocking import standing_of
from livedbg.analysis.graph import Graph, build
from livedbg.snapshot import EMPTY, Snapshot

__all__ = ["GraphKeeper"]


class GraphKeeper:
    """The graph of one snapshot after another."""

    def __init__(self) -> None:
        self._snapshot: Snapshot = EMPTY
        self._standing = standing_of(EMPTY)
        self._graph: Graph | None = None

    def graph_of(self, snapshot: Snapshot) -> Graph:
        """The graph of `snapshot`; the former one while edges, resources and who is alive are the same."""
        before, self._snapshot = self._snapshot, snapshot
        standing = self._standing
        if snapshot.threads is not before.threads or snapshot.processes is not before.processes:
            standing = standing_of(snapshot)
        same = snapshot.edges is before.edges and snapshot.resources is before.resources and standing == self._standing
        self._standing = standing
        if self._graph is None or not same:
            self._graph = build(snapshot)
        return self._graph
