"""Warm unwinders, one for each process, a few at a time."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final

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
        self._unwinders: OrderedDict[int, Unwinder] = OrderedDict()
        self._starting = asyncio.Lock()

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
            while len(self._unwinders) >= _MOST:
                await self._unwinders.popitem(last=False)[1].close()
            fresh = Unwinder(self._gdb, pid)
            try:
                await fresh.start()
            except BaseException:
                await fresh.close()
                raise
            self._unwinders[pid] = fresh
            return fresh

    async def drop(self, pid: int) -> None:
        """End the unwinder of a process, so that the next one starts afresh."""
        unwinder = self._unwinders.pop(pid, None)
        if unwinder is not None:
            await unwinder.close()

    async def close(self) -> None:
        """End all of them."""
        for pid in list(self._unwinders):
            await self.drop(pid)
