"""Samples taken often while somebody looks at them, with the Python functions of each."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from livedbg.adapters.samples.account import SampleAccount
from livedbg.adapters.samples.pace import Pace
from livedbg.adapters.samples.profiling import profile_targets
from livedbg.model import ids
from livedbg.model.intents import SampleFaster
from livedbg.session.adapter import Context
from livedbg.unwind.pool import UnwinderPool

__all__ = ["Faster"]

_EACH_HZ: Final = 50
_TOTAL_HZ: Final = 200  # of all threads together
_SHARE: Final = 0.04  # of a core, ours
_MOST_S: Final = 86400.0


class Faster:
    """For how long which threads are sampled often."""

    def __init__(self) -> None:
        self._until_s: dict[str | None, float] = {}
        self._asked = asyncio.Event()
        self._works = False

    def want(self, intent: SampleFaster) -> None:
        """Sample from now on, or for longer."""
        self._until_s[intent.of] = time.monotonic() + intent.seconds
        self._asked.set()

    def covers(self, thread: str) -> bool:
        """Whether a thread is sampled often now."""
        return self._works and self._wanted(thread)

    async def wait(self) -> None:
        """Wait until somebody asks."""
        while not self._goes_on():
            self._asked.clear()
            await self._asked.wait()

    async def sample(self, context: Context, pool: UnwinderPool, account: SampleAccount) -> None:
        """Sample until nobody has asked for some time.

        Raises:
            NoPerf: not allowed.
            LivedbgError: samples can't be unwound.
        """
        self._works = True
        try:
            pace = Pace(_EACH_HZ, _TOTAL_HZ, _SHARE)
            await profile_targets(
                context, pool, account, seconds=_MOST_S, pace=pace, wanted=self._wanted, goes_on=self._goes_on
            )
        finally:
            self._works = False

    def _wanted(self, thread: str) -> bool:
        now_s = time.monotonic()
        return any(self._until_s.get(name, 0.0) > now_s for name in (None, thread, ids.process_of(thread)))

    def _goes_on(self) -> bool:
        now_s = time.monotonic()
        self._until_s = {of: until_s for of, until_s in self._until_s.items() if until_s > now_s}
        return bool(self._until_s)
