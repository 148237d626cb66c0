"""A declared task graph as a drawing: tasks by ring and number, kernels by name, lost orders as arrows that miss."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from livedbg.graphs.declared import DeclaredTask, TaskGraph
from livedbg.graphs.drawing import MISSING, Arrow, Drawing, Node, Remark
from livedbg.graphs.hazards import anti_dependencies
from livedbg.graphs.lost import LostOrder, LostOrders
from livedbg.text.sanitize import clean_line
from livedbg.text.wording import many

__all__ = ["Naming", "drawing_of", "remark_of", "task_name"]


def task_name(raw: int) -> str:
    """`r1t2`: task 2 of ring 1, of the runtime's 64-bit id."""
    return f"r{(raw >> 32) & 0xFF}t{raw & 0xFFFFFFFF}"


@dataclass(frozen=True, slots=True)
class Naming:
    """What tasks are called.

    Attributes:
        kernels: names by func id.
    """

    kernels: Mapping[int, str] = field(default_factory=dict)

    def kernel(self, task: DeclaredTask) -> str:
        """`MUL`, `func 2`, `GEMM+ADD`; "" where the file has none (June 2026, and `alloc_tensors`)."""
        funcs = dict.fromkeys(func for func in task.kernels if func >= 0)
        return "+".join(self.kernels.get(func, f"func {func}") for func in funcs)

    def title(self, task: DeclaredTask) -> str:
        """`r1t2 MUL`."""
        return f"{task_name(task.raw)} {self.kernel(task)}".strip()


def drawing_of(graph: TaskGraph, lost: LostOrders, name: str, naming: Naming, *, war: bool = False) -> Drawing:
    """The drawing of a graph.

    Args:
        graph: the graph.
        lost: what it lacks.
        name: what it was read from.
        naming: names of kernels.
        war: remark on reads that a later task may overwrite too.
    """
    nodes = {task_name(raw): _node(task, naming) for raw, task in graph.tasks.items()}
    for edge in graph.dependencies:
        for raw in (edge.pred, edge.succ):
            if raw not in graph.tasks:
                nodes.setdefault(task_name(raw), Node(task_name(raw), "alloc"))
    sources: dict[tuple[str, str], list[str]] = {}
    for edge in graph.dependencies:
        words = sources.setdefault((task_name(edge.pred), task_name(edge.succ)), [])
        word = clean_line(edge.source, 40) if edge.orders else f"{clean_line(edge.source, 40)}, retain only"
        if word not in words:
            words.append(word)
    arrows = [Arrow(first, second, word="+".join(words)) for (first, second), words in sources.items()]
    arrows += [Arrow(task_name(one.first), task_name(one.second), MISSING) for one in lost.sure]
    remarks = [remark_of(one, graph, naming, MISSING) for one in lost.sure]
    remarks += [remark_of(one, graph, naming, "perhaps") for one in lost.perhaps]
    if war:
        remarks += _overwritten(graph, naming)
    return Drawing(name, nodes, tuple(arrows), tuple(remarks), tuple(_notes(graph, lost)))


def _node(task: DeclaredTask, naming: Naming) -> Node:
    words = [f"×{task.blocks} blocks"] if task.blocks > 1 else []
    words += ["manual scope"] if task.manual else []
    return Node(task_name(task.raw), naming.kernel(task), ", ".join(words))


def remark_of(lost: LostOrder, graph: TaskGraph, naming: Naming, kind: str) -> Remark:
    """What is to be said of a lost order."""
    first, second = naming.title(graph.tasks[lost.first]), naming.title(graph.tasks[lost.second])
    does = "reads" if lost.hazard == "read after write" else "overwrites"
    text = (
        f"{second} {does} {lost.region}, of tensor {lost.tensor} (argument {lost.second_arg}, {lost.second_mode}), "
        f"written by {first} (argument {lost.first_arg}, {lost.first_mode}): {lost.hazard}, and no path"
    )
    facts: dict[str, str | int] = {
        "hazard": lost.hazard,
        "tensor": str(lost.tensor),
        "offset": lost.offset,
        "bytes": lost.size,
        "dtype": clean_line(lost.dtype, 40),
        "shape": "x".join(map(str, lost.shape)),
        "from_arg": lost.first_arg,
        "from_mode": lost.first_mode,
        "to_arg": lost.second_arg,
        "to_mode": lost.second_mode,
        "cause": lost.cause.value,
    }
    meant = "this may be meant: several writers of a tensor whose tracking is off; " if kind == "perhaps" else ""
    return Remark(kind, task_name(lost.first), task_name(lost.second), text, meant + lost.why, lost.next, facts)


def _overwritten(graph: TaskGraph, naming: Naming) -> Iterable[Remark]:
    for reader, writer in anti_dependencies(graph):
        text = (
            f"{naming.title(graph.tasks[writer])} overwrites what {naming.title(graph.tasks[reader])} reads: write "
            "after read, which the runtime does not track (by design, no finding)"
        )
        steps = ("where it matters: add_dep() of the reader's id in the writer",)
        yield Remark("not-tracked", task_name(reader), task_name(writer), text, "", steps)


def _notes(graph: TaskGraph, lost: LostOrders) -> Iterable[str]:
    if graph.cut:
        yield f"The file is not whole: {graph.cut}. Orders that it lacks can't be told from orders that were cut off."
    if lost.skipped:
        arguments = many(lost.skipped, "argument was", "arguments were")
        yield f"{arguments} not compared: the regions there overlap in too many ways."
    if lost.circular:
        yield "The edges close a circle, which no runtime writes: orders can't be told."
