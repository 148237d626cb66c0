"""Processes that may not be looked into, and yet could have what another process has open or in its memory.

Descriptors and memory come by inheritance: from a process that began earlier to those that it makes. So of the
processes that are hidden, those matter that began later than the one that waits, its ancestors, and those of its
session.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from livedbg.linux.access import hidden_processes
from livedbg.linux.procfs import read_stat
from livedbg.text.sanitize import clean_line

__all__ = ["unseen_relative"]


def unseen_relative(pid: int, denied: Iterable[int]) -> str:
    """The first process that could have the same descriptors and memory and can't be seen: `may share …`; "" for none.

    Args:
        pid: who waits.
        denied: the processes whose descriptors may not be seen.
    """
    try:
        if os.geteuid() and hidden_processes():
            return "may share what it waits for with processes that /proc hides"
        own = read_stat(pid)
        session = os.getsid(pid)
        ancestors = _ancestors(own.ppid)
        for other in denied:
            try:
                found, where = read_stat(other), os.getsid(other)
            except OSError:
                continue  # it is gone
            if found.kernel_thread or other == 1:
                continue
            if found.start_ticks >= own.start_ticks or other in ancestors or where == session:
                return f"may share what it waits for with hidden process {other} ({clean_line(found.name)})"
    except OSError:
        return "may share what it waits for with processes that can't be seen"
    return ""


def _ancestors(pid: int) -> set[int]:
    found: set[int] = set()
    while pid > 1 and pid not in found:
        found.add(pid)
        pid = read_stat(pid).ppid
    return found
