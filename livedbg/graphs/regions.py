"""Which bytes a tensor argument covers: exact intersection of strided regions.

Invariants:
    regions.G1. Equal sets of bytes that a row-major view can express have equal regions, whatever shape or element
        type the argument has: axes of one element vanish, neighbours that touch are merged.
    regions.G2. `shared`, `covers` and `pieces` are exact, or say that there are too many pieces to compare (None).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Final

PIECES: Final = 16_384
"""Contiguous pieces of one region that are compared one by one."""


@dataclass(frozen=True, slots=True)
class Region:
    """The bytes that an argument covers.

    Attributes:
        start: the first byte, counted from the beginning of what the regions are compared in.
        run: bytes of one contiguous piece.
        axes: how often the piece is repeated and at what distance, the greatest distance first.
        extents: bytes from the first to the last byte below each axis; the last is `run`.
        nested: no two pieces overlap or interleave.
        size: bytes covered, where it is nested.
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
        """One past its last byte."""
        return self.start + self.extents[0]

    def within(self, begin: int, end: int, depth: int = 0, at: int | None = None) -> int:
        """Bytes of a nested region in [begin, end)."""
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
        """Its contiguous pieces inside [begin, end), sorted and merged; None: more than PIECES."""
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
    """The region of a tensor argument; None where it has no element.

    Args:
        offset: of its first element, in elements.
        shape: elements per dimension.
        strides: distance of neighbours per dimension, in elements; row-major where there are fewer than dimensions.
        unit: bytes of an element.
        base: where the buffer begins.
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
    """Bytes that both cover; None where there are too many pieces to compare."""
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
    """Whether `one` certainly covers all of `other`."""
    if one.start > other.start or one.end < other.end:
        return False
    if not one.axes:
        return True
    if not other.nested:
        pieces = other.pieces(other.start, other.end)
        return pieces is not None and shared(one, other) == _length(pieces)
    return shared(one, other) == other.size


def subtract(pieces: Sequence[tuple[int, int]], others: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """What is left of sorted pieces without the bytes of other sorted pieces."""
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
