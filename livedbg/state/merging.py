"""Merging of new samples of a task or a thread into its known state: pure functions."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from sys import intern
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from livedbg.model import (
    SAMPLED,
    Edge,
    EdgeKey,
    EdgeKind,
    EdgeState,
    Stack,
    Task,
    TaskState,
    Thread,
    ThreadState,
    WaitKind,
)
from livedbg.model.ids import processes_in
from livedbg.model.launches import ProfileSlice
from livedbg.model.snapshot import Activity
from livedbg.model.tables import Numbering, Table
from livedbg.state.stacks import place_of

PROFILE_NS: Final = 60_000_000_000
"""How long before its last sample a thread's samples are kept."""

PROFILE_SLICES: Final = 240
"""How many of them are kept, whenever they were taken."""


def merge_task(known: Task, new: Task) -> Task:
    """Merge a new report of a task: `None` and UNKNOWN don't overwrite (model.Task)."""
    changed: dict[str, Any] = {}
    for name in ("kernel", "since_mono_ns", "since_wall_ns", "ends_wall_ns", "fanin_left", "fanin_total", "owner"):
        value = getattr(new, name)
        if value is not None and value != getattr(known, name):
            changed[name] = value
    if new.state is not TaskState.UNKNOWN and new.state is not known.state:
        changed["state"] = new.state
        changed["since_mono_ns"] = new.since_mono_ns
        changed["since_wall_ns"] = new.since_wall_ns
    if new.where and new.where != known.where:
        changed["where"] = new.where
    if new.facts is not None and new.facts != known.facts:
        changed["facts"] = new.facts
    if new.attributes:
        changed["attributes"] = {**known.attributes, **new.attributes}
    return msgspec.structs.replace(known, **changed) if changed else known


def activity_after(old: Activity | None, before: Thread | None, after: Thread, mono_ns: int) -> Activity:
    """Return the activity of a thread after another sample; `old` is None for a new thread."""
    waits = after.syscall is not None
    if old is None or before is None or before.exited:
        began = mono_ns if after.last_ran_mono_ns is None else min(mono_ns, after.last_ran_mono_ns)
        moved = None if after.moved is None else 0
        return Activity(
            mono_ns,
            mono_ns,
            waiting_since_mono_ns=began if waits else None,
            step_mono_ns=mono_ns,
            moved=moved,
            **_rest(after, None, 0),
        )
    used = max(0, (after.cpu_ns or 0) - (before.cpu_ns or 0))
    same_wait = (
        waits
        and used == 0
        and before.syscall == after.syscall
        and before.waits_in == after.waits_in
        and (after.switches is None or before.switches == after.switches)
    )
    since = old.waiting_since_mono_ns if same_wait else (mono_ns if waits else None)
    steps = not same_wait and (after.marks is None or after.marks != before.marks)
    return replace(
        old,
        first_mono_ns=old.first_mono_ns,
        changed_mono_ns=old.changed_mono_ns if same_wait else mono_ns,
        cpu_ns=used,
        window_ns=mono_ns - old.changed_mono_ns,
        cpu_total_ns=old.cpu_total_ns + used,
        queued_total_ns=old.queued_total_ns + max(0, (after.queued_ns or 0) - (before.queued_ns or 0)),
        runs=old.runs + max(0, (after.switches or 0) - (before.switches or 0)),
        waiting_since_mono_ns=since,
        steps=old.steps + steps,
        step_mono_ns=mono_ns if steps else old.step_mono_ns,
        moved=_moved(old, before, after),
        **_rest(after, old.rests, mono_ns),
    )


def _rest(after: Thread, before: WaitKind | None, mono_ns: int) -> dict[str, Any]:
    if after.state is not ThreadState.WAITING or after.wait is None:  # it ran on between two readings
        return {}
    since = {} if after.wait is before else {"rests_since_mono_ns": mono_ns}
    return {"rests": after.wait, "limited": after.timed is True, **since}


def _moved(old: Activity, before: Thread, after: Thread) -> int | None:
    if after.moved is None:
        return old.moved
    return (old.moved or 0) + max(0, after.moved - (after.moved if before.moved is None else before.moved))


def activity_with_stack(old: Activity, before: Stack | None, after: Stack) -> Activity:
    """Return the activity of a thread after another stack; `before` is the last stack of the same layer.

    A sample of a running thread is no progress: a polling loop calls another function each time. How long it has been
    in one place is in its frames (Frame.held_mono_ns).
    """
    if after.source == SAMPLED:
        return old
    if before is not None and before.source == SAMPLED:
        before = None
    same = before is not None and place_of(before) == place_of(after)
    since = old.stack_since_mono_ns
    if same and since is not None:
        return replace(old, stack_samples=old.stack_samples + 1)
    if before is None:
        return old if since is not None else replace(old, stack_since_mono_ns=after.taken_mono_ns, stack_samples=1)
    return replace(
        old,
        stack_since_mono_ns=after.taken_mono_ns,
        stack_samples=1,
        steps=old.steps + 1,
        step_mono_ns=after.taken_mono_ns,
    )


def profile_after(old: tuple[ProfileSlice, ...], new: ProfileSlice) -> tuple[ProfileSlice, ...]:
    """Append a slice to a thread's profile; keep the last minute, at most `PROFILE_SLICES` slices."""
    since = new.end_mono_ns - PROFILE_NS
    return (*(one for one in old[1 - PROFILE_SLICES :] if one.end_mono_ns >= since), new)


class EdgeTables:
    """Edges by scope, and the blocking edges between tasks (`dependencies`, by the numbers of both)."""

    def __init__(self) -> None:
        self.edges: Table[EdgeKey, Edge] = Table(_source_of)
        self.dependencies: Table[EdgeKey, tuple[int, int]] = Table(_source_of)
        self.waits: Table[EdgeKey, Edge] = Table(_source_of)
        self.names = Numbering()
        self._scopes: dict[str, set[EdgeKey]] = {}
        self._scope_of: dict[EdgeKey, str] = {}

    def copy(self) -> EdgeTables:
        other = EdgeTables()
        other.edges, other.dependencies, other.waits = self.edges.copy(), self.dependencies.copy(), self.waits.copy()
        other.names = self.names.copy()
        other._scopes = {scope: set(keys) for scope, keys in self._scopes.items()}
        other._scope_of = dict(self._scope_of)
        return other

    def replace(self, scope: str, new: Iterable[Edge]) -> None:
        edges = tuple(new)
        for key in self._scopes.pop(scope, set()) - {edge.key for edge in edges}:
            self._drop(key)
            self._scope_of.pop(key, None)
        if edges:
            self.add(scope, edges)

    def forget(self, processes: Collection[str]) -> None:
        """Remove all edges of the scopes of some processes."""
        for scope in [scope for scope in self._scopes if not processes_in(scope).isdisjoint(processes)]:
            self.replace(scope, ())

    def by_scope(self) -> dict[str, list[Edge]]:
        found: dict[str, list[Edge]] = {}
        for key, edge in self.edges.freeze().items():
            found.setdefault(self._scope_of[key], []).append(edge)
        return found

    def ended(self, process: str) -> None:
        """Remove the waits and holds of an ended process's threads from the process's own scopes."""
        prefix = f"thread:{process.partition(':')[2]}/"
        for scope in [scope for scope in self._scopes if scope.endswith(f"/{process}")]:
            self.remove(scope, [key for key in self._scopes[scope] if key.source.startswith(prefix)])

    def waiting(self) -> set[str]:
        """Return all entities that take part in a wait: waiters, their targets, and holders."""
        return {end for key in self.waits.freeze() for end in key[1:]}

    def add(self, scope: str, new: Iterable[Edge]) -> None:
        members = self._scopes.setdefault(scope, set())
        for edge in new:
            key = EdgeKey(edge.kind, intern(edge.source), intern(edge.target))  # millions name the same tasks
            other = self._scope_of.get(key)
            if other is not None and other != scope:
                self._scopes[other].discard(key)
            if self.edges.put(key, edge):
                self._block(key, edge)
            members.add(key)
            self._scope_of[key] = scope

    def remove(self, scope: str, keys: Iterable[tuple[EdgeKind, str, str]]) -> None:
        members = self._scopes.get(scope, set())
        for kind, source, target in keys:
            key = EdgeKey(kind, source, target)
            if key in members:
                members.discard(key)
                self._drop(key)
                self._scope_of.pop(key, None)

    def _block(self, key: EdgeKey, edge: Edge) -> None:
        """Index an edge that blocks: scanning millions of edges for these is too slow."""
        if edge.state is not EdgeState.PENDING:
            self.dependencies.discard(key)
            self.waits.discard(key)
        elif key[0] is EdgeKind.DEPENDS_ON and key[1].startswith("task:") and not key[2].startswith("process:"):
            self.dependencies.put(key, (self.names.of(key[1]), self.names.of(key[2])))
        else:
            self.waits.put(key, edge)

    def _drop(self, key: EdgeKey) -> None:
        self.edges.discard(key)
        self.dependencies.discard(key)
        self.waits.discard(key)


def _source_of(key: EdgeKey) -> str:
    return key[1]  # looked up by plain tuples too
