"""State of the GPUs of a process at one moment, as immutable values (the invariants of livedbg.model hold).

A kernel runs as a grid of blocks; the threads of a block run in warps of some lanes each, and a warp is on an SM
(streaming multiprocessor) of a device.
"""

from __future__ import annotations

from msgspec import Struct, field

from livedbg.model import Frame

DUMP_READY = "dump-ready"
"""Code of the status of a process that takes orders for a GPU core dump."""


class DeviceUnit(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A GPU; `busy_sms` is the number of SMs that have warps."""

    number: int
    name: str = ""
    machine: str = ""
    bus: str = ""
    sms: int = 0
    busy_sms: int = 0
    warps_per_sm: int = 0


class DeviceKernel(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A kernel that was launched and has not ended.

    Attributes:
        number: the debugger's number of the kernel, unique over all devices.
        grid: number of its grid, unique on its device; negative if the device launched it.
        grid_dim, block_dim: `(264,1,1)`.
        blocks, warps, threads: how many of each are on the device now; 0 if not counted.
        still_since_wall_ns: when an earlier sample saw it at the same place; None if none did.
    """

    number: int
    device: int = 0
    grid: int = 0
    parent: int | None = None
    name: str = ""
    arguments: str = ""
    status: str = ""
    grid_dim: str = ""
    block_dim: str = ""
    sms: int = 0
    blocks: int = 0
    warps: int = 0
    threads: int = 0
    still_since_wall_ns: int | None = None


class DevicePlace(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A place in the code, and the warps of a kernel that are there.

    Attributes:
        line: None if the code has no line information.
        address: lowest program counter of these warps.
        warps: warps whose active lanes are here.
        divergent: warps among these with other lanes that wait elsewhere.
        threads: lanes that are here, active or not.
        instruction: disassembled at `address`; "" if that failed.
        meaning: activity of a warp at this place, as a predicate: `waits at a block barrier`; "" if not known.
        example: one of the threads: `block (0,0,0) thread (0,0,0)`.
    """

    kernel: int
    function: str = ""
    file: str | None = None
    line: int | None = None
    address: int | None = None
    warps: int = 0
    divergent: int = 0
    threads: int = 0
    instruction: str = ""
    meaning: str = ""
    example: str = ""


class DeviceFault(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A device exception.

    Attributes:
        name: the debugger's name, `Warp Illegal Address`.
        title: kind of exception with number and name, to begin a sentence; "" if only `name` is known.
        address: of the faulting instruction, if the device reports it.
        example: a faulting thread and its place, `block (0,0,0) thread (3,0,0)`.
        warps, lanes: how many were seen to have it; not every warp is queried.
    """

    name: str
    title: str = ""
    code: int | None = None
    meaning: str = ""
    remedy: str = ""
    kernel: int | None = None
    function: str = ""
    file: str | None = None
    line: int | None = None
    address: int | None = None
    example: str = ""
    warps: int = 0
    lanes: int = 0


class DeviceState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A sample of a device.

    Attributes:
        target: identifier of the process, or `file:PATH` if there is only a core dump.
        source: `core dump`, `dump on request`, `attach`.
        taken_wall_ns: when the device was in this state (when the dump was written).
        faults: the worst first.
        places: those with most warps first.
        barriers: the barriers at which the warp of `focus` waits, in the debugger's words.
        contexts: `0x7f… on device 0, active`.
        managed: static managed variables, `name = value`.
        reopen: command line that shows this state again; "" if it can't be shown again.
        repeat: command line that takes another sample while the process runs.
    """

    target: str
    source: str
    path: str = ""
    taken_wall_ns: int | None = None
    units: tuple[DeviceUnit, ...] = ()
    kernels: tuple[DeviceKernel, ...] = ()
    places: tuple[DevicePlace, ...] = ()
    faults: tuple[DeviceFault, ...] = ()
    focus: str = ""
    stack: tuple[Frame, ...] = ()
    barriers: tuple[str, ...] = ()
    contexts: tuple[str, ...] = ()
    managed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    sampling_ns: int = field(default=0, name="look_ns")  # recordings of all versions call it so
    tool: str = ""
    reopen: str = ""
    repeat: str = ""
