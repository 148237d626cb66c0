"""What a path names, as far as that can be seen: a folder above it may be closed to us, which is no error here."""

from __future__ import annotations

import os
import stat
from pathlib import Path

__all__ = ["is_closed", "is_file", "is_folder", "is_shared"]


def is_folder(path: Path) -> bool:
    """Whether it is seen to be a directory."""
    return os.path.isdir(path)  # noqa: PTH112 (Path.is_dir raises what it may not see, before Python 3.14)


def is_file(path: Path) -> bool:
    """Whether it is seen to be a regular file."""
    return os.path.isfile(path)  # noqa: PTH113 (as above)


def is_shared(path: Path) -> bool:
    """Whether everybody writes into this folder, as into /tmp (sticky, chmod(1)): its files are not of a log in it."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return bool(mode & stat.S_ISVTX and mode & stat.S_IWOTH)


def is_closed(path: Path) -> bool:
    """Whether we have no permission to see what it is."""
    try:
        path.stat()
    except PermissionError:
        return True
    except OSError:
        return False
    return False
