"""Files that only their owner can read, whatever the umask: recordings and reports quote a target's memory and logs."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import Final

_MODE: Final = 0o600


def open_private(path: Path, *, replace: bool) -> int:
    """Open a file for writing, with mode 0600 even if it existed before; return a descriptor that is closed on exec.

    Devices and pipes (`/dev/stdout`) keep their mode.

    Raises:
        FileExistsError: it exists, and `replace` is False.
        OSError: it can't be opened.
    """
    how = os.O_TRUNC if replace else os.O_EXCL
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | how, _MODE)
    with contextlib.suppress(OSError):  # somebody else's file
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.fchmod(descriptor, _MODE)
    return descriptor


def write_private(path: Path, content: str | bytes) -> None:
    """Write a whole file that only its owner can read; an existing one is replaced.

    Raises:
        OSError: it can't be written.
    """
    with os.fdopen(open_private(path, replace=True), "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
