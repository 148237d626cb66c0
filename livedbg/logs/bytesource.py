"""The bytes of a log, by offset: of a plain file, or of one that is unpacked beside (livedbg.logs.packed).

Reading is by `pread`, never by mapping: a file that is truncated while it is mapped would kill
the reader with SIGBUS.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Protocol

from livedbg.linux import target_files
from livedbg.logs.packed import Unpacked, packing_of
from livedbg.logs.transcripts.kinds import HEAD, transcript_of

__all__ = ["ByteSource", "FileBytes", "PackedBytes", "open_bytes"]


class ByteSource(Protocol):
    """Bytes by offset."""

    @property
    def size(self) -> int:
        """How many bytes can be read now."""
        ...

    def read(self, offset: int, count: int) -> bytes:
        """Up to `count` bytes from `offset`; fewer only at the end."""
        ...

    def fill(self) -> bool:
        """Make more bytes readable (a bounded piece of work); False when all are that are there now."""
        ...

    def current(self) -> bool:
        """Whether the path still names what was opened, and it did not shrink."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


class FileBytes:
    """A file.

    Raises:
        OSError: it can't be opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = target_files.open_binary(path, 0)
        status = os.fstat(self._file.fileno())
        self._identity = (status.st_dev, status.st_ino)
        self._largest = status.st_size

    @property
    def size(self) -> int:
        """See ByteSource."""
        size = os.fstat(self._file.fileno()).st_size
        self._largest = max(size, self._largest)
        return size

    def read(self, offset: int, count: int) -> bytes:
        """See ByteSource."""
        return os.pread(self._file.fileno(), count, offset)

    def fill(self) -> bool:
        """See ByteSource."""
        return False

    def current(self) -> bool:
        """See ByteSource."""
        try:
            status = target_files.status(self._path)
        except OSError:
            return True  # gone: what is open is the best there is
        return (status.st_dev, status.st_ino) == self._identity and status.st_size >= self._largest

    def close(self) -> None:
        """See ByteSource."""
        self._file.close()


class PackedBytes:
    """A packed file, unpacked piece by piece into a nameless temporary file.

    Raises:
        OSError: it can't be opened.
    """

    def __init__(self, path: Path) -> None:
        self._source = target_files.open_binary(path)
        self._pieces = Unpacked(self._source)
        self._unpacked = tempfile.TemporaryFile(prefix="livedbg-", suffix=".log")  # noqa: SIM115 (closed by close)
        self._size = 0

    @property
    def size(self) -> int:
        """See ByteSource: what is unpacked so far."""
        return self._size

    def read(self, offset: int, count: int) -> bytes:
        """See ByteSource."""
        return os.pread(self._unpacked.fileno(), count, offset)

    def fill(self) -> bool:
        """See ByteSource. A damaged end counts as the end."""
        data = next(self._pieces, b"")
        if not data:
            return False
        os.pwrite(self._unpacked.fileno(), data, self._size)
        self._size += len(data)
        return True

    def current(self) -> bool:
        """See ByteSource: a packed log does not change."""
        return True

    def close(self) -> None:
        """See ByteSource."""
        self._source.close()
        self._unpacked.close()


def open_bytes(path: Path) -> ByteSource:
    """The bytes of the log at `path`, unpacked if it is packed (recognised by its content).

    Raises:
        OSError: it can't be opened or read.
    """
    plain = FileBytes(path)
    try:
        head = plain.read(0, HEAD)
        packed = packing_of(head) != "" or transcript_of(head) is not None
    except OSError:
        plain.close()
        raise
    if not packed:
        return plain
    plain.close()
    return PackedBytes(path)
