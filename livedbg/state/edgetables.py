"""The edges of the state by scope: all of them, and beside them those that block, for the analyses."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from sys import intern

from livedbg.model import Edge, EdgeKey, EdgeKind, EdgeState
from livedbg.model.ids import processes_in
from livedbg.model.numbering import Numbering
from livedbg.model.tables import Table


class EdgeTables:
    """Edges by scope.

    Attributes:
        edges: all.
        dependencies: those that block between tasks, by the numbers of both.
        waits: the others that block.
        names: the numbers of tasks.
    """

    def __init__(self) -> None:
        self.edges: Table[EdgeKey, Edge] = Table(_source_of)
        self.dependencies: Table[EdgeKey, tuple[int, int]] = Table(_source_of)
        self.waits: Table[EdgeKey, Edge] = Table(_source_of)
        self.names = Numbering()
        self._scopes: dict[str, set[EdgeKey]] = {}
        self._scope_of: dict[EdgeKey, str] = {}

    def copy(self) -> EdgeTables:
        """Tables of their own with the same edges."""
        other = EdgeTables()
        other.edges, other.dependencies, other.waits = self.edges.copy(), self.dependencies.copy(), self.waits.copy()
        other.names = self.names.copy()
        other._scopes = {scope: set(keys) for scope, keys in self._scopes.items()}
        other._scope_of = dict(self._scope_of)
        return other

    def replace(self, scope: str, new: Iterable[Edge]) -> None:
        """All edges of a scope."""
        edges = tuple(new)
        for key in self._scopes.pop(scope, set()) - {edge.key for edge in edges}:
            self._drop(key)
            self._scope_of.pop(key, None)
        if edges:
            self.add(scope, edges)

    def forget(self, processes: Collection[str]) -> None:
        """All edges of the scopes that are about some processes."""
        for scope in [scope for scope in self._scopes if not processes_in(scope).isdisjoint(processes)]:
            self.replace(scope, ())

    def by_scope(self) -> dict[str, list[Edge]]:
        """The edges of each scope."""
        found: dict[str, list[Edge]] = {}
        for key, edge in self.edges.freeze().items():
            found.setdefault(self._scope_of[key], []).append(edge)
        return found

    def ended(self, process: str) -> None:
        """The waits and holds of the threads of a process that has ended, in the scopes that are its own."""
        prefix = f"thread:{process.partition(':')[2]}/"
        for scope in [scope for scope in self._scopes if scope.endswith(f"/{process}")]:
            self.remove(scope, [key for key in self._scopes[scope] if key.source.startswith(prefix)])

    def waiting(self) -> set[str]:
        """What takes part in a wait: who waits, what is waited for, who holds it."""
        return {end for key in self.waits.freeze() for end in key[1:]}

    def add(self, scope: str, new: Iterable[Edge]) -> None:
        """More edges of a scope."""
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
        """Some edges of a scope; those of others stay."""
        members = self._scopes.get(scope, set())
        for kind, source, target in keys:
            key = EdgeKey(kind, source, target)
            if key in members:
                members.discard(key)
                self._drop(key)
                self._scope_of.pop(key, None)

    def _block(self, key: EdgeKey, edge: Edge) -> None:
        """Keep apart the edges that block: of some millions of edges, those are not found again."""
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
