"""The thread on the device that the debugger selected: its stack, its barriers, and what could not be read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from livedbg.analysis.devices import place_name
from livedbg.model.devices import DeviceState
from livedbg.panels.base import LinePanel
from livedbg.panels.cells import Line, wrap
from livedbg.panels.device import newest
from livedbg.panels.draw_context import DrawContext
from livedbg.panels.sheet import SheetLine
from livedbg.panels.stack import frame_place
from livedbg.themes import Role

_PLACES: Final = 6


class DeviceThreadPanel(LinePanel):
    """Beside the kernels: one of their threads, and everything else that the debugger reported."""

    LABEL = "On the device"
    HELP = (
        "Exceptions with the next step, the thread in focus of the debugger (that of the exception, if there is one) "
        "with its stack and barriers, contexts, managed variables, and what could not be seen."
    )
    CURSOR = False

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._target: str | None = None
        self._shown: tuple[DeviceState | None, int] = (None, -1)
        self._lines: list[SheetLine] = []

    def point(self, target: str | None) -> None:
        """Show another state."""
        if target != self._target:
            self._target = target
            self.resize_rows()
            self.repaint()

    def context_changed(self, before: DrawContext) -> None:
        """Made when it is drawn."""

    def count(self) -> int:
        """Lines, wrapped."""
        return len(self._made(max(self.scrollable_content_region.width, 20)))

    def draw(self, index: int, line: Line) -> None:
        """One line."""
        shown = self._made(max(line.width, 20))[index]
        line.space(shown.indent).add(shown.text, self.context.ink.style(shown.role, bold=shown.bold))

    def placeholder(self) -> str:
        """Nothing is there."""
        return ""

    def copy_text(self) -> str:
        """All of it."""
        state = self._state()
        return "\n".join(f"{' ' * part.indent}{part.text}" for part in _parts(state)) if state is not None else ""

    def _state(self) -> DeviceState | None:
        states = newest(self.context)
        return next((state for state in states if state.target == self._target), states[0] if states else None)

    def _made(self, width: int) -> list[SheetLine]:
        state = self._state()
        if self._shown != (state, width):
            self._shown = (state, width)
            self._lines = [] if state is None else [
                SheetLine(text, part.role, bold=part.bold, indent=part.indent)
                for part in _parts(state)
                for text in wrap(part.text, max(width - part.indent, 10))
            ]  # fmt: skip
        return self._lines


def _parts(state: DeviceState) -> Iterator[SheetLine]:
    """What there is to say, paragraph by paragraph."""
    for fault in state.faults:
        address = f"PC {fault.address:#x}, " if fault.address is not None else ""
        if fault.example:
            yield SheetLine(f"{fault.name}: {address}{fault.example}", Role.BAD)
        yield SheetLine(f"next: {fault.remedy}", Role.ACCENT)
    if state.focus:
        yield SheetLine(state.focus, Role.HEADING, bold=True)
        for number, frame in enumerate(state.stack):
            yield SheetLine(f"#{number} {frame.function}  {frame_place(frame)}".rstrip(), indent=2)
    known = [place for place in state.places[:_PLACES] if place.instruction]
    if known:
        yield SheetLine("instructions", Role.HEADING)
    for place in known:
        words = f"{place_name(place)}  {place.instruction}{f'   {place.meaning}' if place.meaning else ''}"
        yield SheetLine(words, Role.NATIVE, indent=2)
    for title, lines in (("barriers", state.barriers), ("contexts", state.contexts), ("managed", state.managed)):
        if lines:
            yield SheetLine(title, Role.HEADING)
            yield from (SheetLine(text, Role.DIM, indent=2) for text in lines)
    yield from (SheetLine(f"note: {note}", Role.WARN) for note in state.notes)
    if state.path:
        yield SheetLine(state.path, Role.FAINT)
