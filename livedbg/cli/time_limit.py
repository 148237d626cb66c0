"""The time limit of a command: it counts from the start of the command, and holds whatever does not answer.

Invariants:
    time_limit.T1. After its limit a command waits for nothing but a moment of clean-up: helper programs that it started
        and that do not end are killed, and threads that do not end are left behind.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Final

from livedbg.cli.command_clock import clock
from livedbg.linux.procfs import child_pids
from livedbg.session.live import LiveView

__all__ = ["TimeLimit"]

_CLEAN_UP_S: Final = 0.7
_LEFT_BEHIND_S: Final = 2.0


class TimeLimit:
    """When a command has to end.

    Args:
        seconds: after its start; None: whenever it is done.
    """

    def __init__(self, seconds: float | None) -> None:
        self._end_s = None if seconds is None else clock.began_s + seconds

    @property
    def left_s(self) -> float | None:
        """Seconds that are left, 0 when it is over; None without a limit."""
        return None if self._end_s is None else max(0.0, self._end_s - time.monotonic())

    @contextlib.contextmanager
    def over(self, view: LiveView, *, may_kill: bool = True) -> Iterator[None]:
        """Stop a session at the end of the block, within the limit and a moment for clean-up (T1).

        Args:
            view: the session.
            may_kill: the programs that the session starts only read copies (gdb, py-spy); never a guard of stopped
                threads.
        """
        before = set(child_pids(os.getpid()))
        try:
            yield
        finally:
            left_s = self.left_s
            if left_s is not None and may_kill:
                view.stop(max(_CLEAN_UP_S, left_s))
                if view.stuck:
                    for pid in set(child_pids(os.getpid())) - before:
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGKILL)
                    view.stop(_CLEAN_UP_S)
                if view.stuck:
                    threading.Thread(target=_leave, daemon=True).start()


def _leave() -> None:
    """End the process where a thread that does not end would keep it."""
    main = threading.main_thread()
    main.join()
    time.sleep(_LEFT_BEHIND_S)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(clock.code)
