"""The lines that `watch --json` and `catch --json` print as things happen: one JSON object each.

Invariants:
    report_lines.P3. Each line has a `kind`; docs/report-schema.md lists all kinds with their keys, and no other. Every
        key of a kind is in each line of it.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from livedbg.analysis.diagnosis import Finding, Verdict
from livedbg.report.build import finding_out
from livedbg.report.document import EvidenceOut, ExceptionOut, ReportDocument
from livedbg.text.json_text import json_bytes
from livedbg.text.quantities import timestamp
from livedbg.text.typed import ready


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


LINES: Final[dict[str, type[Struct]]] = {
    "verdict": VerdictLine,
    "finding": FindingLine,
    "exception": ExceptionOut,
}
"""The value of `kind` -> what such a line holds."""


def verdict_line(verdict: Verdict, at_ns: int) -> VerdictLine:
    """Return the line for a verdict that was reached at a wall clock time."""
    since = verdict.since_wall_ns
    return VerdictLine(
        at=timestamp(at_ns),
        state=verdict.state.value,
        sentence=verdict.sentence,
        roots=verdict.roots,
        since=timestamp(since) if since is not None else None,
    )


def finding_line(name: str, finding: Finding, at_ns: int) -> FindingLine:
    """Return the line for a finding `F1` that was made at a wall clock time."""
    shown = finding_out(name, finding)
    return FindingLine(
        id=name,
        at=timestamp(at_ns),
        rule=shown.rule,
        severity=shown.severity,
        state=finding.state.value if finding.state is not None else None,
        sentence=shown.sentence,
        entities=shown.entities,
        roots=finding.roots,
        evidence=shown.evidence,
        next=shown.next,
        inferred=shown.inferred,
        since=shown.since,
        topic=finding.topic,
    )


def to_json(report: ReportDocument, *, pretty: bool = False) -> bytes:
    """Return the report as one line of JSON, or indented by two; without a newline at the end."""
    return json_bytes(report, pretty=pretty)


def from_json(data: bytes) -> ReportDocument:
    """Parse a report that `to_json` made.

    Raises:
        msgspec.DecodeError: not JSON, or not a report.
    """
    return msgspec.json.decode(data, type=ready(ReportDocument))
