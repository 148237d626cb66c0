"""The catchpoints panel: each catchpoint with its engine and counts; completion of what is typed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from textual.geometry import Size

from livedbg.model.catchpoints import Catchpoint, CatchpointState, Moment
from livedbg.model.intents import Uncatch
from livedbg.panels.base import Asked, Key, LinePanel, Noticed, Opened
from livedbg.panels.draw_context import CATCH_MARKS, DrawContext
from livedbg.panels.table import SORT_KEY, Cell, Column, GrowingTablePanel, Rows, layout
from livedbg.session.catch_options import presets, usual_types
from livedbg.text.quantities import rate
from livedbg.text.wording import many
from livedbg.themes import Role

NO_CATCHPOINT: Final = "No catchpoints. Press c, e.g. std::runtime_error. Nothing is stopped."
UNCATCH_KEY: Final = Key("d,delete", "d Del", "uncatch", "remove the catchpoint of the selected row")
_OVER: Final = (CatchpointState.DONE, CatchpointState.FAILED)
_USUAL: Final = ("std::runtime_error", "std::exception", "std::bad_alloc")
_LEAST_ROWS: Final = 1


class CatchpointsPanel(GrowingTablePanel, scope="catchpoints"):
    """Every catchpoint."""

    LABEL = "Catchpoints"
    HELP = (
        "Catchpoints and their hits. ENGINE is how a catchpoint works: probes (kernel probes) and registers (debug "
        "registers) never stop the target; gdb (--stop) stops the throwing thread briefly. SEEN counts all throws, "
        "HITS those that matched, LOST those that the kernel dropped."
    )
    COLUMNS = (
        Column("STATE", 8, keep=10, sort="state"),
        Column("PATTERN", 18, stretch=2, keep=10, sort="pattern"),
        Column("WHEN", 7, keep=5),
        Column("ENGINE", 9, keep=6),
        Column("SEEN", 6, keep=7, align="right"),
        Column("HITS", 6, keep=9, sort="hits", align="right"),
        Column("LOST", 6, keep=8, align="right"),
        Column("PROCESS", 14, stretch=1, keep=3),
        Column("NOTE", 18, stretch=3, keep=4),
        Column("FIX", 16, stretch=2, keep=2),
    )
    SORTS = ("state", "hits", "pattern")
    KEYS = (SORT_KEY, UNCATCH_KEY)

    def source(self, context: DrawContext) -> object:
        return id(context.snapshot.catchpoints)

    def make_rows(self, context: DrawContext, needle: str, sort: str) -> Rows:
        """Return the rows: failed and armed catchpoints before finished ones."""
        known = context.snapshot.catchpoints
        found = [
            c for c in known.values() if not needle or needle in f"{c.pattern} {c.state} {c.engine} {c.note}".lower()
        ]
        place = {identity: number for number, identity in enumerate(known)}
        if sort == "hits":
            found.sort(key=lambda c: (-c.hits, place[c.id]))
        elif sort == "pattern":
            found.sort(key=lambda c: (c.pattern, place[c.id]))
        else:
            found.sort(key=lambda c: (CATCH_MARKS[c.state].order, place[c.id]))
        title = f"{armed(context)} armed  {many(sum(c.hits for c in known.values()), 'hit')}" if known else ""
        return Rows([c.id for c in found], len(known), title)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self.HEAD + max(self.count(), _LEAST_ROWS)

    def cells(self, identity: str) -> Sequence[Cell]:
        point = self.context.snapshot.catchpoints.get(identity)
        if point is None:
            return [Cell("")] * len(self.COLUMNS)
        mark, ink = CATCH_MARKS[point.state], self.context.ink
        dim = ink.style(Role.DIM)
        quiet = dim if point.state is CatchpointState.DONE else None
        text = f'{point.pattern} with "{point.message}"' if point.message else point.pattern
        state = Cell(f"{mark.sign(self.context.glyphs)} {mark.word}", ink.style(mark.role))
        if point.stopped_thread is not None:
            state = Cell("stopped", ink.style(Role.BAD, bold=True))
        return (
            state,
            Cell(text, quiet or ink.style(Role.TEXT, bold=True)),
            Cell(point.moment.value, dim),
            Cell(
                f"{point.engine} {_left_s(self.context, point)}s" if point.stopped_thread else point.engine or "-", dim
            ),
            Cell(rate(point.seen), dim),
            Cell(rate(point.hits), ink.style(Role.WARN, bold=True) if point.hits else dim),
            Cell(rate(point.lost) if point.lost else "", ink.style(Role.WARN)),
            Cell(self.context.names.label(point.process) + (" and children" if point.follow else ""), dim),
            Cell(_note(self.context, point), ink.style(mark.role) if point.state is CatchpointState.FAILED else None),
            Cell(point.remedy, ink.style(Role.ACCENT)),
        )

    def widths(self, width: int) -> list[int]:
        """Return the widths: empty columns are hidden; if space is short, a note has priority over the process."""
        points = self.context.snapshot.catchpoints.values()
        idle = {
            title
            for title, wanted in (
                ("LOST", any(point.lost for point in points)),
                ("PROCESS", len({point.process for point in points}) > 1 or width > 150),
                ("NOTE", any(point.note or point.stopped_thread for point in points)),
                ("FIX", any(point.remedy for point in points)),
            )
            if not wanted
        }
        found = iter(layout([column for column in self.COLUMNS if column.title not in idle], width))
        return [0 if column.title in idle else next(found) for column in self.COLUMNS]

    def entity(self, index: int) -> str | None:
        row = super().entity(index)
        point = self.context.snapshot.catchpoints.get(row) if row is not None else None
        return point.process if point is not None else None

    def placeholder(self) -> str:
        return "No catchpoint matches." if self.needle else NO_CATCHPOINT

    def action_open(self) -> None:
        if self.count():
            self.post_message(Opened(self.rows.order[self.cursor]))

    def action_uncatch(self) -> None:
        take_out(self, self.rows.order[self.cursor] if self.count() else None)


def take_out(panel: LinePanel, identity: str | None) -> None:
    """Ask to remove a catchpoint, or say that there is none."""
    point = panel.context.snapshot.catchpoints.get(identity or "")
    if point is None:
        panel.post_message(Noticed("There is no catchpoint here to remove."))
    elif point.state in _OVER:
        panel.post_message(Noticed(f"The catchpoint on {point.pattern} has already ended."))
    else:
        panel.post_message(Asked(Uncatch(catchpoint=point.id), f"Removing the catchpoint on {point.pattern}"))


def _left_s(context: DrawContext, point: Catchpoint) -> int:
    """Return how many more seconds a thread can be stopped, at most."""
    return max(0, (point.until_wall_ns or 0) - context.snapshot.now().wall_ns) // 1_000_000_000


def _note(context: DrawContext, point: Catchpoint) -> str:
    """Return its note, with a stopped thread first."""
    if point.stopped_thread is None:
        return point.note
    return f"{context.names.label(point.stopped_thread)}: R resumes it; {point.note}"


def armed(context: DrawContext, *, stopping: bool = False) -> int:
    """Return the number of armed catchpoints; `stopping`: only those that stop the target."""
    points = context.snapshot.catchpoints.values()
    return sum(1 for c in points if c.state is CatchpointState.ARMED and (c.engine == "gdb" or not stopping))


def process_to_catch_in(context: DrawContext) -> str | None:
    """Return the target of the selection, or the only one; None if the user has to choose."""
    shot, chosen = context.snapshot, context.selection or ""
    process = shot.threads[chosen].process if chosen in shot.threads else chosen
    live = [process.id for process in shot.processes.values() if process.target and not process.exited]
    return process if process in live else live[0] if len(live) == 1 else None


def catch_hint() -> str:
    """Return the possible input, in one line."""
    return f"{' '.join(presets())}, TYPE, call F, --stop"


def catch_words(context: DrawContext) -> list[str]:
    """Return completion words: presets, types that were caught, usual types."""
    caught = (hit.type for hit in context.snapshot.exceptions.values())
    return list(
        dict.fromkeys((*presets(), *caught, *_USUAL, *usual_types(), *(f"{moment.value} " for moment in Moment)))
    )


def about(point: Catchpoint) -> str:
    """Return the meaning of a preset; "" for a user's own pattern."""
    preset = presets().get(point.pattern)
    return f"{preset.about}: {', '.join(preset.patterns)}" if preset is not None else ""
