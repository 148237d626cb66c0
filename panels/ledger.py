"""What livedbg did to the targets, and what it cannot see, with the reason."""

from __future__ import annotations

from collections.abc import Sequence

from livedbg.model import Intrusion, SourceStatus
from livedbg.panels.draw_context import DrawContext
from livedbg.panels.marks import health_mark
from livedbg.panels.table import Cell, Column, Rows, TablePanel, layout
from livedbg.text.quantities import clock_ms, milliseconds
from livedbg.text.wording import many
from livedbg.themes import Role


class LedgerPanel(TablePanel):
    """Every intrusive action: what, why, and its measured pause."""

    LABEL = "Ledger"
    HELP = (
        "Every intrusive action on a target, with its measured pause. By default nothing is stopped: the list then has "
        "at most the samples that the kernel's clock took of running threads."
    )
    COLUMNS = (
        Column("TIME", 12, keep=8),
        Column("WHAT", 12, keep=10),
        Column("PAUSED", 11, keep=9, sort="paused", align="right"),
        Column("STOPS", 5, keep=5, align="right"),
        Column("TARGET", 18, stretch=1, keep=7),
        Column("WHY", 20, stretch=2, keep=6),
    )
    SORTS = ("time", "paused")

    def source(self, context: DrawContext) -> object:
        """The list of actions."""
        return context.snapshot.intrusions

    def make_rows(self, context: DrawContext, needle: str, sort: str) -> Rows:
        """Newest first, or the longest pause first."""
        touches, total = context.snapshot.intrusions, context.snapshot.touches
        older = total.count - len(touches)
        order = [
            n for n, t in enumerate(touches) if not needle or needle in f"{t.what} {t.why} {t.target}".lower()
        ]  # fmt: skip
        order.sort(key=lambda n: -touches[n].paused_ns if sort == "paused" else -n)
        title = f"{many(total.count, 'action')}  {many(total.stops, 'stop')}  paused {milliseconds(total.paused_ns)}"
        if older:
            title += f"  (the oldest {older:,} are not listed)"
        return Rows([str(older + n) for n in order], len(touches), title)

    def cells(self, identity: str) -> Sequence[Cell]:
        """One action."""
        touch, dim = self._touch(identity), self.context.ink.style(Role.DIM)
        if touch is None:
            return [Cell("")] * len(self.COLUMNS)
        paused = milliseconds(touch.paused_ns) + ("" if touch.measured else " est.")
        role = Role.WARN if touch.paused_ns else Role.TEXT
        return (
            Cell(clock_ms(touch.at_wall_ns), dim),
            Cell(touch.what),
            Cell(paused, self.context.ink.style(role)),
            Cell(str(touch.stops)),
            Cell(self.context.names.label(touch.target)),
            Cell(touch.why, dim),
        )

    def entity(self, index: int) -> str | None:
        """The target of the action."""
        row = super().entity(index)
        touch = self._touch(row) if row is not None else None
        return touch.target if touch is not None else None

    def _touch(self, identity: str) -> Intrusion | None:
        """The action of a row; rows are numbered from the start of the session, and the oldest are not kept."""
        shot = self.context.snapshot
        place = int(identity) - (shot.touches.count - len(shot.intrusions))
        return shot.intrusions[place] if 0 <= place < len(shot.intrusions) else None

    def find(self, entity: str) -> int | None:
        """A target has many rows: stay."""
        return None

    def placeholder(self) -> str:
        """There was no action."""
        return "No intrusive actions: no stop, no probe, no signal, no code run in a target."


class SourcesPanel(TablePanel):
    """What each source sees, what it cannot see, and how to fix that."""

    LABEL = "Sources"
    HELP = "The health of each source; if it can't see something: the reason and the fix."
    COLUMNS = (
        Column("HEALTH", 8, keep=10),
        Column("SOURCE", 8, keep=9),
        Column("TARGET", 14, stretch=1, keep=4),
        Column("STATUS", 26, stretch=3, keep=8),
        Column("FIX", 18, stretch=3, keep=7),
    )
    SORTS = ("health",)

    def source(self, context: DrawContext) -> object:
        """All statuses."""
        return id(context.snapshot.statuses)

    def make_rows(self, context: DrawContext, needle: str, sort: str) -> Rows:
        """Worst first."""
        found = [
            (key, status) for key, status in context.snapshot.statuses.items()
            if not needle or needle in f"{status.source} {status.target} {status.sentence} {status.remedy}".lower()
        ]  # fmt: skip
        found.sort(key=lambda item: (health_mark(item[1].health).order, item[0]))
        blind = sum(1 for status in context.snapshot.statuses.values() if health_mark(status.health).order < 2)
        title = f"{blind} limited" if blind else ""
        if gone := context.snapshot.forgotten_processes:
            title = f"{title}{'  ' if title else ''}{many(gone, 'exited process', 'exited processes')} no longer listed"
        place = {key: str(number) for number, key in enumerate(context.snapshot.statuses)}
        return Rows([place[key] for key, _status in found], len(context.snapshot.statuses), title)

    def cells(self, identity: str) -> Sequence[Cell]:
        """One source on one target."""
        status = self._status(identity)
        if status is None:
            return [Cell("")] * len(self.COLUMNS)
        target = status.target
        mark, ink = health_mark(status.health), self.context.ink
        label = self.context.names.label(target) if target.partition(":")[0].isalpha() and ":" in target else target
        return (
            Cell(f"{mark.sign(self.context.glyphs)} {mark.word}", ink.style(mark.role)),
            Cell(status.source),
            Cell(label, ink.style(Role.DIM)),
            Cell(status.sentence or "no limits"),
            Cell(status.remedy, ink.style(Role.ACCENT)),
        )

    def entity(self, index: int) -> str | None:
        """The target, where it is an entity."""
        row = super().entity(index)
        status = self._status(row) if row is not None else None
        return status.target if status is not None else None

    def widths(self, width: int) -> list[int]:
        """No column of remedies where there is nothing to fix."""
        if any(status.remedy for status in self.context.snapshot.statuses.values()):
            return super().widths(width)
        return [*layout(self.COLUMNS[:-1], width), 0]

    def _status(self, identity: str) -> SourceStatus | None:
        """A row's status: rows are known by their place in the table of the state, which keeps its order."""
        found = list(self.context.snapshot.statuses.values())
        return found[int(identity)] if int(identity) < len(found) else None

    def find(self, entity: str) -> int | None:
        """A target has many rows: stay."""
        return None

    def placeholder(self) -> str:
        """No source said anything yet."""
        return "No source has reported yet."
