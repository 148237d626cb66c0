"""Which files an idle program waits for: its terminal (a key), and what tells of changes of other files.

Sources: proc_pid_stat(5) (tty_nr), proc_pid_fdinfo(5) (`inotify` lines), inotify(7).
"""

from __future__ import annotations

import os
import stat

from livedbg.linux.descriptors import Descriptor, fd_links, fdinfo
from livedbg.linux.procfs import read_stat
from livedbg.text.sanitize import clean_line

__all__ = ["awaited_idly"]


def awaited_idly(pid: int, found: Descriptor, direction: str) -> str:
    """What an idle program waits for by such a file (`a key`), which a process waits for; "" where none does.

    Args:
        pid: the process.
        found: the file.
        direction: `r` (until there is something to read) or `w`.
    """
    if direction != "r":
        return ""
    if found.kind == "tty" and (found.link.startswith("/dev/pts/") or _controls(pid, found)):
        return "a key"
    if found.kind == "inotify":
        watched = _watched(pid, found.fd)
        return f"changes of {watched}" if watched else "changes of files"
    return ""


def _controls(pid: int, found: Descriptor) -> bool:
    """Whether a terminal is the controlling one: a serial line may be an instrument that does not answer."""
    if found.link == "/dev/tty":
        return True
    try:
        device = os.stat(f"/proc/{pid}/fd/{found.fd}")  # noqa: PTH116 (follows the magic link)
        return stat.S_ISCHR(device.st_mode) and device.st_rdev == read_stat(pid).terminal != 0
    except OSError:
        return False


def _watched(pid: int, fd: int) -> str:
    """The file that is watched, if it is one, and the process has it open too, as `tail -f` has."""
    try:
        words = [value.split() for name, value in fdinfo(pid, fd) if name.startswith("inotify")]
        marks = {word.partition(":")[2] for line in words for word in line if word.startswith("ino:")}
        if len(marks) != 1:
            return ""
        inode = int(marks.pop(), 16)
        for other, link in fd_links(pid).items():
            if link.startswith("/") and os.stat(f"/proc/{pid}/fd/{other}").st_ino == inode:  # noqa: PTH116
                return clean_line(link, 200)
    except (OSError, ValueError):
        pass
    return ""
