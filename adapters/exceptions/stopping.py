"""The adapter that stops: catchpoints at which a thread is stopped, and the hits with what was seen there."""

from __future__ import annotations

import asyncio
from typing import ClassVar, Final

from livedbg.adapters.exceptions.catch_request import catchpoint_of
from livedbg.adapters.exceptions.known_calls import known_calls
from livedbg.adapters.exceptions.stop_catchpoint import StoppingCatchpoint
from livedbg.model.intents import Catch, Intent, Resume, Uncatch
from livedbg.session.adapter import Context, Level, Request
from livedbg.session.polling import PolledAdapter
from livedbg.touch.warm import WarmGdbs

__all__ = ["StoppingAdapter"]

_REPORT_S: Final = 0.25  # between two reports of a catchpoint's counts
_IDLE_S: Final = 1.0


class StoppingAdapter(PolledAdapter):
    """Stops threads at what they throw, one at a time."""

    name: ClassVar[str] = "stopping"
    sees: ClassVar[str] = "frames, variables and source of a throwing thread"
    cost: ClassVar[str] = (
        "gdb attached in non-stop mode; the throwing thread is stopped for some hundredths of a second"
    )
    level: ClassVar[Level] = Level.TOUCH
    handles: ClassVar[tuple[type[Intent], ...]] = (Catch, Resume, Uncatch)

    def __init__(self) -> None:
        super().__init__()
        self._points: dict[str, StoppingCatchpoint] = {}
        self._gdbs = WarmGdbs()
        self._count = 0

    @classmethod
    def applies(cls, request: Request) -> bool:
        """Wherever there is a process."""
        return bool(request.processes)

    async def run(self, context: Context) -> None:
        """Report what was seen, until the session ends."""
        try:
            await super().run(context)
        finally:
            await asyncio.gather(*(point.disarm() for point in self._points.values()))
            await self._gdbs.close()

    async def begin(self, context: Context) -> bool:
        """Nobody waits for what somebody may ask for."""
        context.settled()
        return not context.request.once

    async def look(self, context: Context) -> float:
        """Report what was seen."""
        for point in self._points.values():
            point.report()
        return _REPORT_S if self._points else _IDLE_S

    async def handle(self, intent: Intent, context: Context) -> None:
        """Set a catchpoint, take one out, or resume its thread; catchpoints without a stop are left alone.

        Raises:
            TouchRefused: touches are forbidden.
            UsageError: the pattern is none, or can't be stopped at.
            LivedbgError: the process can't be attached to.
        """
        if isinstance(intent, Uncatch | Resume):
            point = self._points.get(intent.catchpoint)
            if point is not None:
                await (point.disarm() if isinstance(intent, Uncatch) else point.resume())
            return
        assert isinstance(intent, Catch)
        if not intent.stop:
            return
        self._count += 1
        catchpoint, patterns = catchpoint_of(intent, f"S{self._count}", "gdb")
        point = StoppingCatchpoint(catchpoint, patterns, intent, context, self._gdbs, known=known_calls())
        others = [other for other in self._points.values() if other.at_work and other.process == point.process]
        self._points[catchpoint.id] = point
        await point.arm(others[0].catchpoint if others else None)
