"""When an app under test is at rest: told from its event loop, not from the clock.

Textual's pilot takes an app for idle once its process used no CPU for 20 ms (textual/_wait.py). On a busy machine that
is also true of one that waits for a CPU: a key would be pressed before the one before it has been taken, and a screen
looked at before it was drawn. Here an app is at rest when its loop has nothing to run and no timer is about to fire.
What other threads have still to say is not part of it: wait for that with `until` or `read`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence, Sized
from typing import Final, Protocol, cast

from textual.screen import UPDATE_PERIOD

__all__ = ["at_rest"]

_SOON_S: Final = 2.5 * UPDATE_PERIOD
"""Textual paints, and calls what waits for the next paint, by a timer of that period in seconds. A timer that was late
sleeps for up to two (textual/timer.py)."""
_NAPS: Final = 50
"""A timer that never ends (a spinner) is not waited for any longer."""


class _Loop(Protocol):
    """What CPython's event loops have in it (asyncio/base_events.py)."""

    _ready: Sized
    _scheduled: Sequence[asyncio.TimerHandle]

    def time(self) -> float: ...


async def at_rest(min_sleep: float = 0.0, max_sleep: float = 1.0) -> None:
    """Wait until the loop has nothing to run; stands in for textual._wait.wait_for_idle.

    Args:
        min_sleep: not used.
        max_sleep: seconds of this thread's CPU after which a loop that always has something to run is let be.
    """
    loop = cast("_Loop", asyncio.get_running_loop())
    end = time.thread_time() + max_sleep
    naps = 0
    while time.thread_time() < end and naps < _NAPS:
        await asyncio.sleep(0)
        if loop._ready:
            continue
        due = min((timer.when() for timer in loop._scheduled if not timer.cancelled()), default=None)
        wait_s = _SOON_S if due is None else due - loop.time()
        if wait_s >= _SOON_S:
            return
        naps += 1
        await asyncio.sleep(max(wait_s, 0.0))
