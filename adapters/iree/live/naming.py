"""Identifiers of what a runtime has queued: tasks by what they run and a number, semaphores by address and value."""

from __future__ import annotations

from collections.abc import Hashable

from livedbg.adapters.iree.live.operations import Point
from livedbg.model import ids


class Names:
    """The names of one process's tasks: the same thing has the same number as long as it is there.

    Args:
        prefix: put before each name, where several processes have tasks.
    """

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._numbers: dict[tuple[str, Hashable], int] = {}
        self._next: dict[str, int] = {}

    def task(self, name: str, key: Hashable) -> str:
        """The identifier of a task: `task:iree/NAME#N`."""
        whole = name.replace("/", "_").replace(" ", "_")
        number = self._numbers.get((whole, key))
        if number is None:
            number = self._numbers[whole, key] = self._next.get(whole, 0)
            self._next[whole] = number + 1
        return ids.task("iree", *filter(None, (self._prefix, f"{whole}#{number}")))

    def semaphore(self, host: str, pid: int, point: Point) -> str:
        """The identifier of a value of a semaphore: each value is something else to wait for."""
        return f"{ids.lock('sem', host, pid, point.semaphore)}:{point.value}"
