"""Finds orders that a task graph lacks: reads and writes of bytes whose last writer is no ancestor.

A sweep in the order of submission, one piece of memory at a time: each distinct region remembers its last writer, and
each access asks the regions that it overlaps. What has no direct edge is put to `Paths`; only what has no path either
is compared byte by byte.

Overlapping regions are found without comparing each with each. Tiles of one array are compared axis by axis: a sweep
along the axis that separates them best. What is left (other strides, other element types) is found by a sweep over the
spans, and compared exactly.

Paths between tasks are found for many pairs at once. The tasks are in a topological order; the answers for up to BATCH
sources are carried forward through it as the bits of one number a task, so that a batch costs one walk over the edges
between its first source and last target.

Invariants:
    hazards.H1. A pair is reported exactly when the first task is the last one, in the order of submission, to have
        written some byte that the second reads or writes, and no path leads from the first to the second.
    hazards.H2. Reads that a later task overwrites (write after read) are no hazard here: runtimes do not track them.
        `anti_dependencies` lists them on request.
    hazards.H3. What is not compared, for it would be too much, is counted in `Checked.skipped`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby, islice
from operator import attrgetter
from typing import Final

import rustworkx as rx
from msgspec import Struct, field

from livedbg.graphs.buffers import Buffers, Region, covers, region_of, shared, subtract
from livedbg.graphs.declared import READS, WRITES, Access, DeclaredTask, TaskGraph, unit_of

BATCH: Final = 2_048
"""Sources that are followed at once."""


class Paths:
    """The order that a graph declares, without edges that close a cycle (no runtime writes them, see `circular`)."""

    def __init__(self, graph: TaskGraph) -> None:
        nodes = list(graph.tasks)
        nodes += [raw for raw in graph.predecessors.keys() | graph.successors.keys() if raw not in graph.tasks]
        self.circular = False
        self._rank = {raw: rank for rank, raw in enumerate(nodes)}
        pairs = [(self._rank[pred], self._rank[succ]) for succ, preds in graph.predecessors.items() for pred in preds]
        if any(pred >= succ for pred, succ in pairs):
            self._sort(nodes, pairs)
        self._before: list[list[int]] = [[] for _ in nodes]
        for succ, preds in graph.predecessors.items():
            own = self._rank[succ]
            self._before[own] = sorted(rank for rank in (self._rank[pred] for pred in preds) if rank < own)

    def _sort(self, nodes: Sequence[int], pairs: Sequence[tuple[int, int]]) -> None:
        """Sort a graph whose edges point back in the order of submission."""
        sorter: rx.PyDiGraph[int, None] = rx.PyDiGraph()
        sorter.add_nodes_from(list(range(len(nodes))))
        sorter.add_edges_from_no_data(list(pairs))
        try:
            order = list(rx.topological_sort(sorter))
        except rx.DAGHasCycle:
            self.circular = True
            return
        self._rank = {nodes[index]: rank for rank, index in enumerate(order)}

    def direct(self, first: int, second: int) -> bool:
        """Return whether `second` has an edge from `first`."""
        before, rank = self._before[self._rank[second]], self._rank[first]
        at = bisect_left(before, rank)
        return at < len(before) and before[at] == rank

    def without(self, pairs: Iterable[tuple[int, int]]) -> set[tuple[int, int]]:
        """Return the pairs (first, second) with no path from the first to the second."""
        rank = self._rank
        asked: dict[int, list[tuple[int, tuple[int, int]]]] = {}
        for pair in pairs:
            asked.setdefault(rank[pair[0]], []).append((rank[pair[1]], pair))
        sources = sorted(asked)
        found: set[tuple[int, int]] = set()
        for at in range(0, len(sources), BATCH):
            found |= self._batch(sources[at : at + BATCH], asked)
        return found

    def _batch(
        self, sources: Sequence[int], asked: dict[int, list[tuple[int, tuple[int, int]]]]
    ) -> set[tuple[int, int]]:
        bits = {source: 1 << number for number, source in enumerate(sources)}
        low = sources[0]
        high = max(target for source in sources for target, _ in asked[source])
        reached: list[int] = []
        for rank in range(low, high + 1):
            bit = bits.get(rank, 0)
            for before in self._before[rank]:
                if before >= low:
                    bit |= reached[before - low]
            reached.append(bit)
        return {
            pair
            for source in sources
            for target, pair in asked[source]
            if target <= source or not reached[target - low] & bits[source]
        }


_OVERLAPS_PAIRS: Final = 4_000_000  # pairs of regions that are compared in one piece of memory
_Box = tuple[tuple[int, int], ...]  # low and high of each axis


def neighbours(regions: Sequence[Region], written: Collection[int]) -> list[list[int]] | None:
    """Return for each region those that share bytes with it (itself too), where one of the two is written.

    None if there are too many pairs to compare.
    """
    found: list[list[int]] = [[number] if number in written else [] for number in range(len(regions))]
    frames: dict[tuple[int, ...], dict[int, _Box]] = defaultdict(dict)
    frame_of: dict[int, tuple[int, ...]] = {}
    for number, region in enumerate(regions):
        box = _box(region)
        if box is not None:
            frame_of[number] = frame = tuple(stride for _, stride in region.axes)
            frames[frame][number] = box
    budget = _OVERLAPS_PAIRS
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
    """Return the region as a box in an array whose axes have its strides; None if it would wrap around."""
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
    lows = sorted(low for low, _ in intervals)
    highs = sorted(high for _, high in intervals)
    return sum(bisect_left(lows, high) - bisect_right(highs, low) - 1 for low, high in intervals)


_PAIRS: Final = 2_000_000  # pairs of tasks that are put to `Paths`


class Hazard(Struct, frozen=True):
    """The second of two tasks touches bytes that the first wrote last, and nothing orders them.

    Attributes:
        first, second: the tasks, in the order of submission.
        begin: the first byte that both touch, from the beginning of the first argument's buffer.
        size: bytes that the first wrote last and the second touches.
    """

    first: DeclaredTask
    wrote: Access
    second: DeclaredTask
    touched: Access
    begin: int
    size: int


class Checked(Struct):
    """The hazards of a graph; `circular`: the edges form a cycle, which no runtime writes."""

    buffers: Buffers
    hazards: list[Hazard] = field(default_factory=list)
    skipped: int = 0
    circular: bool = False


class _Touch(Struct, frozen=True):
    place: int
    task: DeclaredTask
    access: Access
    region: int


class _Memory(Struct):
    """All touches of one piece of memory.

    Attributes:
        regions: the distinct regions, and their numbers.
        overlapping: by region those that it shares bytes with, where one of the two is written.
        writes: by region the places of its writers, rising.
    """

    touches: list[_Touch] = field(default_factory=list)
    regions: dict[Region, int] = field(default_factory=dict)
    order: list[Region] = field(default_factory=list)
    overlapping: list[list[int]] = field(default_factory=list)
    writes: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))


def hazards(graph: TaskGraph) -> Checked:
    buffers = Buffers(graph)
    paths = Paths(graph)
    checked = Checked(buffers, circular=paths.circular)
    if paths.circular:
        return checked
    found: list[tuple[_Memory, _Touch, _Touch]] = []
    for memory in _memories(graph, buffers):
        if not _prepare(memory):
            checked.skipped += len(memory.touches)
            continue
        pairs = _unordered(memory, paths, WRITES, READS | WRITES)
        found += ((memory, *pair) for pair in islice(pairs, _PAIRS - len(found)))
        checked.skipped += next(pairs, None) is not None
    missing = paths.without({(one.task.raw, other.task.raw) for _, one, other in found})
    for memory, one, other in found:
        if (one.task.raw, other.task.raw) in missing:
            left = _left(memory, one, other)
            checked.skipped += left is None
            if left and buffers.same((one.task, one.access), (other.task, other.access)):
                begin = left[0][0] - buffers.base_of(one.access.tensor_id or 0)
                size = sum(high - low for low, high in left)
                checked.hazards.append(Hazard(one.task, one.access, other.task, other.access, begin, size))
    places = {raw: place for place, raw in enumerate(graph.tasks)}
    checked.hazards.sort(key=lambda hazard: (places[hazard.second.raw], places[hazard.first.raw], hazard.touched.idx))
    return checked


def anti_dependencies(graph: TaskGraph) -> list[tuple[int, int]]:
    """Return unordered pairs (reader, later writer of the same bytes); runtimes do not track them (H2)."""
    buffers, paths = Buffers(graph), Paths(graph)
    found: set[tuple[int, int]] = set()
    for memory in _memories(graph, buffers):
        if _prepare(memory) and len(found) <= _PAIRS:
            for one, other in _unordered(memory, paths, READS, WRITES):
                if buffers.same((one.task, one.access), (other.task, other.access)):
                    found.add((one.task.raw, other.task.raw))
    return sorted(paths.without(found))


def _memories(graph: TaskGraph, buffers: Buffers) -> Iterator[_Memory]:
    found: dict[tuple[str, int], _Memory] = {}
    known: dict[tuple[object, ...], tuple[_Memory, int] | None] = {}
    for place, task in enumerate(graph.tasks.values()):
        for access in task.args:
            if access.tensor_id is None or not (access.type in READS or access.type in WRITES):
                continue
            key = access.tensor_id, access.dtype, access.start_offset, access.shape, access.strides
            where = known[key] if key in known else known.setdefault(key, _where(access, graph, buffers, found))
            if where is not None:
                where[0].touches.append(_Touch(place, task, access, where[1]))
    for memory in found.values():
        if len({touch.place for touch in memory.touches}) > 1:
            yield memory


def _where(
    access: Access, graph: TaskGraph, buffers: Buffers, found: dict[tuple[str, int], _Memory]
) -> tuple[_Memory, int] | None:
    tensor = access.tensor_id or 0
    known = graph.tensors.get(tensor)
    unit = unit_of(access.dtype or (known.dtype if known is not None else ""))
    region = region_of(access.start_offset, access.shape, access.strides, unit, buffers.base_of(tensor))
    if region is None:
        return None
    memory = found.setdefault(buffers.key_of(tensor), _Memory())
    return memory, memory.regions.setdefault(region, len(memory.regions))


def _prepare(memory: _Memory) -> bool:
    """Find which regions share bytes; return False if there are too many pairs."""
    written = {touch.region for touch in memory.touches if touch.access.type in WRITES}
    memory.order = list(memory.regions)
    overlapping = neighbours(memory.order, written)
    if overlapping is None:
        return False
    memory.overlapping = overlapping
    for touch in memory.touches:
        if touch.access.type in WRITES:
            memory.writes[touch.region].append(touch.place)
    return True


def _unordered(
    memory: _Memory, paths: Paths, earlier: frozenset[str], later: frozenset[str]
) -> Iterator[tuple[_Touch, _Touch]]:
    """Yield pairs of touches of the same bytes without a direct edge: the last of each region, and a later one."""
    last = _Last(memory)
    for _place, group in groupby(memory.touches, key=attrgetter("place")):
        touches = list(group)
        for touch in touches:
            if touch.access.type in later:
                for known in last.sharing(touch):
                    if not paths.direct(known.task.raw, touch.task.raw):
                        yield known, touch
        for touch in touches:
            if touch.access.type in WRITES:
                last.forget(touch)
        for touch in touches:
            if touch.access.type in earlier:
                last.keep(touch)


class _Last:
    """The last touches of each region during a sweep in the order of submission."""

    def __init__(self, memory: _Memory) -> None:
        self._memory = memory
        self._touches: dict[int, list[_Touch]] = {}
        self._covers: dict[tuple[int, int], bool] = {}

    def sharing(self, touch: _Touch) -> Iterator[_Touch]:
        for near in self._memory.overlapping[touch.region]:
            yield from self._touches.get(near, ())

    def forget(self, write: _Touch) -> None:
        """Forget the regions that a write covers: later tasks depend on that write."""
        for near in self._memory.overlapping[write.region]:
            if near in self._touches and self._covered(write.region, near):
                del self._touches[near]
        self._touches.pop(write.region, None)

    def keep(self, touch: _Touch) -> None:
        """Record a touch: a write replaces the last touches of its region; reads add up until the next write."""
        if touch.access.type in WRITES:
            self._touches[touch.region] = [touch]
        else:
            self._touches.setdefault(touch.region, []).append(touch)

    def _covered(self, region: int, near: int) -> bool:
        pair = (region, near)
        if pair not in self._covers:
            regions = self._memory.order
            self._covers[pair] = region == near or covers(regions[region], regions[near])
        return self._covers[pair]


def _left(memory: _Memory, one: _Touch, other: _Touch) -> Sequence[tuple[int, int]] | None:
    """Return the bytes of both that nobody wrote in between; None if they are in too many pieces."""
    regions = memory.order
    mine, its = regions[one.region], regions[other.region]
    begin, end = max(mine.start, its.start), min(mine.end, its.end)
    pieces, others = mine.pieces(begin, end), its.pieces(begin, end)
    if pieces is None or others is None:
        return None
    left: Sequence[tuple[int, int]] = subtract(pieces, subtract(pieces, others))
    for near in min(memory.overlapping[one.region], memory.overlapping[other.region], key=len):
        places = memory.writes.get(near, [])
        if left and bisect_right(places, one.place) < bisect_left(places, other.place):
            written = regions[near].pieces(left[0][0], left[-1][1])
            if written is None:
                return None
            left = subtract(left, written)
    return left
