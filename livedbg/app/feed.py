"""Brings updates from the session's thread to the app, the newest only, a few times a second.

Invariants:
    B1. The session's thread never waits for the screen (livedbg.view V2).
    B2. No update that is the last one for a while is lost: the newest is always shown in the end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from livedbg.view import SessionView, Update

__all__ = ["Feed"]


class Feed:
    """Takes updates at any rate; hands on the newest at most once an interval.

    Args:
        view: the session.
        wake: called from any thread; makes the app call `due` soon.
        interval_s: least time between two paints.
    """

    def __init__(self, view: SessionView, wake: Callable[[], None], interval_s: float) -> None:
        self._view = view
        self._wake = wake
        self._interval_s = interval_s
        self._lock = threading.Lock()
        self._newest: Update | None = None
        self._last = 0.0
        self._error: BaseException | None = None
        self._end: Callable[[], None] | None = None

    def start(self) -> None:
        """Start the session in a thread of its own; returns at once."""
        self._end = self._view.subscribe(self._take)
        threading.Thread(target=self._begin, name="livedbg-start", daemon=True).start()

    def stop(self) -> None:
        """Hear no more."""
        end, self._end = self._end, None
        if end is not None:
            end()

    @property
    def error(self) -> BaseException | None:
        """Why the session could not start."""
        return self._error

    def due(self) -> float:
        """Seconds until `take` may be called; 0 when now."""
        return max(self._last + self._interval_s - time.monotonic(), 0.0)

    def take(self) -> Update | None:
        """The newest update that was not taken yet."""
        with self._lock:
            newest, self._newest = self._newest, None
        self._last = time.monotonic()
        return newest

    def _begin(self) -> None:
        try:
            self._view.start()
        except Exception as error:
            self._error = error
        self._wake()

    def _take(self, update: Update) -> None:
        with self._lock:
            first = self._newest is None
            if self._newest is not None and self._newest.notice and not update.notice:
                update = Update(
                    update.snapshot, update.diagnosis, update.events_per_s, update.ended, self._newest.notice
                )
            self._newest = update
        if first:
            self._wake()
