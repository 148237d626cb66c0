"""The wait-for graph of a state.

Deadlocked nodes are a greatest fixpoint over AND and OR waits.

Invariants:
    graph.G1. A cycle is listed only if no member has a way out: one that waits for any of several things has none of
        them left, and none continues by itself after a time.
    graph.G2. A root is waited for and waits for nothing.
    graph.G3. `behind` counts every waiting thread, process and task once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from itertools import chain
from typing import Final

from livedbg.analysis.blocking import Blocking
from livedbg.analysis.order import Part
from livedbg.analysis.wiring import Wiring
from livedbg.model import Edge, EdgeKey, EdgeKind
from livedbg.model.snapshot import Snapshot


def dead_nodes(
    successors: Callable[[int], Iterable[int]],
    seeds: Iterable[int],
    choices: Mapping[int, set[int]],
    timed: AbstractSet[int],
    known: AbstractSet[int] = frozenset(),
) -> set[int]:
    """Return the nodes reachable from the seeds that can never continue.

    A node continues when all its AND successors do and any one of its alternatives does. A node without successors may
    continue; so may one with a time limit.

    Args:
        successors: blocked -> blockers.
        choices: node -> those of its successors that are alternatives.
        timed: nodes that continue by themselves.
        known: nodes that can never continue; their successors are not visited.
    """
    ahead: dict[int, list[int]] = {}
    behind: dict[int, list[int]] = {}
    todo = list(seeds)
    while todo:
        node = todo.pop()
        if node in ahead:
            continue
        ahead[node] = [node] if node in known else list(dict.fromkeys(successors(node)))
        for other in ahead[node]:
            behind.setdefault(other, []).append(node)
            todo.append(other)
    dead = set(ahead)
    check = list(ahead)
    while check:
        node = check.pop()
        if node in dead and (node in timed or not _held_up(ahead[node], choices.get(node, set()), dead)):
            dead.discard(node)
            check += behind.get(node, ())
    return dead


def _held_up(waits: Iterable[int], alternatives: AbstractSet[int], dead: AbstractSet[int]) -> bool:
    others_dead = any(node in dead for node in waits if node not in alternatives)
    return others_dead or (bool(alternatives) and all(node in dead for node in alternatives))


_COUNTED: Final = ("thread:", "process:", "task:")

LARGE: Final = 20_000
"""Edges from which a graph is a large one: changed instead of built anew, its counts of what waits behind
something end at BEHIND, and names stand in alphabetical order."""

BEHIND: Final = 10_000
"""Where the counts of a large graph end."""

RING: Final = 2_000
"""Members up to which a cycle is walked to tell its order."""

_RANKED: Final = {True: 16, False: 256}
"""Roots of a large and of another graph, those with most direct waiters, that are ranked by all that waits
behind them."""

_RANK_BEHIND: Final = 1_000
"""How far that is counted for the ranking."""


class Graph:
    """A wait-for graph (livedbg.analysis.diagnosis.WaitGraph). Immutable. A `large` one is changed, not built anew."""

    def __init__(self, snapshot: Snapshot, wiring: Wiring, blocking: Blocking, *, large: bool) -> None:
        self.wiring = wiring
        self.large = large
        self._snapshot = snapshot
        self._blocking = blocking
        self._names = wiring.names
        self._number = snapshot.names.get
        self._arcs = wiring.arcs
        self._behind: dict[int, int] = {}
        self._behind_parts: dict[Part, int] = {}

    def waits_of(self, entity: str) -> Sequence[Edge]:
        edges = self._snapshot.edges
        found = []
        for blocker in self.blockers_of(entity):
            for key in (
                EdgeKey(EdgeKind.WAITS_FOR, entity, blocker),
                EdgeKey(EdgeKind.DEPENDS_ON, entity, blocker),
                EdgeKey(EdgeKind.HOLDS, blocker, entity),
            ):
                edge = edges.get(key)
                if edge is not None:
                    found.append(edge)
        return found

    def waiters_of(self, entity: str) -> Sequence[str]:
        node = self._number(entity)
        return self._named(self._arcs.predecessors(node)) if node is not None else ()

    def blockers_of(self, entity: str) -> Sequence[str]:
        node = self._number(entity)
        return self._named(self._arcs.successors(node)) if node is not None else ()

    def _named(self, nodes: Collection[int]) -> Sequence[str]:
        names = [self._names[node] for node in nodes]
        return sorted(names) if self.large else names[::-1]  # rustworkx gives the newest arc first

    def behind(self, entity: str) -> int:
        """Return how many threads, processes and tasks wait for `entity`; at most BEHIND in a large graph."""
        node = self._number(entity)
        if node is None:
            return 0
        most = BEHIND if self.large else len(self._names)
        part = self.wiring.order.parts.get(node)
        if part is None:
            known = self._behind.get(node)
            if known is None:
                known = self._behind[node] = self._count_behind(node, most)
            return known
        whole = self._behind_parts.get(part)
        if whole is None:  # the same for all members, but for each of them itself
            whole = self._behind_parts[part] = self._count_behind(node, most + 1) + self._counts(node)
        return min(most, whole - self._counts(node))

    def _count_behind(self, node: int, most: int) -> int:
        """Count up to `most`, without visiting the direct waiters of a node that has millions."""
        direct = self._arcs.in_degree(node) - self._others - 1  # one for an arc to itself
        return most if direct >= most else self._arcs.ancestors(node, self._counts, most)

    def _counts(self, node: int) -> bool:
        name = self._names[node]
        return name.startswith(_COUNTED) and name not in self._blocking.stand_ins

    @cached_property
    def _others(self) -> int:
        """Count the waiters that are not counted; plain dependencies are always of tasks."""
        return len({waiter for waiter, _ in self._blocking.pairs if not self._counts(self._snapshot.names.of(waiter))})

    def chain(self, entity: str) -> Sequence[str]:
        """Return the path from `entity` to a root, or once round a cycle.

        It ends at a lock that nobody holds only if nothing else is waited for.
        """
        path: dict[str, None] = {}
        node = self._number(entity)
        known = node is not None and (self._arcs.out_degree(node) or self._arcs.in_degree(node))
        at: str | None = entity if known else None
        while at is not None and at not in path:
            path[at] = None
            ahead = self.blockers_of(at)
            stuck = [name for name in ahead if name in self.stuck]
            onward = (name for name in ahead if self._leads_on(name))
            at = stuck[0] if stuck else next(onward, None) or next(iter(ahead), None)
        return list(path)

    def _leads_on(self, name: str) -> bool:
        node = self._number(name)
        return name.startswith(_COUNTED) or (node is not None and self._arcs.out_degree(node) > 0)

    @cached_property
    def stuck(self) -> frozenset[str]:
        return frozenset(member for cycle in self.cycles for member in cycle)

    @cached_property
    def cycles(self) -> Sequence[tuple[str, ...]]:
        """Return the members of each deadlock, in the order of the waits if they form one ring of at most RING, else by
        name.
        """
        parts = dict.fromkeys(self.wiring.order.parts.values())
        if not parts:
            return ()
        choices, timed = self._choices(), self._timed()
        sure = [part for part in parts if part.isdisjoint(choices) and part.isdisjoint(timed)]
        rest = [part for part in parts if not (part.isdisjoint(choices) and part.isdisjoint(timed))]
        closed: list[Collection[int]] = [*sure]
        if rest:
            seeds, known = chain.from_iterable(rest), frozenset(chain.from_iterable(sure))
            dead = dead_nodes(self._arcs.successors, seeds, choices, timed, known)
            for part in rest:
                inner = self._arcs.components_among(part & dead)
                closed += [m for m in inner if len(m) > 1 or self._arcs.has((m[0], m[0]))]
        found = [self._ring([self._names[node] for node in members]) for members in closed]
        return sorted(found, key=lambda ring: (-self.behind(ring[0]), ring))

    def _choices(self) -> dict[int, set[int]]:
        choices: dict[int, set[int]] = {}
        for waiter, blocker in self._blocking.any_of:
            choices.setdefault(self._snapshot.names.of(waiter), set()).add(self._snapshot.names.of(blocker))
        return choices

    def _timed(self) -> set[int]:
        return {self._snapshot.names.of(name) for name in self._blocking.timed}

    def _ring(self, members: Sequence[str]) -> tuple[str, ...]:
        if len(members) > RING:
            return tuple(sorted(members))
        inside = set(members)
        actors = sorted(name for name in members if name.startswith(_COUNTED))
        ring: dict[str, None] = {}
        at: str | None = (actors or sorted(members))[0]
        while at is not None:
            ring[at] = None
            at = next((name for name in sorted(self.blockers_of(at)) if name in inside and name not in ring), None)
        ring.update(dict.fromkeys(sorted(inside)))
        return tuple(ring)

    @cached_property
    def roots(self) -> Sequence[str]:
        found = self.wiring.roots
        most = _RANKED[self.large]
        first, rest = found[:most], found[most:]
        ranked = sorted(first, key=lambda root: (-self._rank(root[1]), root))
        return [name for _, name in chain(ranked, rest)]

    def _rank(self, root: str) -> int:
        if not self.large:
            return self.behind(root)
        return self._count_behind(self._snapshot.names.of(root), _RANK_BEHIND)
