"""The tasks of a state by what they are doing, brought up to date by what changed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from livedbg.analysis.memo import ShardMemo
from livedbg.model import Task, TaskState
from livedbg.model.snapshot import Snapshot

__all__ = ["TaskIndex"]


class TaskIndex:
    """The tasks that have not completed, by state."""

    def __init__(self) -> None:
        self._parts: ShardMemo[str, Task, dict[TaskState, list[Task]]] = ShardMemo(_by_state)

    def update(self, snapshot: Snapshot) -> None:
        """Take the tasks of a snapshot."""
        self._parts.update(snapshot.tasks)

    def in_state(self, state: TaskState) -> Sequence[Task]:
        """The tasks in a state other than COMPLETED."""
        return list(chain.from_iterable(part.get(state, ()) for part in self._parts.results))


def _by_state(shard: dict[str, Task]) -> dict[TaskState, list[Task]]:
    found: dict[TaskState, list[Task]] = {}
    for task in shard.values():
        if task.state is not TaskState.COMPLETED:
            found.setdefault(task.state, []).append(task)
    return found
