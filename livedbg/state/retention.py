"""Retention limits: which exited processes, kernel objects and intrusive actions the state keeps.

Invariants:
    retention.K1. A process that the user named is never forgotten, nor is one that runs.
    retention.K2. Of the others, the newest EXITED_PROCESSES are kept, and as many of those that failed: however many
        short-lived helpers come after it, a worker that was killed stays in sight.
    retention.K3. A kernel object (a pipe, a socket, …) that somebody waits for is kept; of the others, the newest.
    retention.K4. Forgotten entries are counted: processes, and intrusive actions with their stops and pauses.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Container, Iterable, Set
from itertools import islice
from typing import Final

from livedbg.model import Intrusion, Process
from livedbg.model.ids import process_of
from livedbg.model.snapshot import Touches

EXITED_PROCESSES: Final = 1_024
"""How many exited processes the state keeps, and how many that failed. One more, and the oldest eighth is forgotten."""

KERNEL_OBJECTS: Final = 4_096
"""How many kernel objects the state keeps, whether anybody waits for them or not."""

TOUCH_WINDOW: Final = 4_096
"""How many of the newest touches the state keeps one by one."""


class ExitedProcesses:
    """The exited processes that the user did not name, oldest first, and how many were forgotten."""

    def __init__(self) -> None:
        self.forgotten = 0
        self._well: dict[str, None] = {}
        self._failed: dict[str, None] = {}

    def copy(self) -> ExitedProcesses:
        other = ExitedProcesses()
        other.forgotten, other._well, other._failed = self.forgotten, dict(self._well), dict(self._failed)
        return other

    @property
    def order(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the processes that exited with success, and those that failed, oldest first."""
        return tuple(self._well), tuple(self._failed)

    def restore(self, well: Iterable[str], failed: Iterable[str], forgotten: int) -> None:
        """Set the state from a keyframe."""
        self._well, self._failed, self.forgotten = dict.fromkeys(well), dict.fromkeys(failed), forgotten

    def note(self, process: Process) -> None:
        """Update the state from a process."""
        if not process.exited or process.named:
            self._well.pop(process.id, None)
            self._failed.pop(process.id, None)
            return
        failed = bool(process.exit_status)
        (self._well if failed else self._failed).pop(process.id, None)
        (self._failed if failed else self._well).setdefault(process.id)

    def surplus(self) -> frozenset[str]:
        """Remove and return the processes to forget. They come in batches: a batch costs one pass over the tables."""
        gone: list[str] = []
        for kept in (self._well, self._failed):
            if len(kept) > EXITED_PROCESSES:
                oldest = list(kept)[: len(kept) - EXITED_PROCESSES + EXITED_PROCESSES // 8]
                for process in oldest:
                    del kept[process]
                gone += oldest
        self.forgotten += len(gone)
        return frozenset(gone)


class Ledger:
    """The newest intrusive actions one by one, and totals of the older ones by target.

    Attributes:
        older: target -> totals of its actions that are no longer in `newest`; "": of processes that the state does not
            know or has forgotten.
    """

    def __init__(self) -> None:
        self.newest: deque[Intrusion] = deque()
        self.older: dict[str, Touches] = {}

    def copy(self) -> Ledger:
        other = Ledger()
        other.newest, other.older = self.newest.copy(), dict(self.older)
        return other

    def add(self, touch: Intrusion, known: Container[str | None]) -> None:
        """Add an action; the oldest one may move into the totals."""
        self.newest.append(touch)
        if len(self.newest) > TOUCH_WINDOW:
            oldest = self.newest.popleft()
            self._add_to(oldest.target if process_of(oldest.target) in known else "", Touches.of(oldest))

    def forget(self, processes: Collection[str]) -> None:
        """Move the totals of forgotten processes to ""."""
        for target in [target for target in self.older if process_of(target) in processes]:
            self._add_to("", self.older.pop(target))

    def _add_to(self, target: str, more: Touches) -> None:
        self.older[target] = self.older.get(target, Touches()).plus(more)


class KernelObjects:
    """The kernel objects of the state, oldest first. No event reports the end of one."""

    _KINDS: Final = frozenset({"pipe", "socket", "eventfd", "flock", "file"})

    def __init__(self) -> None:
        self._known: dict[str, None] = {}
        self._limit = KERNEL_OBJECTS

    def copy(self) -> KernelObjects:
        other = KernelObjects()
        other._known, other._limit = dict(self._known), self._limit
        return other

    @property
    def full(self) -> bool:
        """Return whether some are to be forgotten."""
        return len(self._known) > self._limit

    def note(self, entity: str) -> None:
        """Add a resource, or make it the newest."""
        if entity.partition(":")[0] in self._KINDS:
            self._known.pop(entity, None)
            self._known[entity] = None

    def surplus(self, waiting: Set[str]) -> list[str]:
        """Remove and return the objects to forget: the oldest three quarters, except those that take part in a wait.

        The newest ones stay: a wait for them may come with the next event.
        """
        oldest = islice(self._known, len(self._known) - KERNEL_OBJECTS // 4)
        gone = [entity for entity in oldest if entity not in waiting]
        for entity in gone:
            del self._known[entity]
        self._limit = max(KERNEL_OBJECTS, 2 * len(self._known))
        return gone
