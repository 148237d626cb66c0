"""A drawing as `livedbg.graph/1`: nodes, edges, and what is missing, for programs."""

from __future__ import annotations

from typing import Any, Final

from livedbg.graphs.drawing import Drawing, Remark
from livedbg.text.json_text import json_bytes

SCHEMA: Final = "livedbg.graph/1"


def to_json(drawing: Drawing) -> str:
    """The drawing as one JSON object."""
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
