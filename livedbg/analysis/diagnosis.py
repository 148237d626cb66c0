"""What an analysis concludes: verdict, findings, wait-for graph. Values only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol

from msgspec import Struct

from livedbg.analysis.user_code import NO_FRAMEWORKS, UserCode
from livedbg.model import CauseClass, Edge, Evidence, Severity, Thread
from livedbg.model.claims import Claim


class VerdictState(StrEnum):
    """`verdict.state` of livedbg.report/1."""

    RUNNING = "running"
    STALLED = "stalled"
    DEADLOCK = "deadlock"
    CRASHED = "crashed"
    EXITED = "exited"
    DIVERGED = "diverged"
    UNKNOWN = "unknown"


class Finding(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One diagnosis.

    Attributes:
        rule: name of the rule that made it (docs/rules.md), e.g. `lock-cycle`.
        sentence: the claim, one sentence.
        entities: what takes part in it and nothing else.
        evidence: what it rests on.
        next: what to do next, commands first.
        inferred: it was concluded from signs, not read directly.
        since_wall_ns: since when it holds, where known.
        state: what the verdict is when this finding is the worst one; None where it decides nothing by itself.
        roots: those of its entities that the others wait for, for the verdict; empty: all of them.
        decides: of state UNKNOWN: it stands although threads use CPU time, for these poll by design.
        cause: how near to the cause of an end what it reports is; None: as the diagnostic says whose evidence its first
            is, else a process's error (livedbg.analysis.postmortem.causes).
        writer: see `Diagnostic.writer`; "": as that diagnostic says.
        gone: threads and processes, beside those of `entities`, whose end it rests on.
        topic: `precision` or `dependency` for findings of that kind (exit code 12), else "".
        claim: what happened, without who and where and without a full stop: `KeyError: 'input_ids'`; "" where the
            sentence is as short.
        who: the entity that is stuck, ended or wrong, where it is one; "": the first of `roots`.
        holder: the entity that has what it waits for, where that is known.
    """

    rule: str
    severity: Severity
    sentence: str
    entities: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    next: tuple[str, ...] = ()
    inferred: bool = False
    since_wall_ns: int | None = None
    state: VerdictState | None = None
    roots: tuple[str, ...] = ()
    decides: bool = False
    topic: str = ""
    cause: CauseClass | None = None
    writer: str = ""
    gone: tuple[str, ...] = ()
    claim: str = ""
    who: str = ""
    holder: str = ""


class Verdict(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The one answer.

    Attributes:
        roots: entities that others wait for and that wait for nothing (or the members of the
            cycle), worst first.
        since_wall_ns: since when it has been so, where known.
        chief: id of the finding that it rests on and whose sentence it says (`F1`); "" where it rests on none.
    """

    state: VerdictState
    sentence: str
    roots: tuple[str, ...] = ()
    since_wall_ns: int | None = None
    chief: str = ""


class WaitGraph(Protocol):
    """The wait-for graph, for panels and reports. All identifiers are entity ids; an id that the
    graph doesn't know gives empty answers."""

    def waits_of(self, entity: str) -> Sequence[Edge]:
        """Pending edges that block `entity`, each pointing from the waiter to what it waits for
        (a `holds` edge is given as it stands: from the holder to the resource that is waited for)."""
        ...

    def waiters_of(self, entity: str) -> Sequence[str]:
        """Entities that wait for `entity` directly."""
        ...

    def blockers_of(self, entity: str) -> Sequence[str]:
        """Entities that `entity` waits for directly (resource, then its holders)."""
        ...

    def behind(self, entity: str) -> int:
        """How many threads, processes and tasks wait for `entity`, directly or through others."""
        ...

    def chain(self, entity: str) -> Sequence[str]:
        """The path from `entity` along what it waits for, to a root or once round a cycle."""
        ...

    @property
    def cycles(self) -> Sequence[tuple[str, ...]]:
        """Deadlocks: each the members of one, threads, tasks and resources."""
        ...

    @property
    def stuck(self) -> Set[str]:
        """The members of all deadlocks."""
        ...

    @property
    def roots(self) -> Sequence[str]:
        """Entities that others wait for and that wait for nothing, by what waits behind, most first."""
        ...


class _NoGraph:
    """The wait-for graph of nothing."""

    cycles: Sequence[tuple[str, ...]] = ()
    stuck: Set[str] = frozenset()
    roots: Sequence[str] = ()

    def waits_of(self, entity: str) -> Sequence[Edge]:
        return ()

    def waiters_of(self, entity: str) -> Sequence[str]:
        return ()

    def blockers_of(self, entity: str) -> Sequence[str]:
        return ()

    def behind(self, entity: str) -> int:
        return 0

    def chain(self, entity: str) -> Sequence[str]:
        return ()


def _not_known(_thread: Thread) -> tuple[str, str]:
    return "", ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Everything that the analyses conclude from one snapshot.

    Attributes:
        findings: `F1`, `F2`, … in order of importance.
        revision: the snapshot's revision that it was made from.
        code: tells the user's own code in the stacks of the snapshot.
        claims: all claims of living processes that the rules made, reported or not, by key.
        unread: keys of those that have to be read again.
        doing: what a thread does and why that is believed (livedbg.analysis.behaviour), when it is asked for.
        is_looking: not everything has been looked at once (livedbg.analysis.out_of_time).
    """

    verdict: Verdict
    findings: Mapping[str, Finding] = field(default_factory=lambda: MappingProxyType({}))
    graph: WaitGraph = field(default_factory=_NoGraph)
    revision: int = 0
    code: UserCode = field(default=NO_FRAMEWORKS, compare=False, repr=False)
    claims: Mapping[str, Claim] = field(default_factory=lambda: MappingProxyType({}), compare=False)
    unread: frozenset[str] = field(default=frozenset(), compare=False)
    is_looking: bool = False
    doing: Callable[[Thread], tuple[str, str]] = field(default=_not_known, compare=False, repr=False)

    @property
    def chief(self) -> Finding | None:
        """The finding that the verdict rests on; None where it rests on none."""
        return self.findings.get(self.verdict.chief)

    @property
    def who(self) -> str:
        """The entity that the verdict is about: who is stuck, ended or wrong; "" where it names none."""
        who = self.chief.who if self.chief is not None else ""
        return who or next(iter(self.verdict.roots), "")


NO_DIAGNOSIS = Diagnosis(Verdict(state=VerdictState.UNKNOWN, sentence="No sample has been taken yet."), is_looking=True)
"""The diagnosis of the empty state."""
