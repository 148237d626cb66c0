"""Drawings of declared task graphs, with lost orders as missing arrows, and of the tasks in a snapshot.

Two graphs are compared task by task: edges that only one of them has. Tasks are matched by their ids where both runs
submitted the same kernels in the same order; else each by its kernel and how many of that kernel came before it.
Tensors have other ids in each run (they are hashes of addresses), so an edge is compared by its two tasks, and
explained by the arguments of both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from livedbg.graphs.declared import Access, DeclaredTask, Dependency, LostOrder, LostOrders, TaskGraph, Terms
from livedbg.graphs.drawing import DECLARED, EXTRA, INFERRED, MISSING, Arrow, Drawing, Node, Remark
from livedbg.graphs.hazards import Paths, anti_dependencies
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


@dataclass(frozen=True, slots=True)
class Matching:
    """Which task of one run is which of the other.

    Attributes:
        there: task here -> task there.
        by: how they were matched, in words.
        only_here, only_there: tasks without a partner.
    """

    there: dict[int, int]
    by: str
    only_here: int = 0
    only_there: int = 0


def match(here: TaskGraph, there: TaskGraph) -> Matching:
    """Match the tasks of two runs."""
    both_name = all(task.kernels for graph in (here, there) for task in graph.tasks.values())
    if list(here.tasks) == list(there.tasks) and (
        not both_name or all(here.tasks[raw].kernels == there.tasks[raw].kernels for raw in here.tasks)
    ):
        return Matching({raw: raw for raw in here.tasks}, "task ids (the same tasks were submitted in the same order)")
    keys = [_keys(here), _keys(there)]
    places = {key: raw for raw, key in keys[1].items()}
    found = {raw: places[key] for raw, key in keys[0].items() if key in places}
    return Matching(
        found, "kernel and position", len(here.tasks) - len(found), len(there.tasks) - len(set(found.values()))
    )


def _keys(graph: TaskGraph) -> dict[int, tuple[tuple[int, ...], int]]:
    seen: Counter[tuple[int, ...]] = Counter()
    found: dict[int, tuple[tuple[int, ...], int]] = {}
    for raw, task in graph.tasks.items():
        found[raw] = task.kernels, seen[task.kernels]
        seen[task.kernels] += 1
    return found


def compared(drawing: Drawing, here: TaskGraph, there: TaskGraph, terms: Terms, other: str) -> Drawing:
    """Return the drawing of `here` with the differences from `there`."""
    if here.cut or there.cut:
        lacking = "it" if here.cut else f"{other} ({there.cut})"
        note = f"Not compared with {other}: {lacking} is incomplete, so a missing edge may be cut off."
        return replace(drawing, notes=(*drawing.notes, note))
    matching = match(here, there)
    back = {partner: raw for raw, partner in matching.there.items()}
    mine = {(pred, succ) for succ, preds in here.predecessors.items() for pred in preds}
    its = {
        (back[pred], back[succ])
        for succ, preds in there.predecessors.items()
        for pred in preds
        if pred in back and succ in back
    }
    mine = {pair for pair in mine if pair[0] in matching.there and pair[1] in matching.there}
    loose = Paths(here).without(its - mine)
    partners = {(matching.there[pred], matching.there[succ]): (pred, succ) for pred, succ in mine - its}
    extra = {partners[pair] for pair in Paths(there).without(partners)}
    order = {raw: place for place, raw in enumerate(here.tasks)}
    absent = sorted(its - mine, key=lambda pair: (order[pair[1]], order[pair[0]]))
    added = sorted(mine - its, key=lambda pair: (order[pair[1]], order[pair[0]]))
    differences = _Differences(here, there, matching, terms)
    remarks = [differences.remark(pair, absent=True, unordered=pair in loose) for pair in absent]
    arrows = list(drawing.arrows)
    known = {(remark.first, remark.second) for remark in drawing.remarks_of(MISSING)}
    for pair in absent:
        ends = terms.task_name(pair[0]), terms.task_name(pair[1])
        if pair in loose and ends not in known:
            arrows.append(Arrow(*ends, MISSING))
    remarks += [differences.remark(pair, absent=False, unordered=pair in extra) for pair in added]
    new = {(terms.task_name(pred), terms.task_name(succ)) for pred, succ in added}
    arrows = [replace(one, state=EXTRA) if (one.first, one.second) in new else one for one in arrows]
    same = "" if remarks else " Both have the same edges."
    notes = [f"Compared with {other}, tasks matched by {matching.by}.{same}"]
    if matching.only_here or matching.only_there:
        notes.append(f"Unmatched tasks: {matching.only_here} here, {matching.only_there} there.")
    return replace(drawing, arrows=tuple(arrows), remarks=(*drawing.remarks, *remarks), notes=(*drawing.notes, *notes))


class _Differences:
    def __init__(self, here: TaskGraph, there: TaskGraph, matching: Matching, terms: Terms) -> None:
        self._here, self._there, self._matching, self._terms = here, there, matching, terms
        self._edges = _edges_of(here), _edges_of(there)

    def remark(self, pair: tuple[int, int], *, absent: bool, unordered: bool) -> Remark:
        """Describe an edge that is there and not here (`absent`), or the other way round."""
        first, second = (self._here.tasks[raw] for raw in pair)
        partners = self._matching.there[pair[0]], self._matching.there[pair[1]]
        has, ends = (self._there, partners) if absent else (self._here, pair)
        edges = self._edges[absent].get(ends, [])
        declared = "+".join(dict.fromkeys(clean_line(edge.source, 40) for edge in edges))
        args = dict.fromkeys(_region(has, ends[1], edge.arg) for edge in edges if edge.arg >= 0)
        on = f" ({': '.join(filter(None, (declared, '; '.join(args))))})" if declared else ""
        place, lacks = ("there", "here") if absent else ("here", "there")
        ordered = "no path orders them" if unordered else "other tasks still order them"
        text = (
            f"{self._terms.title(first)} → {self._terms.title(second)}: the edge{on} is {place} and not {lacks}, "
            f"where {ordered}"
        )
        why = self._why(first, second, self._there.tasks[partners[0]], self._there.tasks[partners[1]])
        facts: dict[str, str | int] = {"source": declared, "unordered": "yes" if unordered else "no"}
        kind = "only-there" if absent else "only-here"
        names = self._terms.task_name(first.raw), self._terms.task_name(second.raw)
        return Remark(kind, *names, text, why, (), facts)

    def _why(self, first: DeclaredTask, second: DeclaredTask, its_first: DeclaredTask, its_second: DeclaredTask) -> str:
        """Describe how the declarations of the two tasks differ between the runs."""
        found = []
        for mine, its in ((first, its_first), (second, its_second)):
            name = self._terms.task_name(mine.raw)
            if mine.scope != its.scope:
                found.append(
                    f"{name} is in scope {clean_line(mine.scope, 40)} here and {clean_line(its.scope, 40)} there"
                )
            args, others = {one.idx: one for one in mine.args}, {one.idx: one for one in its.args}
            for number in sorted(args.keys() | others.keys()):
                difference = self._difference(args.get(number), others.get(number))
                if difference:
                    found.append(f"argument {number} of {name}: {difference}")
        return "; ".join(found[:6])

    def _difference(self, mine: Access | None, its: Access | None) -> str:
        if mine is None or its is None:
            return "only here" if its is None else f"only there: {self._declared(its)} is missing here"
        if mine.type != its.type:
            return f"{self._declared(mine)} here, {self._declared(its)} there"
        if (mine.start_offset, mine.shape, mine.strides) != (its.start_offset, its.shape, its.strides):
            return "different elements here and there"
        return ""

    def _declared(self, access: Access) -> str:
        return self._terms.declares.get(access.type, clean_line(access.type, 40))


def _edges_of(graph: TaskGraph) -> dict[tuple[int, int], list[Dependency]]:
    found: dict[tuple[int, int], list[Dependency]] = {}
    for edge in graph.dependencies:
        found.setdefault((edge.pred, edge.succ), []).append(edge)
    return found


def _region(graph: TaskGraph, raw: int, number: int) -> str:
    task = graph.tasks.get(raw)
    access = next((one for one in task.args if one.idx == number), None) if task is not None else None
    if access is None:
        return f"argument {number}"
    shape = "×".join(map(str, access.shape))
    kind = clean_line(access.dtype, 40)
    return f"argument {number}, {kind} {shape} from element {access.start_offset} of tensor {access.tensor_id}"
