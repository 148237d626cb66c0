"""Formats a device state for a terminal, exceptions first."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from livedbg.analysis.devices import (
    fault_sentence,
    headline,
    place_name,
    places_of,
    share_of,
    unit_sentence,
    units_of,
)
from livedbg.model import Frame
from livedbg.model.devices import DeviceFault, DeviceKernel, DevicePlace, DeviceState
from livedbg.text.quantities import duration

_PLACES: Final = 12  # of a kernel
_FRAMES: Final = 12


def state_text(state: DeviceState) -> str:
    """All of it, without a newline at the end."""
    return "\n".join(_lines(state))


def _lines(state: DeviceState) -> Iterator[str]:
    yield headline(state)
    yield _origin(state)
    for number, fault in enumerate(state.faults):
        yield ""
        if number:  # the first is the headline
            yield fault_sentence(fault)
        yield from _fault(fault)
    for unit, kernels in units_of(state):
        yield ""
        yield unit_sentence(unit)
        for kernel in kernels:
            yield from _kernel(state, kernel)
    if state.focus:
        yield ""
        yield f"focus  {state.focus}"
        yield from (_frame(number, frame) for number, frame in enumerate(state.stack[:_FRAMES]))
    for title, lines in (("barriers", state.barriers), ("contexts", state.contexts), ("managed", state.managed)):
        if lines:
            yield ""
            yield title
            yield from (f"  {line}" for line in lines)
    if state.notes:
        yield ""
        yield from (f"note: {note}" for note in state.notes)


def _origin(state: DeviceState) -> str:
    taken = ""
    if state.taken_wall_ns:
        taken = time.strftime(" of %Y-%m-%d %H:%M:%S", time.localtime(state.taken_wall_ns // 1_000_000_000))
    path = f" {state.path}" if state.path else ""
    return f"({state.source}{taken}{path}; read in {duration(state.sampling_ns)})"


def _fault(fault: DeviceFault) -> Iterator[str]:
    at = f"PC {fault.address:#x}; " if fault.address is not None else ""
    if fault.example:
        yield f"  first seen at {at}{fault.example}"
    if fault.warps:
        yield f"  {fault.lanes:,} lane{_s(fault.lanes)} of {fault.warps:,} warp{_s(fault.warps)} have it"
    yield f"  next: {fault.remedy}"


def _kernel(state: DeviceState, kernel: DeviceKernel) -> Iterator[str]:
    counts = ", ".join(
        f"{number:,} {word}{_s(number)}"
        for number, word in ((kernel.blocks, "block"), (kernel.warps, "warp"), (kernel.threads, "thread"))
        if number
    )
    parent = f", launched by kernel {kernel.parent}" if kernel.parent is not None else ""
    on = f" on {kernel.sms:,} SM{_s(kernel.sms)}" if kernel.sms else ""
    yield f"  kernel {kernel.number}  {kernel.name}<<<{kernel.grid_dim},{kernel.block_dim}>>>{kernel.arguments}"
    if kernel.still_since_wall_ns and state.taken_wall_ns:
        apart = duration(state.taken_wall_ns - kernel.still_since_wall_ns)
        yield f"    unchanged: a sample {apart} earlier had it at the same place"
    yield f"    grid {kernel.grid}, {kernel.status}{on}{parent}{f'; {counts}' if counts else ''}"
    places = places_of(state, kernel.number)
    for place in places[:_PLACES]:
        yield f"    {100 * share_of(place, kernel):4.0f} %  {_place(place, kernel)}"
        if place.instruction:
            yield f"            {place.instruction}{f'   {place.meaning}' if place.meaning else ''}"
    if len(places) > _PLACES:
        yield f"           and {len(places) - _PLACES:,} places more"


def _place(place: DevicePlace, kernel: DeviceKernel) -> str:
    who = f"{place.warps:,} warp{_s(place.warps)}" if place.warps else f"{place.threads:,} thread{_s(place.threads)}"
    apart = f", {place.divergent:,} of them divergent" if place.divergent else ""
    inside = f"  {place.function}" if place.line is not None and place.function else ""
    address = f"  {place.address:#x}" if place.line is not None and place.address is not None else ""
    return f"{who}{apart}  {place_name(place, kernel)}{inside}{address}  {place.example}".rstrip()


def _frame(number: int, frame: Frame) -> str:
    at = f" at {frame.file}:{frame.line}" if frame.file and frame.line else ""
    return f"  #{number:<2} {frame.function}{at}"


def _s(number: int) -> str:
    return "" if number == 1 else "s"
