"""How the files that a process has mapped are opened."""

from __future__ import annotations

from pathlib import Path

from livedbg.linux.maps import Mapping
from livedbg.linux.procfs import living_task

__all__ = ["mapped_file"]


def mapped_file(pid: int, mapping: Mapping) -> Path:
    """A path of ours by which the file behind a mapping can be opened.

    Through the process's own root folder (containers); a file that was deleted or replaced only
    through map_files, which needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE (proc_pid_map_files(5)).
    """
    task = living_task(pid)
    path = Path(f"/proc/{task}/root{mapping.path}")
    try:
        same = not mapping.deleted and path.stat().st_ino == mapping.inode
    except OSError:
        same = False
    return path if same else Path(f"/proc/{task}/map_files/{mapping.start:x}-{mapping.end:x}")
