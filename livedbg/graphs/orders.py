"""Orders of tasks that a graph lacks, as values."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from livedbg.graphs.accesses import READS, unit_of
from livedbg.text.sanitize import clean_line
from livedbg.text.wording import many


class Cause(StrEnum):
    """Why an order is most likely lost."""

    OUTPUT = "output"  # declared as a mere output, where the task should wait for the earlier writer
    MANUAL_WRITER = "manual-writer"  # the writer is in a manual scope, where nothing is registered
    MANUAL_READER = "manual-reader"  # the second is in a manual scope, where nothing is looked up
    ALIAS = "alias"  # two tensors that begin at different addresses and share memory
    UNTRACKED = "untracked"  # tracking is off for one of the two, or the graph lacks a record


class LostOrder(Struct, frozen=True):
    """Two tasks with no path between them, where the second needs what the first wrote, or overwrites it.

    Attributes:
        first, second: the tasks' 64-bit ids, in the order of submission.
        tensor: the id of the second task's tensor.
        first_mode, second_mode: how they declare it.
        first_arg, second_arg: which of their arguments it is.
        offset: the first byte that both touch, from the beginning of the first task's buffer.
        size: bytes that the first wrote last and the second touches.
        dtype, shape: of the second task's argument.
        cause: why, most likely.
        sure: it counts; else it may well be meant (several writers of a tensor whose tracking is off).
    """

    first: int
    second: int
    tensor: int
    first_mode: str
    second_mode: str
    first_arg: int
    second_arg: int
    offset: int
    size: int
    dtype: str
    shape: tuple[int, ...]
    cause: Cause
    sure: bool

    @property
    def hazard(self) -> str:
        """`read after write` or `write after write`."""
        return "read after write" if self.second_mode in READS else "write after write"

    @property
    def region(self) -> str:
        """`1,024 bytes from offset 0, 256 FLOAT32`."""
        unit = unit_of(self.dtype) if self.dtype else 0
        elements = f", {self.size // unit:,} {clean_line(self.dtype, 40)}" if unit and not self.size % unit else ""
        return f"{many(self.size, 'byte')} from offset {self.offset:,}{elements}"


class LostOrders(Struct, frozen=True):
    """What was found.

    Attributes:
        sure: orders that are missing.
        perhaps: pairs that nothing orders, and that may be meant so.
        skipped: arguments that were not compared, for they would have been too many.
        circular: the edges form a cycle.
    """

    sure: tuple[LostOrder, ...]
    perhaps: tuple[LostOrder, ...]
    skipped: int = 0
    circular: bool = False
