"""The waits panel: the wait-for graph as trees, each root on top with its waiters below.

Invariants:
    tree.T1. At most MAX_ROWS rows, at most FAN children of one entity; omitted ones are counted.
    tree.T2. A cycle ends at the entity that it began with, marked as such.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from livedbg.analysis.diagnosis import Diagnosis, VerdictState, WaitGraph
from livedbg.model import EdgeKey, EdgeKind
from livedbg.panels.base import LinePanel
from livedbg.panels.cells import Line
from livedbg.panels.draw_context import DrawContext
from livedbg.panels.verdict import at
from livedbg.text.quantities import count, elapsed
from livedbg.themes import Role

MAX_ROWS: Final = 2_000
FAN: Final = 40
_DEPTH: Final = 60


@dataclass(frozen=True, slots=True)
class Row:
    """One row.

    Attributes:
        guide: for each level, whether a line continues below.
        last: it is the last child of its parent.
        closes: it is an ancestor too: the cycle closes here.
        repeats: its waiters are below its first row.
        more: not an entity, but the number of omitted waiters.
    """

    entity: str
    parent: str | None = None
    guide: tuple[bool, ...] = ()
    last: bool = True
    closes: bool = False
    repeats: bool = False
    more: int = 0


def tree_rows(diagnosis: Diagnosis, selection: str | None = None) -> list[Row]:
    """Return rows for the roots of the verdict, of the graph, and for the selection's own chain."""
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
    """Yield the tree depth first; an entity's children are drawn once, below its first row."""
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
    """Sort by number of waiters, so that the important chain is on top."""
    if len(entities) > 500:
        return list(entities)
    return sorted(dict.fromkeys(entities), key=lambda entity: -graph.behind(entity))


def _path(chain: Sequence[str]) -> Iterator[Row]:
    """Yield the rows from a root down to one entity."""
    members = list(reversed(chain))
    for depth, entity in enumerate(members):
        parent = members[depth - 1] if depth else None
        yield Row(entity, parent, (False,) * max(depth - 1, 0), closes=entity in members[:depth])


_ACTORS = ("thread:", "task:", "process:")
_LOCKS: Final = frozenset({"mutex", "rwlock", "gil", "pylock", "core", "flock"})


class WaitsPanel(LinePanel):
    """The wait-for graph from its roots."""

    LABEL = "Waits for"
    HELP = (
        "The root of each wait is on top, its waiters below, level by level. In a deadlock the tree follows the "
        "cycle until it closes. The selected entity is marked; if it is in no tree, it gets its own chain."
    )

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[Row] = []
        self._key: object = None

    def context_changed(self, before: DrawContext) -> None:
        """Rebuild the rows if the graph, or a selection outside it, changed."""
        diagnosis, selection = self.context.diagnosis, self.context.selection
        key = (id(diagnosis.graph), diagnosis.verdict.roots, selection)
        if key == self._key:
            return
        at = self.entity(self.cursor)
        same_graph = isinstance(self._key, tuple) and self._key[:2] == key[:2]
        self._key = key
        if same_graph and selection is not None and any(row.entity == selection for row in self.rows):
            return
        self.rows = tree_rows(diagnosis, selection)
        row = self.find(at) if at is not None else None
        self.cursor = row if row is not None else 0
        waiting = len({r.entity for r in self.rows if r.parent is not None and r.entity.startswith(_ACTORS)})
        self.title(self.LABEL, f"{count(waiting)} wait" if waiting else "")

    def count(self) -> int:
        return len(self.rows)

    def entity(self, index: int) -> str | None:
        return self.rows[index].entity or None if 0 <= index < len(self.rows) else None

    def find(self, entity: str) -> int | None:
        return next((number for number, row in enumerate(self.rows) if row.entity == entity), None)

    def draw(self, index: int, line: Line) -> None:
        """Draw guides, mark, label, and how it waits."""
        row, context = self.rows[index], self.context
        ink, glyphs, faint = context.ink, context.glyphs, context.ink.style(Role.FAINT)
        for goes_on in row.guide:
            line.add(glyphs.bar if goes_on else "   ", faint)
        if row.parent is not None:
            line.add(glyphs.corner if row.last else glyphs.tee, faint)
        if row.more:
            line.add(f"{count(row.more)} more", ink.style(Role.DIM))
            return
        mark = context.names.mark(row.entity, context.stalled)
        label = context.names.label(row.entity)
        line.add(f"{mark.sign(glyphs)} ", ink.style(mark.role))
        line.add(label, ink.style(Role.TEXT, bold=row.parent is None))
        if row.closes:
            line.add(f"  {glyphs.loop} closes the cycle", ink.style(Role.BAD, bold=True))
            return
        for text, role in self._details(row, mark.word):
            line.add(f"  {text}", ink.style(role))
        if row.repeats:
            line.add("  (shown above)", faint)

    def _details(self, row: Row, word: str) -> list[tuple[str, Role]]:
        context, entity = self.context, row.entity
        found: list[tuple[str, Role]] = []
        task = context.snapshot.tasks.get(entity)
        if task is not None or entity in context.snapshot.threads or entity in context.snapshot.processes:
            role = context.names.mark(entity, context.stalled).role
            if task is not None and task.fanin_total and row.parent is not None:
                found.append((f"waits {task.fanin_left or 0} of {task.fanin_total}", role))
            else:
                found.append((word, role))
            age = elapsed(context.names.age_ns(entity))
            if age:
                found.append((age, Role.DIM))
            place = at(context, entity)
            if place:
                found.append((f"at {place}", Role.DIM))
        elif word:
            found.append((word, Role.DIM))
        if row.parent is not None and self._is_inferred_wait(entity, row.parent):
            found.append(("perhaps not directly", Role.DIM))
        holders = row.parent in context.diagnosis.graph.blockers_of(entity) and entity.partition(":")[0] in _LOCKS
        if holders and row.parent is not None:
            found.append(("held above", Role.DIM))
        behind = context.diagnosis.graph.behind(entity)
        if row.parent is None and behind:
            found.append((f"{count(behind)} behind", Role.WARN))
        elif task is not None and task.where and row.parent is None:
            found.append((context.names.label(task.where[0]), Role.DIM))
        return found

    def _is_inferred_wait(self, entity: str, blocker: str) -> bool:
        edge = self.context.snapshot.edges.get(EdgeKey(EdgeKind.DEPENDS_ON, entity, blocker))
        return edge is not None and edge.inferred

    def placeholder(self) -> str:
        return "There are no waits."
