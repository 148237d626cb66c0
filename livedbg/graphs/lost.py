"""What a lost order means: which of them count, what most likely caused each, and what to do.

How the runtime wires tasks (simpler pto_dep_compute.h, docs/manual-scope.md): in an auto scope each `INPUT` and
`INOUT` looks up the earlier writers that begin at the same buffer address, each `INOUT` and `OUTPUT_EXISTING` is
registered as a writer; in a manual scope neither happens. A tensor or view with `manual_dep=true` is neither looked
up nor registered; `deps.json` does not say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from livedbg.graphs.buffers import Buffers, unit_of
from livedbg.graphs.declared import READS, WRITES, TaskGraph
from livedbg.graphs.hazards import Checked, Hazard, hazards
from livedbg.text.sanitize import clean_line
from livedbg.text.wording import many

__all__ = ["Cause", "LostGroup", "LostOrder", "LostOrders", "grouped", "lost_orders"]


class Cause(StrEnum):
    """Why an order is most likely lost."""

    OUTPUT = "output"  # add_output() where the task should wait for the earlier writer
    MANUAL_WRITER = "manual-writer"  # the writer is in a manual scope, where nothing is registered
    MANUAL_READER = "manual-reader"  # the second is in a manual scope, where nothing is looked up
    ALIAS = "alias"  # two tensors that begin at different addresses and share memory
    UNTRACKED = "untracked"  # manual_dep=true, or a record that the file lacks


_WHY: Final = {
    Cause.OUTPUT: "the second task declares it as add_output(), and the runtime looks for no earlier writer then",
    Cause.MANUAL_WRITER: "the first task was submitted in a manual scope, where no writer is registered",
    Cause.MANUAL_READER: "the second task was submitted in a manual scope, where no earlier writer is looked up",
    Cause.ALIAS: "to the runtime they are two tensors, for they begin at different addresses",
    Cause.UNTRACKED: (
        "the runtime looks earlier writers up here, so most likely one of the two arguments has manual_dep=true "
        "(deps.json does not say), or a record is missing"
    ),
}
_NEXT: Final = {
    Cause.OUTPUT: (
        "declare the tensor as add_inout() (or add_input() too) in the task that was submitted second",
        "or order the two with set_dependencies()",
    ),
    Cause.MANUAL_WRITER: ("give the first task's id to set_dependencies() of the second",),
    Cause.MANUAL_READER: ("give the first task's id to set_dependencies() of the second",),
    Cause.ALIAS: (
        "make both of them views of one tensor, which the runtime can compare",
        "or order the two with set_dependencies()",
    ),
    Cause.UNTRACKED: (
        "look for manual_dep=true at the tensor or the view in the orchestration code",
        "or order the two with set_dependencies()",
    ),
}


@dataclass(frozen=True, slots=True)
class LostOrder:
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

    @property
    def why(self) -> str:
        """The likely cause in words."""
        return _WHY[self.cause]

    @property
    def next(self) -> tuple[str, ...]:
        """What to do."""
        return _NEXT[self.cause]


@dataclass(frozen=True, slots=True)
class LostOrders:
    """What was found.

    Attributes:
        sure: orders that are missing.
        perhaps: pairs that nothing orders, and that may be meant so.
        skipped: arguments that were not looked at, for they would have been too many.
        circular: the edges close a circle.
    """

    sure: tuple[LostOrder, ...]
    perhaps: tuple[LostOrder, ...]
    skipped: int = 0
    circular: bool = False


def lost_orders(graph: TaskGraph) -> LostOrders:
    """The orders that a graph lacks, in the order of submission; one a pair of tasks, the surest.

    It takes seconds for 100,000 tasks; the graph keeps the answer.
    """
    if graph.lost is None:
        graph.lost = _find(graph)
    return graph.lost


def _find(graph: TaskGraph) -> LostOrders:
    checked = hazards(graph)
    looked_up = _looked_up(graph)
    found: dict[tuple[int, int], LostOrder] = {}
    for hazard in checked.hazards:
        lost = _judged(hazard, checked, looked_up)
        known = found.get((lost.first, lost.second))
        if known is None or (lost.sure and not known.sure):
            found[lost.first, lost.second] = lost
    return LostOrders(
        tuple(one for one in found.values() if one.sure),
        tuple(one for one in found.values() if not one.sure),
        checked.skipped,
        checked.circular,
    )


@dataclass(frozen=True, slots=True)
class LostGroup:
    """Lost orders of the same kernels, arguments and cause: a loop's, most likely.

    Attributes:
        example: the first of them.
        count: how many there are.
    """

    example: LostOrder
    count: int


def grouped(orders: Sequence[LostOrder], graph: TaskGraph) -> list[LostGroup]:
    """Lost orders, those alike together, in the order of their first."""
    found: dict[tuple[object, ...], list[LostOrder]] = {}
    for lost in orders:
        kernels = graph.tasks[lost.first].kernels, graph.tasks[lost.second].kernels
        alike = (*kernels, lost.first_mode, lost.second_mode, lost.first_arg, lost.second_arg, lost.cause)
        found.setdefault(alike, []).append(lost)
    return [LostGroup(group[0], len(group)) for group in found.values()]


def _looked_up(graph: TaskGraph) -> frozenset[int]:
    """Tensors of which some task found an earlier writer: their tracking is on."""
    return frozenset(
        edge.tensor_id for edge in graph.dependencies if edge.source == "tensormap" and edge.tensor_id is not None
    )


def _judged(hazard: Hazard, checked: Checked, looked_up: frozenset[int]) -> LostOrder:
    cause = _cause(hazard, checked.buffers)
    tensor = hazard.touched.tensor_id or 0
    return LostOrder(
        first=hazard.first.raw,
        second=hazard.second.raw,
        tensor=tensor,
        first_mode=hazard.wrote.type,
        second_mode=hazard.touched.type,
        first_arg=hazard.wrote.idx,
        second_arg=hazard.touched.idx,
        offset=hazard.begin,
        size=hazard.size,
        dtype=hazard.touched.dtype,
        shape=hazard.touched.shape,
        cause=cause,
        sure=not _may_be_meant(hazard, cause, checked.buffers, looked_up),
    )


def _cause(hazard: Hazard, buffers: Buffers) -> Cause:
    if hazard.first.manual and not hazard.second.manual:
        return Cause.MANUAL_WRITER
    if hazard.second.manual:
        return Cause.MANUAL_READER
    if hazard.touched.type == "OUTPUT_EXISTING":
        return Cause.OUTPUT
    wrote, touched = hazard.wrote.tensor_id or 0, hazard.touched.tensor_id or 0
    if buffers.address_of(wrote) != buffers.address_of(touched):
        return Cause.ALIAS
    return Cause.UNTRACKED


def _may_be_meant(hazard: Hazard, cause: Cause, buffers: Buffers, looked_up: frozenset[int]) -> bool:
    """Whether several writers may be meant to write at once, each its own part or atomically.

    A program of the runtime's own (batch_paged_attention) declares one whole tensor as `INOUT` in tasks of one kernel
    that each write other rows, and switches its tracking off.
    """
    if hazard.touched.type not in WRITES:
        return False
    if hazard.first.manual and hazard.second.manual:
        return True
    tensor = hazard.touched.tensor_id or 0
    if cause is Cause.OUTPUT:
        return not buffers.is_external(tensor) and tensor not in looked_up
    alike = bool(hazard.first.kernels) and hazard.first.kernels == hazard.second.kernels
    return cause is Cause.UNTRACKED and tensor not in looked_up and (alike or not buffers.is_external(tensor))
