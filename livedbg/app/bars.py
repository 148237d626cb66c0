"""The header line, the time line of a recording, and the line of screens at the bottom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.style import Style
from textual import events
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from livedbg.app.views import ViewSpec
from livedbg.panels.catchpoints import armed
from livedbg.panels.cells import Line, Painted, width_of
from livedbg.panels.draw_context import EMPTY_CONTEXT, VERDICT_MARKS, DrawContext
from livedbg.session.view import Timeline
from livedbg.text.patterns import lazy_re
from livedbg.text.quantities import clock, milliseconds, rate, stopwatch
from livedbg.themes import Role

_FOLDERS: Final = lazy_re(r"(^|\s)/\S*/(?=\S)")
"""The folders of a command's program: the first to go where there is little room."""


@dataclass
class Chosen(Message):
    """A word of the footer was clicked."""

    action: str


@dataclass
class Sought(Message):
    """The time line was clicked."""

    share: float


class _Bar(Widget):
    def __init__(self) -> None:
        super().__init__()
        self.context: DrawContext = EMPTY_CONTEXT
        self._painted = Painted(self.refresh)

    def show(self, context: DrawContext) -> None:
        self.context = context
        self._painted.repaint(self.size.height, self.screen_line)

    def draw(self, line: Line) -> None:
        """Draw the line."""

    def render_line(self, y: int) -> Strip:
        return self._painted.drawn(y, self.screen_line(y))

    def screen_line(self, y: int) -> Strip:
        line = Line(self.size.width, self.context.ink.raised)
        if y == 0:
            self.draw(line)
        return line.strip()


class HeaderBar(_Bar):
    """The target, its state and since when, the level of the session, its cost, and the time."""

    def __init__(self) -> None:
        super().__init__()
        self.what = ""
        self.mode = ""
        self.frozen = False
        self.now_ns = 0

    def draw(self, line: Line) -> None:
        """Draw the line; the least important parts are left out first when it is narrow."""
        context, ink = self.context, self.context.ink
        verdict = context.diagnosis.verdict
        mark = VERDICT_MARKS[verdict.state]
        since = stopwatch(context.since_ns(verdict.since_wall_ns))
        state = " ".join(filter(None, (mark.sign(context.glyphs), mark.word.upper(), since)))
        paused = f"paused {milliseconds(context.snapshot.paused_ns)}"
        speed = f"{rate(context.update.events_per_s)} ev/s"
        ended = "ended" if context.update.ended else ""
        dim = ink.style(Role.DIM)
        frozen = ("FROZEN", ink.style(Role.WARN, bold=True)) if self.frozen else ("", dim)
        touched = ink.style(Role.WARN, bold=True) if context.snapshot.paused_ns else dim
        caught = armed(context)
        stopped = any(point.stopped_thread for point in context.snapshot.catchpoints.values())
        attached = armed(context, stopping=True) > 0
        word = "catching" if attached else "tracing"
        right: list[tuple[int, str, Style]] = [
            (10, "THREAD STOPPED" if stopped else "", ink.style(Role.BAD, bold=True)),
            (9, *frozen),
            (3, f"{word}: {caught}" if caught else "", ink.style(Role.ACCENT)),
            (3, ended, ink.style(Role.WARN)),
            (6 if self.mode == "read-only" or attached else 2, "gdb attached" if attached else self.mode, dim),
            (5, paused, touched),
            (1, speed, dim),
            (4, clock(self.now_ns), ink.style(Role.TEXT)),
        ]
        right = [item for item in right if item[1]]
        dot = f" {context.glyphs.separator} "
        least = 10 + min(width_of(self.what), 24) + len(state) + 2
        while right and least + sum(len(text) + 3 for _keep, text, _style in right) > line.width:
            right.remove(min(right, key=lambda item: item[0]))
        size = sum(len(text) for _keep, text, _style in right) + len(dot) * max(len(right) - 1, 0) + 1
        room = line.width - size - len(state) - 13
        line.add(" livedbg ", ink.style(Role.ACCENT, bold=True))
        room = max(room, 8)
        what = self.what if width_of(self.what) <= room else _FOLDERS.sub(r"\1", self.what, count=1)
        line.cell(what, min(width_of(what), room), ink.style(Role.HEADING)).space(2)
        line.add(state, ink.style(mark.role, bold=True))
        line.push_right(size)
        for number, (_keep, text, style) in enumerate(right):
            line.add(dot if number else "", ink.style(Role.FAINT)).add(text, style)


class TimelineBar(_Bar):
    """The position of a replay, and the keys that move it."""

    KEYS_SHOWN = "p play  , . step  < > seek  ^ * speed"

    def __init__(self) -> None:
        super().__init__()
        self.timeline: Timeline | None = None
        self._track = (0, 1)

    def draw(self, line: Line) -> None:
        time_line, ink, glyphs = self.timeline, self.context.ink, self.context.glyphs
        if time_line is None:
            return
        start, end, at = time_line.start_wall_ns, time_line.end_wall_ns, time_line.position_wall_ns
        sign = glyphs.play if time_line.playing else glyphs.pause
        words = f" {sign} {'playing' if time_line.playing else 'paused '} {time_line.speed:g}{glyphs.times} "
        keys = f"  {self.KEYS_SHOWN} " if line.width >= 110 else " "
        left, right = f"{clock(at)} ", f" {clock(end)}"
        line.add(words, ink.style(Role.GOOD if time_line.playing else Role.WARN))
        line.add(left, ink.style(Role.TEXT, bold=True))
        room = max(line.left - len(right) - len(keys), 4)
        share = (at - start) / (end - start) if end > start else 1.0
        knob = min(max(round(share * (room - 1)), 0), room - 1)
        self._track = (line.used, room)
        line.add(glyphs.track * knob, ink.style(Role.ACCENT)).add(glyphs.knob, ink.style(Role.ACCENT, bold=True))
        line.add(glyphs.track * (room - knob - 1), ink.style(Role.FAINT))
        line.add(right, ink.style(Role.DIM)).add(keys, ink.style(Role.DIM))

    def on_click(self, event: events.Click) -> None:
        left, room = self._track
        if left <= event.x < left + room and room > 1:
            self.post_message(Sought((event.x - left) / (room - 1)))


_Item = tuple[str, str, str, bool]
_LEAST_LABEL: Final = 2


def _room(items: Sequence[_Item]) -> int:
    return sum(len(key) + len(label) + 3 for key, label, _action, _here in items)


class FooterBar(_Bar):
    """The screens, and the keys of help and commands."""

    def __init__(self, screens: Sequence[ViewSpec]) -> None:
        super().__init__()
        self.screens = screens
        self.current = ""
        self._spots: list[tuple[int, int, str]] = []

    def draw(self, line: Line) -> None:
        """Draw numbers and names of the screens; the present one is marked."""
        self._spots = []
        state = self.context.snapshot
        screens = [one for one in self.screens if one.name == self.current or one.shown is None or one.shown(state)]
        items: list[_Item] = [(one.key, one.label, f"view('{one.name}')", one.name == self.current) for one in screens]
        tail = [("?", "Help", "help", False), ("^p", "Commands", "command_palette", False)]
        if _room(items) + _room(tail) > line.width:
            tail = tail[:1]  # the help names the other key
        if _room(items) + _room(tail) > line.width:
            short = [one.short or one.label for one in screens]
            items = [(key, word, action, here) for (key, _, action, here), word in zip(items, short, strict=True)]
        longest = max((len(label) for _k, label, _a, _h in items), default=0)
        while longest > _LEAST_LABEL and _room(items) + _room(tail) > line.width:
            longest -= 1
            items = [(key, label[:longest], action, here) for key, label, action, here in items]
        for key, label, action, here in items:
            self._item(line, key, label, action, here=here)
        line.push_right(_room(tail))
        for key, label, action, _here in tail:
            self._item(line, key, label, action, here=False)

    def _item(self, line: Line, key: str, label: str, action: str, *, here: bool) -> None:
        ink, start = self.context.ink, line.used
        if here:
            line.add(f" {key} {label} ", ink.selected)
        else:
            line.space().add(key, ink.style(Role.ACCENT, bold=True)).add(f" {label} ", ink.style(Role.DIM))
        self._spots.append((start, line.used, action))

    def on_click(self, event: events.Click) -> None:
        for start, end, action in self._spots:
            if start <= event.x < end:
                self.post_message(Chosen(action))
                return
