"""Text overlays: details of an entity, the evidence, the help. Wrapped, scrollable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from rich.style import Style
from textual.geometry import Size

from livedbg.panels.base import LinePanel
from livedbg.panels.cells import Line, wrap
from livedbg.panels.draw_context import DrawContext
from livedbg.themes import Role


@dataclass(frozen=True, slots=True)
class SheetLine:
    """One paragraph: a lead (a field's name, a key) and its text; Enter opens `entity`."""

    text: str = ""
    role: Role = Role.TEXT
    lead: str = ""
    bold: bool = False
    entity: str | None = None
    indent: int = 0


Sheet = Callable[[DrawContext], tuple[str, Sequence[SheetLine]]]
"""Makes title and paragraphs from what is known now, so that an open sheet stays live."""


def facts(*named: tuple[str, str | None]) -> Iterator[SheetLine]:
    """Yield names and texts; those without a text are left out."""
    return (SheetLine(text, lead=name) for name, text in named if text)


def led(lead: str, lines: Iterable[SheetLine]) -> Iterator[SheetLine]:
    """Yield lines, the first one with a lead."""
    for number, line in enumerate(lines):
        yield line if number else replace(line, lead=lead)


def link(context: DrawContext, entity: str, lead: str = "") -> SheetLine:
    """Return a line that leads to an entity."""
    mark = context.names.mark(entity, context.stalled)
    label = context.names.label(entity) if ":" in entity else entity
    state = f"  {mark.sign(context.glyphs)} {mark.word}" if mark.word else ""
    return SheetLine(f"{label}{state}", Role.TEXT, lead, entity=entity)


class SheetPanel(LinePanel):
    """A sheet of text."""

    LABEL = ""
    HELP = "Details. Enter opens the entity of the selected line, y copies the whole text, Escape goes back."
    LEAD = 14

    def __init__(self, sheet: Sheet, *, lead: int = LEAD) -> None:
        super().__init__()
        self.sheet = sheet
        self.lead = lead
        self.heading = ""
        self.paragraphs: Sequence[SheetLine] = ()
        self._wrapped: tuple[int, list[SheetLine]] = (-1, [])

    def context_changed(self, before: DrawContext) -> None:
        self.heading, paragraphs = self.sheet(self.context)
        if paragraphs != self.paragraphs:
            height = len(self._wrapped[1])
            self.paragraphs, self._wrapped = paragraphs, (-1, [])
            if height != len(self._lines(max(self.scrollable_content_region.width, 20))):
                self.refresh(layout=True)

    @property
    def has_cursor(self) -> bool:
        """Return whether a line leads to an entity."""
        return any(paragraph.entity for paragraph in self.paragraphs)

    def follow(self, entity: str) -> None:
        """Do nothing: a sheet stays where it is."""

    @property
    def base_style(self) -> Style:
        return self.context.ink.raised

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._lines(max(width, 20))) + 2

    HEAD = 2

    def draw_head(self, index: int, line: Line) -> None:
        line.base = self.context.ink.raised
        if index == 0:
            line.add(self.heading, self.context.ink.style(Role.HEADING, bold=True))

    def count(self) -> int:
        return len(self._lines(max(self.scrollable_content_region.width, 20)))

    def entity(self, index: int) -> str | None:
        lines = self._wrapped[1]
        return lines[index].entity if 0 <= index < len(lines) else None

    def draw(self, index: int, line: Line) -> None:
        shown, ink = self._lines(max(line.width, 20))[index], self.context.ink
        if self.lead:
            line.cell(shown.lead, self.lead, ink.style(Role.ACCENT)).space()
        line.space(shown.indent).add(shown.text, ink.style(shown.role, bold=shown.bold))

    def copy_text(self) -> str:
        leads = (f"{p.lead:{self.lead}} " if self.lead else "" for p in self.paragraphs)
        lines = [f"{lead}{' ' * p.indent}{p.text}".rstrip() for lead, p in zip(leads, self.paragraphs, strict=True)]
        return "\n".join([self.heading, *lines] if self.heading else lines)

    def _lines(self, width: int) -> list[SheetLine]:
        if self._wrapped[0] != width:
            lines: list[SheetLine] = []
            for paragraph in self.paragraphs:
                room = max(width - (self.lead + 1 if self.lead else 0) - paragraph.indent, 10)
                for number, text in enumerate(wrap(paragraph.text, room)):
                    lines.append(replace(paragraph, text=text, lead=paragraph.lead if number == 0 else ""))
            self._wrapped = (width, lines)
        return self._wrapped[1]


class SidePanel(SheetPanel):
    """A sheet beside the rows that it tells of, without a heading."""

    HEAD = 0

    @property
    def base_style(self) -> Style:
        return self.context.ink.base

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return super().get_content_height(container, viewport, width) - SheetPanel.HEAD
