"""Keeps the wait-for graph from one snapshot to the next."""

from __future__ import annotations

from livedbg.analysis.graph import Graph, build
from livedbg.snapshot import EMPTY, Snapshot

__all__ = ["GraphKeeper"]


class GraphKeeper:
    """The graph of one snapshot after another."""

    def __init__(self) -> None:
        self._snapshot: Snapshot = EMPTY
        self._graph: Graph | None = None

    def graph_of(self, snapshot: Snapshot) -> Graph:
        """The graph of `snapshot`."""
        before = self._snapshot
        same = (
            snapshot.edges is before.edges
            and snapshot.threads is before.threads
            and snapshot.processes is before.processes
            and snapshot.resources is before.resources
        )
        if self._graph is None or not same:
            self._graph = build(snapshot)
        self._snapshot = snapshot
        return self._graph
