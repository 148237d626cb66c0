"""When a thread last ran, by the scheduler's own clock: also before its first sample.

`se.exec_start` in /proc/PID/task/TID/sched (CONFIG_SCHED_DEBUG) is the time in ms at which the scheduler last charged
CPU time to the thread, on the clock of the CPU that it ran on (update_curr in kernel/sched/fair.c;
livedbg.linux.cpu_clocks).

Invariants:
    last_ran.R1. A thread is never said to have last run before it did.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import Final

from livedbg.linux.cpu_clocks import clocks_behind_ns, exec_start_ns

__all__ = ["LEAST_NS", "last_ran_mono_ns"]

LEAST_NS: Final = 500_000_000
"""A thread that has been blocked for less is seen to be blocked soon enough without its clock."""


def last_ran_mono_ns(pid: int, cpus: Mapping[int, int]) -> dict[int, int]:
    """When threads that are blocked last ran (CLOCK_MONOTONIC).

    Args:
        pid: their process.
        cpus: the CPU that each thread (TID) last ran on.

    Returns:
        By TID; without those where that was less than half a second ago, or the kernel doesn't say.
    """
    ran: dict[int, int] = {}
    for tid in cpus:
        with contextlib.suppress(OSError, ValueError):
            ran[tid] = exec_start_ns(f"/proc/{pid}/task/{tid}/sched")
    behind = clocks_behind_ns({cpus[tid] for tid in ran})
    latest = time.monotonic_ns() - LEAST_NS
    at = {tid: at + behind[cpus[tid]] for tid, at in ran.items() if at > 0 and cpus[tid] in behind}
    return {tid: when for tid, when in at.items() if when <= latest}
