"""The diagnosis engine: runs the rules over a snapshot, holds back unconfirmed claims, and ranks the findings.

It keeps the wait-for graph from one snapshot to the next, and updates it by the changes. It also decides which findings
are claims that have to be read again, and which of these were (livedbg.model.claims).

A rule sees one snapshot, whose facts were read one after the other: the word of a lock, then the list of threads. It
can't know whether all of them held at one moment. So no rule decides that: every finding passes here on its way to the
verdict.

Invariants:
    graph_keeper.K1. The graph of a snapshot answers as the one of a fresh keeper would.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Final, NamedTuple

from msgspec import structs

from livedbg.analysis.behaviour import doing
from livedbg.analysis.blocking import blocking_of, standing_of
from livedbg.analysis.diagnosis import NO_DIAGNOSIS, Diagnosis, Finding, VerdictState, WaitGraph
from livedbg.analysis.graph import LARGE, Graph
from livedbg.analysis.layered import Arc
from livedbg.analysis.rules.base import Judged, Rule, RuleInput, Settings
from livedbg.analysis.rules.chapters import is_told
from livedbg.analysis.tasks import TaskIndex
from livedbg.analysis.user_code import NO_FRAMEWORKS, UserCode
from livedbg.analysis.verdict import ranked, verdict_of
from livedbg.analysis.wiring import rewired, wired
from livedbg.model import EdgeKey, EdgeKind, Process, Thread, ThreadState, ids
from livedbg.model.claims import Claim
from livedbg.model.snapshot import EMPTY, Snapshot
from livedbg.text.wording import with_one_stop

_CLAIMS: Final = frozenset({VerdictState.DEADLOCK, VerdictState.STALLED, VerdictState.CRASHED})
_UNCERTAIN: Final = "it could not be read twice without a change in between"
_MOST_STILL: Final = 1_000
"""Threads of one claim that are read again one by one; a cycle can have a million."""


class ReadAgain(NamedTuple):
    """The findings to report now, all claims about living processes by key, and the keys of claims to read again."""

    findings: list[Finding]
    claims: Mapping[str, Claim]
    unread: frozenset[str]


def read_again(findings: Iterable[Finding], snapshot: Snapshot) -> ReadAgain:
    """Leave out the claims that were not read again (C1).

    If nobody reads claims again (a recording of before 0.2, a state made by a test), all are reported.
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
    sentence = f"{finding.sentence} This is not certain: {_UNCERTAIN}."
    return structs.replace(finding, state=VerdictState.UNKNOWN, inferred=True, sentence=sentence, decides=True)


def claim_of(finding: Finding, snapshot: Snapshot) -> Claim | None:
    """Return the claim of a finding about living processes; None if it decides nothing or is about the past."""
    if finding.state not in _CLAIMS or not _alive(finding, snapshot):
        return None
    about = sorted({*(finding.roots or finding.entities), *finding.gone})
    threads = [thread for name in finding.entities if (thread := snapshot.threads.get(name)) is not None]
    gils = [name for name, lock in snapshot.resources.items() if lock.kind == "gil"]
    still = {thread.id: thread.switches or 0 for thread in threads[:_MOST_STILL] if _is_still(thread, gils, snapshot)}
    ended = [name for name in finding.entities if _ended(name, snapshot)]
    return Claim(" ".join((finding.rule, *about)), still, tuple(dict.fromkeys((*finding.gone, *ended))))


def _alive(finding: Finding, snapshot: Snapshot) -> bool:
    """Return whether a finding is about something that lives: tasks and devices live as long as any target does."""
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
    """Return whether a thread can't have run if its wait is as reported; a waiter for the GIL wakes to request it."""
    if thread.exited or thread.state not in (ThreadState.WAITING, ThreadState.DISK) or thread.switches is None:
        return False
    asks = any(EdgeKey(EdgeKind.WAITS_FOR, thread.id, gil) in snapshot.waits for gil in gils)
    return thread.timed is False and not asks


def _ended(name: str, snapshot: Snapshot) -> bool:
    thread, process = snapshot.threads.get(name), snapshot.processes.get(name)
    return (thread is not None and thread.exited) or (process is not None and process.exited)


def _has_run(claim: Claim, snapshot: Snapshot) -> bool:
    threads = ((snapshot.threads.get(name), runs) for name, runs in claim.still.items())
    return any(thread is None or thread.exited or thread.switches != runs for thread, runs in threads)


_MUCH: Final = 100_000
"""Changed arcs above which all is made anew."""


class GraphKeeper:
    """The wait-for graph, updated from snapshot to snapshot."""

    def __init__(self) -> None:
        self._snapshot: Snapshot = EMPTY
        self._standing = standing_of(EMPTY)
        self._graph: Graph | None = None
        self._others: frozenset[Arc] = frozenset()  # of the graph, but for the plain dependencies

    def graph_of(self, snapshot: Snapshot) -> Graph:
        """Return the graph of `snapshot`; the former one if edges, resources and living threads are the same."""
        before, self._snapshot = self._snapshot, snapshot
        standing = self._standing
        if snapshot.threads is not before.threads or snapshot.processes is not before.processes:
            standing = standing_of(snapshot)
        same = snapshot.edges is before.edges and snapshot.resources is before.resources and standing == self._standing
        self._standing = standing
        if self._graph is None or not same:
            self._graph = self._next(before, snapshot, self._graph)
        return self._graph

    def _next(self, before: Snapshot, snapshot: Snapshot, graph: Graph | None) -> Graph:
        blocking, names = blocking_of(snapshot), snapshot.names
        pairs = dict.fromkeys(blocking.pairs)
        arcs = {(names.of(a), names.of(b)): None for a, b in pairs if not _depends(snapshot, a, b)}
        former, self._others = self._others, frozenset(arcs)
        large = len(snapshot.edges) >= LARGE
        if graph is not None and large and graph.large and names is before.names:
            maybe = _changed(before, snapshot)
            if maybe is not None:
                maybe |= former ^ self._others
                added = sorted(arc for arc in maybe if _is_arc(arc, snapshot, self._others))
                now = set(added)
                wiring = graph.wiring
                fresh = [arc for arc in added if not wiring.arcs.has(arc)]
                gone = [arc for arc in sorted(maybe) if arc not in now and wiring.arcs.has(arc)]
                return Graph(snapshot, rewired(wiring, fresh, gone), blocking, large=True)
        plain = chain.from_iterable(shard.values() for shard in snapshot.dependencies.shards)
        return Graph(snapshot, wired(names.names, chain(plain, arcs)), blocking, large=large)


def _changed(before: Snapshot, after: Snapshot) -> set[Arc] | None:
    """Return the plain dependencies that were added or removed; None if a rebuild is cheaper."""
    old, new = before.dependencies.shards, after.dependencies.shards
    if len(old) != len(new):
        return None
    found: set[Arc] = set()
    for then, now in zip(old, new, strict=True):
        if then is not now:
            found.update(now[key] if key in now else then[key] for key in then.keys() ^ now.keys())
            if len(found) > _MUCH:
                return None
    return found


def _is_arc(arc: Arc, snapshot: Snapshot, others: frozenset[Arc]) -> bool:
    names = snapshot.names.names
    return arc in others or _depends(snapshot, names[arc[0]], names[arc[1]])


def _depends(snapshot: Snapshot, source: str, target: str) -> bool:
    return EdgeKey(EdgeKind.DEPENDS_ON, source, target) in snapshot.dependencies


def _with_one_stop(finding: Finding) -> Finding:
    sentence = with_one_stop(finding.sentence)
    return finding if sentence == finding.sentence else structs.replace(finding, sentence=sentence)


class Diagnostician:
    """Diagnoses one snapshot after another, reusing what didn't change (the graph, the tasks)."""

    def __init__(
        self,
        rules: Sequence[Rule],
        settings: Settings | None = None,
        judged: Judged | None = None,
        code: UserCode = NO_FRAMEWORKS,
    ) -> None:
        self._settings = settings or Settings()
        self._judged = judged or Judged()
        self._rules = tuple(rules)
        self._code = code
        self._graphs = GraphKeeper()
        self._tasks = TaskIndex()

    def diagnose(self, snapshot: Snapshot) -> Diagnosis:
        """Diagnose `snapshot` as of the last scan (snapshot.S3), as a fresh diagnostician would."""
        if not snapshot.revision:
            return NO_DIAGNOSIS
        snapshot = snapshot.as_of_looks()
        graph: WaitGraph = self._graphs.graph_of(snapshot)
        self._tasks.update(snapshot)
        state = RuleInput(snapshot, graph, self._settings, self._tasks, self._judged, self._code)
        made = (finding for rule in self._rules for finding in rule.apply(state))
        if is_told(snapshot):
            from livedbg.analysis.postmortem.beside import with_beside
            from livedbg.analysis.postmortem.causes import by_cause
            from livedbg.analysis.postmortem.exceptions import with_exceptions
            from livedbg.analysis.postmortem.undated import without_guessed_times

            read = read_again(with_exceptions(made, snapshot), snapshot)
            told = with_beside(ranked(by_cause(read.findings, state), state), snapshot)
            findings = without_guessed_times(told, snapshot)
        else:
            read = read_again(made, snapshot)
            findings = ranked(read.findings, state)
        findings = [_with_one_stop(finding) for finding in findings]
        named = MappingProxyType({f"F{number}": finding for number, finding in enumerate(findings, 1)})
        verdict = verdict_of(findings, state)
        return Diagnosis(
            verdict,
            named,
            graph,
            snapshot.revision,
            self._code,
            read.claims,
            read.unread,
            doing=partial(doing, state=state),
        )
