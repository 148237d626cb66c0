"""Warm unwinders, one for each process, a few at a time, shared by all that read the process in one session.

Invariants:
    unwind_pool.O1. A process has one gdb, however many adapters ask; it ends when the last of them has closed the pool.
    unwind_pool.O2. An unwinder that is at work is not ended for another.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final
from weakref import WeakKeyDictionary

from livedbg.unwind.unwinder import Unwinder

__all__ = ["UnwinderPool"]

_MOST: Final = 4  # gdbs at once; each takes some tens of megabytes and what it has loaded


class UnwinderPool:
    """Keeps the unwinders that were used last.

    Args:
        gdb: path of the program.
    """

    def __init__(self, gdb: str) -> None:
        self._gdb = gdb
        self._users = 1
        self._unwinders: OrderedDict[int, Unwinder] = OrderedDict()
        self._starting = asyncio.Lock()

    @classmethod
    def shared(cls, gdb: str) -> UnwinderPool:
        """The pool that all in the running event loop share, who each close it.

        Args:
            gdb: path of the program.
        """
        pools = _shared.setdefault(asyncio.get_running_loop(), {})
        pool = pools.get(gdb)
        if pool is None or not pool._users:
            pool = pools[gdb] = cls(gdb)
        else:
            pool._users += 1
        return pool

    async def of(self, pid: int) -> Unwinder:
        """The unwinder of a process, started.

        Raises:
            GdbGone, GdbTimeout, GdbCommandError: gdb can't be used.
        """
        async with self._starting:  # who comes while it starts waits for it
            known = self._unwinders.get(pid)
            if known is not None and known.alive:
                self._unwinders.move_to_end(pid)
                return known
            await self.drop(pid)
            while len(self._unwinders) >= _MOST and (idle := self._idle()) is not None:
                await self.drop(idle)
            fresh = Unwinder(self._gdb, pid)
            try:
                await fresh.start()
            except BaseException:
                await fresh.close()
                raise
            self._unwinders[pid] = fresh
            return fresh

    def cpu_s(self, pid: int) -> float:
        """Processor time that the gdb of a process has used."""
        known = self._unwinders.get(pid)
        return known.cpu_s if known is not None else 0.0

    async def drop(self, pid: int) -> None:
        """End the unwinder of a process, so that the next one starts afresh."""
        unwinder = self._unwinders.pop(pid, None)
        if unwinder is not None:
            await unwinder.close()

    def _idle(self) -> int | None:
        """Of those that do nothing, the one that was used longest ago."""
        return next((pid for pid, unwinder in self._unwinders.items() if not unwinder.busy), None)

    async def close(self) -> None:
        """Use it no more; the last to do so ends all unwinders."""
        self._users -= 1
        if not self._users:
            for pid in list(self._unwinders):
                await self.drop(pid)


_shared: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, UnwinderPool]] = WeakKeyDictionary()
