"""Results for the shards of a table, kept while a shard stays the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from livedbg.model.tables import FrozenTable

__all__ = ["ShardMemo"]

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R")


class ShardMemo(Generic[K, V, R]):
    """`work(shard)` for every shard of one state of a table after another.

    Args:
        work: looks at one shard.
    """

    def __init__(self, work: Callable[[dict[K, V]], R]) -> None:
        self._work = work
        self._shards: tuple[dict[K, V], ...] = ()
        self.results: list[R] = []

    def update(self, table: FrozenTable[K, V]) -> list[tuple[R | None, R]]:
        """Bring `results` up to date, one for each shard.

        Returns:
            (former, new) result of each shard that changed; all with None as the former one when the table
            was split since.
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
