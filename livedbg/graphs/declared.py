"""A declared task graph as values: tasks in the order of their submission, their arguments, and the edges."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from livedbg.graphs.accesses import UNTRACKED, Access
from livedbg.graphs.orders import LostOrders


class DeclaredTask(msgspec.Struct, frozen=True):
    """A task, in the file's (the submission's) order."""

    task_id: int
    scope: str = "auto"
    kernel_ids: tuple[int, ...] = ()
    block_num: int = 1
    args: tuple[Access, ...] = ()

    @property
    def raw(self) -> int:
        """The runtime's 64-bit id."""
        return self.task_id

    @property
    def kernels(self) -> tuple[int, ...]:
        """Func ids of its three slots, -1 for none."""
        return self.kernel_ids

    @property
    def blocks(self) -> int:
        """Of an SPMD task."""
        return max(1, self.block_num)

    @property
    def manual(self) -> bool:
        """Submitted in a manual scope: the runtime wires nothing by itself."""
        return self.scope == "manual"


class Tensor(msgspec.Struct, frozen=True, gc=False):
    """The memory behind a tensor id."""

    tensor_id: int
    buffer_addr: int = 0
    version: int = 0
    dtype: str = ""
    buffer_numel: int = 0


class Dependency(msgspec.Struct, frozen=True, gc=False):
    """`succ` has an edge from `pred`; `source` says who declared it: `explicit`, `creator` or `tensormap`."""

    pred: int
    succ: int
    arg: int = -1
    source: str = ""
    flags: tuple[str, ...] | None = None
    tensor_id: int | None = None

    @property
    def predecessor(self) -> int:
        """What must complete first."""
        return self.pred

    @property
    def successor(self) -> int:
        """What depends on it."""
        return self.succ

    @property
    def orders(self) -> bool:
        """Whether the successor waits (an edge may only keep the producer's memory)."""
        return self.flags is None or not self.flags or "wait" in self.flags


@dataclass(slots=True)
class TaskGraph:
    """The declared graph.

    Attributes:
        tensors: by tensor id.
        predecessors: by task.
        successors: by task.
        untracked: tensors that tasks name without dependency (a flag, most likely), with those tasks.
        cut: what the file lacks, in words; "" when it is whole.
        lost: the orders that it lacks, once they were searched for (livedbg.graphs.lost).
    """

    tasks: dict[int, DeclaredTask]
    dependencies: tuple[Dependency, ...]
    tensors: dict[int, Tensor] = field(default_factory=dict)
    cut: str = ""
    predecessors: dict[int, list[int]] = field(init=False, default_factory=dict)
    successors: dict[int, list[int]] = field(init=False, default_factory=dict)
    untracked: dict[int, list[int]] = field(init=False, default_factory=dict)
    lost: LostOrders | None = field(init=False, default=None, compare=False)

    def __post_init__(self) -> None:
        for pred, succ in dict.fromkeys((edge.pred, edge.succ) for edge in self.dependencies if edge.orders):
            self.predecessors.setdefault(succ, []).append(pred)
            self.successors.setdefault(pred, []).append(succ)
        for task in self.tasks.values():
            for access in task.args:
                if access.type in UNTRACKED and access.tensor_id is not None:
                    self.untracked.setdefault(access.tensor_id, []).append(task.raw)

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

    @classmethod
    def of(
        cls,
        tasks: Iterable[DeclaredTask],
        dependencies: Iterable[Dependency],
        tensors: Iterable[Tensor] = (),
        cut: str = "",
    ) -> TaskGraph:
        """A graph of what a file has."""
        return cls(
            {task.raw: task for task in tasks},
            tuple(dependencies),
            {tensor.tensor_id: tensor for tensor in tensors},
            cut,
        )
