"""Judges lost orders: which of them count, and what most likely caused each.

A runtime with an *auto scope* looks up, for each `INPUT` and `INOUT`, the earlier writers that begin at the same buffer
address, and registers each `INOUT` and `OUTPUT_EXISTING` as a writer; in a *manual scope* it does neither. Tracking can
be off for a tensor or a view: then it is neither looked up nor registered, and the graph does not say so.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from livedbg.graphs.buffers import Buffers
from livedbg.graphs.declared import WRITES, Cause, LostOrder, LostOrders, TaskGraph
from livedbg.graphs.hazards import Checked, Hazard, hazards


def lost_orders(graph: TaskGraph) -> LostOrders:
    """Return the orders that a graph lacks, in the order of submission; one a pair of tasks, the surest.

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


class LostGroup(Struct, frozen=True):
    """Lost orders of the same kernels, arguments and cause, most likely of a loop; `example` is the first."""

    example: LostOrder
    count: int


def grouped(orders: Sequence[LostOrder], graph: TaskGraph) -> list[LostGroup]:
    """Group similar lost orders, in the order of their first."""
    found: dict[tuple[object, ...], list[LostOrder]] = {}
    for lost in orders:
        kernels = graph.tasks[lost.first].kernels, graph.tasks[lost.second].kernels
        alike = (*kernels, lost.first_mode, lost.second_mode, lost.first_arg, lost.second_arg, lost.cause)
        found.setdefault(alike, []).append(lost)
    return [LostGroup(group[0], len(group)) for group in found.values()]


def _looked_up(graph: TaskGraph) -> frozenset[int]:
    """Return tensors of which some task found an earlier writer: their tracking is on."""
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
    """Return whether several writers may be meant to write at once, each its own part or atomically.

    A program (batch_paged_attention) declares one whole tensor as `INOUT` in tasks of one kernel that each write other
    rows, and switches its tracking off.
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
