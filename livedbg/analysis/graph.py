"""The wait-for graph of one state, on rustworkx.

Invariants:
    G1. A cycle is listed only if no member has a way out: one that waits for any of several things
        has none of them left, and none goes on by itself after a time.
    G2. A root is waited for and waits for nothing.
    G3. `behind` counts every waiting thread, process and task once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final

import rustworkx as rx

from livedbg.analysis.blocking import Blocking, blocking_of
from livedbg.analysis.deadness import dead_nodes
from livedbg.model import Edge, EdgeKey, EdgeKind
from livedbg.snapshot import Snapshot

__all__ = ["Graph", "build"]

_COUNTED: Final = ("thread:", "process:", "task:")
_EXACT_ROOTS: Final = 64
"""Of the roots, so many with the most direct waiters are ranked by all that waits behind them."""
_SMALL: Final = 20_000


def build(snapshot: Snapshot) -> Graph:
    """The wait-for graph of a state."""
    return Graph(snapshot, blocking_of(snapshot))


class Graph:
    """A wait-for graph (livedbg.analysis.diagnosis.WaitGraph). Immutable once built.

    Args:
        snapshot: the state that it is of.
        blocking: its blocking relations.
    """

    def __init__(self, snapshot: Snapshot, blocking: Blocking) -> None:
        self._snapshot = snapshot
        self._blocking = blocking
        names = dict.fromkeys(waiter for waiter, _ in blocking.pairs)
        names.update(dict.fromkeys(blocker for _, blocker in blocking.pairs))
        self._names = list(names)
        self._index = dict(zip(names, range(len(names)), strict=True))
        find = self._index.__getitem__
        self._graph: rx.PyDiGraph[str, None] = rx.PyDiGraph(
            node_count_hint=len(names), edge_count_hint=len(blocking.pairs)
        )
        self._graph.add_nodes_from(self._names)
        self._graph.add_edges_from_no_data([(find(waiter), find(blocker)) for waiter, blocker in blocking.pairs])
        self._behind: dict[str, int] = {}

    def waits_of(self, entity: str) -> Sequence[Edge]:
        """Pending edges that block `entity`."""
        edges = self._snapshot.edges
        found = []
        for blocker in self.blockers_of(entity):
            for key in (
                EdgeKey(EdgeKind.WAITS_FOR, entity, blocker),
                EdgeKey(EdgeKind.DEPENDS_ON, entity, blocker),
                EdgeKey(EdgeKind.HOLDS, blocker, entity),
            ):
                edge = edges.get(key)
                if edge is not None:
                    found.append(edge)
        return found

    def waiters_of(self, entity: str) -> Sequence[str]:
        """Entities that wait for `entity` directly."""
        node = self._index.get(entity)
        return self._named(self._graph.predecessor_indices(node)) if node is not None else ()

    def blockers_of(self, entity: str) -> Sequence[str]:
        """What `entity` waits for directly: a thread for its lock, a lock for its holders."""
        node = self._index.get(entity)
        return self._named(self._graph.successor_indices(node)) if node is not None else ()

    def _named(self, nodes: Iterable[int]) -> Sequence[str]:
        return [self._names[node] for node in reversed(list(dict.fromkeys(nodes)))]

    def behind(self, entity: str) -> int:
        """How many threads, processes and tasks wait for `entity`."""
        known = self._behind.get(entity)
        if known is None:
            node = self._index.get(entity)
            known = self._count(rx.ancestors(self._graph, node)) if node is not None else 0
            self._behind[entity] = known
        return known

    def _count(self, nodes: Iterable[int]) -> int:
        names, stand_ins = self._names, self._blocking.stand_ins
        return sum(1 for node in nodes if names[node].startswith(_COUNTED) and names[node] not in stand_ins)

    def chain(self, entity: str) -> Sequence[str]:
        """The path from `entity` to a root, or once round a cycle."""
        path: dict[str, None] = {}
        at: str | None = entity if entity in self._index else None
        while at is not None and at not in path:
            path[at] = None
            ahead = self.blockers_of(at)
            stuck = [name for name in ahead if name in self._stuck]
            at = next(iter(stuck or ahead), None)
        return list(path)

    def waits(self, entity: str) -> bool:
        """Whether something blocks `entity`."""
        node = self._index.get(entity)
        return node is not None and self._graph.out_degree(node) > 0

    @cached_property
    def _stuck(self) -> frozenset[str]:
        return frozenset(member for cycle in self.cycles for member in cycle)

    @cached_property
    def cycles(self) -> Sequence[tuple[str, ...]]:
        """Deadlocks: each the members of one, in the order of the waits where that is one ring."""
        loops = {node for node in self._graph.node_indices() if self._graph.has_edge(node, node)}
        if rx.is_directed_acyclic_graph(self._graph) and not loops:
            return ()
        parts = rx.strongly_connected_components(self._graph)
        cyclic = [node for part in parts if len(part) > 1 or part[0] in loops for node in part]
        dead = dead_nodes(self._graph, cyclic, self._choices(), self._timed())
        stuck = [node for node in cyclic if node in dead]
        inner = self._graph.subgraph(stuck)
        found = []
        for part in rx.strongly_connected_components(inner):
            members = [inner[node] for node in part]
            if len(part) > 1 or self._index[members[0]] in loops:
                found.append(self._ring(members))
        return sorted(found, key=lambda ring: (-self.behind(ring[0]), ring))

    def _choices(self) -> dict[int, set[int]]:
        choices: dict[int, set[int]] = {}
        for waiter, blocker in self._blocking.any_of:
            choices.setdefault(self._index[waiter], set()).add(self._index[blocker])
        return choices

    def _timed(self) -> set[int]:
        return {self._index[name] for name in self._blocking.timed}

    def _ring(self, members: Sequence[str]) -> tuple[str, ...]:
        """The members in the order of the waits, as far as one walk meets them."""
        inside = set(members)
        actors = sorted(name for name in members if name.startswith(_COUNTED))
        ring: dict[str, None] = {}
        at: str | None = (actors or sorted(members))[0]
        while at is not None:
            ring[at] = None
            at = next((name for name in sorted(self.blockers_of(at)) if name in inside and name not in ring), None)
        ring.update(dict.fromkeys(sorted(inside)))
        return tuple(ring)

    @cached_property
    def roots(self) -> Sequence[str]:
        """Entities that others wait for and that wait for nothing, by what waits behind, most first."""
        graph, names = self._graph, self._names
        found = [(-graph.in_degree(n), names[n]) for n in graph.node_indices() if not graph.out_degree(n)]
        found = sorted(root for root in found if root[0])
        if len(names) <= _SMALL or len(found) <= 1:
            exact = len(found)
        else:
            exact = 0 if len(found) > _EXACT_ROOTS else len(found)
        first = sorted(found[:exact], key=lambda root: (-self.behind(root[1]), root[1])) if exact > 1 else found[:exact]
        return [name for _, name in [*first, *found[exact:]]]
