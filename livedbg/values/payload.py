"""The files of dumps, read in pieces, and reading that is given up when nobody needs the result any more.

Payload is read with pread, not mapped: a run that begins anew empties the file, and a mapping of it
would end this process with SIGBUS. A thread can't be cancelled from outside: whoever reads much calls `go_on` between
two pieces.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Final

from livedbg.linux import target_files
from livedbg.model.errors import SourceError
from livedbg.text.sanitize import clean_line

_PIECE: Final = 1 << 26
_stops: Final[ContextVar[tuple[threading.Event, ...]]] = ContextVar("livedbg-values-stops", default=())


class GivenUp(BaseException):
    """Nobody wants it any more: no error, and nothing that a user sees. As asyncio's CancelledError, no Exception."""


@contextmanager
def until(*stops: threading.Event) -> Iterator[None]:
    """What is read inside is given up soon after one of `stops` is set; the first means the end of everything."""
    token = _stops.set(stops)
    try:
        yield
    finally:
        _stops.reset(token)


@contextmanager
def insisting() -> Iterator[None]:
    """What is read inside is of use to whoever comes next, too: it is given up at the end of everything only."""
    with until(*_stops.get()[:1]):
        yield


def go_on() -> None:
    """Go on, unless it is to be given up.

    Raises:
        GivenUp: it is.
    """
    if any(stop.is_set() for stop in _stops.get()):
        raise GivenUp


def open_regular(path: Path) -> int:
    """A descriptor to read a file by: one that is a pipe or a device is not waited for.

    Raises:
        SourceError: it can't be read, or is no file.
    """
    try:
        return target_files.open_fd(path)
    except (OSError, ValueError) as error:  # ValueError: a name with a null byte, which no file has
        odd = isinstance(error, OSError) and error.errno == errno.EINVAL
        why = "it is not a regular file" if odd else error.strerror if isinstance(error, OSError) else error
        raise SourceError(f"{clean_line(str(path))} can't be read: {why}.", "", "unreadable") from None


class Payload:
    """The file that holds the values of a dump.

    Attributes:
        size: bytes that were in it when it was opened; a run that goes on adds to them.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = -1
        self.open()

    def open(self) -> None:
        """Open it, also again after `close`.

        Raises:
            SourceError: it can't be read, or is no file.
        """
        self.close()
        self._fd = open_regular(self.path)
        self.size = os.fstat(self._fd).st_size

    def read(self, offset: int, size: int) -> bytes:
        """Bytes of it; fewer where it ends.

        Raises:
            SourceError: the disk doesn't give them.
        """
        pieces = []
        while size > 0:
            go_on()
            try:
                piece = os.pread(self._fd, min(size, _PIECE), offset)
            except OSError as error:
                raise SourceError(
                    f"{clean_line(str(self.path))} can't be read: {error.strerror}.", "", "unreadable"
                ) from None
            if not piece:
                break
            pieces.append(piece)
            offset += len(piece)
            size -= len(piece)
        return b"".join(pieces)

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
