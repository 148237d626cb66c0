"""Layout of a drawing: layers, and positions of boxes and lines, for the page and the terminal.

A layered drawing (Sugiyama, Tagawa and Toda 1981). The layer of a node is one below the lowest of its predecessors;
edges that close a cycle, as a depth-first search from the sources meets them, are set aside: they lead upwards. A row
is ordered by the mean position of the neighbours of its boxes, and a line over several rows goes through points that
are ordered and placed like boxes. Each row is placed by a weighted isotonic regression of the wished positions.

Invariants:
    layout.L2. All lines together have at most `POINTS` points; where there are more, the longest lines have none.
    layout.L3. In a row, boxes and points keep their distance (`Spacing`), and don't overlap.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, TypeAlias

Ends: TypeAlias = tuple[str, str]
"""Where an edge begins and ends."""


@dataclass(frozen=True, slots=True)
class Layers:
    """A graph's nodes in layers from above; `turned` are edges that lead upwards, or to their own node."""

    rows: tuple[tuple[str, ...], ...] = ()
    turned: frozenset[Ends] = frozenset()


def layered(nodes: Collection[str], edges: Iterable[Ends]) -> Layers:
    """Put nodes into layers by their longest path; earlier nodes come first where nothing else decides."""
    after: dict[str, dict[str, None]] = defaultdict(dict)
    for first, second in edges:
        after[first][second] = None
    entered = {second for seconds in after.values() for second in seconds}
    turned = frozenset(_turned([*(node for node in nodes if node not in entered), *nodes], after))
    return Layers(tuple(map(tuple, _by_longest_path(nodes, after, turned))), turned)


def _turned(starts: Sequence[str], after: Mapping[str, Iterable[str]]) -> Iterator[Ends]:
    """Yield the edges that lead back to a node on the way from a start."""
    on_the_way: dict[str, bool] = {}  # False: left for good
    for start in starts:
        if start in on_the_way:
            continue
        on_the_way[start] = True
        way = [(start, iter(after.get(start, ())))]
        while way:
            node, following = way[-1]
            second = next(following, None)
            if second is None:
                on_the_way[node] = False
                way.pop()
            elif on_the_way.get(second):
                yield node, second
            elif second not in on_the_way:
                on_the_way[second] = True
                way.append((second, iter(after.get(second, ()))))


def _by_longest_path(
    nodes: Iterable[str], after: Mapping[str, Iterable[str]], turned: Collection[Ends]
) -> Iterator[list[str]]:
    waiting = dict.fromkeys(nodes, 0)
    for first, seconds in after.items():
        for second in seconds:
            waiting[second] += (first, second) not in turned
    current = [node for node, count in waiting.items() if not count]
    while current:
        yield current
        following: list[str] = []
        for first in current:
            for second in after.get(first, ()):
                if (first, second) not in turned:
                    waiting[second] -= 1
                    if not waiting[second]:
                        following.append(second)
        current = following


POINTS: Final = 100_000
"""Points of all lines together; beyond them the longest have none."""

_SWEEPS: Final = 12  # for the order
_IDLE: Final = 4  # sweeps without fewer crossings that end it
_COUNTED: Final = 20_000  # lines between rows up to which crossings are counted
_UNCOUNTED: Final = 6  # sweeps beyond
_PLACINGS: Final = 6
_STRAIGHT: Final = 3  # how much more a point keeps its place than a box
_ALONE: Final = 0.001  # how much a box that is joined to nothing does


@dataclass(frozen=True, slots=True)
class Spacing:
    """Distances in a row, in the unit of the drawing: pixels or cells.

    Attributes:
        boxes: between two boxes.
        aside: between a box and a line that passes it.
        apart: between two lines that pass.
    """

    boxes: int
    aside: int
    apart: int
    line: int = 0


@dataclass(frozen=True, slots=True)
class Link:
    """A line from a box to one in a later row; an `urgent` one gets points before others.

    Lines of one kind from one box share their points, as far as they go.
    """

    upper: str
    lower: str
    kind: str = ""
    urgent: bool = False


@dataclass(slots=True)
class Item:
    """A box, or a point of a line, which has no name."""

    row: int
    width: float
    name: str = ""
    x: float = 0.0
    above: list[Item] = field(default_factory=list)
    below: list[Item] = field(default_factory=list)

    def mean(self, side: list[Item]) -> float:
        """Return the mean position of neighbours; its own if there are none."""
        return sum(item.x for item in side) / len(side) if side else self.x


_Row: TypeAlias = list[Item]


@dataclass(frozen=True, slots=True)
class Placed:
    """Boxes with positions, and for each link the points in the rows that it passes, or None."""

    boxes: Mapping[str, Item]
    trunks: Sequence[Sequence[Item] | None]
    left: float
    right: float


def placed(
    names: Sequence[Sequence[str]], links: Sequence[Link], widths: Mapping[str, int], spacing: Spacing
) -> Placed:
    """Order the boxes of the rows, and place them.

    A link that leads upwards or to its own row has no points and moves nothing.
    """
    rows = [[Item(number, widths[name], name) for name in line] for number, line in enumerate(names)]
    boxes = {item.name: item for row in rows for item in row}
    trunks = _joined(links, boxes, rows, spacing.line)
    for row in rows:
        _pack(row, spacing)
    _order(rows, spacing)
    for number in range(_PLACINGS):
        _place(rows, spacing, down=number % 2 == 0)
    left = min((row[0].x - row[0].width / 2 for row in rows if row), default=0.0)
    right = max((row[-1].x + row[-1].width / 2 for row in rows if row), default=0.0)
    return Placed(boxes, trunks, left, right)


def _joined(
    links: Sequence[Link], boxes: Mapping[str, Item], rows: Sequence[_Row], line: int
) -> list[Sequence[Item] | None]:
    """Join the boxes by the links, and add the points of those over several rows."""
    found: list[Sequence[Item] | None] = [None] * len(links)
    shared: dict[tuple[str, str], _Row] = defaultdict(list)
    left = POINTS
    for number in sorted(range(len(links)), key=lambda number: _urgency(links[number], boxes)):
        link = links[number]
        first, second = boxes[link.upper], boxes[link.lower]
        between = second.row - first.row - 1
        if between < 0 or between > left:
            continue
        left -= between
        trunk = shared[link.upper, link.kind]
        while len(trunk) < between:
            point = Item(first.row + len(trunk) + 1, line)
            _join(trunk[-1] if trunk else first, point)
            rows[point.row].append(point)
            trunk.append(point)
        _join(trunk[between - 1] if between else first, second)
        found[number] = trunk[:between]
    return found


def _urgency(link: Link, boxes: Mapping[str, Item]) -> tuple[bool, int]:
    """Return the sort key of links for points: the urgent ones first, then the shortest."""
    return not link.urgent, boxes[link.lower].row - boxes[link.upper].row


def _join(upper: Item, lower: Item) -> None:
    upper.below.append(lower)
    lower.above.append(upper)


def _order(rows: list[_Row], spacing: Spacing) -> None:
    """Sort each row by the mean position (barycentre) of neighbours; keep the sweep with the fewest crossings.

    In a large drawing crossings are not counted, and the last sweep is kept.
    """
    if sum(len(item.below) for row in rows for item in row) > _COUNTED:
        for number in range(_UNCOUNTED):
            _sweep(rows, spacing, down=number % 2 == 0)
        return
    best, fewest, idle = [list(row) for row in rows], _crossings(rows), 0
    for number in range(_SWEEPS):
        if not fewest or idle == _IDLE:
            break
        _sweep(rows, spacing, down=number % 2 == 0)
        crossings = _crossings(rows)
        if crossings < fewest:
            best, fewest, idle = [list(row) for row in rows], crossings, 0
        else:
            idle += 1
    for row, kept in zip(rows, best, strict=True):
        row[:] = kept
        _pack(row, spacing)


def _sweep(rows: Sequence[_Row], spacing: Spacing, *, down: bool) -> None:
    for row in rows if down else reversed(rows):
        means = {id(item): item.mean(item.above if down else item.below) for item in row}
        row.sort(key=lambda item: means[id(item)])
        _pack(row, spacing)


def _crossings(rows: Sequence[_Row]) -> int:
    total = 0
    for upper, lower in pairwise(rows):
        places = {id(item): number for number, item in enumerate(lower)}
        before: list[int] = []  # where the lines of items further left end
        for item in upper:
            ends = [places[id(end)] for end in item.below]
            total += sum(len(before) - bisect_right(before, end) for end in ends)
            for end in ends:
                insort(before, end)
    return total


def _pack(row: Sequence[Item], spacing: Spacing) -> None:
    offsets = list(_offsets(row, spacing))
    middle = offsets[-1] / 2 if offsets else 0.0
    for item, offset in zip(row, offsets, strict=True):
        item.x = offset - middle


def _offsets(row: Sequence[Item], spacing: Spacing) -> Iterator[float]:
    at = 0.0
    before: Item | None = None
    for item in row:
        if before is not None:
            gap = (spacing.apart, spacing.aside, spacing.boxes)[bool(before.name) + bool(item.name)]
            at += gap + (before.width + item.width) / 2
        before = item
        yield at


def _place(rows: Sequence[Sequence[Item]], spacing: Spacing, *, down: bool) -> None:
    """Move each row's items to their wished positions, as near as order and width allow.

    The least sum of squares is found by pooling neighbours that would overlap (pool adjacent violators; Barlow and
    others, Statistical Inference under Order Restrictions, 1972).
    """
    for row in rows if down else reversed(rows):
        offsets = list(_offsets(row, spacing))
        pools: list[tuple[float, float, int]] = []  # sum of weighted wishes, sum of weights, count
        for item, offset in zip(row, offsets, strict=True):
            wish, weight = _wish(item, down=down)
            total, weights, count = weight * (wish - offset), weight, 1
            while pools and pools[-1][0] * weights >= total * pools[-1][1]:
                before = pools.pop()
                total, weights, count = total + before[0], weights + before[1], count + before[2]
            pools.append((total, weights, count))
        starts = (total / weights for total, weights, count in pools for _ in range(count))
        for item, start, offset in zip(row, starts, offsets, strict=True):
            item.x = start + offset


def _wish(item: Item, *, down: bool) -> tuple[float, float]:
    """Return the wished position of an item, the median of its neighbours, and its weight."""
    near = (item.above or item.below) if down else (item.below or item.above)
    if not near:
        return 0.0, _ALONE
    places = sorted(other.x for other in near)
    median = (places[(len(places) - 1) // 2] + places[len(places) // 2]) / 2
    return median, 1.0 if item.name else _STRAIGHT
