"""Makes the report document of a state, a brief one for pasting, and the lines that are printed as things happen.

A report names every entity of every finding and all that takes part in a wait. Of very many, those that matter most are
kept; `omitted` says how many were left out. `watch --json` and `catch --json` print one JSON object a line.

Invariants:
    report_lines.P3. Each line has a `kind`; docs/report-schema.md lists all kinds with their keys, and no other. Every
        key of a kind is in each line of it.
"""

from __future__ import annotations

from typing import Final

from msgspec import UNSET, Struct, structs

from livedbg.analysis.diagnosis import Diagnosis, Finding, Verdict
from livedbg.model import Edge, EdgeKind, EdgeState, ExceptionHit, Frame, SourceHealth
from livedbg.model.snapshot import Snapshot
from livedbg.report.document import (
    SCHEMA,
    EdgeOut,
    EvidenceOut,
    ExceptionOut,
    FindingOut,
    IntrusionsOut,
    LimitOut,
    LogOut,
    ReportDocument,
    TargetOut,
    TouchOut,
    VerdictOut,
)
from livedbg.report.entities import (
    chosen_entities,
    entity_out,
    frames_out,
    out_of,
    place_out,
    stack_groups,
    stacks_of_others,
)
from livedbg.session.view import Update
from livedbg.text.quantities import timestamp

_MOST_EDGES: Final = 20_000


def _time(wall_ns: int | None) -> str | None:
    return timestamp(wall_ns) if wall_ns is not None else None


def build(update: Update) -> ReportDocument:
    return report_of(update.snapshot, update.diagnosis)


def report_of(snapshot: Snapshot, diagnosis: Diagnosis) -> ReportDocument:
    """Return the report of a state and the diagnosis of that very state."""
    chosen, left_out = chosen_entities(snapshot, diagnosis)
    inside = set(chosen)
    edges = [edge for edge in snapshot.edges.values() if _shown(edge, inside)]
    stacks = stack_groups(chosen, snapshot, diagnosis)
    others = stacks_of_others(stacks, diagnosis)
    return ReportDocument(
        schema=SCHEMA,
        taken_at=timestamp(now_ns) if (now_ns := snapshot.now().wall_ns) else "",
        targets=_targets(snapshot),
        verdict=_verdict(snapshot, diagnosis),
        findings=tuple(finding_out(name, finding) for name, finding in diagnosis.findings.items()),
        entities={
            entity: entity_out(entity, snapshot, diagnosis, stack_of=others.get(entity, "")) for entity in chosen
        },
        edges=tuple(out_of(EdgeOut, edge) for edge in edges[:_MOST_EDGES]),
        exceptions=tuple(exception_out(hit) for hit in snapshot.exceptions.values()),
        intrusions=_intrusions(snapshot),
        logs=tuple(out_of(LogOut, log) for log in snapshot.log_sources.values()),
        limits=tuple(
            out_of(LimitOut, one, health=one.health.value)
            for one in snapshot.statuses.values()
            if one.health is not SourceHealth.OK
        ),
        omitted={
            "entities": left_out,
            "edges": max(0, len(edges) - _MOST_EDGES),
            "processes": snapshot.forgotten_processes,
            "touches": snapshot.touches.count - len(snapshot.intrusions),
        },
        stacks=stacks,
    )


def _targets(snapshot: Snapshot) -> tuple[TargetOut, ...]:
    return tuple(
        out_of(TargetOut, one, state="exited" if one.exited else one.state.value)
        for one in snapshot.processes.values()
        if one.target
    )


def _verdict(snapshot: Snapshot, diagnosis: Diagnosis) -> VerdictOut:
    verdict, chief = diagnosis.verdict, diagnosis.chief
    place = _place(snapshot, diagnosis)
    return out_of(
        VerdictOut,
        verdict,
        state=verdict.state.value,
        findings=_bearing(diagnosis),
        since=_time(verdict.since_wall_ns),
        finding=verdict.chief or None,
        who=diagnosis.who or None,
        where=place_out(place) if place is not None else None,
        holder=(chief.holder or None) if chief is not None else None,
        certainty=("inferred" if chief.inferred else "read") if chief is not None else None,
    )


def _place(snapshot: Snapshot, diagnosis: Diagnosis) -> Frame | None:
    """Return the frame in the user's code that the verdict is about, or where what ended it was raised."""
    if snapshot.exceptions and diagnosis.chief is not None:
        from livedbg.analysis.postmortem.exceptions import exception_of

        hit = exception_of(diagnosis.chief, snapshot)
        if hit is not None and hit.stack:
            return diagnosis.code.frame_of(hit.stack)
    process = snapshot.processes.get(diagnosis.who)
    thread = diagnosis.who if process is None else f"thread:{process.host}/{process.pid}/{process.pid}"
    return diagnosis.code.frame(snapshot.stacks.get(thread))


def _bearing(diagnosis: Diagnosis) -> tuple[str, ...]:
    verdict = diagnosis.verdict
    same = [name for name, f in diagnosis.findings.items() if f.state is verdict.state]
    return tuple(dict.fromkeys([*([verdict.chief] if verdict.chief else []), *same]))


def finding_out(name: str, finding: Finding) -> FindingOut:
    evidence = tuple(
        out_of(EvidenceOut, proof, source=proof.place, at=_time(proof.at_wall_ns), file=proof.file or None)
        for proof in finding.evidence
    )
    return out_of(
        FindingOut,
        finding,
        id=name,
        severity=finding.severity.value,
        evidence=evidence,
        since=_time(finding.since_wall_ns),
    )


def _shown(edge: Edge, inside: set[str]) -> bool:
    """Return whether an edge still means something, and is between entities that the report names."""
    wanted = edge.state is not EdgeState.SATISFIED and edge.kind not in (EdgeKind.PART_OF, EdgeKind.GIVES)
    return wanted and edge.source in inside and edge.target in inside


def exception_out(hit: ExceptionHit) -> ExceptionOut:
    return out_of(
        ExceptionOut,
        hit,
        kind="exception",
        at=_time(hit.at_wall_ns),
        stack=frames_out(hit.stack),
        first=_time(hit.first_wall_ns),
        operation=hit.operation or None,
    )


def _intrusions(snapshot: Snapshot) -> IntrusionsOut:
    touches = tuple(
        out_of(TouchOut, one, at=_time(one.at_wall_ns), paused_ms=one.paused_ns / 1e6) for one in snapshot.intrusions
    )
    return out_of(IntrusionsOut, snapshot.touches, paused_ms=snapshot.touches.paused_ns / 1e6, touches=touches)


_FINDINGS: Final = 5
_EVIDENCE: Final = 3
_STACKS: Final = 4
_FRAMES: Final = 16
_ENTITIES: Final = 50


def brief(report: ReportDocument) -> ReportDocument:
    """Return the report with the findings of the verdict, a few stacks and their entities; `omitted` counts others."""
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


class VerdictLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="verdict"):
    """The state of the verdict changed, or its roots."""

    at: str
    state: str
    sentence: str
    roots: tuple[str, ...]
    since: str | None


class FindingLine(Struct, frozen=True, kw_only=True, tag_field="kind", tag="finding"):
    """A new finding. `state` is null if it decides nothing by itself."""

    id: str
    at: str
    rule: str
    severity: str
    state: str | None
    sentence: str
    entities: tuple[str, ...]
    roots: tuple[str, ...]
    evidence: tuple[EvidenceOut, ...]
    next: tuple[str, ...]
    inferred: bool
    since: str | None
    topic: str


LINES: Final[dict[str, type[Struct]]] = {"verdict": VerdictLine, "finding": FindingLine, "exception": ExceptionOut}
"""The value of `kind` -> what such a line holds."""


def verdict_line(verdict: Verdict, at_ns: int) -> VerdictLine:
    """Return the line for a verdict that was reached at a wall clock time."""
    return out_of(
        VerdictLine, verdict, at=timestamp(at_ns), state=verdict.state.value, since=_time(verdict.since_wall_ns)
    )


def finding_line(name: str, finding: Finding, at_ns: int) -> FindingLine:
    """Return the line for a finding `F1` that was made at a wall clock time."""
    state = finding.state.value if finding.state is not None else None
    shown = finding_out(name, finding)
    return out_of(FindingLine, shown, at=timestamp(at_ns), state=state, roots=finding.roots, topic=finding.topic)
