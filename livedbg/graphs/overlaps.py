"""Which of many regions share bytes, without comparing each with each.

Tiles of one array are compared axis by axis: a sweep along the axis that separates them best. What is left (other
strides, other element types) is found by a sweep over the spans, and compared exactly.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from livedbg.graphs.regions import Region, shared

__all__ = ["neighbours"]

_PAIRS: Final = 4_000_000  # pairs of regions that are compared in one piece of memory
_Box = tuple[tuple[int, int], ...]  # low and high of each axis


def neighbours(regions: Sequence[Region], written: Collection[int]) -> list[list[int]] | None:
    """For each region those that share bytes with it (itself too), where one of the two is written.

    Returns:
        None where there are too many pairs to compare.
    """
    found: list[list[int]] = [[number] if number in written else [] for number in range(len(regions))]
    frames: dict[tuple[int, ...], dict[int, _Box]] = defaultdict(dict)
    frame_of: dict[int, tuple[int, ...]] = {}
    for number, region in enumerate(regions):
        box = _box(region)
        if box is not None:
            frame_of[number] = frame = tuple(stride for _, stride in region.axes)
            frames[frame][number] = box
    budget = _PAIRS
    for boxes in frames.values():
        for one, other in _meeting(boxes):
            budget -= 1
            if budget < 0:
                return None
            if one in written or other in written:
                found[one].append(other)
                found[other].append(one)
    if len(frames) > 1 or len(frame_of) < len(regions):
        spans: dict[int, _Box] = {number: ((region.start, region.end),) for number, region in enumerate(regions)}
        for one, other in _meeting(spans):
            budget -= 1
            if budget < 0:
                return None
            if one in frame_of and frame_of.get(other) == frame_of[one]:
                continue
            if (one in written or other in written) and shared(regions[one], regions[other]) != 0:
                found[one].append(other)
                found[other].append(one)
    return found


def _box(region: Region) -> _Box | None:
    """The region as a box in an array whose axes have its strides; None where it would wrap around."""
    if not region.nested:
        return None
    rest = region.start
    box = []
    strides = [stride for _, stride in region.axes]
    for depth, (count, stride) in enumerate(region.axes):
        low, rest = divmod(rest, stride)
        if depth and (strides[depth - 1] % stride or low + count > strides[depth - 1] // stride):
            return None
        box.append((low, low + count))
    if strides and rest + region.run > strides[-1]:
        return None
    box.append((rest, rest + region.run))
    return tuple(box)


def _meeting(boxes: dict[int, _Box]) -> Iterator[tuple[int, int]]:
    """Pairs of boxes of equally many axes that meet on all of them."""
    numbers = list(boxes)
    if len(numbers) < 2:
        return
    axes = range(len(boxes[numbers[0]]))
    best = min(axes, key=lambda axis: _crowding([boxes[number][axis] for number in numbers]))
    order = sorted(numbers, key=lambda number: boxes[number][best])
    active: list[int] = []
    for number in order:
        box = boxes[number]
        low = box[best][0]
        active = [other for other in active if boxes[other][best][1] > low]
        for other in active:
            its = boxes[other]
            if all(box[axis][0] < its[axis][1] and its[axis][0] < box[axis][1] for axis in axes):
                yield other, number
        active.append(number)


def _crowding(intervals: Sequence[tuple[int, int]]) -> int:
    """How many pairs of intervals meet."""
    lows = sorted(low for low, _ in intervals)
    highs = sorted(high for _, high in intervals)
    return sum(bisect_left(lows, high) - bisect_right(highs, low) - 1 for low, high in intervals)
