"""Typed rows of cuda-gdb's tables.

The columns are those of its MI output (gdb/cuda/cuda-commands.c and gdb/cuda/cuda-coords.c in cuda-gdb's source).
Console output gets the same column names first (livedbg.adapters.cuda.cudagdb.engine).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line

Row = TypeVar("Row")
_DIM: Final = lazy_re(r"\(\d{1,18}(,\d{1,18})*\)")
_NO_FILE: Final = frozenset(("", "n/a", "??", "<unknown>"))


class Focus(NamedTuple):
    """The thread in the debugger's focus."""

    device: int
    sm: int
    warp: int
    lane: int
    kernel: int
    grid: int
    block: str
    thread: str

    @property
    def words(self) -> str:
        """Return `block (0,0,0) thread (3,0,0) on device 0 SM 2 warp 1 lane 3`."""
        place = f"device {self.device} SM {self.sm} warp {self.warp} lane {self.lane}"
        return f"block {self.block} thread {self.thread} on {place}"


class DeviceRow(NamedTuple):
    """A device; `active` is the mask of SMs that have warps."""

    number: int
    name: str
    machine: str
    bus: str
    sms: int
    warps_per_sm: int
    active: int


class SmRow(NamedTuple):
    """An SM; `warps` is the mask of its warps."""

    number: int
    warps: int


class WarpRow(NamedTuple):
    """A warp; `sm` is -1 if the table lacks it."""

    device: int
    sm: int
    number: int
    active: int
    divergent: int
    pc: int
    kernel: int
    block: str
    thread: str


class LaneRow(NamedTuple):
    """A lane; `exception` is "" for none."""

    number: int
    active: bool
    pc: int
    thread: str
    exception: str


class KernelRow(NamedTuple):
    """A kernel; `sms` is the mask of the SMs that it runs on."""

    number: int
    device: int
    grid: int
    parent: int | None
    status: str
    sms: int
    grid_dim: str
    block_dim: str
    invocation: str


class BlockRow(NamedTuple):
    """Consecutive blocks."""

    kernel: int
    blocks: int


class ThreadRow(NamedTuple):
    """Consecutive threads at one program counter."""

    kernel: int
    block: str
    thread: str
    threads: int
    pc: int
    file: str | None
    line: int | None


def convert(rows: Iterable[Mapping[str, str]], make: Callable[[Mapping[str, str]], Row]) -> tuple[list[Row], int]:
    """Return typed rows, and the number of malformed ones."""
    good: list[Row] = []
    bad = 0
    for row in rows:
        try:
            good.append(make(row))
        except (KeyError, ValueError):
            bad += 1
    return good, bad


def focus_of(said: Mapping[str, str]) -> Focus:
    """Return the focus in `CudaFocus={…}`; raise KeyError or ValueError if it is none, or several (`*`)."""
    device, sm, warp, lane, kernel, grid = (
        int(said[name]) for name in ("device", "sm", "warp", "lane", "kernel", "grid")
    )
    return Focus(device, sm, warp, lane, kernel, grid, _dim(said["blockIdx"]), _dim(said["threadIdx"]))


def device_row(row: Mapping[str, str]) -> DeviceRow:
    """Parse a row of InfoCudaDevices."""
    return DeviceRow(
        int(row["device"]),
        clean_line(row["name"], 200),
        clean_line(row["sm_type"], 40),
        clean_line(row.get("pci_bus", ""), 40),
        int(row["num_sms"]),
        int(row["num_warps"]),
        int(row["active_sms_mask"], 16),
    )


def sm_row(row: Mapping[str, str]) -> SmRow:
    """Parse a row of InfoCudaSms."""
    return SmRow(int(row["sm"]), int(row["active_warps_mask"], 16))


def warp_row(row: Mapping[str, str]) -> WarpRow:
    """Parse a row of InfoCudaWarps."""
    return WarpRow(
        int(row.get("device", "0")),
        int(row.get("sm", "-1")),
        int(row["warp"]),
        int(row["active_lanes_mask"], 16),
        int(row["divergent_lanes_mask"], 16),
        _address(row, "active_physical_pc", "active_pc"),
        int(row["kernel"]),
        _dim(row["blockIdx"]),
        _dim(row.get("threadIdx", "(0,0,0)")),
    )


def lane_row(row: Mapping[str, str]) -> LaneRow:
    """Parse a row of InfoCudaLanes."""
    exception = clean_line(row["exception"], 100).strip()
    return LaneRow(
        int(row["lane"]),
        row["state"] == "active",
        _address(row, "physical_pc", "pc"),
        _dim(row["threadIdx"]),
        "" if exception == "None" else exception,
    )


def kernel_row(row: Mapping[str, str]) -> KernelRow:
    """Parse a row of InfoCudaKernels."""
    return KernelRow(
        int(row["kernel"]),
        int(row["device"]),
        int(row["grid"]),
        None if row["parent"] == "-" else int(row["parent"]),
        clean_line(row["status"], 40).lower(),
        int(row["sms_mask"], 16),
        _dim(row["gridDim"]),
        _dim(row["blockDim"]),
        clean_line(row["invocation"], 2000),
    )


def context_row(row: Mapping[str, str]) -> str:
    """Return a row of InfoCudaContexts as text."""
    return f"{int(row['context'], 16):#x} on device {int(row['device'])}, {clean_line(row['state'], 40)}"


def block_row(row: Mapping[str, str]) -> BlockRow:
    """Parse a row of (Un)CoalescedInfoCudaBlocks."""
    return BlockRow(int(row["kernel"]), int(row.get("count", "1")))


def thread_row(row: Mapping[str, str]) -> ThreadRow:
    """Parse a row of (Un)CoalescedInfoCudaThreads."""
    file = clean_line(row.get("filename", ""), 1000)
    line = int(row.get("line", "0"))
    known = file not in _NO_FILE and line > 0
    return ThreadRow(
        int(row["kernel"]),
        _dim(_first(row, "from_blockIdx", "blockIdx")),
        _dim(_first(row, "from_threadIdx", "threadIdx")),
        int(row.get("count", "1")),
        _address(row, "virtual_pc", "pc"),
        file if known else None,
        line if known else None,
    )


def _first(row: Mapping[str, str], *names: str) -> str:
    return next((row[name] for name in names if name in row), "")


def _address(row: Mapping[str, str], *names: str) -> int:
    return int(_first(row, *names), 16)


def _dim(text: str) -> str:
    """Return `(1,2,3)` unchanged; raise ValueError for anything else."""
    if not _DIM.fullmatch(text):
        raise ValueError(text)
    return text
