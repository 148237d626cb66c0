"""The start time and exit code of the command, and its priority.

A command that looks once comes first on a crowded box: its second of CPU time would take a minute there. Only root may
do that (setpriority(2)). Imports next to nothing: most of that second are the imports of livedbg.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final


class CommandClock:
    """Start time (monotonic) and exit code of one command line."""

    def __init__(self) -> None:
        self.began_s = time.monotonic()
        self.code = 0

    def begin(self) -> None:
        self.began_s, self.code = time.monotonic(), 0


clock = CommandClock()


_LOOKS_ONCE: Final = ("report", "stacks")
_CROWDED: Final = 4.0
"""Threads that want a CPU, for each one."""
_NICE: Final = -15
"""28 times the share of an ordinary thread (sched_prio_to_weight in kernel/sched/core.c)."""


def go_first(command: str) -> None:
    """Raise our priority, and that of all programs that we start, if this command looks once and the box is busy."""
    if command in _LOOKS_ONCE and _wanting() > _CROWDED * (os.cpu_count() or 1):
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, _NICE)


def _wanting() -> float:
    """Return how many threads want a CPU: now, or in the last minute, whichever is more."""
    try:
        minute, _, _, now, *_ = Path("/proc/loadavg").read_text("ascii").split()
        return max(float(minute), float(now.partition("/")[0]))
    except (OSError, ValueError):
        return 0.0
