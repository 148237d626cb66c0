"""Dispatches that are queued or run in a process, with what waits for their results by the dispatch graph."""

from __future__ import annotations

from collections import Counter

from livedbg.adapters.iree.dispatch_graph import DispatchGraph, behind
from livedbg.adapters.iree.facts import dispatch_facts
from livedbg.adapters.iree.live.view import Shown
from livedbg.model import TaskState

__all__ = ["with_graph"]


def with_graph(graph: DispatchGraph, shown: Shown) -> Shown:
    """The same, with the tasks and edges of the graph behind each dispatch that runs."""
    dispatches = {name: task for name, task in shown.tasks.items() if task.kernel and dispatch_facts(task).dispatch}
    counts = Counter(task.kernel for task in dispatches.values())
    known = {task.kernel: name for name, task in dispatches.items() if task.kernel and counts[task.kernel] == 1}
    tasks, edges = dict(shown.tasks), dict.fromkeys(shown.edges)
    for task in dispatches.values():
        if task.state is TaskState.RUNNING and task.kernel:
            found = behind(graph, task, task.kernel, None, known)
            tasks |= {one.id: one for one in found.tasks}
            edges |= dict.fromkeys(found.edges)
    return shown._replace(tasks=tasks, edges=tuple(edges))
