"""Which entities a picture of the wait-for graph shows: never all of them. Values only.

Invariants:
    neighbourhood.H1. At most MAX_NODES nodes; what is left out is counted.
    neighbourhood.H2. The selected entity and its chain to a root are always among them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import permutations
from typing import Final

from livedbg.analysis.diagnosis import Diagnosis, WaitGraph
from livedbg.model import Edge, EdgeKey, EdgeKind, EdgeState

MAX_NODES: Final = 60
_ENDS: Final = 8  # entities of one finding that are drawn


class Scope(StrEnum):
    """What the picture is of."""

    CHAIN = "wait chain"
    AROUND = "neighbours"
    ROOTS = "roots"


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """A part of the graph.

    Attributes:
        nodes: entities, the centre first.
        edges: (waiter, what it waits for).
        hidden: neighbours that were left out.
        missing: those of the edges that should be there and are not.
    """

    nodes: tuple[str, ...] = ()
    edges: tuple[tuple[str, str], ...] = ()
    hidden: int = 0
    missing: frozenset[tuple[str, str]] = frozenset()


def missing_edges(diagnosis: Diagnosis, edges: Mapping[EdgeKey, Edge]) -> tuple[tuple[str, str], ...]:
    """Dependencies that findings say are missing: (who should wait, for whom)."""
    found: dict[tuple[str, str], None] = {}
    for finding in diagnosis.findings.values():
        if finding.topic == "dependency":
            for waiter, blocker in permutations(finding.entities[:_ENDS], 2):
                edge = edges.get(EdgeKey(EdgeKind.DEPENDS_ON, waiter, blocker))
                if edge is not None and edge.state is EdgeState.MISSING:
                    found[waiter, blocker] = None
    return tuple(found)


def around(
    diagnosis: Diagnosis,
    selection: str | None,
    scope: Scope,
    hops: int,
    fan: int = 8,
    *,
    missing: Sequence[tuple[str, str]] = (),
) -> Neighbourhood:
    """The part of the graph to draw.

    Args:
        diagnosis: whose graph.
        selection: the centre; the verdict's roots when it waits for nothing and nothing for it.
        scope: what to show of it.
        hops: how far to go from the centre (AROUND), or down from the roots (ROOTS).
        fan: how many of those that wait for one entity to show, by what waits behind them.
        missing: dependencies that are missing (`missing_edges`): all of them where nothing else is to be shown or
            the roots are, else those at what is shown.
    """
    graph = diagnosis.graph
    starts = _starts(diagnosis, selection, scope, missing)
    kept = {} if scope is Scope.ROOTS else _chains(graph, starts)
    hidden = 0
    if scope is not Scope.CHAIN or len(kept) < 2:
        hidden = _spread(graph, starts, hops, fan, kept)
    alone = not kept or scope is Scope.ROOTS
    for pair in missing:
        if alone or not kept.keys().isdisjoint(pair):
            kept.update(dict.fromkeys(pair))
    nodes = tuple(list(kept)[:MAX_NODES])
    absent = frozenset(pair for pair in missing if set(nodes).issuperset(pair))
    return Neighbourhood(nodes, tuple(dict.fromkeys((*_between(graph, nodes), *absent))), hidden, absent)


def _starts(diagnosis: Diagnosis, selection: str | None, scope: Scope, missing: Sequence[tuple[str, str]]) -> list[str]:
    """The selection if it has an edge, else the roots and one of each cycle."""
    graph = diagnosis.graph
    ends = {end for pair in missing for end in pair}
    if selection is not None and scope is not Scope.ROOTS and (_connected(graph, selection) or selection in ends):
        return [selection]
    roots = [*diagnosis.verdict.roots, *graph.roots, *(cycle[0] for cycle in graph.cycles)]
    return [root for root in dict.fromkeys(roots) if _connected(graph, root)]


def _chains(graph: WaitGraph, starts: Sequence[str]) -> dict[str, None]:
    """What the first starts wait for, up to what waits for nothing."""
    return dict.fromkeys(entity for start in starts[:4] for entity in list(graph.chain(start))[:MAX_NODES])


def _between(graph: WaitGraph, nodes: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The edges that have both ends in the picture."""
    inside = set(nodes)
    for node in nodes:
        yield from ((node, blocker) for blocker in graph.blockers_of(node) if blocker in inside)


def _spread(graph: WaitGraph, starts: Iterable[str], hops: int, fan: int, kept: dict[str, None]) -> int:
    """Breadth first over both directions; returns how many neighbours were left out."""
    queue = deque((start, 0) for start in starts)
    done = set[str]()
    left_out = set[str]()
    while queue:
        entity, distance = queue.popleft()
        if entity in done:
            continue
        done.add(entity)
        if len(kept) >= MAX_NODES and entity not in kept:
            left_out.add(entity)
            continue
        kept[entity] = None
        waiters = _heaviest(graph, graph.waiters_of(entity), kept)
        left_out.update(waiters[fan:])
        neighbours = [*graph.blockers_of(entity)[:fan], *waiters[:fan]]
        if distance >= hops:
            left_out.update(neighbours)
        else:
            queue.extend((neighbour, distance + 1) for neighbour in neighbours)
    return len(left_out - kept.keys())


def _heaviest(graph: WaitGraph, entities: Sequence[str], kept: Mapping[str, None]) -> list[str]:
    """Those that are shown anyhow first, then by what waits behind them."""
    if len(entities) > 500:
        return sorted(entities, key=lambda entity: entity not in kept)
    return sorted(entities, key=lambda entity: (entity not in kept, -graph.behind(entity)))


def _connected(graph: WaitGraph, entity: str) -> bool:
    return bool(graph.waiters_of(entity) or graph.blockers_of(entity))
