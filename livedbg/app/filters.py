"""The last check of every line before it is written, whichever widget drew it.

Invariants:
    filters.L1. No control, escape or bidirectional character leaves through a segment's text.
    filters.L2. In ASCII mode every character written is ASCII, and no line changes its width.
    filters.L3. Without colours no colour is written: selection shows by reverse video, rank by bold.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from rich.cells import cell_len
from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter

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
