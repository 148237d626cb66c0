"""The values panels: dumped tensors of all tasks, divergence from a golden run, and details of one tensor."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence, Set
from pathlib import PurePath
from typing import ClassVar, Final

from livedbg.model.dumps import ValueComparison, ValueDump, ValuePreview, ValueRow, places
from livedbg.model.intents import PreviewValues
from livedbg.panels.base import Asked, Key, LinePanel, Noticed, Pointed, bindings
from livedbg.panels.cells import Line, wrap
from livedbg.panels.draw_context import ASCII, DrawContext
from livedbg.panels.sheet import SheetLine
from livedbg.panels.table import SORT_KEY, Cell, Column, Rows, TablePanel
from livedbg.text.quantities import count
from livedbg.text.wording import many
from livedbg.themes import Role

GOLDEN_KEYS: Final = (
    Key("C", "C", "golden", "compare with another dump or with golden data"),
    Key("n", "n", "divergence", "go to the first task that diverges"),
)
_KEYS: Final = (SORT_KEY, *GOLDEN_KEYS)
_SENTENCE_LINES: Final = 3
_WORDS: Final = {
    "culprit": "wrong output", "order": "read out of order", "given": "other input data",
    "shape": "other shape", "candidate": "possible cause", "inherited": "inputs differ",
    "uncompared": "not compared",
}  # fmt: skip
_BAD: Final = frozenset({"culprit", "order", "given", "shape"})


class ValuesPanel(TablePanel):
    """Every dumped argument."""

    LABEL = "Values"
    HELP = (
        "Tensors that a run dumped. The selected one is read and shown next to the list. `C` compares the "
        "dump with a golden run: a task whose inputs agree and whose outputs differ is the culprit."
    )
    HEAD = 1 + _SENTENCE_LINES
    COLUMNS = (
        Column("DUMP", 9, keep=11),
        Column("TASK", 8, keep=10, sort="task"),
        Column("KERNEL", 10, stretch=2, keep=8, sort="kernel"),
        Column("STAGE", 6, keep=9),
        Column("ROLE", 6, keep=6),
        Column("ARG", 3, keep=9, align="right"),
        Column("TYPE", 9, keep=5),
        Column("SHAPE", 9, stretch=1, keep=7),
        Column("AGAINST GOLDEN", 18, stretch=1, keep=8),
        Column("NOTE", 12, stretch=2, keep=4),
    )
    SORTS = ("task", "kernel", "divergence")
    KEYS: ClassVar[tuple[Key, ...]] = _KEYS
    BINDINGS = bindings("values", (SORT_KEY,))

    def __init__(self) -> None:
        super().__init__()
        self._pointed: str | None = None
        self._asked: object = None
        self._by_identity: dict[str, tuple[str, ValueRow]] = {}
        self._verdicts: dict[tuple[str, str], str] = {}
        self._places: dict[str, str] = {}
        self._by_task: dict[str, list[int]] | None = None

    def hidden(self, width: int) -> Set[str]:
        """Return the columns of dump and comparison if they are not needed."""
        needed = {"DUMP": len(self._places) > 1, "AGAINST GOLDEN": bool(self._verdicts)}
        return {title for title, is_needed in needed.items() if not is_needed}

    def source(self, context: DrawContext) -> object:
        return id(context.snapshot.dumps), id(context.snapshot.comparisons)

    def size_of(self, context: DrawContext) -> int:
        return sum(len(dump.rows) for dump in context.snapshot.dumps.values())

    def make_rows(self, context: DrawContext, needle: str, sort: str) -> Rows:
        """Return the rows, by task or with diverging ones first."""
        dumps = list(context.snapshot.dumps.values())
        verdicts, named = _verdicts(context), _places(context)
        found = [
            (dump, row)
            for dump in dumps
            for row in dump.rows
            if not needle
            or needle in _text(row, named.get(dump.path, ""), _WORDS.get(verdicts.get((dump.path, row.task), ""), ""))
        ]
        if sort == "kernel":
            found.sort(key=lambda pair: (pair[1].kernel or "\uffff", pair[1].number))
        elif sort == "divergence":
            found.sort(key=lambda pair: (_rank(verdicts.get((pair[0].path, pair[1].task), "")), pair[1].number))
        total, listed = sum(dump.count for dump in dumps), sum(len(dump.rows) for dump in dumps)
        title = f"{many(len(dumps), 'dump')}  {many(total, 'tensor or scalar', 'tensors and scalars')}" if dumps else ""
        if listed < total:
            title += f", {count(listed)} of them listed here"
        return Rows([_identity(dump, row) for dump, row in found], listed, title)

    def context_changed(self, before: DrawContext) -> None:
        """Index the rows; request the tensor under the cursor."""
        if self.context.snapshot.dumps is not before.snapshot.dumps or not self._by_identity:
            dumps = self.context.snapshot.dumps.values()
            self._by_identity = {_identity(dump, row): (dump.path, row) for dump in dumps for row in dump.rows}
            self._places = _places(self.context)
        self._verdicts = _verdicts(self.context)
        super().context_changed(before)
        self._request_tensor()

    def set_rows(self, rows: Rows) -> None:
        self._by_task = None
        super().set_rows(rows)
        self._request_tensor()

    def move_to(self, index: int) -> None:
        super().move_to(index)
        self._request_tensor()

    @property
    def pointed(self) -> str | None:
        """Return the row under the cursor."""
        return self.rows.order[self.cursor] if 0 <= self.cursor < len(self.rows.order) else None

    @property
    def dump(self) -> str | None:
        """Return the path of the dump under the cursor."""
        known = self._by_identity.get(self.pointed or "")
        return known[0] if known is not None else next(iter(self.context.snapshot.dumps), None)

    def cells(self, identity: str) -> Sequence[Cell]:
        known = self._by_identity.get(identity)
        if known is None:
            return [Cell("")] * len(self.COLUMNS)
        path, row = known
        ink = self.context.ink
        dim, verdict = ink.style(Role.DIM), self._verdicts.get((path, row.task), "")
        bad = verdict in _BAD
        return (
            Cell(self._places.get(path, ""), dim),
            Cell(row.name, ink.style(Role.TEXT, bold=bad)),
            Cell(row.kernel, ink.style(Role.TEXT, bold=bad)),
            Cell(row.stage, dim),
            Cell(row.role, dim),
            Cell(str(row.arg), dim),
            Cell(row.dtype, dim),
            Cell(f"[{', '.join(map(str, row.shape))}]", dim),
            Cell(_WORDS.get(verdict, verdict), ink.style(Role.BAD if bad else Role.WARN, bold=bad)),
            Cell(row.note, ink.style(Role.TEXT if row.there or row.note.startswith("=") else Role.WARN)),
        )

    def draw_head(self, index: int, line: Line) -> None:
        """Draw the result of the comparison, then the column titles."""
        if index >= _SENTENCE_LINES:
            super().draw_head(index - _SENTENCE_LINES, line)
            return
        text, role = self._sentence()
        lines = wrap(text, max(line.width, 20))
        if len(lines) > _SENTENCE_LINES:
            lines[_SENTENCE_LINES - 1] = f"{lines[_SENTENCE_LINES - 1][: line.width - 2]} …"
        line.add(lines[index] if index < len(lines) else "", self.context.ink.style(role, bold=role is Role.BAD))

    def entity(self, index: int) -> str | None:
        known = self._by_identity.get(self.rows.order[index]) if 0 <= index < len(self.rows.order) else None
        return known[1].task if known is not None else None

    def find(self, entity: str) -> int | None:
        """Return the first row of a task, preferably in this dump; the cursor's row if it is of that task."""
        if self.entity(self.cursor) == entity:
            return self.cursor
        if self._by_task is None:
            self._by_task = {}
            for place in range(len(self.rows.order)):
                self._by_task.setdefault(self.entity(place) or "", []).append(place)
        found, dump = self._by_task.get(entity, []), self.dump
        return next((place for place in found if self._dump_of(place) == dump), found[0] if found else None)

    def placeholder(self) -> str:
        return "No tensor matches the filter." if self.needle else "No tensor dump was found next to the logs."

    def action_divergence(self) -> None:
        """Go to the first diverging task of this dump, or say why there is none."""
        comparison = self._comparison()
        if comparison is None or comparison.running:
            why = "The comparison is still running." if comparison is not None else "Press C to compare first."
        elif comparison.first is None:
            why = "No task diverges."
        else:
            row = self.find(comparison.first)
            if row is not None and self._dump_of(row) == comparison.path:
                self.move_to(row)
                return
            why = "That task has no row in the list" + (" with this filter." if self.needle else ".")
        self.post_message(Noticed(why, "warning"))

    def _dump_of(self, index: int) -> str | None:
        known = self._by_identity.get(self.rows.order[index]) if 0 <= index < len(self.rows.order) else None
        return known[0] if known is not None else None

    def _comparison(self) -> ValueComparison | None:
        return self.context.snapshot.comparisons.get(self.dump or "")

    def _sentence(self) -> tuple[str, Role]:
        path = self.dump
        if path is None:
            return "", Role.DIM
        comparison, dump = self._comparison(), self.context.snapshot.dumps[path]
        if comparison is None:
            more = f" {dump.problems[0]}" if dump.problems else ""
            how = "" if self.context.recorded else " Press C to compare it with a golden run."
            return f"{path}.{more}{how}", Role.DIM
        if comparison.running:
            return f"Comparing with {comparison.golden}.", Role.DIM
        if comparison.problem:
            return f"Nothing was compared: {comparison.problem}", Role.WARN
        return comparison.headline, Role.BAD if comparison.first is not None else Role.HEADING

    def _request_tensor(self) -> None:
        """Request the tensor under the cursor; again only if its dump has changed."""
        if self.pointed != self._pointed:
            self._pointed = self.pointed
            self.post_message(Pointed(self.pointed))
        wanted = dump_and_number(self.pointed)
        if wanted is None or self.context.recorded:
            return
        found = self.context.snapshot.value_previews.get(wanted)
        if found is not None and not found.goes_on:
            return
        asked = (*wanted, id(self.context.snapshot.dumps.get(wanted[0])))
        if asked != self._asked:
            self._asked = asked
            self.post_message(Asked(PreviewValues(path=wanted[0], number=wanted[1]), ""))


def dump_and_number(identity: str | None) -> tuple[str, int] | None:
    """Return the dump and entry number of a row."""
    if identity is None:
        return None
    number, _, path = identity.partition("@")
    return path, int(number)


def _identity(dump: ValueDump, row: ValueRow) -> str:
    return f"{row.number}@{dump.path}"


def _verdicts(context: DrawContext) -> dict[tuple[str, str], str]:
    comparisons = context.snapshot.comparisons.values()
    return {(one.path, task.task): task.verdict for one in comparisons for task in one.tasks}


def _rank(verdict: str) -> int:
    order = (*_WORDS, "")
    return order.index(verdict) if verdict in order else len(order)


def _places(context: DrawContext) -> dict[str, str]:
    """Return the display name of each dump's place; "" for a single one."""
    dumps = context.snapshot.dumps
    if len(dumps) < 2:
        return dict.fromkeys(dumps, "")
    known = {PurePath(path): path for path in dumps}
    return {known[path]: place for place, path in places(list(known)).items()}


def _text(row: ValueRow, place: str, verdict: str) -> str:
    return f"{place} {row.name} {row.kernel} {row.stage} {row.role} {row.dtype} {row.note} {verdict}".lower()


_SHADES: Final = (" .:-=+*#%@", " ░░▒▒▒▓▓▓█")
_BLOCKS: Final = ("#", "█")


class TensorPanel(LinePanel):
    """Details of the argument under the cursor."""

    LABEL = "Tensor"
    HELP = (
        "Statistics of all elements, a histogram, a heat map of the means (N has NaN, I Inf, ? is not in the dump),"
        " and the values; of a large tensor only the edges."
    )
    CURSOR = False

    def __init__(self) -> None:
        super().__init__()
        self._row: str | None = None
        self._shown: tuple[object, ...] = ()
        self._shown_for: tuple[str | None, int] | None = None
        self._lines: list[SheetLine] = []

    def point(self, row: str | None) -> None:
        if row != self._row:
            self._row = row
            self.scroll_to(y=0, animate=False)
            self.resize_rows()
            self.repaint()

    def context_changed(self, before: DrawContext) -> None:
        """Nothing: the text is made when it is drawn."""

    def count(self) -> int:
        return len(self._made(max(self.scrollable_content_region.width, 20)))

    def draw(self, index: int, line: Line) -> None:
        shown = self._made(max(line.width, 20))[index]
        if shown.lead:
            line.cell(shown.lead, 13).space()
        line.space(shown.indent).add(shown.text, self.context.ink.style(shown.role, bold=shown.bold))

    def placeholder(self) -> str:
        if self._row is None:
            return ""
        return "The recording does not contain it." if self.context.recorded else "Reading it."

    def copy_text(self) -> str:
        return "\n".join(f"{part.lead} {part.text}".strip() for part in self._made(100))

    def _made(self, width: int) -> list[SheetLine]:
        snapshot = self.context.snapshot
        path, number = dump_and_number(self._row) or ("", -1)
        found, comparison = snapshot.value_previews.get((path, number)), snapshot.comparisons.get(path)
        dump = snapshot.dumps.get(path)
        shown, size = (found, comparison, dump, self.context.glyphs), (self._row, width)
        if size != self._shown_for or any(new is not old for new, old in zip(shown, self._shown, strict=True)):
            self._shown, self._shown_for = shown, size
            parts = list(_against(comparison, dump, number)) if comparison is not None and dump is not None else []
            if found is not None:
                parts += _parts(found, width, plain=self.context.glyphs is ASCII)
            elif parts:
                parts.append(SheetLine(self.placeholder(), Role.DIM))
            if parts:
                parts += _beneath(comparison, dump)
            self._lines = [part for line in parts for part in _wrapped(line, width)]
        return self._lines


def _against(comparison: ValueComparison, dump: ValueDump, number: int) -> Iterator[SheetLine]:
    """Yield how the task of a row differs from that of the golden run."""
    task = next((row.task for row in dump.rows if row.number == number), "")
    for one in comparison.tasks:
        if one.task == task:
            yield SheetLine(one.sentence, Role.BAD if one.verdict != "inherited" else Role.WARN, bold=True)
            yield from (SheetLine(text, indent=2) for text in one.arguments)
            yield SheetLine()


def _beneath(comparison: ValueComparison | None, dump: ValueDump | None) -> Iterator[SheetLine]:
    """Yield the comparison of the whole dump, and its gaps."""
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
