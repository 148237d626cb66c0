"""A flag that is set once and waited for, safe against signals that raise in who waits."""

from __future__ import annotations

import threading
import time
from typing import Final

__all__ = ["Latch"]

_SLICE_S: Final = 0.5


class Latch:
    """Like a threading.Event that is never cleared, but `set` never blocks.

    An Event's lock is taken and given back by Python code (threading.Condition): when a signal's handler raises in the
    main thread in between, it stays taken, and the thread that sets the Event then waits for ever.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._gate = threading.Lock()
        self._gate.acquire()

    def is_set(self) -> bool:
        """Whether it was set."""
        return self._is_set

    def set(self) -> None:
        """Set it; for one thread only. The second time does nothing."""
        if not self._is_set:
            self._is_set = True
            self._gate.release()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it is set; False when it was not by then.

        It wakes now and then: the kernel may give a signal to another thread, and the main thread then runs its handler
        only once it has left the lock.
        """
        end = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._is_set:
            left = _SLICE_S if end is None else min(_SLICE_S, end - time.monotonic())
            if self._gate.acquire(timeout=max(0.0, left)):
                self._gate.release()  # for whoever waits too
            elif left < _SLICE_S:
                break
        return self._is_set
