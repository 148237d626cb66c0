"""Buffers, the memory that arguments share: external tensors by address, the runtime's own by their creator.

A runtime uses the memory that it allocates again, and a graph names a tensor by its address: equal ids of two tasks may
be two tensors. They are taken for one only where that is certain. The upper 32 bits of a task's id are its ring, the
lower ones its number in the ring.

The bytes that a tensor argument covers are compared as strided regions, exactly.

Invariants:
    graphs_buffers.B1. External memory is never the runtime's: a buffer is external when a task of an auto scope names
        it and no predecessor of that task can have created it, or when it is named before anything was allocated.
    graphs_buffers.B2. Two arguments of another buffer are the same tensor when the same task created both, or when
        nothing was allocated between them. A gap in a ring's numbers is an allocation, which takes a number.
    graphs_buffers.G1. Equal sets of bytes that a row-major view can express have equal regions, whatever shape or
        element type the argument has: axes of one element vanish, neighbours that touch are merged.
    graphs_buffers.G2. `shared`, `covers` and `pieces` are exact, or say that there are too many pieces to compare
        (None).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import prod
from typing import Final

from livedbg.graphs.declared import Access, DeclaredTask, TaskGraph, unit_of


class Buffers:
    """The memory behind the arguments of one graph."""

    def __init__(self, graph: TaskGraph) -> None:
        self._graph = graph
        self._places = {raw: place for place, raw in enumerate(graph.tasks)}
        self._creators = {(edge.succ, edge.arg): edge.pred for edge in graph.dependencies if edge.source == "creator"}
        self._makers = {
            raw for raw, task in graph.tasks.items() if not task.args or any(arg.type == "OUTPUT" for arg in task.args)
        }
        self._made = [0, *accumulate(int(raw in self._makers) for raw in graph.tasks)]
        self._gaps = self._find_gaps()
        self._external = self._find_external()
        self._clusters = self._find_clusters()

    def address_of(self, tensor: int) -> int | None:
        """Return the start of a tensor's buffer; None if the file doesn't say."""
        known = self._graph.tensors.get(tensor)
        return known.buffer_addr if known is not None and known.buffer_addr else None

    def key_of(self, tensor: int) -> tuple[str, int]:
        """Return a key that all arguments of the same memory (at some time) share."""
        address = self.address_of(tensor)
        if address is None:
            return "tensor", tensor
        return "memory", self._clusters.get(address, address)

    def base_of(self, tensor: int) -> int:
        """Return the start of the tensor's buffer, counted from the memory of its key."""
        address = self.address_of(tensor)
        return 0 if address is None else address - self.key_of(tensor)[1]

    def is_external(self, tensor: int) -> bool:
        """Return whether a tensor is certainly not in the runtime's memory."""
        address = self.address_of(tensor)
        return ("tensor", tensor) in self._external if address is None else ("memory", address) in self._external

    def creator_of(self, task: DeclaredTask, access: Access) -> int | None:
        """Return the task that made the tensor, or None if not certain."""
        return self._creators.get((task.raw, access.idx))

    def same(self, first: tuple[DeclaredTask, Access], second: tuple[DeclaredTask, Access]) -> bool:
        """Return whether two arguments of one key certainly are the same tensor (B1, B2)."""
        tensors = first[1].tensor_id, second[1].tensor_id
        if all(tensor is not None and self.is_external(tensor) for tensor in tensors):
            return True
        makers = self.creator_of(*first), self.creator_of(*second)
        if makers[0] is not None and makers[1] is not None:
            return makers[0] == makers[1]
        low, high = self._places[first[0].raw], self._places[second[0].raw]
        return self._gaps[high + 1] == self._gaps[low + 1] and self._made[high] == self._made[low + 1]

    def _find_gaps(self) -> list[int]:
        """Count for each place the places up to the one before it that have, or may have, an allocation before them."""
        places = len(self._graph.tasks)
        change = [0] * (places + 1)
        newest: dict[int, tuple[int, int]] = {}
        for place, raw in enumerate(self._graph.tasks):
            ring, local = raw >> 32, raw & 0xFFFFFFFF
            known, since = newest.get(ring, (-1, -1))
            if local > known + 1:
                change[since + 1] += 1
                change[place + 1] -= 1
            newest[ring] = (max(local, known), place)
        for raw in {edge.pred for edge in self._graph.dependencies} - self._places.keys():
            known, since = newest.get(raw >> 32, (-1, -1))
            if raw & 0xFFFFFFFF > known:
                change[since + 1] += 1
        return [0, *accumulate(int(count > 0) for count in list(accumulate(change))[:places])]

    def _find_external(self) -> set[tuple[str, int]]:
        found: set[tuple[str, int]] = set()
        internal: set[tuple[str, int]] = set()
        for place, (raw, task) in enumerate(self._graph.tasks.items()):
            for access in task.args:
                if access.tensor_id is None:
                    continue
                address = self.address_of(access.tensor_id)
                key = ("tensor", access.tensor_id) if address is None else ("memory", address)
                if (raw, access.idx) in self._creators:
                    internal.add(key)
                elif not (self._gaps[place + 1] or self._made[place]) or not (
                    task.manual or self._possible_makers(raw)
                ):
                    found.add(key)
        return found - internal

    def _possible_makers(self, raw: int) -> bool:
        return any(pred in self._makers or pred not in self._places for pred in self._graph.predecessors.get(raw, ()))

    def _find_clusters(self) -> dict[int, int]:
        """Map the addresses of external buffers to those that their regions are counted from: buffers may overlap."""
        spans = sorted(
            (tensor.buffer_addr, tensor.buffer_addr + max(1, tensor.buffer_numel * unit_of(tensor.dtype)))
            for tensor in self._graph.tensors.values()
            if tensor.buffer_addr and self.is_external(tensor.tensor_id)
        )
        found: dict[int, int] = {}
        begin = reach = -1
        for low, high in spans:
            if low >= reach:
                begin = low
            reach = max(reach, high)
            found[low] = begin
        return found


PIECES: Final = 16_384
"""Contiguous pieces of one region that are compared one by one."""


@dataclass(frozen=True, slots=True)
class Region:
    """The bytes that an argument covers.

    Attributes:
        start: the first byte, counted from the base of the comparison.
        run: bytes of one contiguous piece.
        axes: count and distance of the repeated piece, the greatest distance first.
        extents: bytes from the first to the last byte below each axis; the last is `run`.
        nested: no two pieces overlap or interleave.
        size: bytes covered, if it is nested.
    """

    start: int
    run: int
    axes: tuple[tuple[int, int], ...] = ()
    extents: tuple[int, ...] = field(init=False, compare=False, repr=False, default=())
    nested: bool = field(init=False, compare=False, repr=False, default=True)
    size: int = field(init=False, compare=False, repr=False, default=0)

    def __post_init__(self) -> None:
        extents = [self.run]
        nested = True
        for count, stride in reversed(self.axes):
            nested = nested and extents[-1] <= stride
            extents.append((count - 1) * stride + extents[-1])
        object.__setattr__(self, "extents", tuple(reversed(extents)))
        object.__setattr__(self, "nested", nested)
        object.__setattr__(self, "size", self.run * prod(count for count, _ in self.axes))

    @property
    def end(self) -> int:
        """The address after the last byte."""
        return self.start + self.extents[0]

    def within(self, begin: int, end: int, depth: int = 0, at: int | None = None) -> int:
        """Return the bytes of a nested region in [begin, end)."""
        start = self.start if at is None else at
        if depth == len(self.axes):
            return max(0, min(end, start + self.run) - max(begin, start))
        count, stride = self.axes[depth]
        first = max(0, -(-(begin - start - self.extents[depth + 1] + 1) // stride))
        last = min(count - 1, (end - 1 - start) // stride)
        if first > last:
            return 0
        found = self.within(begin, end, depth + 1, start + first * stride)
        if first < last:
            found += self.within(begin, end, depth + 1, start + last * stride)
            inner = self.run * prod(count for count, _ in self.axes[depth + 1 :])
            found += (last - first - 1) * inner
        return found

    def pieces(self, begin: int, end: int) -> list[tuple[int, int]] | None:
        """Return the contiguous pieces inside [begin, end), sorted and merged; None if there are more than PIECES."""
        found: list[tuple[int, int]] = []
        for piece in self._pieces(begin, end, 0, self.start):
            if len(found) >= PIECES:
                return None
            found.append(piece)
        return found if self.nested else _merged(found)

    def _pieces(self, begin: int, end: int, depth: int, start: int) -> Iterator[tuple[int, int]]:
        if depth == len(self.axes):
            low, high = max(begin, start), min(end, start + self.run)
            if low < high:
                yield low, high
            return
        count, stride = self.axes[depth]
        first = max(0, -(-(begin - start - self.extents[depth + 1] + 1) // stride))
        last = min(count - 1, (end - 1 - start) // stride)
        for index in range(first, last + 1):
            yield from self._pieces(begin, end, depth + 1, start + index * stride)


def region_of(offset: int, shape: Sequence[int], strides: Sequence[int], unit: int, base: int = 0) -> Region | None:
    """Return the region of a tensor argument; None if it has no element.

    Args:
        offset: of its first element, in elements.
        shape: elements per dimension.
        strides: distance of neighbours per dimension, in elements; row-major if there are fewer than dimensions.
    """
    if any(count < 1 for count in shape) or unit < 1:
        return None
    steps = list(strides) if len(strides) >= len(shape) else _row_major(shape)
    start = base + offset * unit
    axes: list[tuple[int, int]] = []
    for count, step in zip(shape, steps, strict=False):
        if count > 1 and step:
            start += min(0, (count - 1) * step * unit)
            axes.append((count, abs(step) * unit))
    axes.sort(key=lambda axis: -axis[1])
    run = unit
    merged: list[tuple[int, int]] = []
    for count, stride in reversed(axes):
        if not merged and stride <= run:
            run += (count - 1) * stride
        elif merged and stride == merged[0][0] * merged[0][1]:
            merged[0] = (merged[0][0] * count, merged[0][1])
        else:
            merged.insert(0, (count, stride))
    return Region(start, run, tuple(merged))


def _row_major(shape: Sequence[int]) -> list[int]:
    steps = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        steps[axis] = steps[axis + 1] * shape[axis + 1]
    return steps


def shared(one: Region, other: Region) -> int | None:
    """Return the bytes that both cover; None if there are too many pieces to compare."""
    begin, end = max(one.start, other.start), min(one.end, other.end)
    if begin >= end:
        return 0
    if one.nested and other.nested:
        few, many = (one, other) if one.size * other.run <= other.size * one.run else (other, one)
        pieces = few.pieces(begin, end)
        return None if pieces is None else sum(many.within(low, high) for low, high in pieces)
    mine, others = one.pieces(begin, end), other.pieces(begin, end)
    if mine is None or others is None:
        return None
    return _length(mine) - _length(subtract(mine, others))


def covers(one: Region, other: Region) -> bool:
    """Return whether `one` certainly covers all of `other`."""
    if one.start > other.start or one.end < other.end:
        return False
    if not one.axes:
        return True
    if not other.nested:
        pieces = other.pieces(other.start, other.end)
        return pieces is not None and shared(one, other) == _length(pieces)
    return shared(one, other) == other.size


def subtract(pieces: Sequence[tuple[int, int]], others: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the rest of sorted pieces without the bytes of other sorted pieces."""
    left: list[tuple[int, int]] = []
    at = 0
    for begin, end in pieces:
        while at < len(others) and others[at][1] <= begin:
            at += 1
        low, next_ = begin, at
        while low < end and next_ < len(others) and others[next_][0] < end:
            if others[next_][0] > low:
                left.append((low, others[next_][0]))
            low = max(low, others[next_][1])
            next_ += 1
        if low < end:
            left.append((low, end))
    return left


def _merged(pieces: list[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for begin, end in sorted(pieces):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found


def _length(pieces: Sequence[tuple[int, int]]) -> int:
    return sum(end - begin for begin, end in pieces)
