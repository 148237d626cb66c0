"""The bytes of a file that is not ours, read by pread(2): a few at a time, as they are asked for.

It is never mapped: a mapped file that somebody truncates kills its reader (mmap(2), SIGBUS), and the files that livedbg
reads are those of programs that run, write and are rebuilt meanwhile.

Invariants:
    file_bytes.B1. A file that is truncated while it is read has fewer bytes from then on; nothing else happens.
    file_bytes.B2. However large the file and what is searched in it, a window of `_WINDOW` bytes is held.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from livedbg.linux import target_files

_WINDOW: Final = 1 << 20
_SMALL: Final = 4096  # what is read alone


class FileBytes:
    """The bytes of one file. Close it.

    Args:
        path: the file.

    Raises:
        OSError: it can't be opened.
    """

    def __init__(self, path: Path | str) -> None:
        self._file = target_files.open_binary(path, 0)
        self.size: int = os.fstat(self._file.fileno()).st_size
        self._at = 0
        self._window = b""

    def close(self) -> None:
        """Let the file go."""
        self._file.close()
        self._window = b""

    def read(self, start: int, size: int) -> bytes:
        """Some bytes; fewer where the file ends, or can't be read."""
        size = min(size, self.size - start)
        if start < 0 or size <= 0:
            return b""
        if self._at <= start and start + size <= self._at + len(self._window):
            return self._window[start - self._at : start - self._at + size]
        if size <= _SMALL:
            return self._pread(start, size)
        return b"".join(self.pieces(start, size))

    def pieces(self, start: int, size: int) -> Iterator[bytes]:
        """The same piece by piece: each but the last is of `_WINDOW` bytes."""
        end = min(start + size, self.size)
        while 0 <= start < end:
            piece = self._pread(start, min(_WINDOW, end - start))
            if not piece:
                return
            yield piece
            start += len(piece)

    def find(self, needle: bytes, start: int, end: int) -> int:
        """Where some bytes, at most `_SMALL`, are first found in a part of the file; -1 where they are not."""
        end = min(end, self.size)
        while 0 <= start <= end - len(needle):
            if not self._at <= start <= start + len(needle) <= self._at + len(self._window):
                self._at, self._window = start, self._pread(start, _WINDOW)
            found = self._window.find(needle, start - self._at, end - self._at)
            if found >= 0:
                return self._at + found
            if len(self._window) < len(needle):
                return -1
            start = self._at + len(self._window) - len(needle) + 1
        return -1

    def _pread(self, start: int, size: int) -> bytes:
        """Read; a short read is the end of the file, or of what can be read of it."""
        data = b""
        try:
            while len(data) < size and (more := os.pread(self._file.fileno(), size - len(data), start + len(data))):
                data += more
        except OSError:
            pass
        return data
