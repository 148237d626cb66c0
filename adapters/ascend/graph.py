"""The task graph that a run declared: `deps.json` of both runtimes, and orderings that it lost.

Sources: simpler docs/dfx/dep-gen.md §4 (August 2026) and the June 2026 shape, which has no
`kernel_ids`, `block_num` and edge `flags`. 64-bit numbers stand there as decimal strings.

Write-after-read hazards are not tracked by the runtime by design, so that a missing edge from a
reader to a later writer is no finding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import msgspec

from livedbg.adapters.ascend.regions import Region

__all__ = ["Access", "DeclaredTask", "Dependency", "LostOrder", "TaskGraph", "parse_graph"]

_WRITES: Final = frozenset({"INOUT", "OUTPUT_EXISTING"})
_STEPS: Final = 5_000_000  # edges that the search for lost orders follows in one graph
_LOOK_BACK: Final = 64  # earlier writers of a tensor that a writer is compared with

_Number = int | str


class _Arg(msgspec.Struct):
    type: str
    idx: int = 0
    tensor_id: _Number | None = None
    shape: list[int] = []
    start_offset: _Number = 0
    strides: list[int] = []


class _Task(msgspec.Struct):
    task_id: _Number
    scope: str = "auto"
    kernel_ids: list[int] = []
    block_num: int = 1
    args: list[_Arg] = []


class _Edge(msgspec.Struct):
    pred: _Number
    succ: _Number
    source: str = ""
    tensor_id: _Number | None = None


class _File(msgspec.Struct):
    tasks: list[_Task]
    edges: list[_Edge] = []


_decoder: Final = msgspec.json.Decoder(_File)


@dataclass(frozen=True, slots=True)
class Access:
    """One tensor argument of a task."""

    tensor: int
    mode: str
    region: Region


@dataclass(frozen=True, slots=True)
class DeclaredTask:
    """A task as the graph names it, in the order of submission."""

    raw: int
    kernels: tuple[int, ...]
    blocks: int
    manual: bool
    accesses: tuple[Access, ...]


@dataclass(frozen=True, slots=True)
class Dependency:
    """`successor` may start only after `predecessor` completed; `source` says who declared that."""

    predecessor: int
    successor: int
    source: str


@dataclass(frozen=True, slots=True)
class LostOrder:
    """Two tasks that write the same elements with no path between them."""

    first: int
    second: int
    tensor: int
    first_mode: str
    second_mode: str


@dataclass(slots=True)
class TaskGraph:
    """The declared graph.

    Attributes:
        internal: tensors that a task of the graph itself created: their memory is recycled, so
            that equal addresses say nothing.
        predecessors: by task.
        successors: by task.
        untracked: tensors that tasks name as NO_DEP (a flag, most likely), with those tasks.
    """

    tasks: dict[int, DeclaredTask]
    dependencies: tuple[Dependency, ...]
    internal: frozenset[int] = frozenset()
    predecessors: dict[int, list[int]] = field(default_factory=dict)
    successors: dict[int, list[int]] = field(default_factory=dict)
    untracked: dict[int, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for edge in self.dependencies:
            self.predecessors.setdefault(edge.successor, []).append(edge.predecessor)
            self.successors.setdefault(edge.predecessor, []).append(edge.successor)
        for task in self.tasks.values():
            for access in task.accesses:
                if access.mode == "NO_DEP":
                    self.untracked.setdefault(access.tensor, []).append(task.raw)

    def behind(self, raw: int) -> set[int]:
        """All tasks that depend on `raw`, directly or through others."""
        seen: set[int] = set()
        todo = [raw]
        while todo:
            for successor in self.successors.get(todo.pop(), ()):
                if successor not in seen:
                    seen.add(successor)
                    todo.append(successor)
        return seen

    def flag_partners(self, raw: int) -> list[int]:
        """Tasks behind `raw` that share an untracked tensor with it: they may set the flag that it waits for."""
        behind = self.behind(raw)
        shared = [tasks for tasks in self.untracked.values() if raw in tasks]
        return sorted({task for tasks in shared for task in tasks if task in behind})

    def lost_orders(self) -> Iterator[LostOrder]:
        """Pairs of writers of the same elements that nothing orders, in the order of submission."""
        paths = _Paths(self)
        for tensor, writers in self._writers().items():
            for position, (second, other) in enumerate(writers):
                first = self._last_writer(writers[max(0, position - _LOOK_BACK) : position], other)
                if first is None or first[0] == second or paths.lead(first[0], second):
                    continue
                if self.tasks[first[0]].manual and self.tasks[second].manual:
                    continue  # wired by hand: the missing order may be meant (an atomic add)
                yield LostOrder(first[0], second, tensor, first[1].mode, other.mode)

    def _writers(self) -> dict[int, list[tuple[int, Access]]]:
        found: dict[int, list[tuple[int, Access]]] = {}
        for task in self.tasks.values():
            for access in task.accesses:
                if access.mode in _WRITES and access.tensor not in self.internal:
                    found.setdefault(access.tensor, []).append((task.raw, access))
        return {tensor: writers for tensor, writers in found.items() if len(writers) > 1}

    @staticmethod
    def _last_writer(earlier: list[tuple[int, Access]], access: Access) -> tuple[int, Access] | None:
        for writer in reversed(earlier):
            if writer[1].region.overlaps(access.region):
                return writer
        return None


class _Paths:
    """Answers whether a path leads from one task to a later one. Every task on it was submitted
    between the two; when a graph has asked for too many steps, the rest counts as ordered."""

    def __init__(self, graph: TaskGraph) -> None:
        self._predecessors = graph.predecessors
        self._place = {raw: place for place, raw in enumerate(graph.tasks)}
        self._steps = _STEPS

    def lead(self, first: int, second: int) -> bool:
        """Whether a path leads from `first` to `second`; looks back from `second`."""
        start = self._place[first]
        seen: set[int] = set()
        todo = [second]
        while todo:
            for predecessor in self._predecessors.get(todo.pop(), ()):
                self._steps -= 1
                if predecessor == first or self._steps < 0:
                    return True
                if predecessor not in seen and self._place.get(predecessor, start + 1) > start:
                    seen.add(predecessor)
                    todo.append(predecessor)
        return False


def parse_graph(data: bytes) -> TaskGraph:
    """The graph of a `deps.json`.

    Raises:
        ValueError: not (yet) a whole deps.json.
    """
    try:
        file = _decoder.decode(data)
        tasks = [_declared(task) for task in file.tasks]
        edges = tuple(Dependency(int(edge.pred), int(edge.succ), edge.source) for edge in file.edges)
        internal = {
            int(edge.tensor_id) for edge in file.edges if edge.source == "creator" and edge.tensor_id is not None
        }
    except (msgspec.DecodeError, OverflowError) as error:
        raise ValueError(f"not a deps.json: {error}") from error
    return TaskGraph({task.raw: task for task in tasks}, edges, frozenset(internal))


def _declared(task: _Task) -> DeclaredTask:
    return DeclaredTask(
        raw=int(task.task_id),
        kernels=tuple(task.kernel_ids),
        blocks=max(1, task.block_num),
        manual=task.scope == "manual",
        accesses=tuple(
            Access(int(arg.tensor_id), arg.type, Region(int(arg.start_offset), tuple(arg.shape), tuple(arg.strides)))
            for arg in task.args
            if arg.tensor_id is not None
        ),
    )
