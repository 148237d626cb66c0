"""Drawings of declared task graphs, with lost orders as missing arrows, and of the tasks in a snapshot."""

from __future__ import annotations

from collections.abc import Iterable

from livedbg.graphs.declared import DeclaredTask, LostOrder, LostOrders, TaskGraph, Terms
from livedbg.graphs.drawing import DECLARED, INFERRED, MISSING, Arrow, Drawing, Node, Remark
from livedbg.graphs.hazards import anti_dependencies
from livedbg.model import EdgeKind, EdgeState, Task
from livedbg.model.snapshot import Snapshot
from livedbg.text.sanitize import clean_line
from livedbg.text.wording import many


def drawing_of(graph: TaskGraph, lost: LostOrders, name: str, terms: Terms, *, war: bool = False) -> Drawing:
    """Return the drawing of a graph; with `war`, remark on reads that a later task may overwrite too."""
    nodes = {terms.task_name(raw): _node(task, terms) for raw, task in graph.tasks.items()}
    for edge in graph.dependencies:
        for raw in (edge.pred, edge.succ):
            if raw not in graph.tasks:
                nodes.setdefault(terms.task_name(raw), Node(terms.task_name(raw), "alloc"))
    sources: dict[tuple[str, str], list[str]] = {}
    for edge in graph.dependencies:
        words = sources.setdefault((terms.task_name(edge.pred), terms.task_name(edge.succ)), [])
        word = clean_line(edge.source, 40) if edge.orders else f"{clean_line(edge.source, 40)}, retain only"
        if word not in words:
            words.append(word)
    arrows = [Arrow(first, second, word="+".join(words)) for (first, second), words in sources.items()]
    arrows += [Arrow(terms.task_name(one.first), terms.task_name(one.second), MISSING) for one in lost.sure]
    remarks = [remark_of(one, graph, terms, MISSING) for one in lost.sure]
    remarks += [remark_of(one, graph, terms, "perhaps") for one in lost.perhaps]
    if war:
        remarks += _overwritten(graph, terms)
    return Drawing(name, nodes, tuple(arrows), tuple(remarks), tuple(_notes(graph, lost)))


def _node(task: DeclaredTask, terms: Terms) -> Node:
    words = [f"×{task.blocks} blocks"] if task.blocks > 1 else []
    words += ["manual scope"] if task.manual else []
    return Node(terms.task_name(task.raw), terms.kernel(task), ", ".join(words))


def remark_of(lost: LostOrder, graph: TaskGraph, terms: Terms, kind: str) -> Remark:
    first, second = terms.title(graph.tasks[lost.first]), terms.title(graph.tasks[lost.second])
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
    meant = "possibly intended: several writers of a tensor whose tracking is off; " if kind == "perhaps" else ""
    return Remark(
        kind,
        terms.task_name(lost.first),
        terms.task_name(lost.second),
        text,
        meant + terms.why.get(lost.cause, ""),
        terms.next.get(lost.cause, ()),
        facts,
    )


def _overwritten(graph: TaskGraph, terms: Terms) -> Iterable[Remark]:
    for reader, writer in anti_dependencies(graph):
        text = (
            f"{terms.title(graph.tasks[writer])} overwrites what {terms.title(graph.tasks[reader])} reads: write "
            "after read, which the runtime does not track (by design, no finding)"
        )
        yield Remark("not-tracked", terms.task_name(reader), terms.task_name(writer), text, "", terms.overwritten_next)


def _notes(graph: TaskGraph, lost: LostOrders) -> Iterable[str]:
    if graph.cut:
        yield f"The file is incomplete: {graph.cut}. A missing dependency may be one that was cut off."
    if lost.skipped:
        arguments = many(lost.skipped, "argument was", "arguments were")
        yield f"{arguments} not compared: the regions there overlap in too many ways."
    if lost.circular:
        yield "The edges form a cycle, which no runtime writes: dependencies can't be checked."


def drawing_of_state(snapshot: Snapshot, name: str) -> Drawing:
    """Return the drawing of tasks, their dependencies and their waits."""
    nodes = {task.id: _node_of_task(task) for task in snapshot.tasks.values()}
    arrows: list[Arrow] = []
    remarks: list[Remark] = []
    for edge in snapshot.edges.values():
        if edge.kind not in {EdgeKind.DEPENDS_ON, EdgeKind.WAITS_FOR} or edge.source not in nodes:
            continue
        nodes.setdefault(edge.target, Node(edge.target))
        lost = edge.state is EdgeState.MISSING
        word = "waits for" if edge.kind is EdgeKind.WAITS_FOR else ""
        state = MISSING if lost else INFERRED if edge.inferred else DECLARED
        arrows.append(Arrow(edge.target, edge.source, state, word))
        if lost:
            remarks.append(Remark("missing", edge.target, edge.source, edge.evidence or "no edge orders them"))
    short = _short({task.system for task in snapshot.tasks.values()}, nodes)
    return Drawing(
        name,
        {short[key]: Node(short[key], node.label, node.detail) for key, node in nodes.items()},
        tuple(Arrow(short[arrow.first], short[arrow.second], arrow.state, arrow.word) for arrow in arrows),
        tuple(Remark(one.kind, short[one.first], short[one.second], one.text) for one in remarks),
    )


def _node_of_task(task: Task) -> Node:
    where = f" on {', '.join(task.where)}" if task.where else ""
    return Node(task.id, task.kernel or "", f"{task.state.value}{where}")


def _short(systems: set[str], nodes: dict[str, Node]) -> dict[str, str]:
    """Return identifiers without their common beginning (`task:SYSTEM/`)."""
    start = f"task:{next(iter(systems))}/" if len(systems) == 1 else "task:"
    return {name: name.removeprefix(start) for name in nodes}
