"""Folders in memory for the stack copies that gdb reads; folders that a killed livedbg left are swept.

A folder is locked (flock(2)) by its process for as long as it is used. The kernel drops the lock when the process ends,
however it ends and in whatever PID namespace, so a folder that can be locked belongs to nobody.

Invariants:
    copies.W1. The folder is gone when `copy_folder` ends.
    copies.W2. Only folders of the same user whose process has ended are swept.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PREFIX: Final = "livedbg-copy-"
_MEMORY: Final = Path("/dev/shm")
_TRIES: Final = 10


@contextlib.contextmanager
def copy_folder(place: Path | None = None) -> Iterator[Path]:
    """Create a folder that only we can read, in `place` or in memory if possible, and remove it in the end.

    Raises:
        OSError: it can't be created.
    """
    place = place or _place()
    folder, lock = _locked_folder(place)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def sweep(place: Path | None = None) -> int:
    """Remove the folders of killed processes; return how many."""
    swept = 0
    with contextlib.suppress(OSError):
        for folder in (place or _place()).glob(f"{_PREFIX}*"):
            swept += _swept(folder)
    return swept


def _swept(folder: Path) -> bool:
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False  # gone, or not ours
    try:
        if os.fstat(lock).st_uid != os.geteuid():
            return False
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
        return not folder.exists()
    except OSError:
        return False  # its process lives
    finally:
        os.close(lock)


def _locked_folder(place: Path) -> tuple[Path, int]:
    """Create and lock a folder; again if a sweep took it before it was locked."""
    for _ in range(_TRIES):
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(lock, fcntl.LOCK_EX)  # waits for a sweep
            if folder.exists():
                return folder, lock
            os.close(lock)
    raise FileNotFoundError(f"no folder can be kept in {place}")


def _place() -> Path:
    return _MEMORY if _MEMORY.is_dir() else Path(tempfile.gettempdir())
