"""A drawing as one HTML page: an SVG that is laid out here, and a small script to move, zoom and search in it.

The page loads nothing: its Content-Security-Policy forbids any request, and every text of a target is escaped. Wide
layers take several rows; lines go through the rows that they pass, or around by a lane.

Invariants:
    ashtml.L1. No arrow crosses a box: between two rows it stays in the gap, in a row it passes at a point of its own,
        and what has no points (too many, or against the rows) goes around by a lane at the side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import Final

from livedbg.graphs.drawing import DECLARED, EXTRA, INFERRED, MISSING, Arrow, Drawing, cut_down, layers
from livedbg.graphs.layout import Link, Spacing, placed
from livedbg.text.wording import many

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
    """The upper left corner of a box, in pixels."""

    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Route:
    """The route of an arrow from the lower edge of a box to the upper edge of another.

    `passes` are x, top and bottom of the rows that it passes, from above; `lane` is the x of a lane instead.
    """

    passes: tuple[tuple[int, int, int], ...] = ()
    lane: int | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """A laid out drawing; `routes` are in the order of its arrows."""

    places: dict[str, Place]
    routes: tuple[Route, ...]
    width: int
    height: int


def laid_out(drawing: Drawing) -> Layout:
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


MOST: Final = 10_000
"""Nodes of one page."""

_LEAD: Final = 6  # of an arrow that goes around, below its box; twice as much above the other
_REMARKS: Final = 200
_CUT: Final = 22  # characters of a line in a box


def to_html(drawing: Drawing) -> str:
    """Return the drawing as an HTML page."""
    shown = cut_down(drawing, MOST)
    layout = laid_out(shown)
    missing = sum(arrow.state == MISSING for arrow in drawing.arrows)
    style, script = (files("livedbg.graphs").joinpath(name).read_text("utf-8") for name in ("page.css", "page.js"))
    tasks, edges = many(len(drawing.nodes) + drawing.hidden, "task"), many(len(drawing.arrows) - missing, "edge")
    counts = f"{tasks}, {edges}, {missing:,} missing"
    left = f" · {many(shown.hidden, 'task is', 'tasks are')} left out" if shown.hidden else ""
    title = escape(drawing.name)
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">",
        f"<title>{title}</title><style>\n{style}</style></head><body>",
        f"<header><h1>{title}</h1><p>{counts}{left}</p>",
        '<p><label>Find <input id="find" type="search" autocomplete="off"></label> <output id="found"></output> '
        "<button id=fit type=button>Fit</button> <small>drag to move, wheel to zoom, / to find, Enter for the next "
        "</small></p></header>",
        *_said(drawing),
        f'<svg id="graph" viewBox="0 0 {layout.width} {layout.height}" xmlns="http://www.w3.org/2000/svg" role="img" '
        f'aria-label="task graph">',
        f'<defs>{_tip("tip")}{_tip("lost")}</defs><g id="all">',
        *_arrows(shown, layout, missing=False),
        *_boxes(shown, layout.places),
        *_arrows(shown, layout, missing=True),
        f"</g></svg><script>\n{script}</script></body></html>",
    ]
    return "\n".join(parts) + "\n"


def _tip(name: str) -> str:
    return (
        f'<marker id="{name}" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto" '
        'markerUnits="userSpaceOnUse"><path d="M0 0L8 4L0 8z"/></marker>'
    )


def _said(drawing: Drawing) -> Iterator[str]:
    notes = "".join(f"<li>{escape(note)}</li>" for note in drawing.notes)
    items = [
        f'<li class="{escape(one.kind)}"><a href="#n-{escape(one.second, quote=True)}" '
        f'data-node="{escape(one.second, quote=True)}"><b>{escape(one.kind)}</b> {escape(one.first)} → '
        f"{escape(one.second)}</a>: {escape(one.text)}.{_more(one.why, one.next)}</li>"
        for one in drawing.remarks[:_REMARKS]
    ]
    if len(drawing.remarks) > _REMARKS:
        items.append(f"<li>… and {len(drawing.remarks) - _REMARKS} more</li>")
    if notes or items:
        is_open = " open" if len(items) <= 8 else ""
        head = f"<details{is_open}><summary>{many(len(drawing.remarks), 'remark')}</summary>"
        yield f"{head}<ul>{notes}{''.join(items)}</ul></details>"


def _more(why: str, steps: Sequence[str]) -> str:
    because = f" Most likely: {escape(why)}." if why else ""
    return because + "".join(f" <i>Next: {escape(step)}.</i>" for step in steps)


def _boxes(drawing: Drawing, places: dict[str, Place]) -> Iterator[str]:
    ends = {end for arrow in drawing.arrows if arrow.state == MISSING for end in (arrow.first, arrow.second)}
    for name, node in drawing.nodes.items():
        place = places[name]
        kind = "node end" if name in ends else "node"
        whole = " · ".join(filter(None, (name, node.label, node.detail)))
        lines = [name, node.label or node.detail]
        texts = "".join(
            f'<text x="{WIDTH // 2}" y="{18 + 17 * number}">{escape(_short(line))}</text>'
            for number, line in enumerate(lines)
            if line
        )
        yield (
            f'<g class="{kind}" data-id="{escape(name, quote=True)}" transform="translate({place.x} {place.y})">'
            f'<title>{escape(whole)}</title><rect width="{WIDTH}" height="{HEIGHT}" rx="6"/>{texts}</g>'
        )


def _arrows(drawing: Drawing, layout: Layout, *, missing: bool) -> Iterator[str]:
    for arrow, route in zip(drawing.arrows, layout.routes, strict=True):
        if (arrow.state == MISSING) == missing:
            yield _arrow(arrow, layout.places[arrow.first], layout.places[arrow.second], route)


def _arrow(arrow: Arrow, one: Place, other: Place, route: Route) -> str:
    kind = {MISSING: "missing", EXTRA: "extra", DECLARED: "edge", INFERRED: "perhaps"}[arrow.state]
    style = f"{kind} around" if arrow.state in (DECLARED, INFERRED) and route.lane is not None else kind
    tip = "lost" if arrow.state == MISSING else "tip"
    said = f"{arrow.first} → {arrow.second} {arrow.word}".strip()
    path = (
        f'<path class="{style}" d="{_line(one, other, route)}" marker-end="url(#{tip})">'
        f"<title>{escape(f'{kind}: {said}' if kind != 'edge' else said)}</title></path>"
    )
    if arrow.state in (DECLARED, INFERRED):
        return path
    word = {MISSING: "missing", EXTRA: "only here"}[arrow.state]
    x, y = _middle(one, other, route)
    return f'{path}<text class="{kind}" x="{x}" y="{y}">{word}</text>'


def _line(one: Place, other: Place, route: Route) -> str:
    x, y = one.x + WIDTH // 2, one.y + HEIGHT
    end = other.x + WIDTH // 2
    if route.lane is not None:
        return f"M{x} {y}v{_LEAD}H{route.lane}V{other.y - 2 * _LEAD}H{end}v{2 * _LEAD}"
    parts = [f"M{x} {y}"]
    for at, top, bottom in (*route.passes, (end, other.y, other.y)):
        if at != x:
            middle = (y + top) // 2
            parts.append(f"C{x} {middle} {at} {middle} {at} {top}")
        if at == x or bottom > top:
            parts.append(f"V{bottom}")
        x, y = at, bottom
    return "".join(parts)


def _middle(one: Place, other: Place, route: Route) -> tuple[int, int]:
    """Return the position of an arrow's label: below the row in its middle."""
    if route.lane is not None:
        return route.lane + 3 * WIDTH // 8, (one.y + other.y + HEIGHT) // 2
    if route.passes:
        x, _, y = route.passes[len(route.passes) // 2]
        return x, y + 14
    return (one.x + other.x + WIDTH) // 2, (one.y + HEIGHT + other.y) // 2 - 4


def _short(text: str) -> str:
    return text if len(text) <= _CUT else f"{text[: _CUT - 1]}…"
