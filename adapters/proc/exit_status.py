"""How a watched process ended: from its zombie, from livedbg as its parent, or from the kernel.

Invariants:
    exit_status.X1. A status that may not be read is unknown, and never 0.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from livedbg.linux.ending import Ending, noted_end
from livedbg.linux.procfs import Stat


class ExitStatus:
    """Reads the exit status of one process. Close it.

    Args:
        pid: the process.
        watched: keep a descriptor of it, through which the kernel tells the status once the parent has collected it
            (Linux 6.15).
    """

    def __init__(self, pid: int, *, watched: bool = True) -> None:
        self._pid = pid
        self._end: Ending | None = None
        if watched:
            with contextlib.suppress(OSError):  # it is gone, or this kernel has no such descriptors
                self._end = Ending(pid)

    def of(self, stat: Stat | None, start_ticks: int | None, *, denied: bool = False) -> int | None:
        """Its exit status, negative for a signal; None where nobody tells.

        Args:
            stat: of the zombie, where there is one.
            start_ticks: when the process started.
            denied: livedbg may not look into the process.
        """
        noted = noted_end(self._pid, start_ticks)
        if noted is not None:
            return noted
        if stat is not None and (stat.exit_code or not (denied or self._of_another_user())):
            return stat.exit_status  # to others the kernel shows 0 (proc_pid_stat(5), field 52)
        told = self._end.told() if self._end is not None else None
        return None if told is None else os.waitstatus_to_exitcode(told)

    def _of_another_user(self) -> bool:
        if os.geteuid() == 0:
            return False
        try:
            return Path(f"/proc/{self._pid}").stat().st_uid != os.geteuid()
        except OSError:
            return True

    def close(self) -> None:
        """Let the descriptor go."""
        if self._end is not None:
            self._end.close()
            self._end = None
