"""The bytes of a log, by offset: of a plain file, or of one that is unpacked into a temporary file.

Packed are gzip, Zstandard, UTF-16, and entries over many lines (livedbg.logs.transcripts); they are delivered piece by
piece as UTF-8. Reading is by `pread`, never by mapping: a file that is truncated while it is mapped would kill the
reader with SIGBUS.

Invariants:
    bytesource.Z1. Whatever a file holds, only errors of reading it are raised; all that can be unpacked before damage
        is delivered, and `problem` says how it ended.
    bytesource.Z2. A piece is no longer than some MB, whatever it unpacks to.
"""

from __future__ import annotations

import codecs
import os
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol

import zstandard

from livedbg.linux import target_files

if TYPE_CHECKING:
    from livedbg.logs.transcripts import Transcript


class ByteSource(Protocol):
    """Bytes by offset."""

    @property
    def size(self) -> int:
        """Return how many bytes can be read now."""
        ...

    def read(self, offset: int, count: int) -> bytes:
        """Return up to `count` bytes from `offset`; fewer only at the end."""
        ...

    def fill(self) -> bool:
        """Make more bytes readable (a bounded piece of work); return False if all present ones are."""
        ...

    def current(self) -> bool:
        """Return whether the path still names the opened file, and it did not shrink."""
        ...

    def close(self) -> None:
        """Close the source."""
        ...


class FileBytes:
    """A plain file.

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
        size = os.fstat(self._file.fileno()).st_size
        self._largest = max(size, self._largest)
        return size

    def read(self, offset: int, count: int) -> bytes:
        return os.pread(self._file.fileno(), count, offset)

    def fill(self) -> bool:
        return False

    def current(self) -> bool:
        try:
            status = target_files.status(self._path)
        except OSError:
            return True  # gone: what is open is the best there is
        return (status.st_dev, status.st_ino) == self._identity and status.st_size >= self._largest

    def close(self) -> None:
        self._file.close()


class PackedBytes:
    """A packed file, unpacked piece by piece into a nameless temporary file. A damaged end counts as the end.

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
        """Return how many bytes are unpacked so far."""
        return self._size

    def read(self, offset: int, count: int) -> bytes:
        return os.pread(self._unpacked.fileno(), count, offset)

    def fill(self) -> bool:
        data = next(self._pieces, b"")
        if not data:
            return False
        os.pwrite(self._unpacked.fileno(), data, self._size)
        self._size += len(data)
        return True

    def current(self) -> bool:
        """Return True: a packed log does not change."""
        return True

    def close(self) -> None:
        self._source.close()
        self._unpacked.close()


def open_bytes(path: Path) -> ByteSource:
    """Open the bytes of the log at `path`, unpacked if it is packed (recognised by its content).

    Raises:
        OSError: it can't be opened or read.
    """
    plain = FileBytes(path)
    try:
        head = plain.read(0, HEAD)
        packed = packing_of(head) != "" or transcript_in(head) is not None
    except OSError:
        plain.close()
        raise
    if not packed:
        return plain
    plain.close()
    return PackedBytes(path)


HEAD: Final = 64 * 1024
"""Bytes at the beginning by which a file of entries is known."""

LIKELY_FIRST: Final = frozenset(b"[{_-\xef \t\r\n")
"""The bytes that a file of entries can begin with; most logs begin with others."""

PACKED_SUFFIXES: Final = frozenset({".gz", ".zst"})
"""Of what is packed when it is whole, and does not change."""

_STEP: Final = 64 * 1024
_ZSTD_STEP: Final = 256  # of which each can unpack to some MB
_PIECE: Final = 1 << 20
_MAGIC: Final = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)


def packing_of(head: bytes) -> str:
    """Return the packing or encoding of a file with this beginning; "" for a plain one."""
    return next((name for magic, name in _MAGIC if head.startswith(magic) and head[2:4] != b"\0\0"), "")


def is_packed(path: Path) -> bool:
    """Return whether a file is to be unpacked: by its suffix, or by its beginning."""
    if path.suffix in PACKED_SUFFIXES:
        return target_files.is_regular(path)
    try:
        with target_files.open_binary(path) as file:
            head = file.read(4)
            if head and head[0] in LIKELY_FIRST:
                head += file.read(HEAD - len(head))
            return packing_of(head) != "" or transcript_in(head) is not None
    except OSError:
        return False


def transcript_in(head: bytes) -> Transcript | None:
    """Return the reader for a file of entries with this beginning, or None."""
    if not head or head[0] not in LIKELY_FIRST:
        return None
    from livedbg.logs.transcripts import transcript_of

    return transcript_of(head)


class _Member(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...


class Unpacked(Iterator[bytes]):
    """The content of a file in pieces; `problem` says how it ended early: `is cut off`, `is damaged`, …"""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.problem = ""
        self._pieces = self._begun()

    def __next__(self) -> bytes:
        return next(self._pieces)

    def _begun(self) -> Iterator[bytes]:
        head = self._file.read(4)
        kind = packing_of(head)
        if kind.startswith("utf"):
            return self._written(head[2:], kind)
        if not kind and head and head[0] in LIKELY_FIRST:
            self._file.seek(0)
            transcript = transcript_in(self._file.read(HEAD))
            self._file.seek(0)
            if transcript is not None:
                return transcript(self._file)
        if not kind:
            self.problem = "is not packed as its name says" if head else ""
            return iter(())
        return self._gzip(head) if kind == "gzip" else self._zstd(head)

    def _written(self, rest: bytes, encoding: str) -> Iterator[bytes]:
        decoder = codecs.getincrementaldecoder(encoding)("replace")
        while rest:
            text = decoder.decode(rest)
            if text:
                yield text.encode("utf-8", "replace")
            rest = self._file.read(_STEP)

    def _gzip(self, rest: bytes) -> Iterator[bytes]:
        member = zlib.decompressobj(wbits=31)
        while True:
            data = rest or self._file.read(_STEP)
            if not data:
                yield from filter(None, (member.flush(),))
                self._ended(member)
                return
            try:
                piece = member.decompress(data, _PIECE)
            except zlib.error:
                self.problem = "is damaged"
                return
            rest = member.unconsumed_tail
            if member.eof:
                rest = member.unused_data.lstrip(b"\0")
                member = zlib.decompressobj(wbits=31)
                rest = rest or self._file.read(_STEP)
                if not rest:
                    yield from filter(None, (piece,))
                    return
            if piece:
                yield piece

    def _zstd(self, rest: bytes) -> Iterator[bytes]:
        member = zstandard.ZstdDecompressor().decompressobj()
        pieces: list[bytes] = []
        while rest := rest or self._file.read(_ZSTD_STEP):
            try:
                pieces.append(member.decompress(rest))
            except zstandard.ZstdError:
                self.problem = "is damaged"
                break
            rest = b""
            if member.eof:
                rest = member.unused_data or self._file.read(_ZSTD_STEP)
                if not rest:
                    break
                member = zstandard.ZstdDecompressor().decompressobj()
            if sum(map(len, pieces)) >= _STEP:
                yield b"".join(pieces)
                pieces = []
        else:
            self._ended(member)
        yield from filter(None, (b"".join(pieces),))

    def _ended(self, member: _Member) -> None:
        if not member.eof:
            self.problem = "is cut off"
