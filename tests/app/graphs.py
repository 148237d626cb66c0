"""A wait-for graph by plain search, for scripted diagnoses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from livedbg.model import Edge, EdgeKey, EdgeKind, EdgeState

_ACTORS = ("thread", "process", "task")


class PlainGraph:
    """Implements livedbg.analysis.diagnosis.WaitGraph for small graphs."""

    def __init__(self, edges: Mapping[EdgeKey, Edge]) -> None:
        self._up: dict[str, list[str]] = defaultdict(list)
        self._down: dict[str, list[str]] = defaultdict(list)
        self._edges: dict[str, list[Edge]] = defaultdict(list)
        for edge in edges.values():
            if edge.state is not EdgeState.PENDING or edge.kind in {EdgeKind.RUNS_ON, EdgeKind.PART_OF}:
                continue
            waiter, blocker = edge.source, edge.target
            if edge.kind is EdgeKind.HOLDS:
                waiter, blocker = edge.target, edge.source
            self._up[waiter].append(blocker)
            self._down[blocker].append(waiter)
            self._edges[waiter].append(edge)
        self.cycles: list[tuple[str, ...]] = []
        for start in sorted(self._up):
            chain = self.chain(start)
            if chain[-1] == start and len(chain) > 1 and set(chain) not in map(set, self.cycles):
                self.cycles.append(tuple(chain[:-1]))
        roots = [n for n in list(self._down) if not self._up.get(n)]
        self.roots = sorted(roots, key=lambda n: -self.behind(n))

    def waits_of(self, entity: str) -> Sequence[Edge]:
        return self._edges.get(entity, ())

    def waiters_of(self, entity: str) -> Sequence[str]:
        return self._down.get(entity, ())

    def blockers_of(self, entity: str) -> Sequence[str]:
        return self._up.get(entity, ())

    def behind(self, entity: str) -> int:
        seen, queue = {entity}, [entity]
        while queue:
            for waiter in self._down.get(queue.pop(), ()):
                if waiter not in seen:
                    seen.add(waiter)
                    queue.append(waiter)
        return sum(1 for name in seen - {entity} if name.partition(":")[0] in _ACTORS)

    def chain(self, entity: str) -> Sequence[str]:
        found = [entity]
        while self._up.get(found[-1]):
            found.append(self._up[found[-1]][0])
            if found[-1] in found[:-1]:
                break
        return found
