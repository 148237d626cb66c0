"""When a thread last ran, by the scheduler's own clock: also before its first sample. And the load of this machine.

`se.exec_start` in /proc/PID/task/TID/sched (CONFIG_SCHED_DEBUG) is the time in ms at which the scheduler last charged
CPU time to the thread, on the clock of the CPU that it ran on (update_curr in kernel/sched/fair.c).

The scheduler times threads by one clock a CPU, which stops while the CPU serves interrupts, and while a hypervisor runs
something else on it (update_rq_clock_task in kernel/sched/core.c). So the clocks of two CPUs are seconds apart in a
virtual machine (9 s seen after 80 minutes), and may be hours apart where one CPU serves a network card. Only a thread
that runs there can read one: livedbg runs a thread on each CPU in question, for some 50 us.

Sources for the load: proc_loadavg(5); the kernel's Documentation/accounting/psi.rst (`/proc/pressure/cpu`, from 4.20,
where the kernel has it switched on).

Invariants:
    last_ran.R1. A thread is never reported to have last run before it did.
    last_ran.C1. No clock is reported as less far behind than it is. It may have stopped for a time since it was read,
        so the age of the reading is added. Times computed from it are then never too long ago.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Collection, Mapping
from typing import Final

from msgspec import Struct

from livedbg.linux.lines import pressure
from livedbg.linux.procfs import read_file

_FIELD: Final = b"se.exec_start"
_FRESH_NS: Final = 1_000_000_000
_WAIT_S: Final = 0.5
"""For all CPUs together: one whose threads leave no room for livedbg's is not known then."""

_known: dict[int, tuple[int, int]] = {}
"""CPU -> when it was read (CLOCK_MONOTONIC), and how far it was behind then."""


def clocks_behind_ns(cpus: Collection[int]) -> dict[int, int]:
    """Return by how many ns the clock of each CPU is behind CLOCK_MONOTONIC; {} without CONFIG_SCHED_DEBUG.

    CPUs that livedbg may not run on, or that did not let it run within half a second, are missing.
    """
    now = time.monotonic_ns()
    stale = [cpu for cpu in set(cpus) if now - _known.get(cpu, (-_FRESH_NS, 0))[0] >= _FRESH_NS]
    readers = [threading.Thread(target=_read, args=(cpu,), name=f"clock-{cpu}", daemon=True) for cpu in stale]
    for reader in readers:
        reader.start()
    deadline = time.monotonic() + _WAIT_S
    for reader in readers:
        reader.join(max(0.0, deadline - time.monotonic()))
    now = time.monotonic_ns()
    read = ((cpu, _known.get(cpu)) for cpu in cpus)
    ages = {cpu: (now - known[0], known[1]) for cpu, known in read if known is not None}
    return {cpu: behind + age for cpu, (age, behind) in ages.items() if age < 2 * _FRESH_NS}


def exec_start_ns(path: str) -> int:
    """Return when the scheduler last charged CPU time to a thread, on the clock of the CPU that it ran on.

    Args:
        path: its `sched` file in /proc.

    Raises:
        OSError: gone or denied, or this kernel has no such file.
        ValueError: the field is missing.
    """
    data = read_file(path)
    at = data.find(_FIELD)
    if at < 0:
        raise ValueError("no se.exec_start")
    return int(float(data[at : data.find(b"\n", at)].partition(b":")[2]) * 1e6)


def _read(cpu: int) -> None:
    with contextlib.suppress(OSError, ValueError):
        os.sched_setaffinity(0, {cpu})  # this thread's; it returns on that CPU
        here = exec_start_ns(f"/proc/self/task/{threading.get_native_id()}/sched")
        now = time.monotonic_ns()  # after it: a thread that is held up between the two says too much, not too little
        _known[cpu] = (now, now - here)


LEAST_NS: Final = 500_000_000
"""A thread that has been blocked for less is seen to be blocked soon enough without its clock."""


def last_ran_mono_ns(pid: int, cpus: Mapping[int, int]) -> dict[int, int]:
    """Return by TID when blocked threads last ran (CLOCK_MONOTONIC), given the CPU that each last ran on.

    Threads that ran less than half a second ago, or that the kernel doesn't report, are missing.
    """
    ran: dict[int, int] = {}
    for tid in cpus:
        with contextlib.suppress(OSError, ValueError):
            ran[tid] = exec_start_ns(f"/proc/{pid}/task/{tid}/sched")
    behind = clocks_behind_ns({cpus[tid] for tid in ran})
    latest = time.monotonic_ns() - LEAST_NS
    at = {tid: at + behind[cpus[tid]] for tid, at in ran.items() if at > 0 and cpus[tid] in behind}
    return {tid: when for tid, when in at.items() if when <= latest}


class Load(Struct, frozen=True):
    """The load of the machine.

    Attributes:
        minute: threads running or runnable (or in uninterruptible sleep), a mean over the last minute.
        runnable: threads running or runnable at that moment.
        waiting: share of the last ten seconds in which some thread had to wait for a processor; None if not reported.
    """

    minute: float
    runnable: int
    processors: int
    waiting: float | None = None

    @property
    def crowded(self) -> bool:
        """Return whether more threads want a processor than there are."""
        return max(self.minute, float(self.runnable)) > 1.5 * self.processors

    def words(self) -> str:
        """Return `load 37.2 on 16 CPUs, some thread waited for one 81 % of the time`."""
        plural = "" if self.processors == 1 else "s"
        waiting = (
            f", some thread waited for one {self.waiting * 100:.0f} % of the time" if self.waiting is not None else ""
        )
        return f"load {self.minute:.1f} on {self.processors} CPU{plural}{waiting}"


def read_load() -> Load | None:
    """Return the current load; None if it can't be read."""
    try:
        fields = read_file("/proc/loadavg").split()
        minute, runnable = float(fields[0]), int(fields[3].partition(b"/")[0])
    except (OSError, ValueError, IndexError):
        return None
    try:
        waiting = pressure(read_file("/proc/pressure/cpu"), "some")
    except OSError:
        waiting = None
    return Load(minute, runnable, os.cpu_count() or 1, waiting)
