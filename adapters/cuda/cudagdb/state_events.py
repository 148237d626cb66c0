"""Makes events of a device state: a device exception is a diagnostic and an exception hit."""

from __future__ import annotations

from collections.abc import Iterator

from livedbg.adapters.cuda.facts import CudaFacts
from livedbg.analysis.devices import fault_sentence
from livedbg.model import Diagnostic, Evidence, ExceptionHit, Frame, Severity
from livedbg.model.devices import DeviceFault, DeviceState
from livedbg.model.events import DeviceSeen, DiagnosticSeen, Event, ExceptionSeen, Stamp


def events_of(state: DeviceState, stamp: Stamp) -> Iterator[Event]:
    """The events of one sample."""
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
    """The exception with the facts that the rules for CUDA read."""
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
