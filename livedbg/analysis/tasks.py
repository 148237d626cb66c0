"""Index of tasks, updated by the changed shards of the table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Generic, TypeVar

from livedbg.model import Task, TaskState
from livedbg.model.facts import RequestFacts, facts_of
from livedbg.model.snapshot import Snapshot
from livedbg.model.tables import FrozenTable

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R")


class ShardMemo(Generic[K, V, R]):
    """Cache of `work(shard)` for every shard of successive states of a table."""

    def __init__(self, work: Callable[[dict[K, V]], R]) -> None:
        self._work = work
        self._shards: tuple[dict[K, V], ...] = ()
        self.results: list[R] = []

    def update(self, table: FrozenTable[K, V]) -> list[tuple[R | None, R]]:
        """Update `results`, one for each shard.

        Returns:
            (former, new) result of each changed shard; the former one is None after the table was split.
        """
        if table.shards is self._shards:
            return []
        changed: list[tuple[R | None, R]] = []
        if len(table.shards) != len(self._shards):
            self.results = [self._work(shard) for shard in table.shards]
            changed = [(None, result) for result in self.results]
        else:
            results = self.results.copy()
            for place, (old, new) in enumerate(zip(self._shards, table.shards, strict=True)):
                if old is not new:
                    results[place] = self._work(new)
                    changed.append((self.results[place], results[place]))
            self.results = results
        self._shards = table.shards
        return changed


class TaskIndex:
    """The tasks that have not completed, by state, and those that hold up a request."""

    def __init__(self) -> None:
        self._parts: ShardMemo[str, Task, dict[TaskState, list[Task]]] = ShardMemo(_by_state)
        self._held_up: ShardMemo[str, Task, list[Task]] = ShardMemo(_held_up)

    def update(self, snapshot: Snapshot) -> None:
        self._parts.update(snapshot.tasks)
        self._held_up.update(snapshot.tasks)

    def held_up(self) -> Sequence[Task]:
        """Return the tasks in which a request may be held up."""
        return list(chain.from_iterable(self._held_up.results))

    def in_state(self, state: TaskState) -> Sequence[Task]:
        """Return the tasks in a state other than COMPLETED."""
        return list(chain.from_iterable(part.get(state, ()) for part in self._parts.results))


def _held_up(shard: dict[str, Task]) -> list[Task]:
    return [task for task in shard.values() if facts_of(task.facts, RequestFacts).held_up]


def _by_state(shard: dict[str, Task]) -> dict[TaskState, list[Task]]:
    found: dict[TaskState, list[Task]] = {}
    for task in shard.values():
        if task.state is not TaskState.COMPLETED:
            found.setdefault(task.state, []).append(task)
    return found
