"""The edges of one run as the stream last had them: only what changed is emitted."""

from __future__ import annotations

from collections.abc import Iterable

from livedbg.model import Edge, EdgeKey
from livedbg.model.events import EdgesAdded, EdgesRemoved, EdgesReplaced, Event, Stamp

__all__ = ["EdgeBook"]


class EdgeBook:
    """Edges of one scope.

    Args:
        scope: the scope of all of them.
    """

    def __init__(self, scope: str) -> None:
        self._scope = scope
        self._known: dict[EdgeKey, Edge] = {}
        self._new: dict[EdgeKey, Edge] = {}
        self._gone: set[EdgeKey] = set()
        self._cleared = False

    def put(self, edges: Iterable[Edge]) -> None:
        """Edges that are there now."""
        for edge in edges:
            if self._known.get(edge.key) != edge:
                self._known[edge.key] = edge
                self._new[edge.key] = edge
                self._gone.discard(edge.key)

    def drop(self, keys: Iterable[EdgeKey]) -> None:
        """Edges that are no more; unknown ones are ignored."""
        for key in keys:
            if self._known.pop(key, None) is not None:
                self._new.pop(key, None)
                self._gone.add(key)

    def clear(self) -> None:
        """No edge is there any more (a new run begins)."""
        self._known.clear()
        self._new.clear()
        self._gone.clear()
        self._cleared = True

    def events(self, stamp: Stamp) -> list[Event]:
        """What changed since the last call."""
        found: list[Event] = []
        if self._cleared:
            found.append(EdgesReplaced(scope=self._scope, edges=(), **stamp))
        if self._gone:
            keys = tuple((key.kind, key.source, key.target) for key in sorted(self._gone))
            found.append(EdgesRemoved(scope=self._scope, keys=keys, **stamp))
        if self._new:
            found.append(EdgesAdded(scope=self._scope, edges=tuple(self._new.values()), **stamp))
        self._cleared = False
        self._gone = set()
        self._new = {}
        return found
