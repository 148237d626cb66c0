"""Following one file through rotation, truncation and removal.

By polling `stat`, which works on every file system (inotify does not see the writes of other hosts to a network file
system).

Invariants:
    tail.T1. Every byte written to the file is read once, in order, as long as the tail is polled before the file
        rotates twice or is truncated twice.
    tail.T2. After a rotation by rename the rest of the old file is read before the new one begins; if it was closed
        meanwhile because it was quiet, as long as it is in the same folder.
    tail.T3. A missing file is opened when it appears; a removed one is read to its end.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

from msgspec import Struct

from livedbg.linux import target_files
from livedbg.linux.fs_identity import is_privileged
from livedbg.logs.bytesource import Unpacked, packing_of
from livedbg.model.errors import SourceError
from livedbg.text.shell import shell_word

HEAD = 256
"""Bytes at the beginning by which a file is known again after it was renamed or packed."""

_ENTRIES: Final = 10_000  # of a folder that are searched for a file that was renamed

Identity = tuple[int, int]
"""Device and inode."""


class Piece(Struct, frozen=True):
    """Result of a read; `restart`: the file was rotated or truncated, and the next data begins at its offset 0."""

    data: bytes
    restart: bool = False


class Tail:
    """A followed file; `problem` says how a packed one ended early."""

    problem = ""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.identity: Identity | None = None
        self.head = b""
        self.offset = 0
        self.size = 0
        self.mtime_ns = 0
        self.missing = True
        self._file: BinaryIO | None = None
        self._replaced = False

    @property
    def backlog(self) -> int:
        """Return the number of unread bytes."""
        return max(0, self.size - self.offset) + (1 if self._replaced else 0)

    def poll(self) -> bool:
        """Check the file; return whether there is something to read.

        Raises:
            SourceError: it exists and can't be read.
        """
        try:
            status = target_files.status(self.path)
        except (FileNotFoundError, NotADirectoryError):
            if not self.missing:
                self._open_renamed()
            self.missing = True
            self._see_open()
            if not self.backlog and self._file is not None and os.fstat(self._file.fileno()).st_nlink == 0:
                self.release()  # deleted, and read to its end: let the disk have it back
            return self.backlog > 0
        except OSError as error:
            raise unreadable(self.path, error) from error
        self.missing = False
        identity = (status.st_dev, status.st_ino)
        if self.identity is None:
            self._open()
        elif identity != self.identity:
            if not self._replaced:
                self._open_renamed()
            self._replaced = True
            self._see_open()
            return True
        elif status.st_mtime_ns != self.mtime_ns or status.st_size != self.size:
            self._open()
            self._replaced = status.st_size < self.offset or self._head_changed()
        self.size, self.mtime_ns = status.st_size, status.st_mtime_ns
        return self.backlog > 0

    def read(self, limit: int) -> Piece | None:
        """Return the next piece, of at most `limit` bytes; None if there is nothing now.

        Raises:
            SourceError: it can't be read.
        """
        try:
            data = b""
            if self._file is None and self.identity is not None and not self._replaced:
                self._open()
            if self._file is not None and (not self._replaced or not self._truncated()):
                data = os.pread(self._file.fileno(), limit, self.offset)
            if data:
                self.offset += len(data)
                if len(self.head) < HEAD:
                    self.head = os.pread(self._file.fileno(), HEAD, 0) if self._file is not None else b""
                return Piece(data)
        except OSError as error:
            self.release()
            raise unreadable(self.path, error) from error
        if not self._replaced:
            return None
        self._replaced = False
        self.release()
        self.identity, self.head, self.offset, self.size, self.mtime_ns = None, b"", 0, 0, 0
        return Piece(b"", restart=True)

    def seek(self, offset: int) -> None:
        self.offset = offset

    def release(self) -> None:
        """Close the file; a later `poll` that sees a change opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def close(self) -> None:
        self.release()

    def _open(self) -> None:
        if self._file is not None:
            return
        try:
            self._file = target_files.open_binary(self.path, 0)
        except OSError as error:
            if error.errno == errno.EINVAL:
                raise SourceError(
                    f"{self.path} is not a regular file", "name a file, a directory or a pattern", "not-a-file"
                ) from error
            raise unreadable(self.path, error) from error
        status = os.fstat(self._file.fileno())
        identity = (status.st_dev, status.st_ino)
        if self.identity is not None and identity != self.identity:
            self.release()  # replaced since the stat: the next poll sees it
            return
        self.identity = identity

    def _open_renamed(self) -> None:
        """Open the followed file under its new name in its folder, if it was closed and has grown."""
        if self._file is not None or self.identity is None:
            return
        with contextlib.suppress(OSError):
            for entry in target_files.entries(self.path.parent, _ENTRIES):
                if entry.inode == self.identity[1] and stat.S_ISREG(entry.kind):
                    file = os.fdopen(target_files.open_fd(entry.path, links=False), "rb", buffering=0)
                    status = os.fstat(file.fileno())
                    head = os.pread(file.fileno(), len(self.head), 0)
                    same = (status.st_dev, status.st_ino) == self.identity and head == self.head
                    if same and status.st_size > self.offset:
                        self._file = file
                    else:
                        file.close()
                    return

    def _see_open(self) -> None:
        if self._file is not None:
            self.size = os.fstat(self._file.fileno()).st_size

    def _head_changed(self) -> bool:
        """Return whether the file was truncated and has grown again beyond the read offset."""
        if self._file is None or not self.head:
            return False
        return os.pread(self._file.fileno(), len(self.head), 0) != self.head

    def _truncated(self) -> bool:
        """Return whether the open file itself was replaced (truncation, not rename)."""
        if self._file is None:
            return False
        return os.fstat(self._file.fileno()).st_size < self.offset or self._head_changed()


class PackedFile:
    """A packed file read once from beginning to end, with the interface of Tail."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.missing = False
        self.offset = 0
        self._rest = b""
        self._done = False
        try:
            self._file = target_files.open_binary(path)
            status = os.fstat(self._file.fileno())
        except OSError as error:
            raise unreadable(path, error) from error
        self.identity: Identity | None = (status.st_dev, status.st_ino)
        self.mtime_ns = status.st_mtime_ns
        self.packed_size = status.st_size
        self._pieces = Unpacked(self._file)
        self._next()
        self.head = read_head(path)

    @property
    def ahead(self) -> bytes:
        """Return the bytes to be read next, at most a piece."""
        return self._rest

    @property
    def problem(self) -> str:
        """The reason why the data ended early, or ""."""
        return self._pieces.problem

    @property
    def size(self) -> int:
        """The number of bytes unpacked so far."""
        return self.offset + len(self._rest)

    @property
    def backlog(self) -> int:
        """Return whether there is more to read, as 0 or 1."""
        return 0 if self._done else 1

    def poll(self) -> bool:
        return not self._done

    def read(self, limit: int) -> Piece | None:
        data, self._rest = self._rest[:limit] or self._next()[:limit], self._rest[limit:]
        if not data:
            self._done = True
            self.release()
            return None
        self.offset += len(data)
        return Piece(data)

    def seek(self, offset: int) -> None:
        """Do nothing: a packed file is only read forwards."""

    def release(self) -> None:
        """Close the file if it was read to its end."""
        if self._done:
            self._file.close()

    def close(self) -> None:
        self._file.close()

    def _next(self) -> bytes:
        self._rest = next(self._pieces, b"")
        return self._rest


def read_head(path: Path) -> bytes:
    """Return the first bytes of a file, unpacked if it is packed; empty if it can't be read."""
    try:
        with target_files.open_binary(path) as file:
            head = file.read(HEAD)
            if not packing_of(head):
                return head
            file.seek(0)
            return next(Unpacked(file), b"")[:HEAD]
    except OSError:
        return b""


def unreadable(path: Path, error: OSError) -> SourceError:
    """Return the error for a log that can't be read."""
    if isinstance(error, PermissionError):
        if is_privileged():
            sentence = f"{path} is not read: a target names it, and its user may not read it"
            return SourceError(sentence, f"to read it as root: --logs {shell_word(path)}", "no-permission")
        return SourceError(
            f"{path} can't be read: permission denied", f"sudo setfacl -m u:$USER:r {shell_word(path)}", "no-permission"
        )
    return SourceError(f"{path} can't be read: {error.strerror or error}", f"ls -l {shell_word(path)}", "unreadable")
