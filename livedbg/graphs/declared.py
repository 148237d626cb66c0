"""A declared task graph as values: tasks in the order of their submission, their arguments, the edges, and lost orders.

Also the terms of a runtime for tasks, arguments and remedies, the protocol of graph readers, and the search for graph
files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol

import msgspec
from msgspec import Struct

from livedbg.linux import target_files
from livedbg.text.sanitize import clean_line
from livedbg.text.wording import many


class Cause(StrEnum):
    """The likely cause of a lost order."""

    OUTPUT = "output"  # declared as a mere output, where the task should wait for the earlier writer
    MANUAL_WRITER = "manual-writer"  # the writer is in a manual scope, where nothing is registered
    MANUAL_READER = "manual-reader"  # the second is in a manual scope, where nothing is looked up
    ALIAS = "alias"  # two tensors that begin at different addresses and share memory
    UNTRACKED = "untracked"  # tracking is off for one of the two, or the graph lacks a record


class LostOrder(Struct, frozen=True):
    """Two tasks with no path between them, where the second reads or overwrites the first one's output.

    Attributes:
        first, second: the tasks' 64-bit ids, in the order of submission.
        tensor: the id of the second task's tensor.
        first_mode, second_mode: how they declare it.
        offset: the first byte that both touch, from the beginning of the first task's buffer.
        size: bytes that the first wrote last and the second touches.
        dtype, shape: of the second task's argument.
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


class LostOrders(Struct, frozen=True):
    """The orders that a graph lacks.

    Attributes:
        sure: orders that are missing.
        perhaps: pairs that nothing orders, and that may be meant so.
        skipped: arguments that were not compared, because there are too many.
    """

    sure: tuple[LostOrder, ...]
    perhaps: tuple[LostOrder, ...]
    skipped: int = 0
    circular: bool = False


READS: Final = frozenset({"INPUT", "INOUT"})
WRITES: Final = frozenset({"INOUT", "OUTPUT_EXISTING"})
UNTRACKED: Final = frozenset({"NO_DEP", "UNKNOWN"})

UNIT: Final = {
    "FLOAT32": 4, "FLOAT16": 2, "INT32": 4, "INT16": 2, "INT8": 1, "UINT8": 1, "BFLOAT16": 2, "INT64": 8,
    "UINT64": 8, "UINT16": 2, "UINT32": 4, "BOOL": 1, "FP8E4M3FN": 1, "FP8E8M0": 1, "FP4E2M1": 1,
}  # fmt: skip
"""Bytes of an element by type."""


class Access(msgspec.Struct, frozen=True, gc=False):
    """An argument of a task; `tensor_id` is None for an OUTPUT slot, whose memory the runtime chooses."""

    type: str
    idx: int = 0
    tensor_id: int | None = None
    dtype: str = ""
    shape: tuple[int, ...] = ()
    start_offset: int = 0
    strides: tuple[int, ...] = ()


def unit_of(dtype: str) -> int:
    """Return the bytes of an element; 1 if the type is not known."""
    return UNIT.get(dtype, 1)


class DeclaredTask(msgspec.Struct, frozen=True):
    """A task, in the order of submission."""

    raw: int = msgspec.field(name="task_id")
    """The runtime's 64-bit id."""
    scope: str = "auto"
    kernels: tuple[int, ...] = msgspec.field(name="kernel_ids", default=())
    """Func ids of its three slots, -1 for none."""
    block_num: int = 1
    args: tuple[Access, ...] = ()

    @property
    def blocks(self) -> int:
        """Blocks of an SPMD task."""
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
    """An edge from `pred` to `succ`; `source` says who declared it: `explicit`, `creator` or `tensormap`."""

    pred: int
    succ: int
    arg: int = -1
    source: str = ""
    flags: tuple[str, ...] | None = None
    tensor_id: int | None = None

    @property
    def orders(self) -> bool:
        """True if the successor waits (an edge may only keep the producer's memory)."""
        return self.flags is None or not self.flags or "wait" in self.flags


@dataclass(slots=True)
class TaskGraph:
    """The declared graph.

    Attributes:
        untracked: tensors that tasks name without dependency (a flag, most likely), with those tasks.
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
        """Return all tasks that depend on `raw`, directly or through others."""
        seen: set[int] = set()
        todo = [raw]
        while todo:
            for successor in self.successors.get(todo.pop(), ()):
                if successor not in seen:
                    seen.add(successor)
                    todo.append(successor)
        return seen

    def flag_partners(self, raw: int) -> list[int]:
        """Return the tasks behind `raw` that share an untracked tensor with it: they may set its flag."""
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
        return cls(
            {task.raw: task for task in tasks},
            tuple(dependencies),
            {tensor.tensor_id: tensor for tensor in tensors},
            cut,
        )


class Terms(Struct, frozen=True, kw_only=True):
    """The terms of one runtime, and the names of one run.

    Attributes:
        task_name: returns the name of a task by its 64-bit id, such as `r1t2`.
        declares: mode of an argument -> the call that declares it.
        why: cause -> why an order is most likely lost.
        next: cause -> advice.
        overwritten_next: what to do if a later task overwrites what an earlier one reads, and that matters.
    """

    kernels: Mapping[int, str] = msgspec.field(default_factory=dict)
    task_name: Callable[[int], str] = str
    declares: Mapping[str, str] = msgspec.field(default_factory=dict)
    why: Mapping[Cause, str] = msgspec.field(default_factory=dict)
    next: Mapping[Cause, tuple[str, ...]] = msgspec.field(default_factory=dict)
    overwritten_next: tuple[str, ...] = ()

    def kernel(self, task: DeclaredTask) -> str:
        """Return `MUL`, `func 2`, `GEMM+ADD`, or ""."""
        funcs = dict.fromkeys(func for func in task.kernels if func >= 0)
        return "+".join(self.kernels.get(func, f"func {func}") for func in funcs)

    def title(self, task: DeclaredTask) -> str:
        """Return `r1t2 MUL`."""
        return f"{self.task_name(task.raw)} {self.kernel(task)}".strip()


class GraphReader(Protocol):
    """Reads the task graphs that one system writes."""

    @property
    def names(self) -> Sequence[str]:
        """The file names of such graphs."""

    def read(self, path: Path) -> TaskGraph:
        """Read the graph of a file; if that is incomplete, `cut` says what is missing.

        Raises:
            SourceError: it can't be read, or holds no task (code `no-graph`).
        """

    def task_name(self, raw: int) -> str:
        """Return the name of a task by its 64-bit id."""

    def terms(self, path: Path) -> Terms:
        """Return the terms for the graph of a file."""


def graph_files(folder: Path, readers: Iterable[GraphReader]) -> Iterator[tuple[Path, GraphReader]]:
    """Yield the graph files in a folder and below it."""
    known = [(name, reader) for reader in readers for name in reader.names]
    for root, _, files in target_files.walk_some([folder]):
        yield from ((root / name, reader) for name, reader in known if name in files)


def reader_of(path: Path, readers: Iterable[GraphReader]) -> GraphReader | None:
    """Return the reader of files of this name."""
    return next((reader for reader in readers if path.name in reader.names), None)
