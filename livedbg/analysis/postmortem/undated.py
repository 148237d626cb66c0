"""Times of logs whose year or boot nobody wrote down: they are not said.

Invariants:
    undated.U1. A finding that rests on a log whose times are a guess has no time, nor has that log's evidence.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from livedbg.analysis.diagnosis import Finding
from livedbg.model.snapshot import Snapshot


def without_guessed_times(findings: Sequence[Finding], snapshot: Snapshot) -> Sequence[Finding]:
    """Return the findings without times that are a guess (U1)."""
    logs = {log.id for log in snapshot.log_sources.values() if log.undated}
    return [_undated(finding, logs) for finding in findings] if logs else findings


def _undated(finding: Finding, logs: set[str]) -> Finding:
    if not any(proof.log in logs for proof in finding.evidence):
        return finding
    proofs = tuple(replace(proof, at_wall_ns=None) if proof.log in logs else proof for proof in finding.evidence)
    since_ns = None if finding.evidence[0].log in logs else finding.since_wall_ns
    return replace(finding, evidence=proofs, since_wall_ns=since_ns)
