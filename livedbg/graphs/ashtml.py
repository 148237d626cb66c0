"""A drawing as one HTML page: an SVG that is laid out here, and a small script to move, zoom and search in it.

The page loads nothing: its Content-Security-Policy forbids any request, and every text of a target is escaped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import Final

from livedbg.graphs.drawing import DECLARED, EXTRA, MISSING, Arrow, Drawing, cut_down, layers
from livedbg.wording import many

__all__ = ["MOST", "to_html"]

MOST: Final = 10_000
"""Nodes of one page."""

_WIDTH: Final = 150
_HEIGHT: Final = 46
_GAP: Final = 18
_RANK: Final = 54  # between two layers
_ROW: Final = 60  # nodes of a layer that stand side by side
_SWEEPS: Final = 2
_REMARKS: Final = 200
_CUT: Final = 22  # characters of a line in a box


@dataclass(frozen=True, slots=True)
class _Place:
    x: int
    y: int


def to_html(drawing: Drawing) -> str:
    """The drawing as a page of its own."""
    shown = cut_down(drawing, MOST)
    places, width, height = _places(shown)
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
        f'<svg id="graph" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img" '
        f'aria-label="task graph">',
        f'<defs>{_tip("tip")}{_tip("lost")}</defs><g id="all">',
        *(_arrow(arrow, places) for arrow in shown.arrows if not _passes(arrow, places)),
        *_boxes(shown, places),
        *(_arrow(arrow, places) for arrow in shown.arrows if _passes(arrow, places)),
        f"</g></svg><script>\n{script}</script></body></html>",
    ]
    return "\n".join(parts) + "\n"


def _tip(name: str) -> str:
    return (
        f'<marker id="{name}" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto" '
        'markerUnits="userSpaceOnUse"><path d="M0 0L8 4L0 8z"/></marker>'
    )


def _passes(arrow: Arrow, places: dict[str, _Place]) -> bool:
    """Whether an arrow passes other layers: it is drawn over their boxes then, else it would seem to end at them.

    What is missing lies over the boxes in any case.
    """
    return arrow.state == MISSING or abs(places[arrow.second].y - places[arrow.first].y) > _HEIGHT + _RANK


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


def _boxes(drawing: Drawing, places: dict[str, _Place]) -> Iterator[str]:
    ends = {end for arrow in drawing.arrows if arrow.state == MISSING for end in (arrow.first, arrow.second)}
    for name, node in drawing.nodes.items():
        place = places[name]
        kind = "node end" if name in ends else "node"
        whole = " · ".join(filter(None, (name, node.label, node.detail)))
        lines = [name, node.label or node.detail]
        texts = "".join(
            f'<text x="{_WIDTH // 2}" y="{18 + 17 * number}">{escape(_short(line))}</text>'
            for number, line in enumerate(lines)
            if line
        )
        yield (
            f'<g class="{kind}" data-id="{escape(name, quote=True)}" transform="translate({place.x} {place.y})">'
            f'<title>{escape(whole)}</title><rect width="{_WIDTH}" height="{_HEIGHT}" rx="6"/>{texts}</g>'
        )


def _arrow(arrow: Arrow, places: dict[str, _Place]) -> str:
    one, other = places[arrow.first], places[arrow.second]
    x0, y0, x1, y1 = one.x + _WIDTH // 2, one.y + _HEIGHT, other.x + _WIDTH // 2, other.y
    if one.y == other.y:  # side by side: from flank to flank
        right = one.x < other.x
        x0, x1 = (one.x + _WIDTH, other.x) if right else (one.x, other.x + _WIDTH)
        y0 = y1 = one.y + _HEIGHT // 2
    middle = (y0 + y1) // 2
    kind = {MISSING: "missing", EXTRA: "extra", DECLARED: "edge"}[arrow.state]
    look = f"{kind} long" if arrow.state == DECLARED and _passes(arrow, places) else kind
    tip = "lost" if arrow.state == MISSING else "tip"
    said = f"{arrow.first} → {arrow.second} {arrow.word}".strip()
    path = (
        f'<path class="{look}" d="M{x0} {y0}C{x0} {middle} {x1} {middle} {x1} {y1}" marker-end="url(#{tip})">'
        f"<title>{escape(f'{kind}: {said}' if kind != 'edge' else said)}</title></path>"
    )
    if arrow.state == DECLARED:
        return path
    word = {MISSING: "missing", EXTRA: "only here"}[arrow.state]
    return f'{path}<text class="{kind}" x="{(x0 + x1) // 2}" y="{middle - 4}">{word}</text>'


def _places(drawing: Drawing) -> tuple[dict[str, _Place], int, int]:
    """Where each node stands: layers from top to bottom, within a layer near to what it comes after."""
    ranks = _ordered(drawing)
    width = max((min(len(rank), _ROW) for rank in ranks), default=1) * (_WIDTH + _GAP) + _GAP
    places: dict[str, _Place] = {}
    y = _GAP
    for rank in ranks:
        for begin in range(0, len(rank), _ROW):
            row = rank[begin : begin + _ROW]
            x = (width - len(row) * (_WIDTH + _GAP) + _GAP) // 2
            for number, name in enumerate(row):
                places[name] = _Place(x + number * (_WIDTH + _GAP), y)
            y += _HEIGHT + _GAP
        y += _RANK - _GAP
    return places, width, y


def _ordered(drawing: Drawing) -> list[list[str]]:
    """The layers, each sorted by the mean place of its neighbours (barycentre; Sugiyama, Tagawa and Toda 1981)."""
    ranks = layers(drawing)
    near: dict[str, list[str]] = defaultdict(list)
    for arrow in drawing.arrows:
        near[arrow.first].append(arrow.second)
        near[arrow.second].append(arrow.first)
    at = {name: number - len(rank) / 2 for rank in ranks for number, name in enumerate(rank)}
    for sweep in range(_SWEEPS):
        for rank in ranks if sweep % 2 == 0 else reversed(ranks):
            rank.sort(
                key=lambda name: sum(at[other] for other in near[name]) / len(near[name]) if near[name] else at[name]
            )
            at.update({name: number - len(rank) / 2 for number, name in enumerate(rank)})
    return ranks


def _short(text: str) -> str:
    return text if len(text) <= _CUT else f"{text[: _CUT - 1]}…"
