"""How a task accesses a tensor: the modes of its arguments, and the sizes of elements."""

from __future__ import annotations

from typing import Final

import msgspec

READS: Final = frozenset({"INPUT", "INOUT"})
WRITES: Final = frozenset({"INOUT", "OUTPUT_EXISTING"})
UNTRACKED: Final = frozenset({"NO_DEP", "UNKNOWN"})

UNIT: Final = {
    "FLOAT32": 4, "FLOAT16": 2, "INT32": 4, "INT16": 2, "INT8": 1, "UINT8": 1, "BFLOAT16": 2, "INT64": 8,
    "UINT64": 8, "UINT16": 2, "UINT32": 4, "BOOL": 1, "FP8E4M3FN": 1, "FP8E8M0": 1, "FP4E2M1": 1,
}  # fmt: skip
"""Bytes of an element by type."""


class Access(msgspec.Struct, frozen=True, gc=False):
    """One argument of a task; `tensor_id` is None for an OUTPUT slot, whose memory the runtime chooses."""

    type: str
    idx: int = 0
    tensor_id: int | None = None
    dtype: str = ""
    shape: tuple[int, ...] = ()
    start_offset: int = 0
    strides: tuple[int, ...] = ()


def unit_of(dtype: str) -> int:
    """Bytes of an element; 1 where the type is not known."""
    return UNIT.get(dtype, 1)
