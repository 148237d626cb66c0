"""The kernel's log, as far as it is about NVIDIA's GPUs, from /dev/kmsg where everybody (or we) may read it.

Source: Documentation/ABI/testing/dev-kmsg of the Linux kernel: each read gives one record,
`PRIORITY,SEQUENCE,MICROSECONDS,FLAGS;MESSAGE`, whose time is since boot; EAGAIN at the end, EPIPE where records were
overwritten before they were read. Nothing is ever written to it.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import Final, NamedTuple

from livedbg.text.sanitize import clean_line

_RECORD: Final = re.compile(rb"\d{1,10},\d{1,20},(?P<time>\d{1,18}),[^;\n]*;(?P<text>[^\n]*)")
_WANTED: Final = b"NVRM: Xid"
_PIECE: Final = 16 * 1024  # bytes; a record is 8 KiB at most
_MOST_READS: Final = 100_000  # in one call


class KernelLine(NamedTuple):
    """A message.

    Attributes:
        since_boot_ns: when it was written.
    """

    since_boot_ns: int
    text: str


class KernelLog:
    """Reads what is new, again and again; never blocks.

    Args:
        path: of the log.
    """

    def __init__(self, path: Path = Path("/dev/kmsg")) -> None:
        self.path = path
        self._fd: int | None = None
        self._rest = b""

    def read(self) -> list[KernelLine]:
        """The messages about GPUs that came since the last call.

        Raises:
            OSError: it can't be read.
        """
        if self._fd is None:
            self._fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        found: list[KernelLine] = []
        for _ in range(_MOST_READS):
            try:
                piece = os.read(self._fd, _PIECE)
            except OSError as error:
                if error.errno == errno.EPIPE:
                    continue
                if error.errno == errno.EAGAIN:
                    break
                raise
            if not piece:
                break
            *lines, self._rest = (self._rest + piece).split(b"\n")
            self._rest = self._rest[-_PIECE:]
            found += [line for line in map(_line, lines) if line is not None]
        return found

    def close(self) -> None:
        """Close it."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _line(data: bytes) -> KernelLine | None:
    match = _RECORD.match(data) if _WANTED in data else None
    if match is None:
        return None
    text = clean_line(match["text"].decode("utf-8", "replace"), 2_000)
    return KernelLine(int(match["time"]) * 1000, text)
