"""Results of an analysis: verdict, findings, wait-for graph. Values only."""

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
    """A finding of a rule.

    Attributes:
        rule: name of the rule (docs/rules.md), e.g. `lock-cycle`.
        entities: those that take part, and no other.
        inferred: concluded from signs, not read directly.
        state: the verdict if this finding is the worst one; None if it decides nothing by itself.
        roots: those of its entities that the others wait for; empty: all of them.
        decides: with state UNKNOWN: it decides although threads use CPU time, for these poll by design.
        cause: how near it is to the cause of an end; None: as the diagnostic with its first evidence says, else a
            process's error (livedbg.analysis.postmortem.causes).
        writer: see `Diagnostic.writer`; "": as that diagnostic says.
        gone: ended threads and processes that it rests on, besides `entities`.
        topic: `precision` or `dependency` for findings of that kind (exit code 12), else "".
        claim: what happened, without who and where and without a full stop: `KeyError: 'input_ids'`; "" if the sentence
            is as short.
        who: the entity that is stuck, ended or wrong; "": the first of `roots`.
        holder: the entity that holds what `who` waits for, if known.
        over: the program went on after it.
        noted: it is worth telling where nothing else is known of how the run ended.
        places_come: the stacks of some that take part are from before it; new ones come with a further look.
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
    over: bool = False
    noted: bool = False
    places_come: bool = False


class Verdict(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The overall result.

    Attributes:
        roots: entities that others wait for and that wait for nothing (or the members of the cycle), worst first.
        chief: id of the finding that it rests on and whose sentence it takes (`F1`), or "".
    """

    state: VerdictState
    sentence: str
    roots: tuple[str, ...] = ()
    since_wall_ns: int | None = None
    chief: str = ""


class WaitGraph(Protocol):
    """The wait-for graph, for panels and reports.

    All identifiers are entity ids; an unknown id gives empty answers.
    """

    def waits_of(self, entity: str) -> Sequence[Edge]:
        """Return the pending edges that block `entity`, from the waiter to its target.

        A `holds` edge is returned as it is: from the holder to the resource that is waited for.
        """
        ...

    def waiters_of(self, entity: str) -> Sequence[str]:
        """Return the entities that wait for `entity` directly."""
        ...

    def blockers_of(self, entity: str) -> Sequence[str]:
        """Return the entities that `entity` waits for directly (resource, then its holders)."""
        ...

    def behind(self, entity: str) -> int:
        """Return how many threads, processes and tasks wait for `entity`, directly or through others."""
        ...

    def chain(self, entity: str) -> Sequence[str]:
        """Return the wait chain from `entity` to a root, or once round a cycle."""
        ...

    @property
    def cycles(self) -> Sequence[tuple[str, ...]]:
        """Return the members of each deadlock: threads, tasks and resources."""
        ...

    @property
    def stuck(self) -> Set[str]:
        """Return the members of all deadlocks."""
        ...

    @property
    def roots(self) -> Sequence[str]:
        """Return the entities that others wait for and that wait for nothing, those with most waiters behind first."""
        ...


class _NoGraph:
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
    """All conclusions from one snapshot.

    Attributes:
        claims: all claims about living processes that the rules made, reported or not, by key.
        unread: keys of claims to read again.
        doing: function that returns a thread's behaviour and the reason (livedbg.analysis.behaviour).
        is_looking: the first scan is not complete (livedbg.analysis.out_of_time).
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
        """Return the finding that the verdict rests on, or None."""
        return self.findings.get(self.verdict.chief)

    @property
    def who(self) -> str:
        """Return the entity that the verdict is about (stuck, ended or wrong), or ""."""
        who = self.chief.who if self.chief is not None else ""
        return who or next(iter(self.verdict.roots), "")


NO_DIAGNOSIS = Diagnosis(Verdict(state=VerdictState.UNKNOWN, sentence="No sample has been taken yet."), is_looking=True)
"""The diagnosis of the empty state."""
