"""How busy this machine is: how many threads want a processor, and for how long they wait for one.

Sources: proc_loadavg(5); the kernel's Documentation/accounting/psi.rst (`/proc/pressure/cpu`, from 4.20, where the
kernel has it switched on).
"""

from __future__ import annotations

import os

from msgspec import Struct

from livedbg.linux.procfs import read_file


class Load(Struct, frozen=True):
    """The machine at one moment.

    Attributes:
        minute: threads that ran or wanted to (or slept uninterruptibly), a mean over the last minute.
        runnable: threads that run or want to at that moment.
        processors: how many processors are switched on.
        waiting: share of the last ten seconds in which some thread had to wait for a processor; None where the kernel
            doesn't report it.
    """

    minute: float
    runnable: int
    processors: int
    waiting: float | None = None

    @property
    def crowded(self) -> bool:
        """More threads want a processor than there are."""
        return max(self.minute, float(self.runnable)) > 1.5 * self.processors

    def words(self) -> str:
        """`load 37.2 on 16 CPUs, a thread had to wait for one 81 % of the time`."""
        plural = "" if self.processors == 1 else "s"
        waiting = (
            f", some thread waited for one {self.waiting * 100:.0f} % of the time" if self.waiting is not None else ""
        )
        return f"load {self.minute:.1f} on {self.processors} CPU{plural}{waiting}"


def read_load() -> Load | None:
    """The load now; None where it can't be read."""
    try:
        fields = read_file("/proc/loadavg").split()
        minute, runnable = float(fields[0]), int(fields[3].partition(b"/")[0])
    except (OSError, ValueError, IndexError):
        return None
    return Load(minute, runnable, os.cpu_count() or 1, _waiting())


def _waiting() -> float | None:
    """`some avg10=12.34 avg60=… total=…` of the pressure on processors, as a share."""
    try:
        first = read_file("/proc/pressure/cpu").decode("ascii").split("\n")[0]
        name, _, value = first.split()[1].partition("=")
        return float(value) / 100 if name == "avg10" else None
    except (OSError, ValueError, IndexError):
        return None
