"""Polling of a source until what it watches has ended.

Invariants:
    polling.O1. Two scans never run at once, whoever requests them, and the second begins `apart_s` after the end of the
        first, if only two scans tell what stands.
    polling.O2. The last scan begins after all that is watched has ended: everything until then is seen.
"""

from __future__ import annotations

import asyncio
import math
import time
from abc import ABC, abstractmethod
from typing import ClassVar

from livedbg.session.adapter import Adapter, Context, Request, logs_ended, processes_seen, targets_ended


class Polled(ABC):
    """The loop around `look`.

    Class attributes:
        apart_s: the least time between two scans.
        of_logs: it scans what lies beside logs: it begins at once, and ends with them.
        awaited: the first full sample of a session waits for its first scan.
    """

    apart_s: ClassVar[float] = 0.0
    of_logs: ClassVar[bool] = False
    awaited: ClassVar[bool] = True

    def __init__(self) -> None:
        self._turns = asyncio.Lock()
        self._looked_s = -math.inf

    @abstractmethod
    async def look(self, context: Context) -> float | None:
        """Scan once, and emit the changes.

        Returns:
            Seconds to the next scan; None: there is nothing more to see.
        """

    async def begin(self, context: Context) -> bool:
        """Wait for the prerequisites of the first scan, mostly processes; return whether there is something to see."""
        if not self.awaited:
            self.looked(context)
        elif not self.of_logs:
            await processes_seen(context)
        return True

    async def again(self, context: Context) -> bool:
        """Wait for the data that the first full sample still lacks; return whether to scan again."""
        return False

    async def rest(self, context: Context, pause_s: float) -> None:
        """Wait until the next scan."""
        await context.sleep(pause_s)

    def over(self, context: Context) -> bool:
        """Return whether nothing new will come."""
        return logs_ended(context) if self.of_logs else targets_ended(context)

    def looked(self, context: Context) -> None:
        """Called when the first full sample is done."""
        return

    async def turn(self, context: Context) -> float | None:
        """Run `look` exclusively and not too soon (O1); also for rereading."""
        async with self._turns:
            await asyncio.sleep(max(0.0, self._looked_s + self.apart_s - time.monotonic()))
            try:
                return await self.look(context)
            finally:
                self._looked_s = time.monotonic()

    async def run(self, context: Context) -> None:
        """Scan until all is over; in a session that samples once, as often as that takes."""
        goes_on = await self.begin(context)
        first = True
        while goes_on:
            over = self.over(context)
            pause_s = await self.turn(context)
            while first and pause_s is not None and await self.again(context):
                pause_s = await self.turn(context)
            if first:
                self.looked(context)
                first = False
            if over or pause_s is None or context.request.once:
                return
            await self.rest(context, pause_s)
        self.looked(context)


class PolledAdapter(Polled, Adapter):
    """An adapter that polls its source."""

    def looked(self, context: Context) -> None:
        context.settled()


class LogsAdapter(Adapter):
    """An adapter that only contributes `decoders` to the adapter that reads logs."""

    cost = "reads log lines that are read anyway"

    @classmethod
    def applies(cls, request: Request) -> bool:
        """Return whether the session reads logs."""
        return bool(request.processes or request.logs)

    async def run(self, context: Context) -> None:
        """Settle at once: the decoders do all the work."""
        context.settled()
