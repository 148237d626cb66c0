"""One dumped tensor: how it differs from a golden one, statistics, histogram, heat map, numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from livedbg.model.dumps import ValueComparison, ValueDump, ValuePreview
from livedbg.panels.base import LinePanel
from livedbg.panels.cells import Line, wrap
from livedbg.panels.draw_context import DrawContext
from livedbg.panels.marks import ASCII
from livedbg.panels.sheet import SheetLine
from livedbg.panels.values import dump_and_number
from livedbg.themes import Role

_SHADES: Final = (" .:-=+*#%@", " ░░▒▒▒▓▓▓█")
_BLOCKS: Final = ("#", "█")


class TensorPanel(LinePanel):
    """Beside the dumped arguments: what the one under the cursor is like."""

    LABEL = "Tensor"
    HELP = (
        "Statistics of all elements, a histogram, a heat map of the means (N has NaN, I Inf, ? is not in the dump),"
        " and the values; of a large tensor only the edges."
    )
    CURSOR = False

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._row: str | None = None
        self._shown: tuple[object, ...] = ()
        self._shown_for: tuple[str | None, int] | None = None
        self._lines: list[SheetLine] = []

    def point(self, row: str | None) -> None:
        """Show another one."""
        if row != self._row:
            self._row = row
            self.scroll_to(y=0, animate=False)
            self.resize_rows()
            self.repaint()

    def context_changed(self, before: DrawContext) -> None:
        """Made when it is drawn."""

    def count(self) -> int:
        """Lines."""
        return len(self._made(max(self.scrollable_content_region.width, 20)))

    def draw(self, index: int, line: Line) -> None:
        """One line."""
        shown = self._made(max(line.width, 20))[index]
        if shown.lead:
            line.cell(shown.lead, 13).space()
        line.space(shown.indent).add(shown.text, self.context.ink.style(shown.role, bold=shown.bold))

    def placeholder(self) -> str:
        """It is being read, or never was."""
        if self._row is None:
            return ""
        return "The recording does not contain it." if self.context.recorded else "Reading it."

    def copy_text(self) -> str:
        """All of it."""
        return "\n".join(f"{part.lead} {part.text}".strip() for part in self._made(100))

    def _made(self, width: int) -> list[SheetLine]:
        key = dump_and_number(self._row)
        found = self.context.snapshot.value_previews.get(key) if key is not None else None
        comparison = self.context.snapshot.comparisons.get(key[0]) if key is not None else None
        dump = self.context.snapshot.dumps.get(key[0]) if key is not None else None
        shown, size = (found, comparison, dump, self.context.glyphs), (self._row, width)
        if size != self._shown_for or any(new is not old for new, old in zip(shown, self._shown, strict=True)):
            self._shown, self._shown_for = shown, size
            parts = list(self._against())
            if found is not None:
                parts += _parts(found, width, plain=self.context.glyphs is ASCII)
            elif parts:
                parts.append(SheetLine(self.placeholder(), Role.DIM))
            if parts:
                parts += _beneath(comparison, dump)
            self._lines = [part for line in parts for part in _wrapped(line, width)]
        return self._lines

    def _against(self) -> Iterator[SheetLine]:
        """How its task differs from that of the golden run."""
        key = dump_and_number(self._row)
        comparison = self.context.snapshot.comparisons.get(key[0]) if key is not None else None
        dump = self.context.snapshot.dumps.get(key[0]) if key is not None else None
        if key is None or comparison is None or dump is None:
            return
        task = next((row.task for row in dump.rows if row.number == key[1]), "")
        for one in comparison.tasks:
            if one.task == task:
                yield SheetLine(one.sentence, Role.BAD if one.verdict != "inherited" else Role.WARN, bold=True)
                yield from (SheetLine(text, indent=2) for text in one.arguments)
                yield SheetLine()


def _beneath(comparison: ValueComparison | None, dump: ValueDump | None) -> Iterator[SheetLine]:
    """How the whole dump was compared, and what it lacks."""
    if comparison is not None and comparison.summary:
        yield SheetLine()
        yield SheetLine(f"Compared with {comparison.golden}", Role.HEADING, bold=True)
        yield from (SheetLine(text.strip()) for text in (comparison.headline, *comparison.summary))
    if dump is not None and dump.problems:
        yield SheetLine()
        yield SheetLine("Missing from the dump", Role.HEADING, bold=True)
        yield from (SheetLine(text, Role.WARN) for text in dump.problems)


def _wrapped(line: SheetLine, width: int) -> Iterator[SheetLine]:
    if line.role is Role.NATIVE or line.lead:  # pictures and pairs stay as they are
        yield line
        return
    for text in wrap(line.text, max(width - line.indent, 10)) or [""]:
        yield SheetLine(text, line.role, bold=line.bold, indent=line.indent)


def _parts(preview: ValuePreview, width: int, *, plain: bool) -> Iterator[SheetLine]:
    yield SheetLine(preview.title, Role.HEADING, bold=True)
    if preview.problem:
        yield SheetLine(preview.problem, Role.WARN)
        return
    if preview.sample:
        yield SheetLine(preview.sample, Role.WARN)
    oddities = {"NaN", "Inf", "first NaN at"}
    for name, text in preview.statistics:
        yield SheetLine(text, Role.BAD if name in oddities and text != "0" else Role.TEXT, name)
    yield SheetLine()
    yield from _histogram(preview, width, _BLOCKS[0 if plain else 1])
    shades = str.maketrans("0123456789", _SHADES[0 if plain else 1])
    yield from (SheetLine(f"|{row.translate(shades)}|", Role.NATIVE) for row in preview.heat)
    yield SheetLine(preview.legend, Role.DIM)
    yield SheetLine()
    yield from (SheetLine(text[:width], Role.NATIVE) for text in preview.numbers)


def _histogram(preview: ValuePreview, width: int, block: str) -> Iterator[SheetLine]:
    most = max(preview.counts, default=0)
    if not most:
        return
    lead = max(map(len, preview.edges))
    tail = max(len(str(number)) for number in preview.counts)
    room = max(4, min(width, 60) - lead - tail - 4)
    for edge, number in zip(preview.edges, preview.counts, strict=False):
        bar = block * math.ceil(room * number / most)
        yield SheetLine(f"{edge:>{lead}}  {bar:<{room}}  {number:>{tail}}", Role.NATIVE)
    yield SheetLine(f"{preview.edges[-1]:>{lead}}", Role.NATIVE)
    yield SheetLine()
