"""Format a device state for a terminal, exceptions first; and convert it to events.

A device exception becomes a diagnostic and an exception hit.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from livedbg.adapters.cuda.facts import CudaFacts
from livedbg.analysis.devices import (
    fault_sentence,
    headline,
    place_name,
    places_of,
    share_of,
    unit_sentence,
    units_of,
)
from livedbg.model import Diagnostic, Evidence, ExceptionHit, Frame, Severity
from livedbg.model.devices import DeviceFault, DeviceKernel, DevicePlace, DeviceState
from livedbg.model.events import DeviceSeen, DiagnosticSeen, Event, ExceptionSeen, Stamp
from livedbg.text.quantities import duration
from livedbg.text.wording import many

_PLACES: Final = 12  # of a kernel
_FRAMES: Final = 12


def state_text(state: DeviceState) -> str:
    """Return the whole text, without a newline at the end."""
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
        yield f"  {many(fault.lanes, 'lane')} of {many(fault.warps, 'warp')} have it"
    yield f"  next: {fault.remedy}"


def _kernel(state: DeviceState, kernel: DeviceKernel) -> Iterator[str]:
    numbers = ((kernel.blocks, "block"), (kernel.warps, "warp"), (kernel.threads, "thread"))
    counts = ", ".join(many(number, word) for number, word in numbers if number)
    parent = f", launched by kernel {kernel.parent}" if kernel.parent is not None else ""
    on = f" on {many(kernel.sms, 'SM')}" if kernel.sms else ""
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
    who = many(place.warps, "warp") if place.warps else many(place.threads, "thread")
    apart = f", {place.divergent:,} of them divergent" if place.divergent else ""
    inside = f"  {place.function}" if place.line is not None and place.function else ""
    address = f"  {place.address:#x}" if place.line is not None and place.address is not None else ""
    return f"{who}{apart}  {place_name(place, kernel)}{inside}{address}  {place.example}".rstrip()


def _frame(number: int, frame: Frame) -> str:
    at = f" at {frame.file}:{frame.line}" if frame.file and frame.line else ""
    return f"  #{number:<2} {frame.function}{at}"


def events_of(state: DeviceState, stamp: Stamp) -> Iterator[Event]:
    """Yield the events of one sample."""
    yield DeviceSeen(device=state, **stamp)
    for number, fault in enumerate(state.faults):
        at_ns = state.taken_wall_ns or stamp["wall_ns"]
        process = state.target if state.target.startswith("process:") else None
        yield DiagnosticSeen(diagnostic=_diagnostic(state, fault, process, at_ns), **stamp)
        yield ExceptionSeen(
            hit=ExceptionHit(
                id=f"cuda-gdb/{state.target}/{fault.name}",
                type=f"CUDA_EXCEPTION_{fault.code}" if fault.code is not None else "CUDA exception",
                message=f"{fault.name}: {fault.meaning}",
                process=process,
                stack=state.stack if number == 0 and state.stack else _stack(fault),
                at_wall_ns=at_ns,
                first_wall_ns=at_ns,
                catchpoint="device",
            ),
            **stamp,
        )


def _diagnostic(state: DeviceState, fault: DeviceFault, process: str | None, at_ns: int) -> Diagnostic:
    """Return the exception with the facts that the rules for CUDA read."""
    kernel = next((one for one in state.kernels if one.number == fault.kernel), None)
    facts = CudaFacts(
        context=process or state.target,
        process=process or "",
        what=fault.title or fault.name,
        kernel=kernel.name if kernel is not None else "",
        function=fault.function,
        pc=f"{fault.address:#x}" if fault.address is not None else "",
        where=f"{fault.file}:{fault.line}" if fault.file and fault.line else "",
        steps=(fault.remedy,) if fault.remedy else (),
    )
    evidence = Evidence(
        kind="file" if state.path else "counter",
        text=_seen(fault),
        source="" if state.path else "cuda-gdb",
        file=state.path,
        at_wall_ns=at_ns,
    )
    return Diagnostic(
        id=f"cuda-gdb/{state.target}/{fault.name}",
        system="cuda",
        code="device-exception",
        severity=Severity.CRITICAL,
        sentence=fault_sentence(fault),
        entities=() if process is None else (process,),
        facts=facts,
        evidence=(evidence,),
        at_wall_ns=at_ns,
    )


def _seen(fault: DeviceFault) -> str:
    lanes = f"; {fault.lanes} lanes of {fault.warps} warps have it" if fault.warps else ""
    at = f" at PC {fault.address:#x}" if fault.address is not None else ""
    return f"{fault.name}{at}{f', {fault.example}' if fault.example else ''}{lanes}"


def _stack(fault: DeviceFault) -> tuple[Frame, ...]:
    if not fault.function:
        return ()
    return (Frame(function=fault.function, file=fault.file, line=fault.line, address=fault.address),)
