"""Sentences about a device's state, for the command line, the screen and a diagnosis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from livedbg.model.devices import DeviceFault, DeviceKernel, DevicePlace, DeviceState, DeviceUnit
from livedbg.text.wording import sentence_case

_NEARLY_ALL: Final = 0.9
_MOST: Final = 0.5
_NAME: Final = 60


def headline(state: DeviceState) -> str:
    """Return the main fact in one sentence: an exception, else where the warps of the largest kernel are."""
    if state.faults:
        return fault_sentence(state.faults[0])
    kernels = sorted(state.kernels, key=lambda kernel: (-kernel.warps, -kernel.sms, kernel.number))
    if kernels:
        return kernel_sentence(state, kernels[0])
    return "No kernel is on the device." if state.units else "No device is in use."


def fault_sentence(fault: DeviceFault) -> str:
    """Return `Device exception 14, Warp Illegal Address, in axpy at axpy.cu:17: A thread accessed …`."""
    place = f", in {_short(fault.function)}" if fault.function else ""
    line = f" at {_base(fault.file)}:{fault.line}" if fault.file and fault.line else ""
    return f"{fault.title or fault.name}{place}{line}: {fault.meaning}"


def kernel_sentence(state: DeviceState, kernel: DeviceKernel) -> str:
    """Return `All 1,056 warps of kernel 0 spin<<<…>>> are at spin.cu:12, in wait_for(int volatile*).`"""
    name = f"kernel {kernel.number} {kernel_name(kernel)}"
    places = places_of(state, kernel.number)
    if not places or not kernel.warps:
        on = f" on {kernel.sms:,} SMs" if kernel.sms else ""
        return f"{sentence_case(name)} is {kernel.status or 'there'}{on}."
    first, share = places[0], share_of(places[0], kernel)
    where = f"at {place_name(first, kernel)}"
    inside = f", in {_short(first.function)}" if first.line is not None and first.function else ""
    does = f": each {first.meaning}" if first.meaning else ""
    if first.warps == kernel.warps:
        if kernel.warps == 1:
            return f"The only warp of {name} is {where}{inside}{f': it {first.meaning}' if first.meaning else ''}."
        return f"All {kernel.warps:,} warps of {name} are {where}{inside}{does}."
    if share >= _MOST:
        word = "Nearly all" if share >= _NEARLY_ALL else "Most"
        return f"{word} warps of {name} are {where} ({first.warps:,} of {kernel.warps:,}){inside}{does}."
    return f"The {kernel.warps:,} warps of {name} are at {len(places):,} places, most of them {where}."


def unit_sentence(unit: DeviceUnit) -> str:
    """Return `device 0  NAME (sm_90, 1b:00.0): 132 of 132 SMs have warps`."""
    if not unit.sms:
        return f"device {unit.number}"
    known = ", ".join(filter(None, (unit.machine, unit.bus)))
    return f"device {unit.number}  {unit.name} ({known}): {unit.busy_sms:,} of {unit.sms:,} SMs have warps"


def units_of(state: DeviceState) -> Iterator[tuple[DeviceUnit, list[DeviceKernel]]]:
    """Yield each device with its kernels; a device that the debugger did not list has only its number."""
    listed = {unit.number for unit in state.units}
    unlisted = sorted({kernel.device for kernel in state.kernels} - listed)
    for unit in (*state.units, *(DeviceUnit(number=number) for number in unlisted)):
        yield unit, [kernel for kernel in state.kernels if kernel.device == unit.number]


def kernel_name(kernel: DeviceKernel) -> str:
    """Return `spin<<<(264,1,1),(128,1,1)>>>`."""
    return f"{_short(kernel.name)}<<<{kernel.grid_dim},{kernel.block_dim}>>>"


def place_name(place: DevicePlace, kernel: DeviceKernel | None = None) -> str:
    """Return `spin.cu:12`, else the function, else the address, with its offset in the kernel's own function."""
    if place.file and place.line is not None:
        return f"{_base(place.file)}:{place.line}"
    address = f"{place.address or 0:#x}"
    own, distance = kernel.name if kernel is not None else "", place.function.rpartition("+")[2]
    if own and place.function.startswith(own):
        return f"{address} (+{distance})" if distance.isdecimal() else f"{address} (its beginning)"
    return _short(place.function) or address


def places_of(state: DeviceState, kernel: int) -> Sequence[DevicePlace]:
    """Return the places of a kernel, those with most warps first."""
    return [place for place in state.places if place.kernel == kernel]


def share_of(place: DevicePlace, kernel: DeviceKernel) -> float:
    """Return the share of a kernel's warps at a place; of its threads if no warps are known."""
    if kernel.warps and place.warps:
        return place.warps / kernel.warps
    return place.threads / kernel.threads if kernel.threads else 0.0


def _base(path: str | None) -> str:
    return (path or "").rsplit("/", 1)[-1]


def _short(name: str) -> str:
    if len(name) <= _NAME:
        return name
    kept = "".join(_outside(name))
    return kept if len(kept) <= _NAME else f"{kept[: _NAME - 1]}…"


def _outside(name: str) -> Iterator[str]:
    depth = 0
    for sign in name:
        if sign in "<(":
            if depth == 0:
                yield "<…>" if sign == "<" else "(…)"
            depth += 1
        elif sign in ">)":
            depth = max(0, depth - 1)
        elif depth == 0:
            yield sign
