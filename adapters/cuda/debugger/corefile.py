"""What a core dump is, and whether it is whole, by its ELF header and section table (elf(5)).

A GPU core dump is an ELF core of the machine EM_CUDA; its sections hold tables of devices, SMs, warps and lanes
(cudacoredump.h of the CUDA toolkit). Only headers are read: a dump has gigabytes.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from livedbg.model.errors import SourceError

__all__ = ["CoreFile", "read_core"]

_EM_CUDA: Final = 190
_ET_CORE: Final = 4
_SHT_NOBITS: Final = 8
_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_MOST_SECTIONS: Final = 4_000_000  # a device of 132 SMs has some hundred thousand
_CHUNK: Final = 4_096  # sections that are read at once
_GZIP: Final = b"\x1f\x8b"


class CoreFile(NamedTuple):
    """A core dump.

    Attributes:
        gpu: it is that of a GPU; else that of a host process.
        size: bytes that are there.
        whole: bytes that its headers speak of.
    """

    path: Path
    gpu: bool
    size: int
    whole: int

    @property
    def missing(self) -> int:
        """Bytes that are not there."""
        return max(0, self.whole - self.size)


def read_core(path: Path) -> CoreFile:
    """What a file is.

    Raises:
        SourceError: it can't be read, or is no core dump.
    """
    try:
        if not path.is_file():
            what = "does not exist" if not path.exists() else "is no file"
            raise SourceError(f"{path} {what}.", "give the core dump's path", "missing")
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            return _read(path, file, size)
    except OSError as error:
        raise SourceError(f"{path} can't be read: {error.strerror}.", "", "unreadable") from None


def _read(path: Path, file: BinaryIO, size: int) -> CoreFile:
    head = file.read(_HEADER.size)
    if head[:2] == _GZIP:
        raise SourceError(f"{path} is compressed.", f"gunzip -k {path}", "compressed")
    if not size:
        raise SourceError(f"{path} is empty: nothing was written yet, or the disk is full.", "df -h", "empty")
    if head[:4] != b"\x7fELF" or len(head) < _HEADER.size or head[4:6] != b"\x02\x01":
        raise SourceError(f"{path} is no core dump.", "give a core dump that the CUDA driver wrote", "not-a-core")
    fields = _HEADER.unpack(head)
    kind, machine = fields[1], fields[2]
    if kind != _ET_CORE:
        what = "a cubin" if machine == _EM_CUDA else "a program or a library"
        raise SourceError(f"{path} is no core dump, but {what}.", "", "not-a-core")
    gpu = machine == _EM_CUDA
    return CoreFile(path, gpu, size, max(_HEADER.size, _extent(file, size, fields)))


def _extent(file: BinaryIO, size: int, fields: tuple[int, ...]) -> int:
    """Up to which byte the section table reaches, and what it lists."""
    offset, entry, number = int(fields[6]), int(fields[11]), int(fields[12])
    if not offset or entry != _SECTION.size:
        return 0
    if number == 0:  # more than fit: the first section has the number (elf(5), e_shnum)
        file.seek(offset)
        first = file.read(entry)
        number = _SECTION.unpack(first)[5] if len(first) == entry else 1
    number = min(number, _MOST_SECTIONS)
    reach = offset + number * entry
    if reach > size:
        return reach
    file.seek(offset)
    while number > 0:
        data = file.read(min(number, _CHUNK) * entry)
        if len(data) < entry:
            break
        for section in _SECTION.iter_unpack(data[: len(data) // entry * entry]):
            if section[1] not in (0, _SHT_NOBITS):
                reach = max(reach, section[4] + section[5])
        number -= _CHUNK
    return reach
