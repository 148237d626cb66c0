"""When a thread last ran, by the scheduler's own clock: also before its first sample.

`se.exec_start` in /proc/PID/task/TID/sched (CONFIG_SCHED_DEBUG) is the time in ms at which the scheduler last charged
CPU time to the thread, on the clock of the CPU that it ran on (update_curr in kernel/sched/fair.c). Against the value
of the thread that asks, which runs, it gives the time since then. Clocks of CPUs differ by some hundredths of a second.
"""

from __future__ import annotations

import threading
import time
from typing import Final

from livedbg.linux.procfs import read_file

__all__ = ["last_ran_mono_ns"]

_FIELD: Final = b"se.exec_start"
_LEAST_MS: Final = 500.0
"""What differs by less may be the clocks of two CPUs."""


def last_ran_mono_ns(pid: int, tid: int) -> int | None:
    """When a thread that is blocked last ran (CLOCK_MONOTONIC).

    Returns:
        None where that was less than half a second ago, or the kernel doesn't say.
    """
    try:
        theirs = _exec_start_ms(f"/proc/{pid}/task/{tid}/sched")
        ours = _exec_start_ms(f"/proc/self/task/{threading.get_native_id()}/sched")
    except (OSError, ValueError):
        return None
    ago_ms = ours - theirs
    return time.monotonic_ns() - int(ago_ms * 1e6) if theirs > 0 and ago_ms >= _LEAST_MS else None


def _exec_start_ms(path: str) -> float:
    """The field of a `sched` file.

    Raises:
        OSError: gone or denied, or this kernel has no such file.
        ValueError: the field is not there.
    """
    data = read_file(path)
    at = data.find(_FIELD)
    if at < 0:
        raise ValueError("no se.exec_start")
    return float(data[at : data.find(b"\n", at)].partition(b":")[2])
