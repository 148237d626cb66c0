"""What the lines beside a failure say of it: the core, the node, the line of the user's source.

Invariants:
    beside.B1. It is said of the failure that the verdict rests on, in the same log and by the same writer, at most NEAR
        lines away; of the texts of one signature the nearest, and of two that are as near the later one.
    beside.B2. What the sentence has already is not said again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.model import Diagnostic
from livedbg.model.snapshot import Snapshot
from livedbg.text.patterns import lazy_re

NEAR: Final = 12
"""Lines."""
BESIDE: Final = "beside"
_FAILED: Final = frozenset({VerdictState.CRASHED, VerdictState.DIVERGED, VerdictState.STALLED, VerdictState.UNKNOWN})
_MOST: Final = 3
_FIRST: Final = lazy_re(r".{20,}?(?=\. (?:[A-Z]|\d+ more\b))", re.DOTALL)
"""A first sentence that others follow."""


def with_beside(findings: Sequence[Finding], snapshot: Snapshot) -> Sequence[Finding]:
    """Return the findings; the first that has a state says what stands beside it in its log."""
    told = [said for said in snapshot.diagnostics.values() if said.message.ends == BESIDE]
    at = next((at for at, finding in enumerate(findings) if finding.state in _FAILED), None) if told else None
    if at is None:
        return findings
    more = list(_beside(findings[at], told))[:_MOST]
    return [*findings[:at], _saying(findings[at], more), *findings[at + 1 :]] if more else findings


def _beside(finding: Finding, told: Iterable[Diagnostic]) -> Iterator[str]:
    log = next((proof.log for proof in finding.evidence), "")
    spans = [
        (proof.line, proof.line + proof.text.count("\n"))
        for proof in finding.evidence
        if proof.line is not None and proof.log == log
    ]
    if not spans:
        return
    found: dict[str, tuple[int, Diagnostic]] = {}
    for said in told:
        if said.log != log or (finding.writer and said.writer and said.writer != finding.writer):
            continue
        lines = (said.message.first, said.message.last)
        away = min(max(first - at, at - last, 0) for first, last in spans for at in lines)
        known = found.get(said.message.signature)
        if away <= NEAR and (known is None or away <= known[0]):
            found[said.message.signature] = (away, said)
    for _, said in found.values():
        tells = said.message.values.get("tells") or said.sentence
        if tells not in finding.sentence:
            yield said.sentence


def _saying(finding: Finding, more: Sequence[str]) -> Finding:
    first = _FIRST.match(finding.sentence)
    begun = first[0] if first is not None else finding.sentence.rstrip(".")
    return replace(finding, sentence=f"{begun}, {', '.join(more)}{finding.sentence[len(begun) :] or '.'}")
