"""The wait-for graph as rows of a tree: a root on top, what waits for it below. Values only.

Invariants:
    tree.T1. At most MAX_ROWS rows, at most FAN children of one entity; what is left out is counted.
    tree.T2. A cycle ends at the entity that it began with, marked as such.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from livedbg.analysis.diagnosis import Diagnosis, VerdictState, WaitGraph

__all__ = ["Row", "tree_rows"]

MAX_ROWS: Final = 2_000
FAN: Final = 40
_DEPTH: Final = 60


@dataclass(frozen=True, slots=True)
class Row:
    """One row.

    Attributes:
        guide: for each level, whether a line goes on below (`True`) or not.
        last: it is the last child of its parent.
        closes: it is above already: the cycle closes here.
        repeats: what waits for it is below its first row.
        more: not an entity: so many more wait that are not shown.
    """

    entity: str
    parent: str | None = None
    guide: tuple[bool, ...] = ()
    last: bool = True
    closes: bool = False
    repeats: bool = False
    more: int = 0


def tree_rows(diagnosis: Diagnosis, selection: str | None = None) -> list[Row]:
    """Rows for the roots of the verdict, then of the graph, then for the selection's own chain."""
    graph, rows, seen = diagnosis.graph, [], set[str]()
    for start in _starts(diagnosis):
        if start in seen:
            continue
        for row in _grow(graph, start):
            rows.append(row)
            seen.add(row.entity)
            if len(rows) >= MAX_ROWS:
                return rows
    if selection is not None and selection not in seen:
        chain = list(graph.chain(selection))
        if len(chain) > 1:
            return [*_path(chain), *rows]
    return rows


def _starts(diagnosis: Diagnosis) -> Iterator[str]:
    graph, verdict = diagnosis.graph, diagnosis.verdict
    if verdict.state is VerdictState.DEADLOCK:
        for cycle in graph.cycles:
            yield next((member for member in verdict.roots if member in cycle), cycle[0])
    yield from (root for root in verdict.roots if graph.waiters_of(root))
    yield from graph.roots
    for cycle in graph.cycles:
        yield cycle[0]


def _grow(graph: WaitGraph, start: str) -> Iterator[Row]:
    """Depth first; an entity's children are drawn once, below its first row."""
    grown = set[str]()
    pending: list[tuple[Row, frozenset[str]]] = [(Row(start), frozenset())]
    while pending:
        row, above = pending.pop()
        if row.entity in grown and not row.closes and graph.waiters_of(row.entity):
            row = replace(row, repeats=True)
        yield row
        if row.more or row.closes or row.repeats or row.entity in grown or len(row.guide) > _DEPTH:
            continue
        grown.add(row.entity)
        children = _by_weight(graph, graph.waiters_of(row.entity))
        shown, hidden = children[:FAN], len(children) - FAN
        inner = above | {row.entity}
        guide = (*row.guide, not row.last) if row.parent is not None else ()
        rows = [Row(child, row.entity, guide, last=False, closes=child in inner) for child in shown]
        if hidden > 0:
            rows.append(Row("", row.entity, guide, more=hidden))
        if rows:
            rows[-1] = replace(rows[-1], last=True)
        pending.extend((child, inner) for child in reversed(rows))


def _by_weight(graph: WaitGraph, entities: Sequence[str]) -> list[str]:
    """Most waiters first, so that the chain that matters is on top."""
    if len(entities) > 500:
        return list(entities)
    return sorted(dict.fromkeys(entities), key=lambda entity: -graph.behind(entity))


def _path(chain: Sequence[str]) -> Iterator[Row]:
    """The way from a root down to one entity."""
    members = list(reversed(chain))
    for depth, entity in enumerate(members):
        parent = members[depth - 1] if depth else None
        yield Row(entity, parent, (False,) * max(depth - 1, 0), closes=entity in members[:depth])
