"""What a path names, as far as that can be seen: a folder above it may be closed to us, which is no error here."""

from __future__ import annotations

import stat
from pathlib import Path

from livedbg.linux import target_files

__all__ = ["is_closed", "is_file", "is_folder", "is_shared"]


def is_folder(path: Path) -> bool:
    """Whether it is seen to be a directory."""
    return target_files.is_folder(path)


def is_file(path: Path) -> bool:
    """Whether it is seen to be a regular file."""
    return target_files.is_regular(path)


def is_shared(path: Path) -> bool:
    """Whether everybody writes into this folder, as into /tmp (sticky, chmod(1)): its files are not of a log in it."""
    try:
        mode = target_files.status(path).st_mode
    except OSError:
        return False
    return bool(mode & stat.S_ISVTX and mode & stat.S_IWOTH)


def is_closed(path: Path) -> bool:
    """Whether we have no permission to see what it is."""
    try:
        target_files.status(path)
    except PermissionError:
        return True
    except OSError:
        return False
    return False
