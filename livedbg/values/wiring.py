"""In which order the tasks of a dump are walked, and who wrote what a task found.

With the run's task graph the order is that of submission: every task comes after those that it waits for. Without a
graph it is the order in which the payload was written.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection
from dataclasses import dataclass, field

from livedbg.graphs.accesses import WRITES, Access
from livedbg.graphs.buffers import Buffers
from livedbg.graphs.declared import TaskGraph
from livedbg.graphs.lost import lost_orders
from livedbg.graphs.orders import LostOrder
from livedbg.values.dump import Dump


@dataclass(slots=True)
class Wiring:
    """How the tasks of one run are wired.

    Attributes:
        graph: its declared task graph; None where there is none.
        problem: why there is none, or what it lacks.
    """

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
            self._place[task.task_id] = place
            for access in task.args:
                self._access[task.task_id, access.idx] = access
                if access.tensor_id is not None and access.type in WRITES:
                    self._writers.setdefault(access.tensor_id, []).append(task.task_id)

    def order(self, dump: Dump) -> list[int]:
        """All tasks of the dump, each behind those that it depends on, as far as that is known."""
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
        """How the orchestration declared an argument."""
        return self._access.get((task, arg))

    def producers(self, task: int, arg: int) -> list[int]:
        """The tasks that wrote what a task finds in an argument, as far as edges or earlier writers say."""
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
        """The tasks that a task waits for directly."""
        return [] if self.graph is None else self.graph.predecessors.get(task, [])

    def missing_into(self, tasks: Collection[int]) -> list[LostOrder]:
        """Dependencies that the graph lacks of some tasks, which read or overwrite what others wrote."""
        if self.graph is None:
            return []
        return [order for order in lost_orders(self.graph).sure if order.second in tasks]

    def has_edge(self, first: int, second: int) -> bool:
        """Whether the second task waits for the first directly."""
        return first in self.before(second)


def wiring_of(dump: Dump) -> Wiring:
    """The wiring of a dump's run, from the task graph beside it."""
    return Wiring(*dump.find_graph())
