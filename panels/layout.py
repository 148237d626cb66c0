"""Layered layout of a small directed graph: what is waited for above, who waits below.

Layers by longest path (edges that close a circle are turned for it), order within a layer by four
barycentre sweeps (Sugiyama, Tagawa and Toda 1981), edges over several layers by dummy nodes, and a
track of its own for each bundle of horizontal lines between two layers, so that lines don't merge.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["Box", "Layout", "Wire", "arrange"]

SWEEPS: Final = 4
_GAP: Final = 2
Edge = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Box:
    """Where a node stands; `layer` 0 is on top."""

    node: str
    x: int
    y: int
    width: int
    height: int
    layer: int

    @property
    def middle(self) -> int:
        """Column in which its lines end."""
        return self.x + self.width // 2


@dataclass(frozen=True, slots=True)
class Wire:
    """One edge as corner points, from below the upper node to above the lower one.

    Attributes:
        upward: the lower node waits for the upper one (the usual case); else the edge closes a circle.
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


def arrange(nodes: Sequence[str], edges: Sequence[Edge], widths: Mapping[str, int], height: int) -> Layout:
    """Lay out a graph.

    Args:
        nodes: all nodes; the first ones go to the left where nothing else decides.
        edges: (waiter, what it waits for).
        widths: cells of each node's box.
        height: lines of every box.
    """
    if not nodes:
        return Layout({}, ())
    down, turned = _acyclic(nodes, edges)
    layer = _layers(nodes, down)
    rows, links = _with_dummies(nodes, down, layer)
    _order(rows, links)
    xs, total = _columns(rows, links, widths)
    return _draw(rows, links, xs, widths, height, total, turned)


def _acyclic(nodes: Sequence[str], edges: Sequence[Edge]) -> tuple[list[Edge], set[Edge]]:
    """Edges as (upper, lower), those that close a circle turned."""
    below: dict[str, list[str]] = defaultdict(list)
    for waiter, blocker in edges:
        if waiter != blocker:
            below[blocker].append(waiter)
    state: dict[str, int] = {}
    down: list[Edge] = []
    turned: set[Edge] = set()
    entered = {waiter for waiter, _blocker in edges}
    for start in [*(node for node in nodes if node not in entered), *nodes]:
        stack = [(start, iter(below[start]))] if start not in state else []
        if stack:
            state[start] = 1
        while stack:
            node, children = stack[-1]
            child = next(children, None)
            if child is None:
                state[node] = 2
                stack.pop()
            elif state.get(child) == 1:
                down.append((child, node))
                turned.add((child, node))
            else:
                down.append((node, child))
                if child not in state:
                    state[child] = 1
                    stack.append((child, iter(below[child])))
    return list(dict.fromkeys(down)), turned


def _layers(nodes: Sequence[str], down: Sequence[Edge]) -> dict[str, int]:
    layer = dict.fromkeys(nodes, 0)
    incoming: dict[str, int] = defaultdict(int)
    below: dict[str, list[str]] = defaultdict(list)
    for upper, lower in down:
        incoming[lower] += 1
        below[upper].append(lower)
    ready = [node for node in nodes if not incoming[node]]
    while ready:
        node = ready.pop()
        for lower in below[node]:
            layer[lower] = max(layer[lower], layer[node] + 1)
            incoming[lower] -= 1
            if not incoming[lower]:
                ready.append(lower)
    return layer


def _with_dummies(
    nodes: Sequence[str], down: Sequence[Edge], layer: Mapping[str, int]
) -> tuple[list[list[str]], list[list[tuple[str, str, Edge]]]]:
    """Rows of nodes and dummies, and for each gap its links (upper, lower, the edge they belong to)."""
    depth = max(layer.values()) + 1
    rows: list[list[str]] = [[] for _ in range(depth)]
    links: list[list[tuple[str, str, Edge]]] = [[] for _ in range(depth)]
    for node in nodes:
        rows[layer[node]].append(node)
    for number, (upper, lower) in enumerate(down):
        above = upper
        for level in range(layer[upper] + 1, layer[lower]):
            dummy = f"\0{number}/{level}"
            rows[level].append(dummy)
            links[level - 1].append((above, dummy, (upper, lower)))
            above = dummy
        links[layer[lower] - 1].append((above, lower, (upper, lower)))
    return rows, links


def _order(rows: list[list[str]], links: Sequence[Sequence[tuple[str, str, Edge]]]) -> None:
    """Barycentre sweeps, down and up in turn."""
    for sweep in range(SWEEPS):
        downward = sweep % 2 == 0
        levels = range(1, len(rows)) if downward else range(len(rows) - 2, -1, -1)
        for level in levels:
            fixed = rows[level - 1] if downward else rows[level + 1]
            place = {node: number for number, node in enumerate(fixed)}
            seen: dict[str, list[int]] = defaultdict(list)
            for upper, lower, _edge in links[level - 1 if downward else level]:
                node, other = (lower, upper) if downward else (upper, lower)
                seen[node].append(place[other])
            old = {node: number for number, node in enumerate(rows[level])}
            centre = {n: sum(seen[n]) / len(seen[n]) if seen[n] else float(old[n]) for n in rows[level]}
            rows[level].sort(key=lambda n, c=centre, o=old: (c[n], o[n]))  # type: ignore[misc]


def _columns(
    rows: Sequence[Sequence[str]], links: Sequence[Sequence[tuple[str, str, Edge]]], widths: Mapping[str, int]
) -> tuple[dict[str, int], int]:
    """Left column of every node: packed, then drawn towards its neighbours without overlap."""
    xs: dict[str, int] = {}
    for row in rows:
        at = 0
        for node in row:
            xs[node] = at
            at += widths.get(node, 1) + _GAP
    near: dict[str, list[str]] = defaultdict(list)
    for gap in links:
        for upper, lower, _edge in gap:
            near[upper].append(lower)
            near[lower].append(upper)
    for sweep in range(6):
        for row in rows if sweep % 2 else list(reversed(rows)):
            wish = {n: _wish(n, near[n], xs, widths) for n in row}
            _settle(row, wish, xs, widths)
    left = min(xs.values())
    for node in xs:
        xs[node] -= left
    return xs, max(x + widths.get(node, 1) for node, x in xs.items())


def _wish(node: str, near: Sequence[str], xs: Mapping[str, int], widths: Mapping[str, int]) -> int:
    if not near:
        return xs[node]
    middles = sorted(xs[other] + widths.get(other, 1) // 2 for other in near)
    middle = (middles[(len(middles) - 1) // 2] + middles[len(middles) // 2]) // 2
    return middle - widths.get(node, 1) // 2


def _settle(row: Sequence[str], wish: Mapping[str, int], xs: dict[str, int], widths: Mapping[str, int]) -> None:
    """Place a row as near to its wishes as its order allows (blocks that touch share their mean)."""
    blocks: list[tuple[list[str], float]] = []
    for node in row:
        members, at = [node], float(wish[node])
        while blocks:
            before, x = blocks[-1]
            span = sum(widths.get(n, 1) + _GAP for n in before)
            if x + span <= at:
                break
            blocks.pop()
            at = (x * len(before) + (at - span) * len(members)) / (len(before) + len(members))
            members = before + members
        blocks.append((members, at))
    for members, at in blocks:
        x = round(at)
        for node in members:
            xs[node] = x
            x += widths.get(node, 1) + _GAP


def _draw(  # noqa: PLR0917 (the parts of one picture)
    rows: Sequence[Sequence[str]],
    links: Sequence[Sequence[tuple[str, str, Edge]]],
    xs: Mapping[str, int],
    widths: Mapping[str, int],
    height: int,
    total: int,
    turned: set[Edge],
) -> Layout:
    boxes: dict[str, Box] = {}
    points: dict[Edge, list[tuple[int, int]]] = defaultdict(list)
    y = 0
    for level, row in enumerate(rows):
        for node in row:
            if not node.startswith("\0"):
                boxes[node] = Box(node, xs[node], y, widths[node], height, level)
        y += height
        if level + 1 == len(rows):
            break
        tracks, used = _tracks(links[level], xs, widths)
        for upper, lower, edge in links[level]:
            start, end = (xs[n] + widths.get(n, 1) // 2 for n in (upper, lower))
            track = y + 1 + tracks[upper]
            points[edge] += [(start, y), (start, track), (end, track), (end, y + used + 2)]
            if lower.startswith("\0"):
                points[edge].append((end, y + used + 2 + height))
        y += used + 3
    wires = []
    for edge, corners in points.items():
        upper, lower = edge
        turn = edge in turned
        waiter, blocker = (upper, lower) if turn else (lower, upper)
        wires.append(Wire(tuple(corners), not turn, waiter, blocker))
    return Layout(boxes, wires, total, y)


def _tracks(
    gap: Sequence[tuple[str, str, Edge]], xs: Mapping[str, int], widths: Mapping[str, int]
) -> tuple[dict[str, int], int]:
    """A line for the horizontals of each upper node, so that those of different ones don't touch."""
    spans: dict[str, tuple[int, int]] = {}
    for upper, lower, _edge in gap:
        start, end = (xs[n] + widths.get(n, 1) // 2 for n in (upper, lower))
        low, high = spans.get(upper, (start, start))
        spans[upper] = (min(low, start, end), max(high, start, end))
    tracks: dict[str, int] = {}
    taken: list[list[tuple[int, int]]] = []
    for node, (low, high) in sorted(spans.items(), key=lambda item: (item[1][1] - item[1][0], item[1])):
        for number, spots in enumerate(taken):
            if all(high < a or low > b for a, b in spots):
                spots.append((low, high))
                tracks[node] = number
                break
        else:
            taken.append([(low, high)])
            tracks[node] = len(taken) - 1
    return tracks, max(len(taken) - 1, 0)
