"""Two panels of code: the stack of the selected thread, and the source around the culprit's place.

The stack is merged of Python and native frames; threads with an equal one are counted. Variables are kept from the last
read: later samples of the same stack have none. With the source come the calls that led there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from textual.geometry import Size

from livedbg.analysis.place_names import function_name, line_of
from livedbg.analysis.user_code import Inside
from livedbg.model import Frame, Stack
from livedbg.model.intents import WantStacks
from livedbg.panels.base import Asked, Key, LinePanel, Opened
from livedbg.panels.cells import Line
from livedbg.panels.draw_context import DrawContext, Ink
from livedbg.panels.threads import STACKS_KEY, shape, want_stacks
from livedbg.panels.verdict import CodePlace, code_place
from livedbg.text.demangling import short_symbol
from livedbg.text.quantities import elapsed
from livedbg.text.wording import many
from livedbg.themes import Role


class Variables:
    """Display of the variables of one thread's frames, if the user wants it; hidden again for the next thread."""

    def __init__(self) -> None:
        self.shown = False
        self._asked_ns = 0
        self._stack: Stack | None = None
        self._texts: list[tuple[str, ...]] = []

    def toggle(self, now_ns: int) -> bool:
        """Switch the display, at a monotonic time of the target; return True if the variables must be requested now."""
        self.shown = not self.shown
        self._asked_ns = now_ns
        return self.shown

    def follow(self, stack: Stack | None) -> None:
        """Set a newer stack: the variables are kept while thread and stack are the same."""
        known = self._stack
        self._stack = stack
        if stack is None:
            self._texts = []
            return
        fresh = [frame.local_variables for frame in stack.frames]
        if known is not None and known.thread == stack.thread and shape(known) == shape(stack):
            self._texts = [new or old for new, old in zip(fresh, self._texts, strict=True)]
        else:
            self._texts = fresh
            self.shown = self.shown and known is not None and known.thread == stack.thread

    def of(self, frame: int) -> tuple[str, ...]:
        """Return the variables of a frame, `name=value`; () while they are hidden."""
        return self._texts[frame] if self.shown and frame < len(self._texts) else ()

    def note(self, stack: Stack) -> str:
        """Return why there are none, after the requested stack was taken."""
        if not self.shown or any(self._texts) or stack.taken_mono_ns <= self._asked_ns:
            return ""
        return "no variables: native ones need debug information (-g) and values that are in memory"


_SAME_SAMPLE_NS: Final = 1_000_000_000
"""A thread that began to wait so little after its stack was taken was seen waiting by the next sample only."""

VALUES_KEYS = (Key("v", "v", "values", "show or hide arguments and local variables of the thread (no stop)"),)


class StackPanel(LinePanel, scope="stack"):
    """Innermost frame first, Python and native frames in one stack."""

    LABEL = "Stack"
    HELP = (
        "The stack of the selected thread, innermost frame first, with Python and native frames merged. Partial "
        "stacks and stacks of threads that have run since are marked. Threads with an equal stack are counted. `v` "
        "reads arguments and local variables: native ones as far as they were copied and debug information is there, "
        "Python's by py-spy."
    )
    KEYS = (
        STACKS_KEY,
        *VALUES_KEYS,
        Key("left", "←", "shift(-8)", "scroll left"),
        Key("right", "→", "shift(8)", "scroll right"),
    )
    HEAD = 2
    CURSOR = False

    def __init__(self) -> None:
        super().__init__()
        self.thread: str | None = None
        self.stack: Stack | None = None
        self.same: list[str] = []
        self.variables = Variables()
        self._rows: list[tuple[int, str]] = []
        self._revealing = False

    def context_changed(self, before: DrawContext) -> None:
        """Follow the selection; a thread stays shown while something else is selected."""
        context = self.context
        if context.selection in context.snapshot.threads:
            self.thread = context.selection
        if self.thread not in context.snapshot.threads:
            self.thread = next(iter(context.diagnosis.verdict.roots), None)
        if self.thread not in context.snapshot.threads:
            threads = context.snapshot.threads.values()
            last = next(iter(context.snapshot.stacks), None)  # after the end: what was seen last
            self.thread = next((thread.id for thread in threads if not thread.exited), last)
        stacks = context.snapshot.stacks
        stack = stacks.get(self.thread or "")
        if stack is not self.stack or stacks is not before.snapshot.stacks:
            self.same = []
            if stack is not None:
                own = shape(stack)
                self.same = [name for name, other in stacks.items() if name != self.thread and shape(other) == own]
        self.stack = stack
        self.variables.follow(stack)
        self._rows = self._rows_now()
        self._reveal_variables()
        self.title(self.LABEL, stack.source.partition("+")[0] if stack is not None else "")

    def count(self) -> int:
        return len(self._rows)

    def draw_head(self, index: int, line: Line) -> None:
        context, ink = self.context, self.context.ink
        if self.thread is None:
            return
        if index == 0:
            mark = context.names.mark(self.thread)
            line.add(context.names.label(self.thread), ink.style(Role.HEADING, bold=True))
            line.add(f"  {mark.sign(context.glyphs)} {mark.word}", ink.style(mark.role))
            if self.stack is not None and self.stack.holds_gil:
                line.add("  holds the GIL", ink.style(Role.WARN, bold=True))
            elif self.stack is not None and self.stack.waits_gil:
                line.add("  waits for the GIL", ink.style(Role.WAIT))
        elif self.stack is not None:
            age = context.snapshot.now().mono_ns - self.stack.taken_mono_ns
            line.add(f"taken {elapsed(age)} ago", ink.style(Role.DIM))
            waited = context.names.age_ns(self.thread)
            if age > _SAME_SAMPLE_NS and (waited is None or waited < age - _SAME_SAMPLE_NS):
                line.add(f" {context.glyphs.separator} it ran since; s: take again", ink.style(Role.WARN))
            if self.same:
                tids = ", ".join(
                    str(context.snapshot.threads[t].tid) for t in self.same if t in context.snapshot.threads
                )
                word = "thread has" if len(self.same) == 1 else "threads have"
                sep = context.glyphs.separator
                line.add(f" {sep} {len(self.same)} other {word} the same stack: {tids}", ink.style(Role.DIM))

    def draw(self, index: int, line: Line) -> None:
        stack, ink = self.stack, self.context.ink
        assert stack is not None
        number, text = self._rows[index]
        if number < 0:
            line.add(text, ink.style(Role.WARN))
        elif text:
            line.space(7).add(text[self.offset_x :], ink.style(Role.ACCENT))
        else:
            draw_frame(line, ink, number, stack.frames[number], shift=self.offset_x)

    def _rows_now(self) -> list[tuple[int, str]]:
        """Return (frame number, "") for frames, (frame number, text) for variables, (-1, text) for notes."""
        stack = self.stack
        if stack is None:
            return []
        rows: list[tuple[int, str]] = []
        for number in range(len(stack.frames)):
            rows.append((number, ""))
            rows += [(number, text) for text in self.variables.of(number)]
        words = "partial: outer frames may be missing" if stack.partial else ""
        notes = (words, stack.note, self.variables.note(stack))
        return [*rows, *((-1, text) for text in ["; ".join(filter(None, notes))] if text)]

    def placeholder(self) -> str:
        return "No stack yet. Press s to take one (without a stop)." if self.thread else "No thread."

    def copy_text(self) -> str:
        if self.stack is None or self.thread is None:
            return ""
        lines = []
        for number, frame in enumerate(self.stack.frames):
            lines.append(f"{number:3d} {frame.function}  {frame_place(frame)}")
            lines += [f"        {text}" for text in self.variables.of(number)]
        return "\n".join([self.context.names.label(self.thread), *lines])

    def action_stacks(self) -> None:
        want_stacks(self, self.thread)

    def action_values(self) -> None:
        """Show and request the thread's variables, or hide them."""
        if self.variables.toggle(self.context.snapshot.now().mono_ns):
            self._ask()
        self._revealing = self.variables.shown
        self._rows = self._rows_now()
        self.resize_rows()
        self.refresh()

    def _reveal_variables(self) -> None:
        first = next((number for number, text in self._rows if text and number >= 0), None)
        if self._revealing and first is not None:
            self._revealing = False
            row = self._rows.index((first, ""))
            self.call_after_refresh(self.scroll_to, y=row, animate=False)  # when it has as many lines

    def _ask(self) -> None:
        thread = self.context.snapshot.threads.get(self.thread or "")
        if thread is not None:
            want = WantStacks(process=thread.process, threads=(thread.id,), local_variables=True)
            label = self.context.names.label(thread.id)
            self.post_message(Asked(want, f"Reading variables of {label} without a stop"))


def draw_frame(line: Line, ink: Ink, number: int, frame: Frame, *, shift: int = 0) -> None:
    """Draw number, language, function and place of a frame; `shift` cells of the function are left of the window."""
    python = frame.language == "python"
    line.cell(f"{number}", 3, ink.style(Role.FAINT), "right").space()
    line.cell("py" if python else "c", 2, ink.style(Role.PYTHON if python else Role.NATIVE)).space()
    name = frame.function if python else short_symbol(frame.function)
    line.add(name[shift:], ink.style(Role.TEXT, bold=python))
    line.add(f"  {frame_place(frame)}", ink.style(Role.DIM))


def frame_place(frame: Frame) -> str:
    """Return `engine.cpp:21`, or the module."""
    if frame.file:
        name = frame.file.rsplit("/", 1)[-1]
        return f"{name}:{frame.line}" if frame.line else name
    return frame.module or ""


_MOST_FRAMES: Final = 8
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
        kept = [n for n, frame in enumerate(frames) if not n or code.inside(frame) < Inside.LIBRARY][:_MOST_FRAMES]
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
