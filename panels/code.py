"""The code panel: source lines around the culprit's place, and the calls that led there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from textual.geometry import Size

from livedbg.analysis.place_names import function_name, line_of
from livedbg.analysis.user_code import Inside
from livedbg.model import Frame
from livedbg.panels.base import LinePanel, Opened
from livedbg.panels.cells import Line
from livedbg.panels.culprit import CodePlace, code_place
from livedbg.panels.draw_context import DrawContext
from livedbg.panels.stack import frame_place
from livedbg.text.wording import many
from livedbg.themes import Role

_FRAMES: Final = 8
"""Frames that are listed at most."""

_LITTLE: Final = 4
"""So few lines show the source only."""


@dataclass(frozen=True, slots=True)
class _Row:
    """A line of source (`number` is not 0), or another text."""

    text: str
    role: Role
    number: int = 0
    here: bool = False


class CodePanel(LinePanel):
    """The culprit's source and stack."""

    LABEL: ClassVar[str] = "Code"
    HELP = (
        "The code of the culprit: source lines around the place where it is (marked), then the calls that led there, "
        "without those inside of libraries; after a crash, the line of the traceback that the verdict names. If the "
        "file can't be read, the reason. Enter shows the thread, or the exception."
    )
    CURSOR = False

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[_Row] = []
        self._place: CodePlace | None = None

    def context_changed(self, before: DrawContext) -> None:
        self._place = place = code_place(self.context)
        if place is not None:
            names = self.context.names
            who = (place.raised.type,) if place.raised else (names.label(place.entity), names.rank_of(place.entity))
            words = (*who, "at", line_of(place.frame))
            self.title(f"{self.LABEL}  {' '.join(filter(None, words))} {_name(place.frame)}".rstrip())
        self._arrange()

    def on_resize(self) -> None:
        self._arrange()
        super().on_resize()

    def _arrange(self) -> None:
        old, self.rows = len(self.rows), self._rows(self._place) if self._place is not None else []
        if len(self.rows) != old:
            self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self.rows)

    def count(self) -> int:
        return len(self.rows)

    def draw(self, index: int, line: Line) -> None:
        row, ink = self.rows[index], self.context.ink
        if row.number:
            mark = self.context.glyphs.here if row.here else " "
            style = ink.style(Role.ACCENT if row.here else Role.DIM, bold=row.here)
            line.add(f"{mark} ", style).cell(str(row.number), 5, ink.style(Role.FAINT), "right").space()
            line.add(row.text, style)
        else:
            line.add(row.text, ink.style(row.role))

    def action_open(self) -> None:
        if self._place is not None:
            self.post_message(Opened(self._place.entity))

    def copy_text(self) -> str:
        return "\n".join(f"{'>' if row.here else ' '} {row.number or ''} {row.text}" for row in self.rows)

    def _rows(self, where: CodePlace) -> list[_Row]:
        place, room = where.frame, self.max_lines
        numbered = list(enumerate(place.source, place.source_from))
        if len(numbered) > room or room <= _LITTLE:
            around = max((min(room, len(numbered)) - 1) // 2, 0)
            at = (place.line or 0) - place.source_from
            first = max(min(at - around, len(numbered) - room), 0)
            numbered = numbered[first : first + room]
        rows = [_Row(text, Role.TEXT, number, number == place.line) for number, text in numbered]
        if place.source_note and (not rows or room > len(rows)):
            rows.append(_Row(f"{'No source: ' if not rows else ''}{place.source_note}.", Role.WARN))
        elif not rows:
            rows.append(_Row(f"No source: {_reason(place)}.", Role.DIM))
        if room > _LITTLE or not place.source:
            rows += self._calls(where.frames, room - len(rows))
        return rows

    def _calls(self, frames: Sequence[Frame], room: int) -> list[_Row]:
        """Return the user's frames, and the innermost one; skipped ones are counted."""
        code = self.context.diagnosis.code
        kept = [n for n, frame in enumerate(frames) if not n or code.inside(frame) < Inside.LIBRARY][:_FRAMES]
        rows: list[_Row] = []
        last = -1
        for number in kept:
            if number > last + 1:
                rows.append(_Row(f"   … {many(number - last - 1, 'frame')}", Role.FAINT))
            frame = frames[number]
            rows.append(_Row(f"{number:3} {_name(frame)}  {frame_place(frame)}", Role.TEXT))
            last = number
        return rows[: max(room, 0)]


def _name(frame: Frame) -> str:
    return function_name(frame.function, frame.language)


def _reason(place: Frame) -> str:
    if not place.file:
        return f"{place.module or 'the program'} has no debug information for {_name(place)}"
    if not place.line:
        return f"no line is known in {place.file}"
    return f"{place.file} was not read when the stack was taken"
