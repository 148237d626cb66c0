"""Which findings are claims that have to be read again, and which of these were (livedbg.model.claims).

A rule sees one snapshot, whose facts were read one after the other: the word of a lock, then the list of threads. It
can't know whether all of them held at one moment. So no rule decides that: every finding passes here on its way to the
verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import structs

from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.model import EdgeKey, EdgeKind, Process, Thread, ThreadState, ids
from livedbg.model.claims import Claim
from livedbg.model.snapshot import Snapshot

__all__ = ["ReadAgain", "claim_of", "read_again"]

_CLAIMS: Final = frozenset({VerdictState.DEADLOCK, VerdictState.STALLED, VerdictState.CRASHED})
_UNCERTAIN: Final = "it could not be read twice without a change in between"
_MOST_STILL: Final = 1_000
"""Threads of one claim that are read again one by one; a cycle can have a million."""


class ReadAgain(NamedTuple):
    """The findings that may be reported now, and all claims of living processes among the findings, by key.

    Attributes:
        unread: keys of the claims that have to be read again: for the first time, or because a thread has run.
    """

    findings: list[Finding]
    claims: Mapping[str, Claim]
    unread: frozenset[str]


def read_again(findings: Iterable[Finding], snapshot: Snapshot) -> ReadAgain:
    """Leave out the claims that were not read again (C1).

    Where nobody reads anything again (a recording of before 0.2, a state that a test has made), all are reported.
    """
    known = snapshot.claims
    reported: list[Finding] = []
    claims: dict[str, Claim] = {}
    unread: set[str] = set()
    for finding in findings:
        claim = claim_of(finding, snapshot) if known is not None else None
        if claim is None or known is None:
            reported.append(finding)
            continue
        claims[claim.key] = claim
        before = known.get(claim.key)
        if before is not None:
            reported.append(finding if before.confirmed else _unconfirmed(finding))
        if before is None or not before.confirmed or _has_run(before, snapshot):
            unread.add(claim.key)
    return ReadAgain(reported, claims, frozenset(unread))


def _unconfirmed(finding: Finding) -> Finding:
    """The finding of a claim that can't be confirmed (C3)."""
    sentence = f"{finding.sentence} This is not certain: {_UNCERTAIN}."
    return structs.replace(finding, state=VerdictState.UNKNOWN, inferred=True, sentence=sentence, decides=True)


def claim_of(finding: Finding, snapshot: Snapshot) -> Claim | None:
    """The claim that a finding makes of living processes; None for one that decides nothing or is about the past."""
    if finding.state not in _CLAIMS or not _alive(finding, snapshot):
        return None
    about = sorted({*(finding.roots or finding.entities), *finding.gone})
    threads = [thread for name in finding.entities if (thread := snapshot.threads.get(name)) is not None]
    gils = [name for name, lock in snapshot.resources.items() if lock.kind == "gil"]
    still = {thread.id: thread.switches or 0 for thread in threads[:_MOST_STILL] if _is_still(thread, gils, snapshot)}
    ended = [name for name in finding.entities if _ended(name, snapshot)]
    return Claim(" ".join((finding.rule, *about)), still, tuple(dict.fromkeys((*finding.gone, *ended))))


def _alive(finding: Finding, snapshot: Snapshot) -> bool:
    """Whether a finding is about something that lives: tasks and devices do as long as some target does."""
    if finding.state is VerdictState.CRASHED and not any(proof.kind == "memory" for proof in finding.evidence):
        return False  # an end that was seen, or a record that was written: neither becomes untrue
    return any(not process.exited for process in _processes_of(finding, snapshot))


def _processes_of(finding: Finding, snapshot: Snapshot) -> Iterator[Process]:
    named = [owner for name in finding.entities if (owner := ids.process_of(name)) is not None]
    if named:
        yield from (snapshot.processes[name] for name in named if name in snapshot.processes)
    else:
        yield from (process for process in snapshot.processes.values() if process.target)


def _is_still(thread: Thread, gils: Sequence[str], snapshot: Snapshot) -> bool:
    """Whether it can't have run if it waits as it is said to. Who waits for the GIL wakes to ask for it."""
    if thread.exited or thread.state not in (ThreadState.WAITING, ThreadState.DISK) or thread.switches is None:
        return False
    asks = any(EdgeKey(EdgeKind.WAITS_FOR, thread.id, gil) in snapshot.waits for gil in gils)
    return thread.timed is False and not asks


def _ended(name: str, snapshot: Snapshot) -> bool:
    thread, process = snapshot.threads.get(name), snapshot.processes.get(name)
    return (thread is not None and thread.exited) or (process is not None and process.exited)


def _has_run(claim: Claim, snapshot: Snapshot) -> bool:
    """Whether a thread of a claim has run since it was read again."""
    threads = ((snapshot.threads.get(name), runs) for name, runs in claim.still.items())
    return any(thread is None or thread.exited or thread.switches != runs for thread, runs in threads)
