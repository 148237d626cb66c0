"""The dispatch graph beside the logs of a session, joined to a dispatch that runs: what waits for its results.

The compiler writes the graph (`--iree-flow-dump-dispatch-graph`, recipe `iree-graph`) as `dispatches.dot`.

Invariants:
    iree_dispatch_graph.N1. A dispatch is joined to a node only if it can be no other: one node has its name, or it is
        known as the how manieth call of that name it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct

from livedbg.adapters.iree.graph_files import READERS
from livedbg.graphs.readers import graph_files
from livedbg.linux.target_files import is_folder, is_regular
from livedbg.model import Edge, EdgeKind, Task, TaskState, ids
from livedbg.model.errors import SourceError

_MOST: Final = 2000
_EVIDENCE: Final = "dispatches.dot: it takes the result as an operand"


class DispatchGraph(Struct, frozen=True):
    """A graph.

    Attributes:
        names: the dispatch of each node, in the order of the program.
        needs: the nodes whose results a node takes.
    """

    names: dict[int, str]
    needs: dict[int, frozenset[int]]

    def node(self, name: str, ordinal: int | None) -> int | None:
        """The node of a call; None where that isn't known (N1).

        Args:
            name: of the dispatch.
            ordinal: the how manieth call of that name it is, from 0; None where that isn't known.
        """
        nodes = [node for node, one in self.names.items() if one == name]
        if len(nodes) == 1:
            return nodes[0]
        return nodes[ordinal % len(nodes)] if nodes and ordinal is not None else None

    def after(self, node: int) -> list[int]:
        """The nodes that need its result, directly or through others, in the order of the program."""
        found = {node}
        for other in self.names:
            if self.needs.get(other, frozenset()) & found:
                found.add(other)
        return [one for one in self.names if one in found and one != node]


class Behind(NamedTuple):
    """What waits for a dispatch that runs."""

    tasks: tuple[Task, ...] = ()
    edges: tuple[Edge, ...] = ()


def graph_beside(logs: Iterable[Path]) -> DispatchGraph | None:
    """The graph beside some logs, or in folders of logs, if there is exactly one."""
    files: set[Path] = set()
    for log in logs:
        if is_folder(log):
            files.update(path.absolute() for path, _ in graph_files(log, READERS))
        else:
            near = (log.with_name(name) for reader in READERS for name in reader.names)
            files.update(path.absolute() for path in near if is_regular(path))
    if len(files) != 1:
        return None
    reader, path = READERS[0], files.pop()
    try:
        graph, terms = reader.read(path), reader.terms(path)
    except SourceError:
        return None
    needs: dict[int, set[int]] = {}
    for dependency in graph.dependencies:
        needs.setdefault(dependency.succ, set()).add(dependency.pred)
    names = {node: terms.kernel(task) for node, task in graph.tasks.items()}
    return DispatchGraph(names, {node: frozenset(found) for node, found in needs.items()})


def behind(graph: DispatchGraph, running: Task, name: str, ordinal: int | None, known: Mapping[str, str]) -> Behind:
    """What waits for the result of a dispatch that runs.

    Args:
        graph: of its module.
        running: its task.
        name: of the dispatch.
        ordinal: the how manieth call of that name it is, from 0; None where that isn't known.
        known: tasks that are queued already, by the dispatch of which there is one only.
    """
    node = graph.node(name, ordinal)
    if node is None:
        return Behind()
    nodes = graph.after(node)[:_MOST]
    counts = list(graph.names.values())
    named = {node: running.id}
    tasks: list[Task] = []
    for one in nodes:
        dispatch = graph.names[one]
        queued = known.get(dispatch) if counts.count(dispatch) == 1 else None
        named[one] = queued or ids.task("iree", "graph", f"{dispatch}@v{one}")
        if queued is None:
            tasks.append(_declared(named[one], dispatch, running))
    edges = [
        Edge(kind=EdgeKind.DEPENDS_ON, source=named[one], target=named[other], evidence=_EVIDENCE)
        for one in nodes
        for other in sorted(graph.needs.get(one, frozenset()) & named.keys())
    ]
    return Behind(tuple(tasks), tuple(edges))


def _declared(name: str, dispatch: str, running: Task) -> Task:
    return Task(
        id=name,
        system="iree",
        name=name.rpartition("/")[2],
        kernel=dispatch,
        state=TaskState.SUBMITTED,
        since_mono_ns=running.since_mono_ns,
        owner=running.owner,
        attributes={"declared": "dispatches.dot"},
    )
