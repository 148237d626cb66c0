"""Unwinders of processes, shared by all that read them in one session: drgn in one process for all, else warm gdbs.

Invariants:
    unwind_pool.O1. A session has one unwinding process, or a gdb for each process, however many adapters ask; it ends
        when the last of them has closed the pool.
    unwind_pool.O2. A gdb that is at work is not ended for another.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final
from weakref import WeakKeyDictionary

from livedbg.model.errors import ToolMissing
from livedbg.unwind.drgn_unwinder import DrgnUnwinder, SharedHelper
from livedbg.unwind.helper_process import usable
from livedbg.unwind.unwinder import Unwinder
from livedbg.unwind.unwound import StackUnwinder

__all__ = ["UnwinderPool"]

_MOST: Final = 4  # gdbs at once; each takes some tens of megabytes and what it has loaded
_MOST_PROCESSES: Final = 4096  # that are remembered


class UnwinderPool:
    """Keeps what unwinds.

    Args:
        gdb: path of the gdb for where drgn can't be used; None where there is none.
        drgn: use drgn where it can be used.
    """

    def __init__(self, gdb: str | None, *, drgn: bool = True) -> None:
        self._gdb = gdb
        self._helper = SharedHelper() if drgn and usable() else None
        self._users = 1
        self._drgns: OrderedDict[int, DrgnUnwinder] = OrderedDict()
        self._unwinders: OrderedDict[int, Unwinder] = OrderedDict()
        self._starting = asyncio.Lock()

    @classmethod
    def shared(cls, gdb: str | None, *, drgn: bool = True) -> UnwinderPool:
        """The pool that all in the running event loop share, who each close it.

        Args:
            gdb: path of the gdb for where drgn can't be used.
            drgn: use drgn where it can be used.
        """
        pools = _shared.setdefault(asyncio.get_running_loop(), {})
        pool = pools.get((gdb, drgn))
        if pool is None or not pool._users:
            pool = pools[gdb, drgn] = cls(gdb, drgn=drgn)
        else:
            pool._users += 1
        return pool

    async def warm(self, pid: int) -> None:
        """Start what will unwind a process.

        Raises:
            LivedbgError: it can't be used.
        """
        if self._helper is not None and not self._helper.given_up:
            await self._helper.running()
        else:
            await self.of(pid)

    async def of(self, pid: int) -> StackUnwinder:
        """The unwinder of a process.

        Raises:
            GdbGone, GdbTimeout, GdbCommandError: gdb can't be used.
            ToolMissing: there is none.
        """
        if self._helper is None:
            return await self._gdb_of(pid)
        known = self._drgns.get(pid)
        if known is None:
            known = self._drgns[pid] = DrgnUnwinder(pid, self._helper, lambda: self._gdb_of(pid))
            while len(self._drgns) > _MOST_PROCESSES:
                self._drgns.popitem(last=False)
        self._drgns.move_to_end(pid)
        return known

    async def _gdb_of(self, pid: int) -> Unwinder:
        async with self._starting:  # who comes while it starts waits for it
            known = self._unwinders.get(pid)
            if known is not None and known.alive:
                self._unwinders.move_to_end(pid)
                return known
            await self.drop(pid)
            while len(self._unwinders) >= _MOST and (idle := self._idle()) is not None:
                await self.drop(idle)
            if self._gdb is None:
                why = f"{self._helper.problem} " if self._helper is not None else ""
                raise ToolMissing(f"{why}gdb is not installed.", "sudo apt-get install gdb", "gdb-missing")
            fresh = Unwinder(self._gdb, pid)
            try:
                await fresh.start()
            except BaseException:
                await fresh.close()
                raise
            self._unwinders[pid] = fresh
            return fresh

    def cpu_s(self, pid: int) -> float:
        """Processor time that was used for the stacks of a process."""
        used = (self._drgns.get(pid), self._unwinders.get(pid))
        return sum(one.cpu_s for one in used if one is not None)

    async def drop(self, pid: int) -> None:
        """End the gdb of a process, so that the next one starts afresh."""
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
            if self._helper is not None:
                await self._helper.close()


_shared: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str | None, bool], UnwinderPool]] = WeakKeyDictionary()
