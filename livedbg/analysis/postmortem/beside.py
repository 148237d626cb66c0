"""What the lines beside a failure say of it: the core, the node, the line of the user's source.

Invariants:
    beside.B1. It is said of the failure that the verdict rests on, in the same log and by the same writer, at most NEAR
        lines away; of the texts of one signature the nearest, and of two that are as near the later one.
    beside.B2. What the sentence has already is not said again.
    beside.B3. What ends a case (the mark BELOW) is said of the failure above it; the first such line is, and if it
        says that its case passed, none. What begins something (the mark ABOVE) is said of a failure below it only.
    beside.B5. Of further cases of the same signature (their value `case`) that failed in its log, and did not pass
        later, it is said how many and which; those that one signal ended, as often as it says, are told as one.
    beside.B7. What sums up a series of runs (the mark RUNS) is said of a failure above it, however far, with the
        other exceptions above it; that a child failed is none of these.
    beside.B4. It explains no exception: a crash in whose own lines it stands is told as one.
    beside.B6. What only tells a place (the mark UNPLACED) is not said of an exception whose frames have a line.
    beside.D1. A crash is `diverged` if a comparison of results that failed (the mark COMPARED) is in its own lines, or
        if nothing else is known of it. What shows that a crash was survived shows it of such a comparison too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.postmortem.exceptions import RAISES, exception_of
from livedbg.model import Diagnostic, ExceptionHit
from livedbg.model.snapshot import Snapshot
from livedbg.text.wording import listing, many, with_phrases

NEAR: Final = 12
"""Lines."""
BESIDE: Final = "beside"
COMPARED: Final = "compared"
BELOW: Final = "below"
ABOVE: Final = "above"
UNPLACED: Final = "unplaced"
RUNS: Final = "runs"
_OF_CHILDREN: Final = frozenset({"CalledProcessError", "ChildFailedError", "SystemExit"})
_BY_SIGNAL: Final = 128
"""A shell's exit status of a program that a signal ended is larger (POSIX, 2.8.2)."""
_NAMED: Final = 4
_FAILED: Final = frozenset({VerdictState.CRASHED, VerdictState.DIVERGED, VerdictState.STALLED, VerdictState.UNKNOWN})


def with_beside(findings: Sequence[Finding], snapshot: Snapshot) -> Sequence[Finding]:
    """Return the findings; the first that has a state says what stands beside it in its log."""
    told = [
        said for said in snapshot.diagnostics.values() if said.message.ends == BESIDE or said.message.values.get("case")
    ]
    at = next((at for at, finding in enumerate(findings) if finding.state in _FAILED), None) if told else None
    if at is None:
        return findings
    hit = exception_of(findings[at], snapshot)
    found = _beside(findings[at], [said for said in told if said.message.ends == BESIDE], hit)
    beside = [said for said in found if not said.message.values.get("passed")]
    more = {said.sentence: said.message.values.get("tells", "") for said in beside}
    runs = next((said for said in beside if RUNS in said.message.marks), None)
    if hit is not None and runs is not None and (others := _others(hit, runs.message.first, snapshot)):
        more[others] = ""
    if (case := _case_of(findings[at], beside, told)) is not None:
        more = _with_cases(more, case, told, hit.count if hit is not None else 1)
    finding = replace(findings[at], sentence=with_phrases(findings[at].sentence, more))
    if finding.state is VerdictState.CRASHED and any(COMPARED in said.message.marks for said in beside):
        finding = replace(finding, state=VerdictState.DIVERGED)
    return [*findings[:at], finding, *findings[at + 1 :]]


def _others(own: ExceptionHit, until: int, snapshot: Snapshot) -> str:
    """Return `others by OutOfMemoryError (4 times)`, or ""."""
    counts = Counter[str]()
    for hit in snapshot.exceptions.values():
        name = hit.type.rpartition(".")[2]
        if hit is not own and hit.source == own.source and (hit.line or 0) < until and name not in _OF_CHILDREN:
            counts[name] += hit.count
    told = (f"{name} ({times} times)" if times > 1 else name for name, times in counts.most_common(_NAMED))
    return f"others by {listing(list(told))}" if counts else ""


def _case_of(finding: Finding, beside: Sequence[Diagnostic], told: Sequence[Diagnostic]) -> Diagnostic | None:
    """Return the case that a failure was in: one that ended below it, or its own."""
    places = {(proof.log, proof.line) for proof in finding.evidence[:1]}
    own = (said for said in told if said.message.ends != BESIDE and (said.log, said.message.first) in places)
    return next((said for said in beside if said.message.values.get("case")), next(own, None))


def _with_cases(more: Mapping[str, str], own: Diagnostic, told: Iterable[Diagnostic], times: int) -> dict[str, str]:
    """Return the phrases, with the further cases of the log of one that failed (B5)."""
    kind = (own.log, own.writer, own.message.signature)
    said_of = {
        said.message.values.get("case", ""): said
        for said in sorted(told, key=lambda said: said.message.last)
        if (said.log, said.writer, said.message.signature) == kind
    }
    failed = {name: said for name, said in said_of.items() if not said.message.values.get("passed")}
    status = own.message.values.get("status", "")
    alike = [name for name, said in failed.items() if said.message.values.get("status") == status]
    if status.isdigit() and int(status) > _BY_SIGNAL and len(alike) == times > 1:
        phrase = f"in {many(len(alike), 'test')}: {_named(alike)}"
        told_as = {phrase if said == own.sentence else said: words for said, words in more.items()}
    else:
        alike, told_as = [own.message.values.get("case", "")], dict(more)
    if others := [name for name in failed if name not in alike]:
        kind_of = own.message.values.get("of", "test")
        told_as[f"and {many(len(others), f'more {kind_of}')} failed: {_named(others)}"] = ""
    return told_as


def _named(names: Sequence[str]) -> str:
    return listing(names) if len(names) <= _NAMED else f"{', '.join(names[:_NAMED])}, …"


def _is_in(said: Diagnostic, hit: ExceptionHit | None) -> bool:
    return hit is not None and (hit.first_line or hit.line or 0) <= said.message.first <= (hit.line or 0)


def _beside(finding: Finding, told: Iterable[Diagnostic], hit: ExceptionHit | None) -> Iterable[Diagnostic]:
    """Return what is said beside a finding, and of comparisons what is said in its own lines, or its exception's."""
    log = next((proof.log for proof in finding.evidence), "")
    placed = hit is not None and any(frame.line for frame in hit.stack)
    spans = [
        (proof.line, proof.line + proof.text.count("\n"))
        for proof in finding.evidence
        if proof.line is not None and proof.log == log
    ]
    if not spans:
        return ()
    found: dict[str, tuple[int, Diagnostic]] = {}
    for said in told:
        if said.log != log or (finding.writer and said.writer and said.writer != finding.writer):
            continue
        if RAISES in said.message.marks or (placed and UNPLACED in said.message.marks):
            continue
        lines = (said.message.first, said.message.last)
        if BELOW in said.message.marks:
            below = said.message.first - spans[0][1]
            away = (min(below, NEAR) if RUNS in said.message.marks else below) if below >= 0 else NEAR + 1
        elif ABOVE in said.message.marks:
            above = spans[0][0] - said.message.last
            away = above if above >= 0 else NEAR + 1
        else:
            away = min(max(first - at, at - last, 0) for first, last in spans for at in lines)
        if COMPARED in said.message.marks and away and not _is_in(said, hit):
            continue
        known = found.get(said.message.signature)
        if away <= NEAR and (known is None or away <= known[0]):
            found[said.message.signature] = (away, said)
    return [said for _, said in found.values()]
