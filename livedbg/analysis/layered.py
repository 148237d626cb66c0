"""An immutable directed graph from which a slightly different one is made cheaply.

A rustworkx graph holds almost everything; two small dicts hold the arcs added and removed since. When they have grown,
they are merged into a copy of the graph (copying a million nodes and three million arcs takes some 40 ms, building them
from names a second). Where there is no node, nothing of rustworkx is imported: a twentieth of a short report.

Invariants:
    layered.L1. A graph never changes once it is made; `changed` returns another one.
    layered.L2. Successors and predecessors are those of the set of arcs: no duplicates, whatever the layers hold.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    import rustworkx as rx

Arc: TypeAlias = tuple[int, int]
_Arcs: TypeAlias = dict[int, set[int]]

_MOST: Final = 20_000
"""Arcs in the upper layer above which it is worked into the lower one."""


class LayeredDigraph:
    """A directed graph whose nodes are numbers from 0. Made by `of` and `changed`.

    Args:
        base: the lower layer; a number that it does not have counts as a node without arcs.
        came: arcs added to it, by source and by target.
        went: arcs removed from it, by source and by target.
    """

    __slots__ = ("_base", "_came", "_size", "_went")

    def __init__(
        self, base: rx.PyDiGraph[None, None] | _Nothing, came: tuple[_Arcs, _Arcs], went: tuple[_Arcs, _Arcs], size: int
    ) -> None:
        self._base = base
        self._came = came
        self._went = went
        self._size = size

    @classmethod
    def of(cls, nodes: int, arcs: list[Arc]) -> LayeredDigraph:
        """Return the graph with nodes 0 … `nodes` - 1 and these arcs, each given once."""
        return cls(_digraph(nodes, arcs) if nodes else _Nothing(), ({}, {}), ({}, {}), 0)

    def changed(self, added: Iterable[Arc], removed: Iterable[Arc]) -> LayeredDigraph:
        """Return this graph without `removed` arcs (which it must have) and with `added` ones (which it must lack)."""
        came, went = _Layer(self._came), _Layer(self._went)
        size = self._size
        for undo, do, arcs in ((came, went, removed), (went, came, added)):
            for arc in arcs:
                if undo.has(arc):
                    undo.drop(arc)
                    size -= 1
                else:
                    do.put(arc)
                    size += 1
        graph = LayeredDigraph(self._base, came.arcs, went.arcs, size)
        return graph.flat() if size > _MOST else graph

    def flat(self) -> LayeredDigraph:
        """Return the same graph with an empty upper layer."""
        if not self._size:
            return self
        base = self._base.copy()
        base.remove_edges_from(list(_arcs(self._went[0])))
        base.extend_from_edge_list(list(_arcs(self._came[0])))  # adds the nodes that are missing, too
        return LayeredDigraph(base, ({}, {}), ({}, {}), 0)

    def has(self, arc: Arc) -> bool:
        source, target = arc
        if target in self._came[0].get(source, ()):
            return True
        return self._base.has_edge(source, target) and target not in self._went[0].get(source, ())

    def successors(self, node: int) -> Collection[int]:
        return self._both(self._base.successor_indices(node), node, 0)

    def predecessors(self, node: int) -> Collection[int]:
        return self._both(self._base.predecessor_indices(node), node, 1)

    def out_degree(self, node: int) -> int:
        below = self._base.out_degree(node)
        return below + len(self._came[0].get(node, ())) - len(self._went[0].get(node, ()))

    def in_degree(self, node: int) -> int:
        below = self._base.in_degree(node)
        return below + len(self._came[1].get(node, ())) - len(self._went[1].get(node, ()))

    def sinks(self) -> list[int]:
        """Return the nodes that no arc leaves."""
        base = self.flat()._base
        return [node for node in base.node_indices() if not base.out_degree(node)]

    def _both(self, below: Iterable[int], node: int, side: int) -> Collection[int]:
        went = self._went[side].get(node)
        came = self._came[side].get(node)
        if went is None and came is None:
            return list(below)
        kept = [other for other in below if went is None or other not in went]
        return [*kept, *(came or ())]

    def ancestors(self, node: int, counts: Callable[[int], bool], most: int) -> int:
        """Return how many counted nodes lead to a node, at most `most`."""
        seen, todo, found = {node}, [node], 0
        while todo and found < most:
            for other in self.predecessors(todo.pop()):
                if other not in seen:
                    seen.add(other)
                    todo.append(other)
                    found += counts(other)
                    if found >= most:
                        break
        return found

    def sorted_nodes(self) -> Sequence[int] | None:
        """Return all nodes in topological order; None if there is a cycle."""
        base = self.flat()._base
        if isinstance(base, _Nothing):
            return []
        import rustworkx as rx

        try:
            return rx.topological_sort(base)
        except rx.DAGHasCycle:
            return None

    def components(self) -> list[list[int]]:
        """Return the strongly connected components; arcs between two lead to the earlier one."""
        base = self.flat()._base
        return [] if isinstance(base, _Nothing) else _components(base)

    def loops(self) -> set[int]:
        base = self.flat()._base
        return {node for node in base.node_indices() if base.has_edge(node, node)}

    def components_among(self, nodes: Collection[int]) -> list[list[int]]:
        """Return the strongly connected components of the subgraph of some nodes."""
        names = sorted(nodes)
        numbers = {node: place for place, node in enumerate(names)}
        arcs = [
            (place, numbers[to]) for node, place in numbers.items() for to in self.successors(node) if to in numbers
        ]
        return [[names[place] for place in part] for part in _components(_digraph(len(names), arcs))]


class _Nothing:
    """A lower layer without nodes."""

    def has_edge(self, _source: int, _target: int) -> bool:
        return False

    def successor_indices(self, _node: int) -> Sequence[int]:
        return ()

    predecessor_indices = successor_indices

    def out_degree(self, _node: int) -> int:
        return 0

    in_degree = out_degree

    def node_indices(self) -> Sequence[int]:
        return ()

    def copy(self) -> rx.PyDiGraph[None, None]:
        return _digraph(0, [])


def _digraph(nodes: int, arcs: list[Arc]) -> rx.PyDiGraph[None, None]:
    import rustworkx as rx

    graph: rx.PyDiGraph[None, None] = rx.PyDiGraph(node_count_hint=nodes, edge_count_hint=len(arcs))
    graph.add_nodes_from([None] * nodes)
    graph.extend_from_edge_list(arcs)
    return graph


def _components(graph: rx.PyDiGraph[None, None]) -> list[list[int]]:
    import rustworkx as rx

    return rx.strongly_connected_components(graph)  # Kosaraju's, in postorder


class _Layer:
    def __init__(self, arcs: tuple[_Arcs, _Arcs]) -> None:
        self.arcs: tuple[_Arcs, _Arcs] = (dict(arcs[0]), dict(arcs[1]))
        self._own: tuple[set[int], set[int]] = (set(), set())

    def has(self, arc: Arc) -> bool:
        return arc[1] in self.arcs[0].get(arc[0], ())

    def put(self, arc: Arc) -> None:
        for side, (node, other) in enumerate((arc, arc[::-1])):
            self._at(side, node).add(other)

    def drop(self, arc: Arc) -> None:
        for side, (node, other) in enumerate((arc, arc[::-1])):
            left = self._at(side, node)
            left.discard(other)
            if not left:
                del self.arcs[side][node]
                self._own[side].discard(node)

    def _at(self, side: int, node: int) -> set[int]:
        if node not in self._own[side]:
            self._own[side].add(node)
            self.arcs[side][node] = set(self.arcs[side].get(node, ()))
        return self.arcs[side][node]


def _arcs(arcs: _Arcs) -> Iterator[Arc]:
    return ((source, target) for source, targets in arcs.items() for target in targets)
