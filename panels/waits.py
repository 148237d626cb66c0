"""Who waits for whom: each root with what waits for it below it, as a tree."""

from __future__ import annotations

from livedbg.model import EdgeKey, EdgeKind
from livedbg.panels.base import LinePanel
from livedbg.panels.cells import Line
from livedbg.panels.draw_context import DrawContext
from livedbg.panels.places import at
from livedbg.panels.tree import Row, tree_rows
from livedbg.text.quantities import count, elapsed
from livedbg.themes import Role

__all__ = ["WaitsPanel"]

_ACTORS = ("thread:", "task:", "process:")


class WaitsPanel(LinePanel):
    """The wait-for graph from its roots."""

    LABEL = "Waits for"
    HELP = (
        "The root of each wait is on top, its waiters below, level by level. In a deadlock the tree follows the "
        "cycle until it closes. The selected entity is marked; if it is in no tree, it gets its own chain."
    )

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.rows: list[Row] = []
        self._key: object = None

    def context_changed(self, before: DrawContext) -> None:
        """Make the rows again when the graph or a selection outside it changed."""
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
        """Rows."""
        return len(self.rows)

    def entity(self, index: int) -> str | None:
        """The entity of a row."""
        return self.rows[index].entity or None if 0 <= index < len(self.rows) else None

    def find(self, entity: str) -> int | None:
        """The first row of an entity."""
        return next((number for number, row in enumerate(self.rows) if row.entity == entity), None)

    def draw(self, index: int, line: Line) -> None:
        """Guides, mark, label, and how it waits."""
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
        if row.parent is not None and self._only_behind(entity, row.parent):
            found.append(("perhaps not directly", Role.DIM))
        holders = row.parent in context.diagnosis.graph.blockers_of(entity) and _is_lock(entity)
        if holders and row.parent is not None:
            found.append(("held above", Role.DIM))
        behind = context.diagnosis.graph.behind(entity)
        if row.parent is None and behind:
            found.append((f"{count(behind)} behind", Role.WARN))
        elif task is not None and task.where and row.parent is None:
            found.append((context.names.label(task.where[0]), Role.DIM))
        return found

    def _only_behind(self, entity: str, blocker: str) -> bool:
        """Whether it is known only that a task waits behind another one."""
        edge = self.context.snapshot.edges.get(EdgeKey(EdgeKind.DEPENDS_ON, entity, blocker))
        return edge is not None and edge.inferred

    def placeholder(self) -> str:
        """Nothing waits."""
        return "There are no waits."


def _is_lock(entity: str) -> bool:
    return entity.partition(":")[0] in {"mutex", "rwlock", "gil", "pylock", "core", "flock"}
