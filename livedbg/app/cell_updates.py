"""The last steps before the terminal: every line is checked, and only the cells that differ are written.

Textual writes a changed region of a line from the beginning of its widget, and each segment with all of its attributes
and a reset behind it. Over a slow line that is most of what is written. `ShownCells` keeps what the terminal shows and
writes the cells that differ, with the attributes that change.

Invariants:
    cell_updates.E1. After an update the terminal shows what Textual's own output would have shown.
    cell_updates.E2. An update of the whole screen (another screen, a resize, the return to the foreground) is written
        whole, so that a terminal that something else wrote to is right again.
    cell_updates.L1. No control, escape or bidirectional character leaves through a segment's text.
    cell_updates.L2. In ASCII mode every character written is ASCII, and no line changes its width.
    cell_updates.L3. Without colours no colour is written: selection shows by reverse video, rank by bold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from rich.cells import cell_len, get_character_cell_size
from rich.color import Color as RichColor
from rich.color import ColorSystem
from rich.console import COLOR_SYSTEMS
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.app import App
from textual.color import Color
from textual.filter import LineFilter
from textual.strip import Strip

from livedbg.text.sanitize import clean_line
from livedbg.themes import Palette

_SIGNS: Final = str.maketrans(
    dict.fromkeys("─━═╌┄⎯▁▂▔", "-")
    | dict.fromkeys("│┃║▎▏▌▐▊▋▍▉▕", "|")
    | dict.fromkeys("┌┐└┘├┤┬┴┼╭╮╯╰┏┓┗┛┣┫┳┻╋╔╗╚╝", "+")
    | dict.fromkeys("█▓▒░▄▀▃▅▆▇", "#")
    | {"…": "~", "·": "-", "•": "*", "→": ">", "←": "<", "↑": "^", "↓": "v", "▶": ">", "●": "*", "×": "x"}
    | {"⏎": "<", "↵": "<", "’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-", "✓": "+", "✗": "X"}
)


def to_ascii(text: str) -> str:
    """Return a text with ASCII signs, as wide as before."""
    if text.isascii():
        return text
    text = text.translate(_SIGNS)
    return text if text.isascii() else "".join(c if c.isascii() else "?" * cell_len(c) for c in text)


class Guard(LineFilter):
    """Keeps control characters out of every line (L1)."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Clean the texts that need it; nearly none do."""
        if all(segment.text.isprintable() for segment in segments):
            return segments
        return [Segment(_printable(s.text), s.style) if not s.text.isprintable() else s for s in segments]


def _printable(text: str) -> str:
    cleaned = clean_line(text, len(text) + 1)
    missing = cell_len(text) - cell_len(cleaned)
    return cleaned + " " * missing if missing > 0 else cleaned


class AsciiOnly(LineFilter):
    """Writes ASCII only (L2)."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [s if s.text.isascii() else Segment(to_ascii(s.text), s.style) for s in segments]


class FewColours(LineFilter):
    """Writes the palette in the 16 colours of the terminal, or in none at all (L3)."""

    def __init__(self, palette: Palette, *, none: bool) -> None:
        super().__init__()
        self._none = none
        self._marks = {palette.selection}
        self._numbers = palette.ansi_of()
        self._style = lru_cache(2048)(self._reduce)

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [Segment(s.text, self._style(s.style)) if s.style is not None else s for s in segments]

    def _reduce(self, style: Style) -> Style:
        ground = _hex(style.bgcolor)
        fore = _hex(style.color)
        marked = ground in self._marks
        reverse = bool(style.reverse) or (self._none and marked)
        if self._none:
            return Style(bold=style.bold, underline=style.underline, reverse=reverse)
        colour = None if fore is None else f"color({self._numbers.get(fore, self._nearest(style.color))})"
        number = 0 if ground is None else self._numbers.get(ground, 0)
        under = f"color({number})" if marked or number not in {0} else None
        return Style(color=colour, bgcolor=under, bold=style.bold, underline=style.underline, reverse=reverse)

    @staticmethod
    def _nearest(colour: RichColor | None) -> int:
        if colour is None:
            return 7
        red, green, blue = colour.get_truecolor()
        return 15 if red + green + blue > 560 else 7 if red + green + blue > 240 else 8


def _hex(colour: RichColor | None) -> str | None:
    return None if colour is None or colour.is_default else str(colour.get_truecolor().hex)


if TYPE_CHECKING:
    from rich.console import Console
    from textual.screen import Screen

_GAP: Final = 6
"""Equal cells between two changed ones that are written again, because to skip them takes as many bytes."""

_NO_STYLE: Final = Style()
_Cell = tuple[str, Style]
"""The text of one cell, with what combines with it, and its style. The second cell of a wide character has no text."""


class ShownCells:
    """The cells that the terminal shows, by line and column."""

    def __init__(self) -> None:
        self._size = (0, 0)
        self._lines: dict[int, dict[int, _Cell]] = {}

    def update(self, update: CompositorUpdate, size: tuple[int, int]) -> CompositorUpdate:
        """Return an update that writes less than Textual's own, or the same one if it is of another kind."""
        if size != self._size:
            self._size = size
            self._lines.clear()
        return _Narrow(self, update) if isinstance(update, LayoutUpdate | ChopsUpdate) else update

    def written(self, update: CompositorUpdate, colours: ColorSystem) -> str:
        """Return the text that brings the terminal to an update, and take it as written."""
        pen = _Pen(colours)
        if isinstance(update, LayoutUpdate):
            for y, strips in enumerate(update.strips, update.region.y):
                self._write_all(pen, y, _cells(strips, update.region.x))
        elif isinstance(update, ChopsUpdate):
            for y, begin, end in update.spans:
                row = ((x, strip) for x, strip in update.chops[y].items() if strip is not None)
                for x, strip in row:
                    if x < end and x + strip.cell_length > begin:
                        cells = _cells([strip], x)
                        self._write_changed(pen, y, {at: cell for at, cell in cells.items() if begin <= at < end})
        return pen.text()

    def _write_all(self, pen: _Pen, y: int, cells: dict[int, _Cell]) -> None:
        self._lines.setdefault(y, {}).update(cells)
        for at, (text, style) in cells.items():
            pen.put(at, y, text, style)

    def _write_changed(self, pen: _Pen, y: int, cells: dict[int, _Cell]) -> None:
        shown = self._lines.setdefault(y, {})
        changed = [at for at, cell in cells.items() if shown.get(at) != cell]
        shown.update(cells)
        for begin, end in _runs(changed):
            while not cells.get(begin, (" ",))[0] and begin - 1 in cells:
                begin -= 1  # noqa: PLW2901 (the first cell of a wide character)
            for at in range(begin, end):
                if at in cells:
                    pen.put(at, y, *cells[at])


class CellUpdatesApp(App[int]):
    """An app that writes only the cells that differ."""

    _shown_cells: ShownCells | None = None

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        """Textual's own method, through which all that is painted goes to the terminal."""
        if isinstance(renderable, CompositorUpdate) and not self.is_inline:
            if self._shown_cells is None:
                self._shown_cells = ShownCells()
            renderable = self._shown_cells.update(renderable, self.size)
        super()._display(screen, renderable)


class _Narrow(CompositorUpdate):
    """An update that is compared with the screen only when it is written."""

    def __init__(self, shown: ShownCells, update: CompositorUpdate) -> None:
        self._shown = shown
        self._update = update

    def render_segments(self, console: Console) -> str:
        return self._shown.written(self._update, COLOR_SYSTEMS.get(console.color_system or "", ColorSystem.TRUECOLOR))


class _Pen:
    """Position and attributes of the terminal."""

    def __init__(self, colours: ColorSystem) -> None:
        self._colours = colours
        self._out: list[str] = []
        self._at: tuple[int, int] | None = None
        self._codes: tuple[str, str, str] = ("", "", "")

    def put(self, x: int, y: int, text: str, style: Style) -> None:
        """Write one cell; an empty text is the second cell of the one before."""
        if not text:
            return
        if self._at != (x, y):
            self._out.append(f"\x1b[{y + 1};{x + 1}H")
        codes = _codes(style, self._colours)
        if codes != self._codes:
            self._out.append(_change(self._codes, codes))
            self._codes = codes
        self._out.append(text)
        narrow = text.isascii() or (len(text) == 1 and get_character_cell_size(text) == 1)
        self._at = (x + 1, y) if narrow else None  # terminals don't agree how wide the others are

    def text(self) -> str:
        if self._codes != ("", "", ""):
            self._out.append("\x1b[0m")
            self._codes = ("", "", "")
        return "".join(self._out)


def _cells(strips: Iterable[Strip], x: int) -> dict[int, _Cell]:
    cells: dict[int, _Cell] = {}
    for strip in strips:
        for text, style, control in strip:
            if control:
                continue
            style = style or _NO_STYLE  # noqa: PLW2901
            if text.isascii():
                for sign in text:
                    cells[x] = (sign, style)
                    x += 1
                continue
            for sign in text:
                width = get_character_cell_size(sign)
                if not width:
                    before = x - 1 if cells.get(x - 1, ("",))[0] else x - 2
                    if before in cells:
                        cells[before] = (cells[before][0] + sign, cells[before][1])
                    continue
                cells[x] = (sign, style)
                if width == 2:
                    cells[x + 1] = ("", style)
                x += width
    return cells


def _runs(changed: list[int]) -> Iterator[tuple[int, int]]:
    begin = end = -1
    for at in changed:
        if end < 0:
            begin = at
        elif at - end > _GAP:
            yield begin, end
            begin = at
        end = at + 1
    if end >= 0:
        yield begin, end


@lru_cache(4096)
def _codes(style: Style, colours: ColorSystem) -> tuple[str, str, str]:
    """Return attributes, foreground and background of a style as parameters of SGR (ECMA-48, 8.3.117)."""
    attributes = (
        (style.bold, "1"), (style.dim, "2"), (style.italic, "3"), (style.underline, "4"), (style.blink, "5"),
        (style.blink2, "6"), (style.reverse, "7"), (style.conceal, "8"), (style.strike, "9"),
        (style.underline2, "21"), (style.frame, "51"), (style.encircle, "52"), (style.overline, "53"),
    )  # fmt: skip
    front, back = (
        ";".join(colour.downgrade(colours).get_ansi_codes(foreground)) if colour is not None else ""
        for colour, foreground in ((style.color, True), (style.bgcolor, False))
    )
    return ";".join(code for is_set, code in attributes if is_set), front, back


@lru_cache(4096)
def _change(before: tuple[str, str, str], after: tuple[str, str, str]) -> str:
    """Return the escape sequence that changes the attributes of the terminal."""
    lost = any(was and not now for was, now in zip(before, after, strict=True)) or before[0] != after[0]
    parts = (
        ["0", *after] if lost and any(before) else [now for was, now in zip(before, after, strict=True) if was != now]
    )
    return f"\x1b[{';'.join(part for part in parts if part)}m"
