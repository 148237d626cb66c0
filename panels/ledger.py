"""The ledger of intrusive actions, and the health of sources."""

from __future__ import annotations

from collections.abc import Sequence, Set

from livedbg.model import Intrusion, SourceStatus
from livedbg.panels.draw_context import HEALTH_MARKS, DrawContext
from livedbg.panels.table import Cell, Column, Rows, TablePanel
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
        return context.snapshot.intrusions

    def make_rows(self, context: DrawContext, needle: str, sort: str) -> Rows:
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
        touch, dim = self._action_of_row(identity), self.context.ink.style(Role.DIM)
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
        row = super().entity(index)
        touch = self._action_of_row(row) if row is not None else None
        return touch.target if touch is not None else None

    def _action_of_row(self, identity: str) -> Intrusion | None:
        """Return the action of a row; rows are numbered from the session's start, and the oldest are dropped."""
        shot = self.context.snapshot
        place = int(identity) - (shot.touches.count - len(shot.intrusions))
        return shot.intrusions[place] if 0 <= place < len(shot.intrusions) else None

    def placeholder(self) -> str:
        return "No intrusive actions: no stop, no probe, no signal, no code run in a target."


class SourcesPanel(TablePanel):
    """Shows what each source sees, what it cannot see, and how to fix that."""

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
        return id(context.snapshot.statuses)

    def make_rows(self, context: DrawContext, needle: str, sort: str) -> Rows:
        found = [
            (key, status) for key, status in context.snapshot.statuses.items()
            if not needle or needle in f"{status.source} {status.target} {status.sentence} {status.remedy}".lower()
        ]  # fmt: skip
        found.sort(key=lambda item: (HEALTH_MARKS[item[1].health].order, item[0]))
        blind = sum(1 for status in context.snapshot.statuses.values() if HEALTH_MARKS[status.health].order < 2)
        title = f"{blind} limited" if blind else ""
        if gone := context.snapshot.forgotten_processes:
            title = f"{title}{'  ' if title else ''}{many(gone, 'exited process', 'exited processes')} no longer listed"
        place = {key: str(number) for number, key in enumerate(context.snapshot.statuses)}
        return Rows([place[key] for key, _status_of_row in found], len(context.snapshot.statuses), title)

    def cells(self, identity: str) -> Sequence[Cell]:
        status = self._status_of_row(identity)
        if status is None:
            return [Cell("")] * len(self.COLUMNS)
        target = status.target
        mark, ink = HEALTH_MARKS[status.health], self.context.ink
        label = self.context.names.label(target) if target.partition(":")[0].isalpha() and ":" in target else target
        return (
            Cell(f"{mark.sign(self.context.glyphs)} {mark.word}", ink.style(mark.role)),
            Cell(status.source),
            Cell(label, ink.style(Role.DIM)),
            Cell(status.sentence or "no limits"),
            Cell(status.remedy, ink.style(Role.ACCENT)),
        )

    def entity(self, index: int) -> str | None:
        row = super().entity(index)
        status = self._status_of_row(row) if row is not None else None
        return status.target if status is not None else None

    def hidden(self, width: int) -> Set[str]:
        return frozenset() if any(one.remedy for one in self.context.snapshot.statuses.values()) else {"FIX"}

    def _status_of_row(self, identity: str) -> SourceStatus | None:
        """Return the status of a row: its index in the state's table, which keeps its order."""
        found = list(self.context.snapshot.statuses.values())
        return found[int(identity)] if int(identity) < len(found) else None

    def placeholder(self) -> str:
        return "No source has reported yet."
