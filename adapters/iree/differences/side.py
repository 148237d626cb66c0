"""One side of a comparison: which compiler, which flags, which device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

TRACE: Final = "--iree-flow-trace-dispatch-tensors"
"""Makes a module hand the tensors of every dispatch to the runtime's debug sink (iree/compiler/Dialect/Flow)."""

_LOCAL: Final = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
)
_DRIVERS: Final = {"local-sync": _LOCAL, "local-task": _LOCAL}
_SOFTWARE_VULKAN: Final = "llvmpipe"
"""Mesa's Vulkan on the CPU: shaders compiled for another target compute wrong values on it, without an error."""


class Side(Struct, frozen=True):
    """How one side is compiled and run.

    Attributes:
        name: `A` or `B`.
        compiler: the program `iree-compile`.
        python: a Python that has `iree.runtime`.
        device: of the runtime, such as `local-task`, `vulkan`, `cuda://0`.
        flags: of the compiler, besides those that the device asks for.
        runtime_flags: of the runtime, such as `--task_topology_group_count=1`.
        parameters: files of parameters, `SCOPE=FILE` or `FILE`.
        before: compiled modules that are loaded before the one that is run.
    """

    name: str
    compiler: str
    python: str
    device: str
    flags: tuple[str, ...] = ()
    runtime_flags: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    before: tuple[str, ...] = ()


def target_flags(device: str, hardware: str, flags: Sequence[str]) -> list[str]:
    """The flags that compile for a device; none where the user's own flags name a target.

    Args:
        device: of the runtime.
        hardware: the name that the runtime has for it, or "".
        flags: the user's.
    """
    if any(flag.startswith(("--iree-hal-target-device", "--iree-hal-target-backends")) for flag in flags):
        return []
    driver = device.partition("://")[0]
    made = list(_DRIVERS.get(driver, (f"--iree-hal-target-device={driver}",)))
    if driver == "vulkan" and _SOFTWARE_VULKAN in hardware and not _has(flags, "--iree-vulkan-target"):
        made.append(f"--iree-vulkan-target={_SOFTWARE_VULKAN}")
    return [flag for flag in made if not _has(flags, flag.partition("=")[0])]


def _has(flags: Sequence[str], name: str) -> bool:
    return any(flag == name or flag.startswith(f"{name}=") for flag in flags)


def label(side: Side, other: Side) -> str:
    """The side in words, by what it does not share with the other: `A (local-task)`, `B (--iree-opt-level=O3)`."""
    parts = [] if side.device == other.device else [side.device]
    parts += [flag for flag in side.flags if flag not in other.flags]
    if side.compiler != other.compiler:
        parts.append(side.compiler)
    return f"{side.name} ({' '.join(parts)})" if parts else side.name
