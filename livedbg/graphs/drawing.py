"""A graph to draw: nodes, arrows and remarks, from any source, and its forms as JSON, Graphviz and text.

An arrow points as time goes: from what must be done first to what depends on it. The JSON is `livedbg.graph/1`. In
Graphviz's language (graphviz.org/doc/info/lang.html) names are quoted, missing arrows are drawn otherwise, and the
layers are those of the page and the text (`rank=same`), so that a task is in the same row in all formats. The text has
first the problems, then the tasks in layers, each with its predecessors.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from textwrap import wrap
from typing import Any, Final

from livedbg.graphs.layout import Layers, layered
from livedbg.text.json_text import json_bytes
from livedbg.text.wording import many

DECLARED: Final = "declared"
MISSING: Final = "missing"
INFERRED: Final = "inferred"  # one waits behind the other, and whether directly is not known
EXTRA: Final = "extra"  # only here, where another run is compared with


@dataclass(frozen=True, slots=True)
class Node:
    """A task, or something else that waits and is waited for.

    Attributes:
        id: unique: `r1t2`.
        label: name of its kernel: `MUL`.
        detail: its state and place, or "".
    """

    id: str
    label: str = ""
    detail: str = ""

    @property
    def title(self) -> str:
        """`r1t2 MUL`."""
        return f"{self.id} {self.label}".strip()


@dataclass(frozen=True, slots=True)
class Arrow:
    """An edge; `word` is who declared it (`creator`, `tensormap`, `explicit`) or what it is (`waits_for`)."""

    first: str
    second: str
    state: str = DECLARED
    word: str = ""


@dataclass(frozen=True, slots=True)
class Remark:
    """A problem, or a possible one: both ends, the claim, the reason and the advice.

    Attributes:
        kind: `missing`, `perhaps`, `only-here`, `only-there`, `not-tracked`.
        facts: the same for programs.
    """

    kind: str
    first: str
    second: str
    text: str
    why: str = ""
    next: tuple[str, ...] = ()
    facts: dict[str, str | int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Drawing:
    """A graph to draw, with notes for the reader, e.g. that the file was cut."""

    name: str
    nodes: dict[str, Node]
    arrows: tuple[Arrow, ...]
    remarks: tuple[Remark, ...] = ()
    notes: tuple[str, ...] = ()
    hidden: int = 0

    def remarks_of(self, kind: str) -> list[Remark]:
        return [remark for remark in self.remarks if remark.kind == kind]


def around(drawing: Drawing, centres: Iterable[str], hops: int, most: int) -> Drawing:
    """Return the part of a drawing within `hops` of some nodes, `most` nodes at most, nearest first."""
    near: dict[str, list[str]] = defaultdict(list)
    for arrow in drawing.arrows:
        near[arrow.first].append(arrow.second)
        near[arrow.second].append(arrow.first)
    kept = dict.fromkeys(centre for centre in centres if centre in drawing.nodes)
    fringe = list(kept)
    for _ in range(hops):
        fringe = [other for node in fringe for other in near[node] if other not in kept]
        fringe = list(dict.fromkeys(fringe))[: max(0, most - len(kept))]
        kept |= dict.fromkeys(fringe)
    return _part(drawing, list(kept)[:most])


def _part(drawing: Drawing, kept: Sequence[str]) -> Drawing:
    chosen = set(kept)
    return replace(
        drawing,
        nodes={name: node for name, node in drawing.nodes.items() if name in chosen},
        arrows=tuple(arrow for arrow in drawing.arrows if arrow.first in chosen and arrow.second in chosen),
        hidden=drawing.hidden + len(drawing.nodes) - len(chosen),
    )


def cut_down(drawing: Drawing, most: int) -> Drawing:
    """Return a drawing of `most` nodes at most: those near problems first, then in order."""
    if len(drawing.nodes) <= most:
        return drawing
    ends = dict.fromkeys(end for remark in drawing.remarks_of(MISSING) for end in (remark.first, remark.second))
    near = around(drawing, ends, 2, most).nodes if ends else {}
    kept = list(near) + [name for name in drawing.nodes if name not in near]
    return _part(drawing, kept[:most])


def layers(drawing: Drawing) -> Layers:
    """Return the layers in which every form of the drawing shows its nodes."""
    return layered(drawing.nodes, ((arrow.first, arrow.second) for arrow in drawing.arrows))


SCHEMA: Final = "livedbg.graph/1"


def to_json(drawing: Drawing) -> str:
    document = {
        "schema": SCHEMA,
        "source": drawing.name,
        "notes": drawing.notes,
        "hidden": drawing.hidden,
        "nodes": [{"id": node.id, "kernel": node.label, "detail": node.detail} for node in drawing.nodes.values()],
        "edges": [
            {"from": arrow.first, "to": arrow.second, "state": arrow.state, "source": arrow.word}
            for arrow in drawing.arrows
        ],
        "remarks": [_remark(remark) for remark in drawing.remarks],
    }
    return json_bytes(document, pretty=True).decode() + "\n"


def _remark(remark: Remark) -> dict[str, Any]:
    said = {"kind": remark.kind, "from": remark.first, "to": remark.second, "text": remark.text}
    return {**said, "why": remark.why, "next": remark.next, **remark.facts}


_STYLES = {
    MISSING: (
        "style=dashed",
        'color="#c00000"',
        "penwidth=2.5",
        "arrowhead=open",
        'label="missing"',
        'fontcolor="#c00000"',
    ),
    INFERRED: ("style=dotted", 'tooltip="perhaps not directly"'),
    EXTRA: ("style=bold", "arrowhead=vee", 'label="only here"'),
}
_UPWARDS = "constraint=false"
"""Of an arrow that closes a cycle: it doesn't move the layers."""


def to_dot(drawing: Drawing) -> str:
    """Return the drawing as a digraph: `dot -Tsvg FILE`."""
    found = layers(drawing)
    lines = [f"digraph {_quoted(drawing.name)} {{"]
    lines += ["  rankdir=TB;", '  node [shape=box, style=rounded, fontname="sans-serif"];']
    if drawing.hidden:
        lines.append(f"  label={_quoted(many(drawing.hidden, 'more task is left out', 'more tasks are left out'))};")
    lines += _nodes(drawing)
    lines += [f"  {{ rank=same; {' '.join(f'{_quoted(name)};' for name in row)} }}" for row in found.rows]
    lines += [_edge(arrow, upwards=(arrow.first, arrow.second) in found.turned) for arrow in drawing.arrows]
    return "\n".join([*lines, "}"]) + "\n"


def _nodes(drawing: Drawing) -> Iterator[str]:
    ends = {end for arrow in drawing.arrows if arrow.state == MISSING for end in (arrow.first, arrow.second)}
    for name, node in drawing.nodes.items():
        label = "\n".join(filter(None, (name, node.label, node.detail)))
        drawn = [f"label={_quoted(label)}", *(("penwidth=2", "peripheries=2") if name in ends else ())]
        yield f"  {_quoted(name)}{_attributes(drawn)};"


def _edge(arrow: Arrow, *, upwards: bool) -> str:
    attributes = list(_STYLES.get(arrow.state, [f"tooltip={_quoted(arrow.word)}"] if arrow.word else []))
    if upwards:
        attributes.append(_UPWARDS)
    return f"  {_quoted(arrow.first)} -> {_quoted(arrow.second)}{_attributes(attributes)};"


def _attributes(given: Iterable[str]) -> str:
    text = ", ".join(given)
    return f" [{text}]" if text else ""


def _quoted(text: str) -> str:
    """Quote a string: a backslash begins Graphviz's own escapes, so it is doubled."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


_WIDTH = 100
_REMARKS = 20  # of one kind
_AFTER = 6  # predecessors of one task that are named
_SAID = {
    "missing": "Missing",
    "only-there": "Only in the other",
    "only-here": "Only here",
    "perhaps": "Perhaps missing (no finding)",
    "not-tracked": "Not tracked by the runtime (no finding)",
}


def to_text(drawing: Drawing, most: int) -> str:
    """Return the drawing as text, with `most` tasks at most, and 20 remarks of each kind."""
    return "\n".join(_lines(drawing, most)) + "\n"


def _lines(drawing: Drawing, most: int) -> Iterator[str]:
    missing = sum(arrow.state == MISSING for arrow in drawing.arrows)
    edges = len(drawing.arrows) - missing
    total = len(drawing.nodes) + drawing.hidden
    yield f"{drawing.name}: {many(total, 'task')}, {many(edges, 'edge')}, {missing or 'none'} missing"
    for note in drawing.notes:
        yield from wrap(f"  {note}", _WIDTH, subsequent_indent="  ")
    for kind, title in _SAID.items():
        remarks = drawing.remarks_of(kind)
        if remarks:
            yield ""
            yield f"{title}: {len(remarks)}"
            for remark in remarks[: min(most, _REMARKS)]:
                yield from _remark_lines(remark)
            if len(remarks) > min(most, _REMARKS):
                yield f"  … and {len(remarks) - min(most, _REMARKS)} more (--format json has all)"
    yield ""
    yield from _layers(drawing, most)


def _remark_lines(remark: Remark) -> Iterator[str]:
    sign = {"missing": "!!", "perhaps": "? ", "only-there": "- ", "only-here": "+ "}.get(remark.kind, "  ")
    yield f"  {sign} {remark.first} → {remark.second}"
    texts = [remark.text]
    texts += [f"most likely: {remark.why}"] if remark.why else []
    texts += [f"next: {step}" for step in remark.next]
    for text in texts:
        yield from wrap(text, _WIDTH, initial_indent="     ", subsequent_indent="       ", break_on_hyphens=False)


def _layers(drawing: Drawing, most: int) -> Iterator[str]:
    before: dict[str, list[Arrow]] = defaultdict(list)
    for arrow in drawing.arrows:
        before[arrow.second].append(arrow)
    ranks = layers(drawing).rows
    width = max((len(node.title) for node in drawing.nodes.values()), default=0)
    left = most
    for number, rank in enumerate(ranks):
        if left <= 0:
            break
        yield f"layer {number}: {many(len(rank), 'task')}"
        for name in rank[:left]:
            node = drawing.nodes[name]
            after = _after(before.get(name, ()))
            detail = f"  [{node.detail}]" if node.detail else ""
            yield f"  {node.title.ljust(min(width, 40))}{detail}{after}".rstrip()
        left -= len(rank)
    shown = min(most, len(drawing.nodes))
    rest = len(drawing.nodes) - shown + drawing.hidden
    if rest:
        yield f"… and {many(rest, 'more task')} (--limit, or --task ID --hops N)"


_STATES: Final = {MISSING: " (edge missing!)", EXTRA: " (only here)", INFERRED: " (perhaps not directly)"}


def _after(arrows: Sequence[Arrow]) -> str:
    if not arrows:
        return ""
    order = sorted(arrows, key=lambda arrow: arrow.state != MISSING)
    names = [f"{arrow.first}{_STATES.get(arrow.state, '')}" for arrow in order[:_AFTER]]
    more = f" and {len(order) - _AFTER} more" if len(order) > _AFTER else ""
    return f"  after {', '.join(names)}{more}"
