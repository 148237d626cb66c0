"""The tasks of any system as a drawing, from the state that a session or a recording shows."""

from __future__ import annotations

from livedbg.graphs.drawing import DECLARED, INFERRED, MISSING, Arrow, Drawing, Node, Remark
from livedbg.model import EdgeKind, EdgeState, Task
from livedbg.model.snapshot import Snapshot


def drawing_of_state(snapshot: Snapshot, name: str) -> Drawing:
    """Tasks and what they depend on or wait for."""
    nodes = {task.id: _node(task) for task in snapshot.tasks.values()}
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


def _node(task: Task) -> Node:
    where = f" on {', '.join(task.where)}" if task.where else ""
    return Node(task.id, task.kernel or "", f"{task.state.value}{where}")


def _short(systems: set[str], nodes: dict[str, Node]) -> dict[str, str]:
    """Identifiers without what all of them share (`task:SYSTEM/`)."""
    start = f"task:{next(iter(systems))}/" if len(systems) == 1 else "task:"
    return {name: name.removeprefix(start) for name in nodes}
