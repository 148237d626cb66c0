"""Who wants each update of a session."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from livedbg.session.view import Update


class Subscribers:
    """Callbacks that get each update. Any thread may add and remove them, a callback its own too."""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[Update], None]] = []
        self._lock = threading.Lock()

    def add(self, callback: Callable[[Update], None]) -> Callable[[], None]:
        """Call it with every update from now on, until the function that is returned is called."""
        with self._lock:
            self._callbacks.append(callback)

        def end() -> None:
            with self._lock, contextlib.suppress(ValueError):
                self._callbacks.remove(callback)

        return end

    def call(self, update: Update) -> None:
        """Call all of them, one after the other, on this thread."""
        with self._lock:
            callbacks = list(self._callbacks)
        for callback in callbacks:
            callback(update)
