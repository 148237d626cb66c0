"""What a thread was in when something was thrown on it: its rank, and the operation of a runtime, as systems know them.

It is read at once, beside the stack: soon the thread goes on, or its process ends.

Invariants:
    circumstances.B1. A hit has what was read as it came first, and nothing where that was not read.
    circumstances.B2. No more than `_MOST_A_SECOND` calls are read, each the first one of its kind.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable, Sequence
from typing import Final

from msgspec import structs

from livedbg.model import ExceptionHit, Frame, ids
from livedbg.probes.newest import Newest
from livedbg.session.systems import declared

_MOST_A_SECOND: Final = 20
_KINDS: Final = 4096
_KEPT: Final = 1024
_PATIENCE_S: Final = 5.0

_Says = Callable[[Sequence[Frame]], tuple[int | None, str]]


class Circumstances:
    """Reads and remembers.

    Args:
        host: for the identifiers.
    """

    def __init__(self, host: str) -> None:
        self._host = host
        self._reads = tuple(read for _, read in declared(lambda system: system.thrown_in))
        self._kinds: Newest[Hashable, None] = Newest(_KINDS)
        self._second = (0, 0)
        self._begun_s = 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self._says: Newest[tuple[str, int], _Says] = Newest(_KEPT)
        self._ranks: dict[str, int] = {}
        self._kept: dict[str, tuple[int | None, str]] = {}

    def read(self, pid: int, tid: int, kind: Hashable, wall_ns: int) -> None:
        """Something was thrown.

        Args:
            pid: in which process.
            tid: on which thread.
            kind: what distinguishes it from others.
            wall_ns: when.
        """
        if not self._reads or kind in self._kinds or not self._may():
            return
        self._kinds[kind] = None
        if not self._tasks:
            self._begun_s = time.monotonic()
        task = asyncio.create_task(self._read(pid, tid, wall_ns))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _may(self) -> bool:
        now = int(time.monotonic())
        second, count = self._second
        self._second = (now, count + 1 if now == second else 1)
        return self._second[1] <= _MOST_A_SECOND

    @property
    def busy(self) -> bool:
        """Whether something is being read just now: hits wait for that, but not for long."""
        return bool(self._tasks) and time.monotonic() - self._begun_s < _PATIENCE_S

    async def settled(self) -> None:
        """Wait for what is being read."""
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    def with_them(self, hit: ExceptionHit) -> ExceptionHit:
        """The hit with what was read as it came first."""
        process = hit.process or ""
        kept = self._kept.get(hit.id)
        if kept is None and (says := self._says.get((process, hit.first_wall_ns or 0))) is not None:
            kept = self._kept[hit.id] = says(hit.stack)
        rank, operation = kept or (self._ranks.get(process), "")
        return structs.replace(hit, rank=rank, operation=operation)

    async def _read(self, pid: int, tid: int, wall_ns: int) -> None:
        process = ids.process(self._host, pid)
        for read in self._reads:
            try:
                says = await asyncio.to_thread(read, pid, tid)
            except OSError:
                continue  # it has ended
            if says is not None:
                self._says[process, wall_ns] = says
                rank, _ = says(())
                if rank is not None:
                    self._ranks[process] = rank
                return
