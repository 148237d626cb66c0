"""A drawing in pixels: wide layers in several rows, lines through the rows that they pass or around by a lane.

Invariants:
    pagelayout.L1. No arrow crosses a box: between two rows it stays in the gap, in a row it passes at a point of its
        own, and what has no points (too many, or against the rows) goes around by a lane at the side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from livedbg.graphs.drawing import DECLARED, Drawing, layers
from livedbg.graphs.layout import Link, Spacing, placed

__all__ = ["HEIGHT", "ROW", "WIDTH", "Layout", "Place", "Route", "laid_out"]

WIDTH: Final = 150
HEIGHT: Final = 46

ROW: Final = 60
"""Boxes of a layer that are side by side."""

_SPACING: Final = Spacing(boxes=18, aside=12, apart=8)
_MARGIN: Final = 18
_RANK: Final = 54  # between two layers
_WRAPPED: Final = 30  # between two rows of one layer
_LANES: Final = 40
_LANE: Final = 5


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


def laid_out(drawing: Drawing) -> Layout:
    """Place a drawing."""
    rows, tops = _rows(drawing)
    links = [Link(arrow.first, arrow.second, arrow.state, arrow.state != DECLARED) for arrow in drawing.arrows]
    found = placed(rows, links, dict.fromkeys(drawing.nodes, WIDTH), _SPACING)
    aside = dict.fromkeys(link.upper for link, trunk in zip(links, found.trunks, strict=True) if trunk is None)
    lanes = {name: _MARGIN // 2 + number % _LANES * _LANE for number, name in enumerate(aside)}
    left, right = found.left - _MARGIN - max(lanes.values(), default=0), found.right + _MARGIN
    places = {name: Place(round(box.x - left - WIDTH / 2), tops[box.row]) for name, box in found.boxes.items()}
    routes = [
        Route(lane=lanes[link.upper])
        if trunk is None
        else Route(tuple((round(point.x - left), tops[point.row], tops[point.row] + HEIGHT) for point in trunk))
        for link, trunk in zip(links, found.trunks, strict=True)
    ]
    return Layout(places, tuple(routes), round(right - left), tops[-1] + HEIGHT + _MARGIN if tops else _MARGIN)


def _rows(drawing: Drawing) -> tuple[list[tuple[str, ...]], list[int]]:
    """The rows of boxes, and where each begins: a wide layer has several."""
    rows: list[tuple[str, ...]] = []
    tops: list[int] = []
    y = _MARGIN
    for layer in layers(drawing).rows:
        for begin in range(0, len(layer), ROW):
            rows.append(layer[begin : begin + ROW])
            tops.append(y)
            y += HEIGHT + _WRAPPED
        y += _RANK - _WRAPPED
    return rows, tops
