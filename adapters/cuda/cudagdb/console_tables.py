"""Parses cuda-gdb's tables as the console prints them, for versions without an MI command for them.

Rows are recognised by their shape, not by column positions, which move with the longest name (cuda-gdb manual, "Info
CUDA Commands", and real output of cuda-gdb 12.6 and 13). A heading that applies to all rows below it (`Device 0 SM 3`,
`Kernel 0`) is copied into each row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

__all__ = ["TABLES", "console_rows"]

_HEX: Final = r"0x[0-9a-fA-F]{1,16}"
_DIM: Final = r"\(\d{1,18},\d{1,18}(?:,\d{1,18})?\)"
_LONGEST: Final = 8_192  # a line that is longer is no row
_CURRENT: Final = r"^\*? ?"
_GROUP: Final = re.compile(r"^(Device|SM|Warp|Wp|Kernel) (\d{1,18})(?: (SM) (\d{1,18}))?(?: (Warp|Wp) (\d{1,18}))?\s*$")
_NAMES: Final = {"Device": "device", "SM": "sm", "Warp": "warp", "Wp": "warp", "Kernel": "kernel"}

_SHAPES: Final = {
    "devices": (
        r"(?P<device>\d{1,18}) (?P<pci_bus>[0-9a-fA-F:.]+) (?P<name>.+?) (?P<description>\S+) (?P<sm_type>sm_\w+)"
        r" (?P<num_sms>\d{1,18}) (?P<num_warps>\d{1,18}) (?P<num_lanes>\d{1,18}) (?P<num_regs>\d{1,18})"
        rf" (?P<active_sms_mask>{_HEX})"
    ),
    "sms": rf"(?P<sm>\d{{1,18}}) (?P<active_warps_mask>{_HEX})",
    "warps": (
        rf"(?P<warp>\d{{1,18}}) (?P<active_lanes_mask>{_HEX}) (?P<divergent_lanes_mask>{_HEX})"
        rf" (?P<active_physical_pc>{_HEX}) (?P<kernel>\d{{1,18}}) (?P<blockIdx>{_DIM})(?: (?P<threadIdx>{_DIM}))?"
    ),
    "lanes": (
        rf"(?P<lane>\d{{1,18}}) (?P<state>\w+) (?P<physical_pc>{_HEX}) (?P<threadIdx>{_DIM})"
        r" (?P<exception>.+?)"
    ),
    "kernels": (
        rf"(?P<kernel>\d{{1,18}}) (?P<parent>-|\d{{1,18}}) (?P<device>\d{{1,18}}) (?P<grid>-?\d{{1,18}})"
        rf" (?P<status>\w+) (?P<sms_mask>{_HEX}) (?P<gridDim>{_DIM}) (?P<blockDim>{_DIM}) (?P<invocation>.+?)"
    ),
    "blocks": rf"(?P<from>{_DIM}) (?P<to>{_DIM}) (?P<count>\d{{1,18}}) (?P<state>\w+)",
    "threads": (
        rf"(?P<from_blockIdx>{_DIM}) ?(?P<from_threadIdx>{_DIM}) (?P<to_blockIdx>{_DIM}) ?(?P<to_threadIdx>{_DIM})"
        rf" (?P<count>\d{{1,18}}) (?P<virtual_pc>{_HEX}) (?P<filename>.+?) (?P<line>\d{{1,18}})"
    ),
    "contexts": rf"(?P<context>{_HEX}) (?P<device>\d{{1,18}}) (?P<state>\w+)",
}

TABLES: Final[Mapping[str, re.Pattern[str]]] = {
    name: re.compile(f"{_CURRENT}{shape}$") for name, shape in _SHAPES.items()
}
"""Table -> the form of its rows, with single blanks; the groups are named as MI names the columns."""


def console_rows(table: str, text: str) -> list[dict[str, str]]:
    """The rows of a table in what cuda-gdb printed.

    Args:
        table: one of TABLES.
        text: of `info cuda TABLE`.
    """
    shape = TABLES[table]
    shared: dict[str, str] = {}
    rows: list[dict[str, str]] = []
    for line in text.splitlines():
        group = _GROUP.match(line)
        if group is not None:
            pairs = zip(group.groups()[::2], group.groups()[1::2], strict=True)
            shared = {_NAMES[name]: number for name, number in pairs if name is not None}
            continue
        row = shape.match(" ".join(line.split())) if len(line) < _LONGEST else None  # no runs of blanks to try
        if row is not None:
            rows.append({**shared, **{name: value for name, value in row.groupdict().items() if value is not None}})
    return rows
