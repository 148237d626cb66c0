"""The tasks panel: tasks of all runtimes, with state, age and waiters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from livedbg.model import Task, TaskState
from livedbg.panels.draw_context import DrawContext, task_mark
from livedbg.panels.table import Cell, Column, Rows, TablePanel
from livedbg.text.quantities import count, elapsed
from livedbg.themes import Role

_WORDS = (
    (TaskState.FAILED, "failed"),
    (TaskState.RUNNING, "running"),
    (TaskState.READY, "ready"),
    (TaskState.SUBMITTED, "waiting"),
    (TaskState.UNKNOWN, "unknown"),
    (TaskState.COMPLETED, "done"),
)


class TasksPanel(TablePanel):
    """All reported tasks."""

    LABEL = "Tasks"
    HELP = (
        "Units of work of a runtime (NPU tasks, kernels, collectives). SINCE is the time in the present state, LEFT"
        " the number of unsatisfied dependencies, BEHIND how many tasks wait for it."
    )
    COLUMNS = (
        Column("STATE", 9, keep=10, sort="state"),
        Column("TASK", 8, stretch=1, keep=10, sort="name"),
        Column("KERNEL", 12, stretch=2, keep=8, sort="kernel"),
        Column("WHERE", 14, stretch=1, keep=6),
        Column("LEFT", 6, keep=4, align="right"),
        Column("SINCE", 9, keep=7, sort="since", align="right"),
        Column("BEHIND", 7, keep=9, sort="behind", align="right"),
    )
    SORTS = ("state", "behind", "since", "name", "kernel")

    def source(self, context: DrawContext) -> object:
        return id(context.snapshot.tasks), context.diagnosis.verdict.roots

    def size_of(self, context: DrawContext) -> int:
        return len(context.snapshot.tasks)

    def make_rows(self, context: DrawContext, needle: str, sort: str) -> Rows:
        tasks = context.snapshot.tasks
        states = Counter(task.state for task in tasks.values())
        title = "  ".join(f"{count(states[state])} {word}" for state, word in _WORDS if states[state])
        found = [task for task in tasks.values() if not needle or needle in _text(task)]
        found.sort(key=_order(context, sort))
        return Rows([task.id for task in found], len(tasks), title)

    def cells(self, identity: str) -> Sequence[Cell]:
        context, ink = self.context, self.context.ink
        task = context.snapshot.tasks.get(identity)
        if task is None:
            return [Cell("")] * len(self.COLUMNS)
        mark = task_mark(task, stalled=identity in context.stalled)
        quiet = ink.style(Role.DONE if task.state is TaskState.COMPLETED else Role.TEXT)
        dim = ink.style(Role.DIM)
        behind = context.diagnosis.graph.behind(identity)
        left = "" if task.fanin_left is None else f"{task.fanin_left}"
        if task.fanin_total is not None and left:
            left = f"{task.fanin_left}/{task.fanin_total}"
        return (
            Cell(f"{mark.sign(context.glyphs)} {mark.word}", ink.style(mark.role, bold=mark.order <= 1)),
            Cell(task.name, quiet),
            Cell(task.kernel or "", quiet),
            Cell(where(context, task) or "-", dim),
            Cell(left, dim),
            Cell(elapsed(context.names.age_ns(identity)), quiet),
            Cell(count(behind) if behind else "", ink.style(Role.WARN, bold=True)),
        )

    def placeholder(self) -> str:
        return "No task matches the filter." if self.needle else "No runtime has reported a task."


def where(context: DrawContext, task: Task) -> str:
    """Return what a task runs on."""
    return ", ".join(context.names.label(place) if ":" in place else place for place in task.where)


def _text(task: Task) -> str:
    return f"{task.name} {task.kernel or ''} {task.state} {' '.join(task.where)} {task.owner or ''}".lower()


def _order(context: DrawContext, sort: str) -> Callable[[Task], tuple[object, ...]]:
    roots = {entity: place for place, entity in enumerate(context.diagnosis.verdict.roots)}
    behind = context.diagnosis.graph.behind

    def since(task: Task) -> int:
        return task.since_mono_ns or task.since_wall_ns or 2**63

    def by_state(task: Task) -> tuple[object, ...]:
        mark = task_mark(task)
        return (roots.get(task.id, len(roots)), mark.order, since(task), len(task.name), task.name)

    orders: dict[str, Callable[[Task], tuple[object, ...]]] = {
        "state": by_state,
        "behind": lambda task: (0 if task.state is TaskState.COMPLETED else -behind(task.id), *by_state(task)),
        "since": lambda task: (task.state is TaskState.COMPLETED, since(task), task.name),
        "name": lambda task: (len(task.name), task.name),
        "kernel": lambda task: (task.kernel or "\uffff", *by_state(task)),
    }
    return orders[sort]
