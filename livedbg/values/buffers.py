"""The program's buffers, put together from the views that tasks dumped, and the order of the tasks.

A view is a `start_offset`, a `shape` and `strides`, in stored elements of its buffer; its payload is contiguous.
Without a task graph buffers are not known, and every dumped tensor counts as a buffer of its own.

With the run's task graph tasks are walked in the order of submission: every task comes after those that it waits for.
Without a graph the order is that in which the payload was written.

Invariants:
    values_buffers.P1. `initial` compares what was found before any task wrote there, `final` what was written there
        last, in walking order; elements that no dumped task touched are not compared.
    values_buffers.P2. Of a tensor that a task was given and left, it wrote what it changed: many tasks may each write a
        part of it. What none of them changed is the last one's.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from livedbg.graphs.buffers import Buffers
from livedbg.graphs.declared import WRITES, Access, LostOrder, TaskGraph
from livedbg.graphs.lost import lost_orders
from livedbg.values.compare import Difference, Tolerance, compare, outside
from livedbg.values.dump import Dump, Entry
from livedbg.values.tensor import ElementType, Held, index_of


@dataclass(slots=True)
class Wiring:
    """The dependencies of the tasks of one run; `problem` says why the graph is missing or incomplete."""

    graph: TaskGraph | None = None
    problem: str = ""
    buffers: Buffers | None = None
    _by_arg: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    _access: dict[tuple[int, int], Access] = field(default_factory=dict)
    _writers: dict[int, list[int]] = field(default_factory=dict)
    _place: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.graph is None:
            return
        self.buffers = Buffers(self.graph)
        for edge in self.graph.dependencies:
            self._by_arg.setdefault((edge.succ, edge.arg), []).append(edge.pred)
        for place, task in enumerate(self.graph.tasks.values()):
            self._place[task.raw] = place
            for access in task.args:
                self._access[task.raw, access.idx] = access
                if access.tensor_id is not None and access.type in WRITES:
                    self._writers.setdefault(access.tensor_id, []).append(task.raw)

    def order(self, dump: Dump) -> list[int]:
        """Return all tasks of the dump, each behind those that it depends on, as far as that is known."""
        written: dict[int, int] = {}
        for entry in dump.entries:
            if entry.bin_size:
                written[entry.task] = min(written.get(entry.task, entry.bin_offset), entry.bin_offset)
            else:
                written.setdefault(entry.task, 1 << 62)
        if self.graph is None:
            return sorted(written, key=lambda task: (written[task], task))
        last = len(self._place)
        return sorted(written, key=lambda task: (self._place.get(task, last), written[task], task))

    def access(self, task: int, arg: int) -> Access | None:
        """Return how the orchestration declared an argument."""
        return self._access.get((task, arg))

    def producers(self, task: int, arg: int) -> list[int]:
        """Return the tasks that wrote what a task finds in an argument, as far as edges or earlier writers say."""
        if self.graph is None:
            return []
        by_edge = self._by_arg.get((task, arg))
        if by_edge:
            return list(dict.fromkeys(by_edge))
        access = self.access(task, arg)
        if access is None:
            return []
        if access.tensor_id is None:
            return self.before(task)
        writers = self._writers.get(access.tensor_id, [])  # in the order of their places
        at = bisect_left(writers, self._place[task], key=self._place.__getitem__)
        return writers[max(0, at - 1) : at]

    def before(self, task: int) -> list[int]:
        """Return the direct predecessors of a task."""
        return [] if self.graph is None else self.graph.predecessors.get(task, [])

    def missing_into(self, tasks: Collection[int]) -> list[LostOrder]:
        """Return the dependencies of tasks that the graph lacks: the tasks read or overwrite the output of others."""
        if self.graph is None:
            return []
        return [order for order in lost_orders(self.graph).sure if order.second in tasks]

    def has_edge(self, first: int, second: int) -> bool:
        """Return whether the second task waits for the first directly."""
        return first in self.before(second)


def wiring_of(dump: Dump) -> Wiring:
    """Return the wiring of a dump's run, from the task graph beside it."""
    return Wiring(*dump.find_graph())


Places: TypeAlias = npt.NDArray[np.intp]

ELEMENTS: Final = 1 << 27
"""Elements of the largest buffer that is put together."""

_NOBODY: Final = -1
_WRITTEN: Final = -2


class Left(NamedTuple):
    """The difference of a buffer's last values from a golden output.

    `later` tasks were given what differs, and left it as it was.
    """

    difference: Difference
    writers: list[int]
    later: int


@dataclass(slots=True)
class Buffer:
    """A buffer of the program, and what tasks found and left there, in walking order."""

    element: ElementType
    count: int
    shape: tuple[int, ...]
    touched: list[Entry] = field(default_factory=list)

    @property
    def read(self) -> bool:
        """True if the first dumped values are from before a task."""
        return bool(self.touched) and self.touched[0].before

    @property
    def writers(self) -> list[int]:
        """The tasks that wrote there."""
        return list(dict.fromkeys(entry.task for entry in self.touched if not entry.before))

    def initial(self, dump: Dump, golden: Held, tolerance: Tolerance) -> Difference:
        """Return how the first values that tasks found differ from a golden input."""
        merged = _Merged(golden.total, self.element)
        for number, (entry, places) in self._placed(golden.total):
            if not entry.before:
                merged.owner[places[merged.owner[places] == _NOBODY]] = _WRITTEN
            else:
                merged.put(dump, entry, places, number, merged.owner[places] == _NOBODY)
        return merged.against(golden, tolerance)[0]

    def final(self, dump: Dump, golden: Held, tolerance: Tolerance) -> Left:
        """Return how the last values that tasks left differ from a golden output."""
        merged = _Merged(golden.total, self.element)
        given = {(entry.task, entry.arg): entry for entry in self.touched if entry.before}
        for number, (entry, places) in self._placed(golden.total):
            if not entry.before:
                merged.leave(dump, entry, places, number, given.get((entry.task, entry.arg)))
        found, owners = merged.against(golden, tolerance)
        writers = list(dict.fromkeys(self.touched[owner].task for owner in owners))
        after = {entry.task for entry in self.touched[max(owners, default=0) + 1 :] if not entry.before}
        return Left(found, writers, len(after - set(writers)) if owners else 0)

    def _placed(self, count: int) -> Iterator[tuple[int, tuple[Entry, Places]]]:
        for number, entry in enumerate(self.touched):
            places = places_of(entry, count, self.element.packed)
            if places is not None:
                yield number, (entry, places)


class _Merged:
    """A buffer's values, the entry of each, and whether a task is known to have written it."""

    def __init__(self, count: int, element: ElementType) -> None:
        self.owner = np.full(count, _NOBODY, np.int32)
        self.values = np.zeros(count, element.numpy)
        self.changed = np.zeros(count, np.bool_)
        self.element = element

    def put(self, dump: Dump, entry: Entry, places: Places, number: int, free: npt.NDArray[np.bool_]) -> None:
        tensor = dump.tensor(entry)
        block = tensor.block(0, tensor.count) if tensor is not None else self.values[:0]
        self.owner[places[len(block) :][free[len(block) :]]] = _WRITTEN
        free = free[: len(block)]
        places = places[: len(block)][free]
        self.values[places], self.owner[places] = block[: len(free)][free], number

    def leave(self, dump: Dump, entry: Entry, places: Places, number: int, given: Entry | None) -> None:
        """Copy what a task left; of what it was given too, it wrote what it changed."""
        owner, known = self.owner[places], self.changed[places]
        self.put(dump, entry, places, number, np.ones(len(places), np.bool_))
        changed = _changed(dump, entry, given, len(places))
        kept = ~changed & known
        self.owner[places[kept]] = owner[kept]
        self.changed[places[changed]] = True

    def against(self, golden: Held, tolerance: Tolerance) -> tuple[Difference, list[int]]:
        flat = golden.block(0, golden.total)
        known = np.flatnonzero(self.owner >= 0)
        wrong = known[outside(self.values[known], flat[known], *tolerance.of(self.element, golden.element))]
        found = Difference(compared=len(known), total=golden.total)
        if len(wrong):
            found = compare(Held(self.values[wrong]), Held(flat[wrong]), tolerance)
            found.compared, found.total = len(known), golden.total
            found.first = index_of(int(wrong[0]), golden.shape)
        return found, np.unique(self.owner[wrong]).tolist()


def _changed(dump: Dump, entry: Entry, given: Entry | None, count: int) -> npt.NDArray[np.bool_]:
    """Return a mask of the elements that a task changed; all, if its input was not dumped."""
    found, left = (dump.tensor(one) if one is not None else None for one in (given, entry))
    unknown = np.ones(count, np.bool_)
    if found is None or left is None or given is None or not found.count == left.count == count:
        return unknown
    if (given.start_offset, given.strides, given.shape) != (entry.start_offset, entry.strides, entry.shape):
        return unknown
    before, after = (np.ascontiguousarray(one.block(0, count)).view(np.uint8) for one in (found, left))
    if not count or len(before) != len(after) or len(before) % count:
        return unknown
    return np.asarray((before.reshape(count, -1) != after.reshape(count, -1)).any(axis=1))


def places_of(entry: Entry, count: int, packed: int = 1) -> Places | None:
    """Return the indexes of a view's elements in its buffer of `count` elements; None if they do not fit."""
    shape = entry.shape
    strides = entry.strides or tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
    if len(strides) != len(shape) or math.prod(shape) * packed > ELEMENTS or 0 in shape:
        return None
    last = entry.start_offset + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
    if (last + 1) * packed > count:
        return None
    places = np.full(shape, entry.start_offset, np.intp)
    for axis, step in enumerate(strides):
        line = np.arange(shape[axis], dtype=np.intp) * step
        places += line.reshape([-1 if at == axis else 1 for at in range(len(strides))])
    flat = places.reshape(-1)
    return flat if packed == 1 else (flat[:, None] * packed + np.arange(packed)).reshape(-1)


def buffers_of(dump: Dump, wiring: Wiring) -> list[Buffer]:
    """Return the program's buffers, without those that the runtime made itself."""
    place = {task: number for number, task in enumerate(wiring.order(dump))}
    entries = sorted((entry for entry in dump.entries if not entry.scalar), key=lambda entry: place[entry.task])
    return list(_declared(dump, wiring, entries)) if wiring.graph is not None else list(_single(dump, entries))


def _single(dump: Dump, entries: list[Entry]) -> Iterator[Buffer]:
    for entry in entries:
        element = dump.element(entry)
        shape = element.logical_shape(entry.shape)
        yield Buffer(element, math.prod(shape), shape, [msgspec.structs.replace(entry, start_offset=0, strides=())])


def _declared(dump: Dump, wiring: Wiring, entries: list[Entry]) -> Iterator[Buffer]:
    graph, buffers = wiring.graph, wiring.buffers
    assert graph is not None and buffers is not None
    known: dict[tuple[str, int], Buffer] = {}
    for entry in entries:
        access = wiring.access(entry.task, entry.arg)
        if access is None or access.tensor_id is None or not buffers.is_external(access.tensor_id):
            continue
        tensor = graph.tensors.get(access.tensor_id)
        element = dump.element(entry)
        shape = element.logical_shape(entry.shape)
        count = tensor.buffer_numel * element.packed if tensor is not None and tensor.buffer_numel else math.prod(shape)
        buffer = known.setdefault(buffers.key_of(access.tensor_id), Buffer(element, count, (count,)))
        if math.prod(shape) == count:
            buffer.shape = shape
        buffer.touched.append(entry)
    yield from known.values()
