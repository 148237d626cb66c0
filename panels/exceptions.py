"""The exceptions panels: hits merged by type and stack, and the stack of the selected one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from rich.style import Style

from livedbg.model.catchpoints import CatchpointState
from livedbg.panels.base import Key, Opened, Picked, Pointed
from livedbg.panels.catchpoints import (
    LINK_KEYS,
    UNCATCH_KEY,
    HitGroup,
    HitLinks,
    armed,
    group_of,
    merged,
    sparkline,
    take_out,
)
from livedbg.panels.cells import Line, wrap
from livedbg.panels.draw_context import DrawContext
from livedbg.panels.stack import draw_frame
from livedbg.panels.table import SORT_KEY, Cell, Column, Rows, TablePanel
from livedbg.session.catch_options import presets
from livedbg.text.quantities import clock, clock_ms, count, rate
from livedbg.text.sanitize import clean_line
from livedbg.text.wording import many
from livedbg.themes import Role

_MESSAGE_LINES: Final = 3

Drawn = tuple[str, Style]


class HitsPanel(HitLinks, TablePanel, scope="hits"):
    """All hits; equal stacks are one row."""

    LABEL = "Exceptions"
    HELP = (
        "Exceptions, failures and aborts, grouped by type and stack. PER SECOND shows how many came in each of the "
        "last seconds up to LAST. A row also selects its thread for the other screens: T, L and W go to the thread,"
        " its log records, its task."
    )
    COLUMNS = (
        Column("TYPE", 17, stretch=2, keep=10, sort="type"),
        Column("MESSAGE", 14, stretch=5, keep=8),
        Column("COUNT", 6, keep=10, sort="count", align="right"),
        Column("PER SECOND", 11, stretch=1, keep=5, align="right"),
        Column("FIRST", 8, keep=4, sort="first"),
        Column("LAST", 8, keep=9, sort="last"),
        Column("THREAD", 11, stretch=1, keep=6),
    )
    SORTS = ("first", "last", "count", "type")
    KEYS = (
        *LINK_KEYS,
        SORT_KEY,
        Key("m", "m", "merge", "group hits with equal stacks, or ungroup them"),
        UNCATCH_KEY,
    )

    def __init__(self) -> None:
        super().__init__()
        self.apart = False
        self.groups: Mapping[str, HitGroup] = {}
        self._pointed: str | None = None

    @property
    def pointed(self) -> str | None:
        """Return the hit of the selected row."""
        group = self._group(self.cursor)
        return group.newest.id if group is not None else None

    def selected(self) -> HitGroup | None:
        return self._group(self.cursor)

    def source(self, context: DrawContext) -> object:
        return id(context.snapshot.exceptions), self.apart

    def size_of(self, context: DrawContext) -> int:
        return len(context.snapshot.exceptions)

    def make_rows(self, context: DrawContext, needle: str, sort: str) -> Rows:
        groups = merged(context.snapshot.exceptions, apart=self.apart)
        found = [group for group in groups.values() if not needle or needle in _text(context, group)]
        found.sort(key=_ORDERS[sort])
        self.groups = groups
        hits = sum(group.count for group in groups.values())
        title = f"{many(hits, 'hit')}  {many(len(groups), 'stack')}" if groups and not self.apart else ""
        return Rows([group.id for group in found], len(groups), title or (many(hits, "hit") if groups else ""))

    def set_rows(self, rows: Rows) -> None:
        """Show these rows; the stack panel follows to the selected one."""
        super().set_rows(rows)
        self._point()

    def cells(self, identity: str) -> Sequence[Cell]:
        group = self.groups.get(identity)
        if group is None:
            return [Cell("")] * len(self.COLUMNS)
        context, ink, newest = self.context, self.context.ink, group.newest
        dim = ink.style(Role.DIM)
        messages = len(group.messages)
        message = (f"(1 of {count(messages)}) " if messages > 1 else "") + clean_line(newest.message)
        threads = group.threads
        more = f" +{len(threads) - 1}" if len(threads) > 1 else ""
        where = context.names.label(threads[0]).removeprefix("thread ") + more if threads else ""
        room = self.widths(self.scrollable_content_region.width)[3]
        return (
            Cell(newest.type, ink.style(Role.BAD, bold=True)),
            Cell(message),
            Cell(rate(group.count), ink.style(Role.TEXT, bold=True)),
            Cell(sparkline(group.history, room, context.glyphs.sparks), ink.style(Role.ACCENT)),
            Cell(clock(group.first_wall_ns), dim),
            Cell(clock(group.last_wall_ns)),
            Cell(where, dim),
        )

    def entity(self, index: int) -> str | None:
        """Return the thread that threw it last."""
        group = self._group(index)
        if group is None:
            return None
        return group.newest.thread or group.newest.process

    def find(self, entity: str) -> int | None:
        """Return the row of a thread; the current one if that matches as well."""
        if self.entity(self.cursor) == entity:
            return self.cursor
        return next((row for row in range(self.count()) if self.entity(row) == entity), None)

    def follow(self, entity: str) -> None:
        super().follow(entity)
        self._point()

    def move_to(self, index: int) -> None:
        super().move_to(index)
        self._point()

    def placeholder(self) -> str:
        if self.needle:
            return "No hit matches the filter."
        return "No hits yet." if self.context.snapshot.catchpoints else "No hits: no catchpoint was set."

    def action_open(self) -> None:
        """Open the hit's details, and select its thread."""
        entity, hit = self.entity(self.cursor), self.pointed
        if entity is not None:
            self.post_message(Picked(entity))
        if hit is not None:
            self.post_message(Opened(hit))

    def action_merge(self) -> None:
        """Switch merging of equal stacks."""
        self.apart = not self.apart
        self.rearrange()

    def action_uncatch(self) -> None:
        """Remove the catchpoint of the hit."""
        group = self._group(self.cursor)
        take_out(self, group.newest.catchpoint if group is not None else None)

    def _group(self, index: int) -> HitGroup | None:
        rows = self.rows.order
        return self.groups.get(rows[index]) if 0 <= index < len(rows) else None

    def _point(self) -> None:
        if self.pointed != self._pointed:
            self._pointed = self.pointed
            self.post_message(Pointed(self._pointed))


class HitStackPanel(HitLinks, scope="hit-stack"):
    """Message and stack of the selected hit, or advice if there is none."""

    LABEL = "Stack of the throw"
    HELP = "The message of the selected hit and its stack, innermost frame first. Enter on the hit shows all details."
    KEYS = (
        *LINK_KEYS,
        Key("left", "←", "shift(-8)", "scroll left"),
        Key("right", "→", "shift(8)", "scroll right"),
    )
    HEAD = 1
    CURSOR = False

    def __init__(self) -> None:
        super().__init__()
        self.hit: str | None = None
        self.group: HitGroup | None = None

    def point(self, hit: str | None) -> None:
        if hit != self.hit:
            self.hit = hit
            self.offset_x = 0
            self.scroll_to(y=0, animate=False)
            self.context_changed(self.context)
            self.resize_rows()
            self.repaint()

    def selected(self) -> HitGroup | None:
        return self.group

    def context_changed(self, before: DrawContext) -> None:
        self.group = group_of(self.context.snapshot.exceptions, self.hit) if self.hit is not None else None
        partial = self.group is not None and self.group.newest.partial
        self.title(self.LABEL if self.group is not None else "What to do", "partial" if partial else "")

    def count(self) -> int:
        return len(self._rows(self.scrollable_content_region.width))

    def draw_head(self, index: int, line: Line) -> None:
        if self.group is None:
            line.add(*next(_advice(self.context)))
            return
        ink, newest, sep = self.context.ink, self.group.newest, self.context.glyphs.separator
        line.add(newest.type, ink.style(Role.BAD, bold=True))
        line.add(f"  {self.context.glyphs.times}{count(self.group.count)}", ink.style(Role.TEXT, bold=True))
        line.add(f"  {clock_ms(newest.at_wall_ns)}", ink.style(Role.DIM))
        if newest.thread is not None:
            line.add(f" {sep} {self.context.names.label(newest.thread)}", ink.style(Role.HEADING))

    def draw(self, index: int, line: Line) -> None:
        row = self._rows(line.width)[index]
        if not isinstance(row, int):
            line.add(*row)
        elif self.group is not None:
            draw_frame(line, self.context.ink, row, self.group.newest.stack[row], shift=self.offset_x)

    def copy_text(self) -> str:
        if self.group is None:
            return ""
        newest = self.group.newest
        frames = [f"{number:3d} {frame.function}" for number, frame in enumerate(newest.stack)]
        return "\n".join([f"{newest.type}: {newest.message}", *frames])

    def _rows(self, width: int) -> list[int | Drawn]:
        """Return message and frame numbers, each followed by its variables and source; without a hit, advice."""
        ink, width = self.context.ink, max(width, 10)
        if self.group is None:
            return [(text, style) for words, style in [*_advice(self.context)][1:] for text in wrap(words, width)]
        newest = self.group.newest
        text = newest.message.strip()
        lines = wrap(text, width) if text else []
        if len(lines) > _MESSAGE_LINES:
            lines = [*lines[: _MESSAGE_LINES - 1], "… Enter on the hit shows the rest"]
        found: list[int | Drawn] = [(line, ink.style(Role.WARN)) for line in lines]
        for number, frame in enumerate(newest.stack):
            found.append(number)
            below = [(text, ink.style(Role.DIM)) for text in frame.local_variables]
            for at, text in enumerate(frame.source, frame.source_from):
                here = at == frame.line
                style = ink.style(Role.ACCENT if here else Role.FAINT, bold=here)
                below.append((f"{at:5} {'>' if here else ' '} {text}", style))
            found += [(f"{'':7}{text[self.offset_x :]}", style) for text, style in below]
        if not newest.stack:
            found.append(("It has no stack.", ink.style(Role.DIM)))
        elif newest.partial:
            found.append(("partial: outer frames may be missing", ink.style(Role.WARN)))
        return found


def _advice(context: DrawContext) -> Iterator[Drawn]:
    """Yield advice if nothing was caught, a heading first."""
    ink, points = context.ink, context.snapshot.catchpoints.values()
    heading = ink.style(Role.HEADING, bold=True)
    if not points:
        yield "Press c and type what to catch in the selected process:", heading
        yield (
            "a type (std::runtime_error), glob (std::*_error), /regex/, call FUNCTION, or a preset:",
            ink.style(Role.DIM),
        )
        for name, preset in presets().items():
            yield f"{name:8} {preset.about}", ink.style(Role.ACCENT)
        return
    yield ("No hits yet." if armed(context) else "No catchpoint is armed.") + " c sets another one.", heading
    for point in points:
        yield f"{point.pattern}: {count(point.seen)} seen, none matched", ink.style(Role.TEXT)
        if point.note:
            failed = point.state is CatchpointState.FAILED
            yield point.note, ink.style(Role.WARN if failed else Role.DIM)
        if point.remedy:
            yield point.remedy, ink.style(Role.ACCENT)


def _text(context: DrawContext, group: HitGroup) -> str:
    words = [group.newest.type, *group.messages, *map(context.names.label, group.threads)]
    words += [frame.function for frame in group.newest.stack]
    return " ".join(words).lower()


_ORDERS: Final[Mapping[str, Callable[[HitGroup], tuple[object, ...]]]] = {
    "first": lambda group: (-group.first_wall_ns, group.id),
    "last": lambda group: (-group.last_wall_ns, group.id),
    "count": lambda group: (-group.count, group.id),
    "type": lambda group: (group.newest.type, -group.first_wall_ns, group.id),
}
