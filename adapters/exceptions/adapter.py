"""The adapter for catchpoints without a stop."""

from __future__ import annotations

import asyncio
from typing import ClassVar, Final

from livedbg.adapters.exceptions.catch_request import catchpoint_of
from livedbg.adapters.exceptions.catchpoint import UNWIND_S, TracingCatchpoint
from livedbg.model.errors import UsageError
from livedbg.model.intents import Catch, Intent, Uncatch
from livedbg.session.adapter import Context, Level, Request
from livedbg.session.polling import PolledAdapter
from livedbg.session.tools import no_unwinder, shared_unwinders
from livedbg.unwind.pool import UnwinderPool

_REPORT_S: Final = 0.25  # between two reports of a catchpoint's counts
_IDLE_S: Final = 1.0  # between two checks whether the target has ended
_LAST_STACKS_S: Final = 6.0  # for stacks, where the session ends: it waits for 10 s (livedbg.session.session)
_REMEMBERED: Final = 8  # of those: between two reads of what the process has loaded


class ExceptionsAdapter(PolledAdapter):
    """Traces exceptions as they are thrown, and calls of functions, by kernel probes."""

    name: ClassVar[str] = "exceptions"
    sees: ClassVar[str] = "C++ and Python exceptions with type, message and stack; calls of any function; signals."
    cost: ClassVar[str] = "a trap at each call (some microseconds), and a stack copy if the type matches; no stop"
    level: ClassVar[Level] = Level.TRACE
    handles: ClassVar[tuple[type[Intent], ...]] = (Catch, Uncatch)

    def __init__(self) -> None:
        super().__init__()
        self._looks = 0
        self._armed: dict[str, TracingCatchpoint] = {}
        self._count = 0
        self._pool: UnwinderPool | None = None

    @classmethod
    def applies(cls, request: Request) -> bool:
        return bool(request.processes)

    async def run(self, context: Context) -> None:
        patience_s = UNWIND_S
        try:
            await super().run(context)
        except asyncio.CancelledError:
            patience_s = _LAST_STACKS_S
            raise
        finally:
            all_armed = list(self._armed.values())  # at once: the session waits no longer for many than for one
            await asyncio.gather(*(armed.disarm(patience_s=patience_s) for armed in all_armed))
            if self._pool is not None:
                await self._pool.close()

    async def begin(self, context: Context) -> bool:
        """Settle at once: nobody should wait for catchpoints that may never be requested."""
        self._pool = shared_unwinders(context.request) if no_unwinder(context.request) is None else None
        context.settled()
        return not context.request.once

    async def look(self, context: Context) -> float:
        self._looks += 1
        for armed in list(self._armed.values()):
            armed.report()
            if self._looks % _REMEMBERED == 0:
                await armed.remember()
        return _REPORT_S if self._armed else _IDLE_S

    async def handle(self, intent: Intent, context: Context) -> None:
        """Set or remove a catchpoint.

        Raises:
            TouchRefused: intrusive actions are forbidden; the catchpoint shows it, too.
            UsageError: no such catchpoint, or an invalid pattern.
            TargetError: the process can't be traced.
        """
        if isinstance(intent, Uncatch):
            armed = self._armed.get(intent.catchpoint)
            if armed is None and intent.catchpoint in context.snapshot().catchpoints:
                return  # another adapter's
            if armed is None:
                raise UsageError(f"There is no catchpoint {intent.catchpoint}.", "see the screen Exceptions")
            await armed.disarm()
            return
        assert isinstance(intent, Catch)
        if intent.stop:
            return  # livedbg.adapters.exceptions.stopping
        self._count += 1
        catchpoint, patterns = catchpoint_of(intent, f"C{self._count}", "probes")
        armed = TracingCatchpoint(catchpoint, patterns, intent, context, self._pool)
        self._armed[catchpoint.id] = armed
        await armed.arm()
