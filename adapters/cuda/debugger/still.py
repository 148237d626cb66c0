"""What has not moved between two looks at a device."""

from __future__ import annotations

from msgspec.structs import replace

from livedbg.analysis.devices import places_of
from livedbg.model.devices import DeviceKernel, DeviceState

__all__ = ["compared"]


def compared(before: DeviceState | None, now: DeviceState) -> DeviceState:
    """The newer state, in which each kernel says since when it stands where it did.

    A kernel stands still when the same grid has as many warps, most of them at the same place, at both looks.
    """
    if before is None or before.target != now.target or before.taken_wall_ns == now.taken_wall_ns:
        return now
    known = {(kernel.device, kernel.grid, kernel.name): kernel for kernel in before.kernels}
    kernels = tuple(
        replace(kernel, still_since_wall_ns=_since(before, then, now, kernel))
        if (then := known.get((kernel.device, kernel.grid, kernel.name))) is not None
        else kernel
        for kernel in now.kernels
    )
    return replace(now, kernels=kernels)


def _since(before: DeviceState, then: DeviceKernel, now: DeviceState, kernel: DeviceKernel) -> int | None:
    was, stands = _standing(before, then), _standing(now, kernel)
    if was is None or was != stands or then.warps != kernel.warps:
        return None
    return then.still_since_wall_ns or before.taken_wall_ns


def _standing(state: DeviceState, kernel: DeviceKernel) -> tuple[object, ...] | None:
    """Where most warps of a kernel stand: its line, else its function, else its address."""
    first = next(iter(places_of(state, kernel.number)), None)
    if first is None or not kernel.warps or 2 * first.warps <= kernel.warps:
        return None
    if first.line is not None:
        return (first.file, first.line)
    return (first.function.rpartition("+")[0] or first.function or first.address,)
