"""The device panels: exceptions, kernels and the positions of warps; the selected thread's stack and barriers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from livedbg.analysis.devices import fault_sentence, headline, kernel_name, place_name, places_of, share_of, units_of
from livedbg.model.devices import DUMP_READY, DeviceFault, DeviceKernel, DevicePlace, DeviceState, DeviceUnit
from livedbg.model.intents import DumpDevice
from livedbg.panels.base import Asked, Key, LinePanel, Noticed, Pointed
from livedbg.panels.catchpoints import process_to_catch_in
from livedbg.panels.cells import Line, wrap
from livedbg.panels.draw_context import DrawContext
from livedbg.panels.sheet import SheetLine, SidePanel
from livedbg.panels.stack import frame_place
from livedbg.text.quantities import clock, count, elapsed
from livedbg.text.wording import many
from livedbg.themes import Role

DUMP_KEY: Final = Key(
    "D", "D", "dump", "GPU core dump of the process (asks first); kernels are stopped while it is written"
)
_SENTENCE_LINES: Final = 2

_Item = DeviceState | DeviceFault | DeviceUnit | DeviceKernel | DevicePlace


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of a device state, and the kernel if it is a place."""

    item: _Item
    state: DeviceState
    kernel: DeviceKernel | None = None


class DevicePanel(LinePanel, scope="device"):
    """All known device states, newest first."""

    LABEL = "Device"
    HELP = (
        "GPU state from a core dump: exceptions, kernels with the SMs that they run on, and the positions of their "
        "warps. A warp is divergent if some of its lanes are elsewhere. Core dumps are taken only on request; those"
        " that the job writes by itself are read."
    )
    KEYS = (DUMP_KEY,)
    HEAD = _SENTENCE_LINES + 1

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[_Row] = []
        self.needle = ""
        self._key: object = None

    @property
    def pointed(self) -> str | None:
        """Return the target of the state under the cursor."""
        row = self._row(self.cursor)
        return row.state.target if row is not None else None

    def context_changed(self, before: DrawContext) -> None:
        states = self.context.snapshot.devices
        key = (id(states), self.needle)
        if key == self._key:
            return
        self._key = key
        found = newest(self.context)
        self.rows = [row for state in found for row in _rows(state, several=len(found) > 1) if self._wanted(row)]
        kernels = sum(len(state.kernels) for state in found)
        self.title(self.LABEL, many(kernels, "kernel") if found else "")

    def filter(self, text: str) -> None:
        self.needle = text.lower()
        self.context_changed(self.context)
        self.resize_rows()
        self.repaint()

    def count(self) -> int:
        return len(self.rows)

    def entity(self, index: int) -> str | None:
        row = self._row(index)
        return row.state.target if row is not None and row.state.target.startswith("process:") else None

    def move_to(self, index: int) -> None:
        """Move; the head and the panel next to it follow."""
        before = self.pointed
        super().move_to(index)
        if self.pointed != before:
            self.post_message(Pointed(self.pointed))
            self.repaint()

    def draw_head(self, index: int, line: Line) -> None:
        """Draw the most important fact as a sentence, and its age."""
        row = self._row(self.cursor) or self._row(0)
        ink = self.context.ink
        if row is None:
            return
        if index < _SENTENCE_LINES:
            lines = wrap(headline(row.state), max(line.width, 20))
            if len(lines) > _SENTENCE_LINES:
                lines[_SENTENCE_LINES - 1] = f"{lines[_SENTENCE_LINES - 1][: line.width - 2]} …"
            role = Role.BAD if row.state.faults else Role.HEADING
            line.add(lines[index] if index < len(lines) else "", ink.style(role, bold=True))
            return
        age = self.context.since_ns(row.state.taken_wall_ns)
        when = f"{clock(row.state.taken_wall_ns)}, {elapsed(age)} ago" if row.state.taken_wall_ns else "unknown"
        line.add(f"{row.state.source}: {when}", ink.style(Role.DIM))
        if row.state.notes:
            line.add(f"  {many(len(row.state.notes), 'note')}", ink.style(Role.WARN))

    def draw(self, index: int, line: Line) -> None:
        row = self.rows[index]
        item, ink, glyphs = row.item, self.context.ink, self.context.glyphs
        if isinstance(item, DeviceState):
            line.add(self.context.names.label(item.target), ink.style(Role.HEADING, bold=True))
            line.add(f"  {item.path}", ink.style(Role.DIM))
        elif isinstance(item, DeviceFault):
            line.add(f"{glyphs.fail} ", ink.style(Role.BAD, bold=True)).add(fault_sentence(item), ink.style(Role.BAD))
        elif isinstance(item, DeviceUnit):
            line.add(f"device {item.number} {item.name}", ink.style(Role.TEXT, bold=True))
            if item.sms:
                line.add(f"  {item.machine}  {item.busy_sms:,} of {item.sms:,} SMs have warps", ink.style(Role.DIM))
        elif isinstance(item, DeviceKernel):
            self._kernel(item, line)
        else:
            self._place(item, row.kernel, line)

    def placeholder(self) -> str:
        if self.needle:
            return "No device matches the filter."
        if self.context.recorded:
            return "The recording contains no GPU state."
        return "No GPU state yet. Press D for a GPU core dump (it stops the kernels meanwhile)."

    def action_dump(self) -> None:
        if self.context.recorded:
            self.post_message(Noticed("A core dump needs a live target; this is a recording.", "warning"))
            return
        process = self.entity(self.cursor) or _process_to_dump(self.context)
        if process is None:
            self.post_message(Noticed("Select a thread of the process to dump first (4 shows the threads).", "warning"))
            return
        label = self.context.names.label(process)
        self.post_message(Asked(DumpDevice(process=process), f"Requesting a GPU core dump of {label}"))

    def _row(self, index: int) -> _Row | None:
        return self.rows[index] if 0 <= index < len(self.rows) else None

    def _wanted(self, row: _Row) -> bool:
        if not self.needle:
            return True
        item = row.item
        if isinstance(item, DevicePlace):
            return self.needle in f"{place_name(item)} {item.function} {item.example}".lower()
        if isinstance(item, DeviceKernel):
            return self.needle in f"{item.name} {item.status}".lower()
        return not isinstance(item, DeviceFault) or self.needle in fault_sentence(item).lower()

    def _kernel(self, kernel: DeviceKernel, line: Line) -> None:
        ink, glyphs = self.context.ink, self.context.glyphs
        line.space(2).add(f"{glyphs.run} kernel {kernel.number} ", ink.style(Role.ACCENT))
        line.add(kernel_name(kernel), ink.style(Role.TEXT, bold=True))
        on = f" on {many(kernel.sms, 'SM')}" if kernel.sms else ""
        line.add(f"  {kernel.status}{on}", ink.style(Role.DIM))
        if kernel.warps:
            line.add(f"  {many(kernel.warps, 'warp')}", ink.style(Role.DIM))

    def _place(self, place: DevicePlace, kernel: DeviceKernel | None, line: Line) -> None:
        ink = self.context.ink
        share = share_of(place, kernel) if kernel is not None else 0.0
        line.space(4).cell(f"{100 * share:.0f} %", 5, ink.style(Role.WARN if share >= 0.5 else Role.DIM), "right")
        who = many(place.warps, "warp") if place.warps else many(place.threads, "thread")
        line.space(2).cell(who, 14, None, "right").space(2)
        line.add(place_name(place, kernel), ink.style(Role.TEXT, bold=True))
        if place.line is not None and place.function:
            line.add(f"  {place.function}", ink.style(Role.NATIVE))
        if place.divergent:
            line.add(f"  {count(place.divergent)} divergent", ink.style(Role.WAIT))
        line.add(f"  {place.example}", ink.style(Role.FAINT))


def newest(context: DrawContext) -> list[DeviceState]:
    """Return the states, newest first."""
    return list(context.snapshot.devices.values())[::-1]


def _process_to_dump(context: DrawContext) -> str | None:
    """Return the target of the selection, or the only one that accepts requests; None if the user has to choose."""
    chosen, processes = process_to_catch_in(context), context.snapshot.processes
    said = (status.target for status in context.snapshot.statuses.values() if status.code == DUMP_READY)
    ready = [target for target in said if target in processes and not processes[target].exited]
    return ready[0] if len(ready) == 1 and chosen not in ready else chosen


def _rows(state: DeviceState, *, several: bool) -> Iterator[_Row]:
    if several:
        yield _Row(state, state)
    yield from (_Row(fault, state) for fault in state.faults)
    for unit, kernels in units_of(state):
        if kernels or len(state.units) == 1:
            yield _Row(unit, state)
        for kernel in kernels:
            yield _Row(kernel, state)
            yield from (_Row(place, state, kernel) for place in places_of(state, kernel.number))


_PLACES: Final = 6


class DeviceThreadPanel(SidePanel):
    """One thread of a kernel, and everything else that the debugger reported."""

    LABEL = "On the device"
    HELP = (
        "Exceptions with the next step, the thread in focus of the debugger (that of the exception, if there is one) "
        "with its stack and barriers, contexts, managed variables, and what could not be seen."
    )

    def __init__(self) -> None:
        super().__init__(self._shown, lead=0)
        self._target: str | None = None

    def point(self, target: str | None) -> None:
        """Show another state."""
        if target != self._target:
            self._target = target
            self.show(self.context)

    def _shown(self, context: DrawContext) -> tuple[str, Sequence[SheetLine]]:
        states = newest(context)
        state = next((state for state in states if state.target == self._target), states[0] if states else None)
        return "", list(_parts(state)) if state is not None else ()


def _parts(state: DeviceState) -> Iterator[SheetLine]:
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
