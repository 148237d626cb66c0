"""Writes what cuda-gdb says: MI tables with its names and columns (gdb/cuda/cuda-commands.c), and sessions of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "InfoCudaDevices": (
        "current", "device", "pci_bus", "name", "description", "sm_type", "num_sms", "num_warps", "num_lanes",
        "num_regs", "active_sms_mask",
    ),
    "InfoCudaSms": ("current", "sm", "active_warps_mask"),
    "InfoCudaWarps": (
        "current", "warp", "active_lanes_mask", "divergent_lanes_mask", "active_physical_pc", "kernel", "blockIdx",
        "threadIdx",
    ),
    "InfoCudaLanes": ("current", "lane", "state", "physical_pc", "threadIdx", "exception"),
    "InfoCudaKernels": (
        "current", "kernel", "parent", "device", "grid", "status", "sms_mask", "gridDim", "blockDim", "invocation",
    ),
    "CoalescedInfoCudaBlocks": ("current", "kernel", "from", "to", "count", "state"),
    "CoalescedInfoCudaThreads": (
        "current", "kernel", "from_blockIdx", "from_threadIdx", "to_blockIdx", "to_threadIdx", "count", "virtual_pc",
        "filename", "line",
    ),
    "InfoCudaContexts": ("current", "context", "device", "state"),
}  # fmt: skip


def mi(table: str, rows: Iterable[Sequence[object]]) -> str:
    """`^done,InfoCudaXTable={…}`."""
    columns = COLUMNS[table]
    body = [
        f"{table}Row={{" + ",".join(f'{c}="{quoted(v)}"' for c, v in zip(columns, row, strict=True)) + "}"
        for row in rows
    ]
    head = ",".join(f'{{width="1",alignment="1",col_name="{name}",colhdr="{name}"}}' for name in columns)
    return f'^done,{table}Table={{nr_rows="{len(body)}",nr_cols="{len(columns)}",hdr=[{head}],body=[{",".join(body)}]}}'


def quoted(value: object) -> str:
    return str(value).replace("\\", "\\\\").replace('"', '\\"')


def console(text: str) -> list[str]:
    """Console output, and `^done` behind it."""
    lines = [f'~"{quoted(line)}\\n"'.replace("\t", "\\t") for line in text.splitlines()]
    return [*lines, "^done"]


def asked(command: str) -> str:
    """A console command as MI gets it."""
    return f'-interpreter-exec console "{quoted(command)}"'


@dataclass
class Session:
    """A session for `player.py --any`."""

    answers: list[tuple[str, list[str]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.says(asked("show version"), *console("NVIDIA (R) cuda-gdb 13.0\nGNU gdb 14.2"))

    def says(self, command: str, *lines: str) -> Session:
        """Answer a command so; the first answer that fits counts."""
        self.answers.append((command, list(lines)))
        return self

    def table(self, command: str, table: str, *rows: Sequence[object]) -> Session:
        """Answer a command by a table."""
        return self.says(command, mi(table, rows))

    def prints(self, command: str, text: str) -> Session:
        """Answer a console command."""
        return self.says(asked(command), *console(text))

    def focus(self, physical: tuple[int, int, int, int], kernel: int, grid: int, block: str, thread: str) -> Session:
        """What the debugger looks at: device, SM, warp and lane, and what of which kernel that is."""
        numbers = zip(("device", "sm", "warp", "lane", "kernel", "grid"), (*physical, kernel, grid), strict=True)
        said = ",".join(f'{name}="{number}"' for name, number in numbers)
        return self.says("-cuda-focus-query *", f'^done,CudaFocus={{{said},blockIdx="{block}",threadIdx="{thread}"}}')

    def frames(self, *frames: tuple[str, str, str | None, int | None]) -> Session:
        """(address, function, file, line) of the device's stack."""
        said = []
        for level, (address, function, file, line) in enumerate(frames):
            at = f',file="{file}",fullname="/src/{file}",line="{line}"' if file else ""
            said.append(f'frame={{level="{level}",addr="{address}",func="{quoted(function)}"{at},arch="m68k"}}')
        return self.says("-stack-list-frames *", f"^done,stack=[{','.join(said)}]")

    @property
    def text(self) -> str:
        """The session's file."""
        ends = [(asked("set *"), ["^done"])]
        return "".join(
            f">>> {command}\n" + "".join(f"{line}\n" for line in said) for command, said in self.answers + ends
        )
