"""A drawing in Graphviz's language (graphviz.org/doc/info/lang.html): names quoted, what is missing drawn otherwise.

The layers are those of the page and the text (`rank=same`), so that a task is in the same row in all formats.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from livedbg.graphs.drawing import EXTRA, INFERRED, MISSING, Arrow, Drawing, Node, layers
from livedbg.text.wording import many

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
    """The drawing as a digraph: `dot -Tsvg FILE`."""
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
        label = f"label={_quoted(_label(name, node))}"
        yield f"  {_quoted(name)}{_attributes([label, 'penwidth=2', 'peripheries=2'] if name in ends else [label])};"


def _label(name: str, node: Node) -> str:
    return "\n".join(filter(None, (name, node.label, node.detail)))


def _edge(arrow: Arrow, *, upwards: bool) -> str:
    attributes = list(_STYLES.get(arrow.state, [f"tooltip={_quoted(arrow.word)}"] if arrow.word else []))
    if upwards:
        attributes.append(_UPWARDS)
    return f"  {_quoted(arrow.first)} -> {_quoted(arrow.second)}{_attributes(attributes)};"


def _attributes(given: Iterable[str]) -> str:
    text = ", ".join(given)
    return f" [{text}]" if text else ""


def _quoted(text: str) -> str:
    """A quoted string: a backslash begins Graphviz's own escapes, so it is doubled."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
