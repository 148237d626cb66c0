"""A report that is short enough to paste: what the verdict rests on, and the stacks that explain it."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET, structs

from livedbg.report.document import ReportDocument

_FINDINGS: Final = 5
_EVIDENCE: Final = 3
_STACKS: Final = 4
_FRAMES: Final = 16
_ENTITIES: Final = 50


def brief(report: ReportDocument) -> ReportDocument:
    """The same report with the findings of the verdict, a few stacks and what these name; `omitted` counts the rest."""
    bearing = [one for one in report.findings if one.id in report.verdict.findings] or list(report.findings)
    findings = tuple(
        structs.replace(one, entities=one.entities[:_ENTITIES], evidence=one.evidence[:_EVIDENCE])
        for one in bearing[:_FINDINGS]
    )
    stacks = tuple(structs.replace(one, frames=one.frames[:_FRAMES]) for one in report.stacks[:_STACKS])
    wanted = dict.fromkeys((*report.verdict.roots, *(name for one in findings for name in one.entities)))
    kept = [name for name in wanted if name in report.entities][:_ENTITIES]
    inside = {*kept, *(thread for stack in stacks for thread in stack.threads[:_STACKS])}
    entities = {
        name: structs.replace(known, stack=(), stack_of=UNSET) if isinstance(known.stack, tuple) else known
        for name, known in report.entities.items()
        if name in inside
    }
    edges = tuple(edge for edge in report.edges if edge.source in entities and edge.target in entities)
    omitted = {
        **report.omitted,
        "entities": report.omitted.get("entities", 0) + len(report.entities) - len(entities),
        "edges": report.omitted.get("edges", 0) + len(report.edges) - len(edges),
        "findings": len(report.findings) - len(findings),
        "stacks": len(report.stacks) - len(stacks),
    }
    return structs.replace(
        report, findings=findings, stacks=stacks, entities=entities, edges=edges, logs=(), omitted=omitted
    )
