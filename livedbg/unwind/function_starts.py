"""Where functions begin, by the table of an ELF file's unwind tables (.eh_frame_hdr, LSB 5.0 core, 10.6.2).

The table is searched in the file: that of a large library has a million entries.

Invariants:
    function_starts.S1. An address that no entry covers is in no function.
    function_starts.S2. What is remembered is bounded.
"""

from __future__ import annotations

import struct
from contextlib import closing
from pathlib import Path
from typing import Final

from livedbg.linux.elf import ElfError, ElfFile, SectionPlace
from livedbg.linux.file_bytes import FileBytes

__all__ = ["FunctionStarts"]

_HEAD: Final = bytes((1, 0x1B, 0x03, 0x3B))  # version; pc-relative, unsigned and table-relative words of four bytes
_HEAD_SIZE: Final = 12
_ENTRY: Final = struct.Struct("<ii")
_RANGE_AT: Final = 12  # of an entry of .eh_frame: behind its length, its CIE and its beginning
_MOST: Final = 1 << 12


class FunctionStarts:
    """The functions of a file that have unwind tables.

    Args:
        file: its path.

    Attributes:
        known: whether the table can be read: else nothing is known of any address.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._found: dict[int, int | None] = {}
        self._table: SectionPlace | None = None
        self._frames: SectionPlace | None = None
        self.known = False
        try:
            with ElfFile(file) as elf:
                self._table, self._frames = elf.section_place(".eh_frame_hdr"), elf.section_place(".eh_frame")
                plain = not elf.has_section(".debug_frame")
            if self._table is not None:
                self.known = plain and self._frames is not None and self._read(self._table.offset, 4) == _HEAD
            else:
                self.known = plain and self._frames is None
        except (OSError, ElfError):
            self.known = False

    def at(self, address: int) -> int | None:
        """Where the function begins that an address, relative to the load bias, is in; None where it is in none."""
        if address not in self._found:
            if len(self._found) >= _MOST:
                self._found.clear()
            self._found[address] = self._searched(address)
        return self._found[address]

    def _searched(self, address: int) -> int | None:
        table, frames = self._table, self._frames
        if table is None or frames is None:
            return None
        try:
            with closing(FileBytes(self._file)) as data:
                (count,) = struct.unpack("<I", data.read(table.offset + 8, 4))
                low, high = 0, min(count, (table.size - _HEAD_SIZE) // _ENTRY.size)
                start = entry = 0
                while low < high:
                    middle = (low + high) // 2
                    at = table.offset + _HEAD_SIZE + middle * _ENTRY.size
                    begins, described = _ENTRY.unpack(data.read(at, _ENTRY.size))
                    if table.address + begins <= address:
                        start, entry, low = table.address + begins, table.address + described, middle + 1
                    else:
                        high = middle
                (size,) = struct.unpack("<I", data.read(frames.offset + entry - frames.address + _RANGE_AT, 4))
        except (OSError, ValueError, struct.error):
            return None
        return start if start <= address < start + size else None

    def _read(self, offset: int, size: int) -> bytes:
        with closing(FileBytes(self._file)) as data:
            return data.read(offset, size)
