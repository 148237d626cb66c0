"""Where the boxes of a drawing stand, and where its arrows pass between them.

A layered drawing (Sugiyama, Tagawa and Toda 1981): boxes in rows by their longest path, a row ordered by the mean place
of what its boxes are joined to, and an arrow over several rows led through points that take part in all of it as
boxes do. Each row is placed by a weighted isotonic regression of the places that it wishes for.

Invariants:
    L1. No arrow crosses a box: between two rows it stays in the gap, in a row it passes at a point of its own, and
        what has no points (too many, or against the rows) goes around by a lane at the side.
    L2. Time and size grow with the boxes, the arrows and at most `POINTS`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from livedbg.graphs.drawing import DECLARED, Arrow, Drawing, layers

__all__ = ["HEIGHT", "POINTS", "WIDTH", "Layout", "Place", "Route", "laid_out"]

WIDTH: Final = 150
HEIGHT: Final = 46

POINTS: Final = 100_000
"""Points of all arrows together; beyond them the longest go around."""

_GAP: Final = 18  # between two boxes of a row
_ASIDE: Final = 12  # between a box and an arrow that passes it
_APART: Final = 8  # between two arrows that pass
_RANK: Final = 54  # between two layers
_WRAPPED: Final = 30  # between two rows of one layer
_ROW: Final = 60  # boxes of a layer that stand side by side
_SWEEPS: Final = 6
_STRAIGHT: Final = 8  # how much more a point keeps its place than a box
_LANES: Final = 40
_LANE: Final = 5

_Ends: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Place:
    """The upper left corner of a box."""

    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Route:
    """How an arrow gets from the lower edge of a box to the upper one of another.

    Attributes:
        passes: x, from y, to y of the rows that it passes, from above.
        lane: x of the lane at the side that it takes instead.
    """

    passes: tuple[tuple[int, int, int], ...] = ()
    lane: int | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """A drawing with places; `routes` has one for each of its arrows, in their order."""

    places: dict[str, Place]
    routes: tuple[Route, ...]
    width: int
    height: int


@dataclass(slots=True)
class _Item:
    """A box, or a point of an arrow, which has no name."""

    row: int
    name: str = ""
    x: float = 0.0  # its middle
    above: list[_Item] = field(default_factory=list)
    below: list[_Item] = field(default_factory=list)

    def mean(self, side: list[_Item]) -> float:
        """The mean place of what it is joined to; its own without any."""
        return sum(item.x for item in side) / len(side) if side else self.x


def laid_out(drawing: Drawing) -> Layout:
    """Place a drawing."""
    names, tops = _rows(drawing)
    boxes = {name: _Item(row, name) for row, line in enumerate(names) for name in line}
    rows = [[boxes[name] for name in line] for line in names]
    trunks = _joined(drawing, boxes, rows)
    for row in rows:
        _pack(row)
    for sweep in range(_SWEEPS):
        _order(rows, down=sweep % 2 == 0)
    for sweep in range(_SWEEPS):
        _place(rows, down=sweep % 2 == 0)
    aside = dict.fromkeys(arrow.first for arrow, trunk in zip(drawing.arrows, trunks, strict=True) if trunk is None)
    lanes = {name: _GAP // 2 + number % _LANES * _LANE for number, name in enumerate(aside)}
    left = min((row[0].x for row in rows), default=0.0) - WIDTH / 2 - _GAP - max(lanes.values(), default=0)
    right = max((row[-1].x for row in rows), default=0.0) + WIDTH / 2 + _GAP
    places = {name: Place(round(box.x - left - WIDTH / 2), tops[box.row]) for name, box in boxes.items()}
    routes = [
        Route(lane=lanes[arrow.first])
        if trunk is None
        else Route(tuple((round(point.x - left), tops[point.row], tops[point.row] + HEIGHT) for point in trunk))
        for arrow, trunk in zip(drawing.arrows, trunks, strict=True)
    ]
    return Layout(places, tuple(routes), round(right - left), tops[-1] + HEIGHT + _GAP if tops else _GAP)


def _rows(drawing: Drawing) -> tuple[list[list[str]], list[int]]:
    """The rows of boxes, and where each begins: a wide layer has several."""
    rows: list[list[str]] = []
    tops: list[int] = []
    y = _GAP
    for rank in layers(drawing):
        for begin in range(0, len(rank), _ROW):
            rows.append(rank[begin : begin + _ROW])
            tops.append(y)
            y += HEIGHT + _WRAPPED
        y += _RANK - _WRAPPED
    return rows, tops


def _joined(drawing: Drawing, boxes: dict[str, _Item], rows: list[list[_Item]]) -> list[list[_Item] | None]:
    """Join the boxes by the drawing's arrows, and add the points of those over several rows.

    Arrows of one kind from one box share their points, as far as they go.

    Returns:
        The points of each arrow; None where it goes around.
    """
    found: list[list[_Item] | None] = [None] * len(drawing.arrows)
    shared: dict[_Ends, list[_Item]] = defaultdict(list)
    left = POINTS
    for number in sorted(range(len(found)), key=lambda number: _urgency(drawing.arrows[number], boxes)):
        arrow = drawing.arrows[number]
        first, second = boxes[arrow.first], boxes[arrow.second]
        between = second.row - first.row - 1
        if between < 0 or between > left:
            continue
        left -= between
        trunk = shared[arrow.first, arrow.state]
        while len(trunk) < between:
            point = _Item(first.row + len(trunk) + 1)
            _join(trunk[-1] if trunk else first, point)
            rows[point.row].append(point)
            trunk.append(point)
        _join(trunk[between - 1] if between else first, second)
        found[number] = trunk[:between]
    return found


def _urgency(arrow: Arrow, boxes: dict[str, _Item]) -> tuple[bool, int]:
    """Which arrows get points first: what is missing or different, then the shortest."""
    return arrow.state == DECLARED, boxes[arrow.second].row - boxes[arrow.first].row


def _join(upper: _Item, lower: _Item) -> None:
    upper.below.append(lower)
    lower.above.append(upper)


def _order(rows: Sequence[list[_Item]], *, down: bool) -> None:
    """Sort each row by the mean place (barycentre) of what its items are joined to in the rows before it."""
    for row in rows if down else reversed(rows):
        means = {id(item): item.mean(item.above if down else item.below) for item in row}
        row.sort(key=lambda item: means[id(item)])
        _pack(row)


def _pack(row: Sequence[_Item]) -> None:
    """Put a row's items side by side, in the middle."""
    offsets = list(_offsets(row))
    middle = offsets[-1] / 2 if offsets else 0.0
    for item, offset in zip(row, offsets, strict=True):
        item.x = offset - middle


def _offsets(row: Sequence[_Item]) -> Iterator[float]:
    """How far each item is from the first at least."""
    at, before = 0.0, ""
    for number, item in enumerate(row):
        if number:
            gap = _GAP if before and item.name else _ASIDE if before or item.name else _APART
            at += gap + (bool(before) + bool(item.name)) * WIDTH / 2
        before = item.name
        yield at


def _place(rows: Sequence[Sequence[_Item]], *, down: bool) -> None:
    """Move each row's items to where those that they are joined to are, as near as their order and width allow.

    The least sum of squares is found by pooling neighbours that would overlap (pool adjacent violators; Barlow and
    others, Statistical Inference under Order Restrictions, 1972).
    """
    for row in rows if down else reversed(rows):
        offsets = list(_offsets(row))
        pools: list[tuple[float, float, int]] = []  # sum of weighted wishes, sum of weights, count
        for item, offset in zip(row, offsets, strict=True):
            weight = 1.0 if item.name else _STRAIGHT
            total, weights, count = weight * (item.mean(item.above if down else item.below) - offset), weight, 1
            while pools and pools[-1][0] * weights >= total * pools[-1][1]:
                before = pools.pop()
                total, weights, count = total + before[0], weights + before[1], count + before[2]
            pools.append((total, weights, count))
        starts = (total / weights for total, weights, count in pools for _ in range(count))
        for item, start, offset in zip(row, starts, offsets, strict=True):
            item.x = start + offset
