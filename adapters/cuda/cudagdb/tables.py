"""Typed rows of cuda-gdb's tables.

The columns are those of its MI output (gdb/cuda/cuda-commands.c and gdb/cuda/cuda-coords.c in cuda-gdb's source).
Console output gets the same column names first (livedbg.adapters.cuda.cudagdb.engine). Each field of a row is annotated
with what reads it from the columns, which raises KeyError or ValueError for a malformed row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Annotated, Final, NamedTuple, TypeVar, get_args, get_type_hints

from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line

Row = TypeVar("Row")
Read = Callable[[Mapping[str, str]], object]
_DIM: Final = lazy_re(r"\(\d{1,18}(,\d{1,18})*\)")
_NO_FILE: Final = frozenset(("", "n/a", "??", "<unknown>"))


@cache
def _reads(kind: Callable[..., object]) -> tuple[Read, ...]:
    return tuple(get_args(hint)[1] for hint in get_type_hints(kind, globals(), include_extras=True).values())


def read_row(kind: Callable[..., Row], row: Mapping[str, str]) -> Row:
    """Return a typed row; raise KeyError or ValueError if it is malformed, or of several things (`*`)."""
    return kind(*(read(row) for read in _reads(kind)))


def convert(rows: Iterable[Mapping[str, str]], kind: Callable[..., Row]) -> tuple[list[Row], int]:
    """Return typed rows, and the number of malformed ones."""
    good: list[Row] = []
    bad = 0
    for row in rows:
        try:
            good.append(read_row(kind, row))
        except (KeyError, ValueError):
            bad += 1
    return good, bad


def _first(row: Mapping[str, str], names: Iterable[str], default: str = "") -> str:
    return next((row[name] for name in names if name in row), default)


def _number(name: str, default: str | None = None) -> Read:
    return lambda row: int(row[name] if default is None else row.get(name, default))


def _hex(*names: str) -> Read:
    """Return what reads a mask or an address from the first of these columns."""
    return lambda row: int(_first(row, names), 16)


def _text(name: str, most: int) -> Read:
    return lambda row: clean_line(row[name], most)


def _dim(*names: str, default: str = "") -> Read:
    """Return what reads `(1,2,3)` unchanged."""

    def read(row: Mapping[str, str]) -> str:
        text = _first(row, names, default)
        if not _DIM.fullmatch(text):
            raise ValueError(text)
        return text

    return read


def _place(row: Mapping[str, str]) -> tuple[str, int] | tuple[None, None]:
    """Return file and line, if both are known."""
    file, line = clean_line(row.get("filename", ""), 1000), int(row.get("line", "0"))
    return (file, line) if file not in _NO_FILE and line > 0 else (None, None)


class Focus(NamedTuple):
    """The thread in the debugger's focus, as in `CudaFocus={…}`."""

    device: Annotated[int, _number("device")]
    sm: Annotated[int, _number("sm")]
    warp: Annotated[int, _number("warp")]
    lane: Annotated[int, _number("lane")]
    kernel: Annotated[int, _number("kernel")]
    grid: Annotated[int, _number("grid")]
    block: Annotated[str, _dim("blockIdx")]
    thread: Annotated[str, _dim("threadIdx")]

    @property
    def words(self) -> str:
        """Return `block (0,0,0) thread (3,0,0) on device 0 SM 2 warp 1 lane 3`."""
        place = f"device {self.device} SM {self.sm} warp {self.warp} lane {self.lane}"
        return f"block {self.block} thread {self.thread} on {place}"


class DeviceRow(NamedTuple):
    """A device (InfoCudaDevices); `active` is the mask of SMs that have warps."""

    number: Annotated[int, _number("device")]
    name: Annotated[str, _text("name", 200)]
    machine: Annotated[str, _text("sm_type", 40)]
    bus: Annotated[str, lambda row: clean_line(row.get("pci_bus", ""), 40)]
    sms: Annotated[int, _number("num_sms")]
    warps_per_sm: Annotated[int, _number("num_warps")]
    active: Annotated[int, _hex("active_sms_mask")]


class SmRow(NamedTuple):
    """An SM (InfoCudaSms); `warps` is the mask of its warps."""

    number: Annotated[int, _number("sm")]
    warps: Annotated[int, _hex("active_warps_mask")]


class WarpRow(NamedTuple):
    """A warp (InfoCudaWarps); `sm` is -1 if the table lacks it."""

    device: Annotated[int, _number("device", "0")]
    sm: Annotated[int, _number("sm", "-1")]
    number: Annotated[int, _number("warp")]
    active: Annotated[int, _hex("active_lanes_mask")]
    divergent: Annotated[int, _hex("divergent_lanes_mask")]
    pc: Annotated[int, _hex("active_physical_pc", "active_pc")]
    kernel: Annotated[int, _number("kernel")]
    block: Annotated[str, _dim("blockIdx")]
    thread: Annotated[str, _dim("threadIdx", default="(0,0,0)")]


class LaneRow(NamedTuple):
    """A lane (InfoCudaLanes); `exception` is "" for none."""

    number: Annotated[int, _number("lane")]
    active: Annotated[bool, lambda row: row["state"] == "active"]
    pc: Annotated[int, _hex("physical_pc", "pc")]
    thread: Annotated[str, _dim("threadIdx")]
    exception: Annotated[str, lambda row: {"None": ""}.get(said := clean_line(row["exception"], 100).strip(), said)]


class KernelRow(NamedTuple):
    """A kernel (InfoCudaKernels); `sms` is the mask of the SMs that it runs on."""

    number: Annotated[int, _number("kernel")]
    device: Annotated[int, _number("device")]
    grid: Annotated[int, _number("grid")]
    parent: Annotated[int | None, lambda row: None if row["parent"] == "-" else int(row["parent"])]
    status: Annotated[str, lambda row: clean_line(row["status"], 40).lower()]
    sms: Annotated[int, _hex("sms_mask")]
    grid_dim: Annotated[str, _dim("gridDim")]
    block_dim: Annotated[str, _dim("blockDim")]
    invocation: Annotated[str, _text("invocation", 2000)]


class BlockRow(NamedTuple):
    """Consecutive blocks ((Un)CoalescedInfoCudaBlocks)."""

    kernel: Annotated[int, _number("kernel")]
    blocks: Annotated[int, _number("count", "1")]


class ThreadRow(NamedTuple):
    """Consecutive threads at one program counter ((Un)CoalescedInfoCudaThreads)."""

    kernel: Annotated[int, _number("kernel")]
    block: Annotated[str, _dim("from_blockIdx", "blockIdx")]
    thread: Annotated[str, _dim("from_threadIdx", "threadIdx")]
    threads: Annotated[int, _number("count", "1")]
    pc: Annotated[int, _hex("virtual_pc", "pc")]
    file: Annotated[str | None, lambda row: _place(row)[0]]
    line: Annotated[int | None, lambda row: _place(row)[1]]


class ContextRow(NamedTuple):
    """A context (InfoCudaContexts)."""

    address: Annotated[int, _hex("context")]
    device: Annotated[int, _number("device")]
    state: Annotated[str, _text("state", 40)]

    @property
    def words(self) -> str:
        return f"{self.address:#x} on device {self.device}, {self.state}"
