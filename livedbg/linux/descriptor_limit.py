"""Whether a process has used up the file descriptors that it may have (RLIMIT_NOFILE, getrlimit(2)).

A new descriptor gets the lowest number that is free, and that has to be below the soft limit; else the call fails with
EMFILE. Descriptors above the limit, opened before it was lowered, don't count.
"""

from __future__ import annotations

import os
from typing import Final

from livedbg.linux.lines import lines
from livedbg.linux.procfs import living_task, read_file

_LIMIT: Final = "Max open files"


def used_up(pid: int) -> int | None:
    """The soft limit of a process that has a file open under each number below it; None for others.

    Raises:
        OSError: gone or denied.
    """
    limit = _soft_limit(read_file(f"/proc/{pid}/limits"))
    if limit is None:
        return None
    folder = f"/proc/{pid}/fd"
    count = os.stat(folder).st_size  # noqa: PTH116 - how many there are, since Linux 6.2
    if 0 < count < limit:
        return None
    names = os.listdir(folder) or os.listdir(f"/proc/{living_task(pid)}/fd")  # noqa: PTH208
    return limit if len(names) >= limit and sum(int(name) < limit for name in names) == limit else None


def _soft_limit(data: bytes) -> int | None:
    """None for `unlimited`."""
    line = next((one for one in lines(data) if one.startswith(_LIMIT)), "")
    words = line[len(_LIMIT) :].split()
    return int(words[0]) if words and words[0].isdecimal() else None
