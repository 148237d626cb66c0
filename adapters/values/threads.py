"""Reading in threads, given up as soon as nobody needs the result any more."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

__all__ = ["Turn", "in_thread"]

T = TypeVar("T")


async def in_thread(function: Callable[[], T], newer: threading.Event | None = None) -> T | None:
    """Run it in a thread until it is done, or `newer` is set, or the caller is cancelled.

    Returns:
        What it gave; None where it was given up.
    """
    end = threading.Event()
    stops = (end, newer) if newer is not None else (end,)

    def run() -> T | None:
        from livedbg.values.payload import GivenUp, until

        try:
            with until(*stops):
                return function()
        except GivenUp:
            return None

    try:
        return await asyncio.to_thread(run)
    finally:
        end.set()


class Turn:
    """One thread reads at a time, and of all that wait for it with the same key only the newest will."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._newer: dict[str, threading.Event] = {}

    @property
    def idle(self) -> bool:
        """Whether nobody reads."""
        return not self._lock.locked()

    async def newest(self, function: Callable[[], T], key: str = "") -> T | None:
        """Have what is read for the same key given up, and read this; None where something newer came."""
        if key in self._newer:
            self._newer[key].set()
        mine = self._newer[key] = threading.Event()
        async with self._lock:
            return None if mine.is_set() else await in_thread(function, mine)
