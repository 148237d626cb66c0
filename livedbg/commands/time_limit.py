"""The time limit of a command: it counts from the start of the command, and holds whatever does not answer.

Invariants:
    time_limit.T1. After its limit a command waits for nothing but a moment of clean-up: helper programs that it started
        and that do not end are killed, and threads that do not end are left behind.
    time_limit.T2. A guard of stopped threads is never killed, nor a debugger that is attached: what they hold is
        released by the guard, also after livedbg has ended.
    time_limit.T3. A limit that nobody named does not count the time in which livedbg could run and got no CPU: on a box
        on its knees there would be no answer, and that is where one is wanted. It is four times as long at most.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from typing import Final, Self

from livedbg.commands.command_clock import clock
from livedbg.linux.procfs import child_pids, parse_schedstat, read_file, thread_ids
from livedbg.session.live import LiveView
from livedbg.touch.guard_process import is_guard

LOOK_S: Final = 30.0
"""The limit of a command that looks once, where none is named."""
_LONGER: Final = 4
_CLEAN_UP_S: Final = 0.5
_DETACH_S: Final = 5.0  # to remove probes and to detach a debugger
_PRINT_S: Final = 1.0  # of a limit, for what comes after the look
_PRINT_SHARE: Final = 0.1
_LEFT_BEHIND_S: Final = 1.0


class TimeLimit:
    """When a command has to end.

    Args:
        seconds: after its start; None: no limit.
        probes: it may set probes, or attach a debugger: removing them takes longer than other clean-up.
        patient: it is the default limit (T3).

    Attributes:
        hurried: after `stop`: the limit left a session less time than it may need to detach.
    """

    def __init__(
        self, seconds: float | None, *, probes: bool = False, attaches: bool = False, patient: bool = False
    ) -> None:
        self._end_s = None if seconds is None else clock.began_s + seconds
        self._longest_s = 0.0 if seconds is None or not patient else (_LONGER - 1) * seconds
        self._print_s = 0.0 if seconds is None else min(_PRINT_S, _PRINT_SHARE * seconds)
        self._moment_s = _DETACH_S if probes or attaches else _CLEAN_UP_S
        self._may_kill = not attaches
        self._before: frozenset[int] = frozenset()
        self.hurried = False

    @classmethod
    def of_look(cls, seconds: float | None, *, beside_s: float = 0.0, probes: bool = False) -> Self:
        """Return the limit of a command that looks once, given or default, plus `beside_s`, its own duration."""
        named = LOOK_S if seconds is None else seconds
        return cls(named + beside_s, probes=probes, patient=seconds is None)

    @property
    def left_s(self) -> float | None:
        """Seconds left, 0 when it is over; None without a limit."""
        if self._end_s is None:
            return None
        longer_s = min(self._longest_s, queued_s()) if self._longest_s else 0.0
        return max(0.0, self._end_s + longer_s - time.monotonic())

    @property
    def took_s(self) -> float:
        """Seconds since the command began."""
        return time.monotonic() - clock.began_s

    @property
    def look_s(self) -> float | None:
        """Seconds left for the look: without the time for printing and clean-up."""
        left_s = self.left_s
        return None if left_s is None else max(0.0, left_s - self._print_s)

    def settled(self, view: LiveView) -> bool:
        """Wait for the first full look of a session; return whether it came in time."""
        while not view.wait_settled(look_s := self.look_s or 0.0):
            if not look_s:
                return False
        return True

    def within(self, seconds: float) -> float:
        """Return a time, cut at the limit."""
        left_s = self.left_s
        return seconds if left_s is None else min(seconds, left_s)

    def begin(self) -> None:
        """Begin a session: child processes from now on are its helper programs."""
        self._before = frozenset(child_pids(os.getpid()))

    def stop(self, view: LiveView) -> None:
        """Stop a session, within the limit and a moment for clean-up (T1)."""
        left_s = self.left_s
        if left_s is None:
            view.stop()
            return
        self.hurried = left_s < _DETACH_S
        view.stop(max(_CLEAN_UP_S, left_s))
        if view.stuck:
            if self._may_kill:
                self._kill_helpers()
            view.stop(self._moment_s)
        if view.stuck:
            threading.Thread(target=_leave, daemon=True).start()

    def _kill_helpers(self) -> None:
        for pid in set(child_pids(os.getpid())) - self._before:
            if not is_guard(pid):  # T2
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def queued_s() -> float:
    """Return how long threads of ours waited for a CPU so far; 0 if the kernel doesn't count it."""
    queued_ns = 0
    for tid in thread_ids(os.getpid()):
        with contextlib.suppress(OSError, ValueError):
            queued_ns += parse_schedstat(read_file(f"/proc/self/task/{tid}/schedstat")).queued_ns
    return queued_ns / 1e9


def _leave() -> None:
    """End the process even if a thread that does not end would keep it."""
    main = threading.main_thread()
    main.join()
    time.sleep(_LEFT_BEHIND_S)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(clock.code)
