"""Select and lay out a part of the wait-for graph in character cells: blockers above, waiters below. Values only.

Boxes are placed by `livedbg.graphs.layout`. Lines run along rows and columns: between two layers each bundle of
horizontal lines has a track of its own, so that lines don't merge.

Invariants:
    neighbourhood.H1. At most MAX_NODES nodes; omitted ones are counted.
    neighbourhood.H2. The selected entity and its chain to a root are always included.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise, permutations
from math import floor
from typing import Final

from livedbg.analysis.diagnosis import Diagnosis, WaitGraph
from livedbg.graphs.layout import Ends, Item, Link, Spacing, layered, placed
from livedbg.model import Edge, EdgeKey, EdgeKind, EdgeState

MAX_NODES: Final = 60
_ENDS: Final = 8  # entities of one finding that are drawn


class Scope(StrEnum):
    """Scope of the picture."""

    CHAIN = "wait chain"
    AROUND = "neighbours"
    ROOTS = "roots"


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """A part of the graph.

    Attributes:
        nodes: entities, the centre first.
        edges: (waiter, blocker).
        hidden: number of omitted neighbours.
        missing: edges that should exist but don't.
    """

    nodes: tuple[str, ...] = ()
    edges: tuple[tuple[str, str], ...] = ()
    hidden: int = 0
    missing: frozenset[tuple[str, str]] = frozenset()


def missing_edges(diagnosis: Diagnosis, edges: Mapping[EdgeKey, Edge]) -> tuple[tuple[str, str], ...]:
    """Return the dependencies that findings call missing: (waiter, blocker)."""
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
    """Return the part of the graph to draw.

    Args:
        selection: the centre; replaced by the verdict's roots if it has no edges.
        hops: distance from the centre (AROUND), or down from the roots (ROOTS).
        fan: maximum number of waiters shown for one entity, by how many wait behind them.
        missing: missing dependencies (`missing_edges`): all are included if nothing else is shown or the roots are,
            else those at shown nodes.
    """
    graph = diagnosis.graph
    starts = _starts(diagnosis, selection, scope, missing)
    chains = () if scope is Scope.ROOTS else (list(graph.chain(start))[:MAX_NODES] for start in starts[:4])
    kept = dict.fromkeys(entity for chain in chains for entity in chain)
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
    """Return the selection if it has an edge, else the roots and one of each cycle."""
    graph = diagnosis.graph
    ends = {end for pair in missing for end in pair}
    if selection is not None and scope is not Scope.ROOTS and (_connected(graph, selection) or selection in ends):
        return [selection]
    roots = [*diagnosis.verdict.roots, *graph.roots, *(cycle[0] for cycle in graph.cycles)]
    return [root for root in dict.fromkeys(roots) if _connected(graph, root)]


def _between(graph: WaitGraph, nodes: Sequence[str]) -> Iterator[tuple[str, str]]:
    inside = set(nodes)
    for node in nodes:
        yield from ((node, blocker) for blocker in graph.blockers_of(node) if blocker in inside)


def _spread(graph: WaitGraph, starts: Iterable[str], hops: int, fan: int, kept: dict[str, None]) -> int:
    """Add neighbours breadth first in both directions; return how many were left out."""
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
    """Sort already shown entities first, then by the number of waiters behind."""
    if len(entities) > 500:
        return sorted(entities, key=lambda entity: entity not in kept)
    return sorted(entities, key=lambda entity: (entity not in kept, -graph.behind(entity)))


def _connected(graph: WaitGraph, entity: str) -> bool:
    return bool(graph.waiters_of(entity) or graph.blockers_of(entity))


_SPACING: Final = Spacing(boxes=2, aside=2, apart=2, line=1)
_TURNED: Final = "turned"


@dataclass(frozen=True, slots=True)
class Box:
    """The place of a node; `layer` 0 is on top."""

    node: str
    x: int
    y: int
    width: int
    height: int
    layer: int

    @property
    def middle(self) -> int:
        """Return the column in which its lines end."""
        return self.x + self.width // 2


@dataclass(frozen=True, slots=True)
class Wire:
    """One edge as corner points, from below the upper node to above the lower one.

    It is `upward` if the lower node waits for the upper one, as usual; if not, the edge closes a cycle.
    """

    points: tuple[tuple[int, int], ...]
    upward: bool
    waiter: str
    blocker: str


@dataclass(frozen=True, slots=True)
class Layout:
    """A finished picture."""

    boxes: Mapping[str, Box]
    wires: Sequence[Wire]
    width: int = 0
    height: int = 0


@dataclass(frozen=True, slots=True)
class _Gap:
    """The space between two layers: the line of each bundle, and how many there are."""

    top: int
    tracks: Mapping[int, int]
    bottom: int


def arrange(nodes: Sequence[str], edges: Sequence[Ends], widths: Mapping[str, int], height: int) -> Layout:
    """Lay out a graph.

    Args:
        nodes: the first ones go to the left if nothing else decides.
        edges: (waiter, blocker).
        widths: cells of each node's box.
        height: lines of every box.
    """
    if not nodes:
        return Layout({}, ())
    layers = layered(nodes, ((blocker, waiter) for waiter, blocker in edges))
    links = _links(edges, layers.turned)
    found = placed(layers.rows, links, widths, _SPACING)
    chains = [
        (found.boxes[link.upper], *(trunk or ()), found.boxes[link.lower])
        for link, trunk in zip(links, found.trunks, strict=True)
    ]
    columns = _Columns(floor(found.left + 0.5))
    gaps = list(_gaps(len(layers.rows), chains, columns, height))
    boxes = {
        name: Box(name, columns.left(item), gaps[item.row].top - height, widths[name], height, item.row)
        for name, item in found.boxes.items()
    }
    wires = [_wire(link, chain, gaps, columns, height) for link, chain in zip(links, chains, strict=True)]
    width = max(box.x + box.width for box in boxes.values())
    width = max(width, *(x + 1 for wire in wires for x, _y in wire.points), 0)
    return Layout(boxes, wires, width, gaps[-1].top)


def _links(edges: Sequence[Ends], turned: frozenset[Ends]) -> list[Link]:
    """Return the edges from above; two nodes that wait for each other get a single line."""
    found: dict[Ends, Link] = {}
    for waiter, blocker in edges:
        if (blocker, waiter) in turned:
            found[waiter, blocker] = Link(waiter, blocker, _TURNED)
        else:
            found.setdefault((blocker, waiter), Link(blocker, waiter))
    return [link for link in found.values() if link.upper != link.lower]


class _Columns:
    """Converts fractional item places to columns; `first` is the place of column 0."""

    def __init__(self, first: int) -> None:
        self._first = first

    def left(self, item: Item) -> int:
        return floor(item.x - item.width / 2 + 0.5) - self._first

    def middle(self, item: Item) -> int:
        return self.left(item) + int(item.width) // 2


_Chain = tuple[Item, ...]


def _gaps(layers: int, chains: Sequence[_Chain], columns: _Columns, height: int) -> Iterator[_Gap]:
    spans: list[dict[int, tuple[int, int]]] = [{} for _ in range(layers)]
    for chain in chains:
        for upper, lower in pairwise(chain):
            start, end = columns.middle(upper), columns.middle(lower)
            low, high = spans[upper.row].get(id(upper), (start, start))
            spans[upper.row][id(upper)] = (min(low, end), max(high, end))
    top = 0
    for span in spans:
        top += height
        tracks = _tracks(span)
        bottom = top + 3 + max(tracks.values(), default=0)
        yield _Gap(top, tracks, bottom)
        top = bottom


def _tracks(spans: Mapping[int, tuple[int, int]]) -> dict[int, int]:
    """Assign a line to the horizontals of each upper item, so that those of different items don't touch."""
    tracks: dict[int, int] = {}
    taken: list[list[tuple[int, int]]] = []
    for upper, (low, high) in sorted(spans.items(), key=lambda item: (item[1][1] - item[1][0], item[1])):
        free = (number for number, spots in enumerate(taken) if all(high < a or low > b for a, b in spots))
        track = next(free, len(taken))
        if track == len(taken):
            taken.append([])
        taken[track].append((low, high))
        tracks[upper] = track
    return tracks


def _wire(link: Link, chain: _Chain, gaps: Sequence[_Gap], columns: _Columns, height: int) -> Wire:
    points: list[tuple[int, int]] = []
    for upper, lower in pairwise(chain):
        gap, start, end = gaps[upper.row], columns.middle(upper), columns.middle(lower)
        track = gap.top + 1 + gap.tracks[id(upper)]
        points += [(start, gap.top), (start, track), (end, track), (end, gap.bottom - 1)]
        if not lower.name:
            points.append((end, gap.bottom - 1 + height))
    turned = link.kind == _TURNED
    waiter, blocker = (link.upper, link.lower) if turned else (link.lower, link.upper)
    return Wire(tuple(points), not turned, waiter, blocker)
