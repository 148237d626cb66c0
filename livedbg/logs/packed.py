"""Logs that are packed (gzip, Zstandard), written in UTF-16 or as entries over many lines, piece by piece as UTF-8.

Invariants:
    logs_packed.Z1. Whatever a file holds, nothing is raised but for what reading it raises; what can be unpacked before
        damage is given, and `problem` says how it ended.
    logs_packed.Z2. A piece is no longer than some MB, whatever it unpacks to.
"""

from __future__ import annotations

import codecs
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, Protocol

import zstandard

from livedbg.linux import target_files
from livedbg.logs.transcripts.kinds import HEAD, LIKELY_FIRST, transcript_of

__all__ = ["PACKED_SUFFIXES", "Unpacked", "is_packed", "packing_of"]

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
    """How a file that begins like this is packed or written; "" for a plain one."""
    return next((name for magic, name in _MAGIC if head.startswith(magic) and head[2:4] != b"\0\0"), "")


def is_packed(path: Path) -> bool:
    """Whether a file is to be unpacked: by its suffix, or by how it begins."""
    if path.suffix in PACKED_SUFFIXES:
        return target_files.is_regular(path)
    try:
        with target_files.open_binary(path) as file:
            head = file.read(4)
            if head and head[0] in LIKELY_FIRST:
                head += file.read(HEAD - len(head))
            return packing_of(head) != "" or transcript_of(head) is not None
    except OSError:
        return False


class _Member(Protocol):
    """A decompressor of one member of a file."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...


class Unpacked(Iterator[bytes]):
    """The content of a file in pieces.

    Args:
        file: at its beginning.

    Attributes:
        problem: how it ended before its end: `is cut off`, `is damaged`, `is not packed as its name says`; or "".
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.problem = ""
        self._pieces = self._begun()

    def __next__(self) -> bytes:
        """The next piece; never an empty one."""
        return next(self._pieces)

    def _begun(self) -> Iterator[bytes]:
        head = self._file.read(4)
        kind = packing_of(head)
        if kind.startswith("utf"):
            return self._written(head[2:], kind)
        if not kind and head and head[0] in LIKELY_FIRST:
            self._file.seek(0)
            transcript = transcript_of(self._file.read(HEAD))
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
