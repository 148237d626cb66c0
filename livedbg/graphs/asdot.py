"""A drawing in Graphviz's language (graphviz.org/doc/info/lang.html): names quoted, what is missing drawn otherwise."""

from __future__ import annotations

from livedbg.graphs.drawing import EXTRA, MISSING, Arrow, Drawing
from livedbg.text.wording import many

__all__ = ["to_dot"]

_STYLES = {
    MISSING: ' [style=dashed, color="#c00000", penwidth=2.5, arrowhead=open, label="missing", fontcolor="#c00000"]',
    EXTRA: ' [style=bold, arrowhead=vee, label="only here"]',
}


def to_dot(drawing: Drawing) -> str:
    """The drawing as a digraph: `dot -Tsvg FILE`."""
    lines = [f"digraph {_quoted(drawing.name)} {{"]
    lines += ["  rankdir=TB;", '  node [shape=box, style=rounded, fontname="sans-serif"];']
    if drawing.hidden:
        lines.append(f"  label={_quoted(many(drawing.hidden, 'more task is left out', 'more tasks are left out'))};")
    ends = {end for arrow in drawing.arrows if arrow.state == MISSING for end in (arrow.first, arrow.second)}
    for name, node in drawing.nodes.items():
        label = "\n".join(filter(None, (name, node.label, node.detail)))
        look = ", penwidth=2, peripheries=2" if name in ends else ""
        lines.append(f"  {_quoted(name)} [label={_quoted(label)}{look}];")
    lines += [f"  {_quoted(arrow.first)} -> {_quoted(arrow.second)}{_style(arrow)};" for arrow in drawing.arrows]
    return "\n".join([*lines, "}"]) + "\n"


def _style(arrow: Arrow) -> str:
    tip = f" [tooltip={_quoted(arrow.word)}]" if arrow.word else ""
    return _STYLES.get(arrow.state, tip)


def _quoted(text: str) -> str:
    """A quoted string: a backslash begins Graphviz's own escapes, so it is doubled."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
