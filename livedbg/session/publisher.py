"""Change detection for adapters: an adapter shows its full view at each scan, and the stream gets the differences.

Invariants:
    publisher.U1. Folding the events of all views that a publisher showed gives the last view: these tasks, and the
        others have completed; these edges and no other; these diagnostics, and the others are resolved.
    publisher.U2. An unchanged value is no event; nor is an unchanged stack that was taken later.
    publisher.U3. A status is emitted when it is new or has changed; withdrawn (health OK) only if it was emitted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from msgspec import structs

from livedbg.model import (
    Diagnostic,
    Edge,
    EdgeKey,
    ExceptionHit,
    Resource,
    Severity,
    SourceHealth,
    SourceStatus,
    Stack,
    Task,
    TaskState,
)
from livedbg.model.events import (
    CounterSeen,
    DiagnosticSeen,
    EdgesAdded,
    EdgesRemoved,
    EdgesReplaced,
    Event,
    ExceptionSeen,
    ResourcesSeen,
    StacksSeen,
    Stamp,
    StatusSeen,
    TasksSeen,
)
from livedbg.session.adapter import Context

_BATCH: Final = 5_000  # tasks in one event

Counts = Mapping[tuple[str, str], tuple[float, float | None]]
"""(entity, name) -> (value, total)."""


class EdgeBook:
    """Edges of one scope that are added and removed one by one: a graph may have too many to be shown whole."""

    def __init__(self, scope: str) -> None:
        self._scope = scope
        self._known: dict[EdgeKey, Edge] = {}
        self._new: dict[EdgeKey, Edge] = {}
        self._gone: set[EdgeKey] = set()
        self._replaced = False

    def put(self, edges: Iterable[Edge]) -> None:
        for edge in edges:
            if self._known.get(edge.key) != edge:
                self._known[edge.key] = edge
                self._new[edge.key] = edge
                self._gone.discard(edge.key)

    def drop(self, keys: Iterable[EdgeKey]) -> None:
        """Remove edges; unknown ones are ignored."""
        for key in keys:
            if self._known.pop(key, None) is not None:
                self._new.pop(key, None)
                self._gone.add(key)

    def replace(self, edges: Iterable[Edge], since_ns: int | None = None) -> None:
        """Replace all edges; those without a time hold since they were first put, or `since_ns`."""
        now = {edge.key: edge for edge in edges}
        if since_ns is not None:
            now = {key: self._dated(edge, since_ns) for key, edge in now.items()}
        if now != self._known:
            self._known, self._new, self._gone, self._replaced = now, dict(now), set(), True

    def clear(self) -> None:
        """Remove all edges, and all else that is known of the scope."""
        self._known, self._new, self._gone, self._replaced = {}, {}, set(), True

    def events(self, stamp: Stamp) -> Iterator[Event]:
        """Yield the changes since the last call."""
        new, gone, replaced = self._new, self._gone, self._replaced
        self._new, self._gone, self._replaced = {}, set(), False
        if replaced:
            yield EdgesReplaced(scope=self._scope, edges=tuple(new.values()), **stamp)
            new = {}
        if gone:
            keys = tuple((key.kind, key.source, key.target) for key in sorted(gone))
            yield EdgesRemoved(scope=self._scope, keys=keys, **stamp)
        if new:
            yield EdgesAdded(scope=self._scope, edges=tuple(new.values()), **stamp)

    def _dated(self, edge: Edge, since_ns: int) -> Edge:
        if edge.since_mono_ns is not None:
            return edge
        known = self._known.get(edge.key)
        return structs.replace(edge, since_mono_ns=since_ns if known is None else known.since_mono_ns)


class Publisher:
    """An adapter's view of one thing that it watches.

    Args:
        scope: of its edges; unique to this publisher.
        dated: a task that is no longer shown has ended just now. False for logs, which are read later.

    Attributes:
        diagnostics: by id, unresolved ones.
    """

    def __init__(self, scope: str, *, dated: bool = True) -> None:
        self.edges = EdgeBook(scope)
        self.tasks: dict[str, Task] = {}
        self.counters: dict[tuple[str, str], tuple[float, float | None]] = {}
        self.diagnostics: dict[str, Diagnostic] = {}
        self._resources: dict[str, Resource] = {}
        self._stacks: dict[str, Stack] = {}
        self._hits: dict[str, ExceptionHit] = {}
        self._dated = dated

    def show(
        self,
        stamp: Stamp,
        *,
        tasks: Iterable[Task] | None = None,
        stacks: Iterable[Stack] | None = None,
        resources: Iterable[Resource] | None = None,
        edges: Iterable[Edge] | None = None,
        counters: Counts | None = None,
        diagnostics: Iterable[Diagnostic] | None = None,
        since_ns: int | None = None,
    ) -> list[Event]:
        """Show the full view of some kinds; a kind that is left out stays as it is.

        Args:
            tasks: former ones that are missing have completed.
            resources: the state keeps missing ones.
            edges: former ones that are missing are gone.
            counters: the state keeps missing ones.
            diagnostics: former ones that are missing are resolved.
            since_ns: since when new edges without a time hold.

        Returns:
            The events for the changes since the last call.
        """
        events: list[Event] = []
        if tasks is not None:
            before, self.tasks = self.tasks, {task.id: task for task in tasks}
            over = [task for name, task in before.items() if name not in self.tasks]
            changed = [task for name, task in self.tasks.items() if before.get(name) != task]
            ended = (self._ended(task, stamp) for task in over if task.state is not TaskState.COMPLETED)
            events += _tasks_seen([*changed, *ended], stamp)
        if stacks is not None:
            taken, self._stacks = self._stacks, {stack.thread: stack for stack in stacks}
            moved = tuple(s for name, s in self._stacks.items() if not _same_stack(taken.get(name), s))
            events += [StacksSeen(stacks=moved, **stamp)] if moved else []
        if resources is not None:
            known, self._resources = self._resources, {resource.id: resource for resource in resources}
            events += _resources_seen(known, self._resources, stamp)
        if edges is not None:
            self.edges.replace(edges, since_ns)
        events += self.edges.events(stamp)
        if counters is not None:
            counted, self.counters = self.counters, dict(counters)
            events += _counters_seen(counted, counters, stamp)
        if diagnostics is not None:
            said, self.diagnostics = self.diagnostics, {one.id: one for one in diagnostics}
            resolved = (_resolved(one) for name, one in said.items() if name not in self.diagnostics)
            events += [DiagnosticSeen(diagnostic=one, **stamp) for one in resolved]
            events += _diagnostics_seen(said, self.diagnostics, stamp)
        return events

    def add(
        self,
        stamp: Stamp,
        *,
        tasks: Iterable[Task] = (),
        resources: Iterable[Resource] = (),
        counters: Counts | None = None,
        diagnostics: Iterable[Diagnostic] = (),
        exceptions: Iterable[ExceptionHit] = (),
    ) -> list[Event]:
        """Show a part of the view; return the events for new and changed values, and for the edges put since."""
        fresh = {task.id: task for task in tasks}
        found = {resource.id: resource for resource in resources}
        said = {one.id: one for one in diagnostics}
        hits = {hit.id: hit for hit in exceptions if self._hits.get(hit.id) != hit}
        events = _tasks_seen([task for name, task in fresh.items() if self.tasks.get(name) != task], stamp)
        events += _resources_seen(self._resources, found, stamp)
        events += self.edges.events(stamp)
        events += _counters_seen(self.counters, counters or {}, stamp)
        events += [ExceptionSeen(hit=hit, **stamp) for hit in hits.values()]
        events += _diagnostics_seen(self.diagnostics, said, stamp)
        self.tasks |= fresh
        self._resources |= found
        self.counters |= counters or {}
        self.diagnostics |= said
        self._hits |= hits
        return events

    def clear(self, stamp: Stamp) -> list[Event]:
        return self.show(stamp, tasks=(), stacks=(), resources=(), edges=(), counters={}, diagnostics=())

    def _ended(self, task: Task, stamp: Stamp) -> Task:
        since_ns = stamp["mono_ns"] if self._dated else task.since_mono_ns
        return structs.replace(task, state=TaskState.COMPLETED, since_mono_ns=since_ns)


class Statuses:
    """A source's statuses as they were last emitted."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._said: dict[tuple[str, str], SourceStatus] = {}

    def say(
        self,
        context: Context,
        target: str,
        code: str,
        sentence: str = "",
        remedy: str = "",
        *,
        health: SourceHealth = SourceHealth.DEGRADED,
    ) -> None:
        """Emit a status of a target ("": of the source as a whole), unless unchanged."""
        status = SourceStatus(
            source=self._source, target=target, health=health, code=code, sentence=sentence, remedy=remedy
        )
        context.emit(*self.changes(status, context.stamp()))

    def only(self, context: Context, target: str, problems: Mapping[str, tuple[str, str]]) -> None:
        """Emit all problems of a target (code -> sentence, remedy); withdraw its other ones."""
        context.emit(*self.withdrawn(target, context.stamp(), but=problems))
        for code, (sentence, remedy) in problems.items():
            self.say(context, target, code, sentence, remedy)

    def withdraw(self, context: Context, target: str, *codes: str) -> None:
        """Withdraw a target's statuses with some codes, or all."""
        context.emit(*self.withdrawn(target, context.stamp(), codes))

    def changes(self, status: SourceStatus, stamp: Stamp) -> list[Event]:
        """Return the event for a status, unless unchanged."""
        key = (status.target, status.code)
        if self._said.get(key) == status:
            return []
        self._said[key] = status
        return [StatusSeen(status=status, **stamp)]

    def withdrawn(
        self, target: str, stamp: Stamp, codes: Collection[str] = (), but: Collection[str] = ()
    ) -> list[Event]:
        """Return the events that withdraw a target's statuses with some codes (or all), except those in `but`."""
        events: list[Event] = []
        for (about, code), status in list(self._said.items()):
            meant = about == target and (code in codes or not codes) and code not in but
            if meant and status.health is not SourceHealth.OK:
                over = SourceStatus(source=self._source, target=target, health=SourceHealth.OK, code=code)
                events += self.changes(over, stamp)
        return events


def _tasks_seen(tasks: list[Task], stamp: Stamp) -> list[Event]:
    return [TasksSeen(tasks=tuple(tasks[at : at + _BATCH]), **stamp) for at in range(0, len(tasks), _BATCH)]


def _resources_seen(known: Mapping[str, Resource], now: Mapping[str, Resource], stamp: Stamp) -> list[Event]:
    changed = tuple(resource for name, resource in now.items() if known.get(name) != resource)
    return [ResourcesSeen(resources=changed, **stamp)] if changed else []


def _counters_seen(known: Counts, now: Counts, stamp: Stamp) -> list[Event]:
    return [
        CounterSeen(
            entity=entity, name=name, value=float(value), total=None if total is None else float(total), **stamp
        )
        for (entity, name), (value, total) in now.items()
        if known.get((entity, name)) != (value, total)
    ]


def _diagnostics_seen(known: Mapping[str, Diagnostic], now: Mapping[str, Diagnostic], stamp: Stamp) -> list[Event]:
    return [DiagnosticSeen(diagnostic=one, **stamp) for name, one in now.items() if known.get(name) != one]


def _resolved(one: Diagnostic) -> Diagnostic:
    return structs.replace(one, severity=Severity.DEBUG, resolved=True)


def _same_stack(known: Stack | None, now: Stack) -> bool:
    return known is not None and structs.replace(known, taken_mono_ns=now.taken_mono_ns) == now
