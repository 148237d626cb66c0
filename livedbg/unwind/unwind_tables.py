"""Unwind tables that drgn overlooks: LLVM gives `.eh_frame` a section type of its own (SHT_X86_64_UNWIND, x86-64 ABI).

drgn 0.3 reads tables of the ordinary type only, and would guess by frame pointers. It is given a sparse copy in memory
of the file's headers and tables, in which they have that type.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Final

__all__ = ["readable_tables"]

_SECTION: Final = 64
_PROGBITS, _NOTE, _NOBITS, _UNWIND = 1, 7, 8, 0x70000001
_MOST_SECTIONS: Final = 4096
_MOST_BYTES: Final = 64 << 20


def readable_tables(file: Path) -> int:
    """A descriptor of such a copy; -1 where the file's tables have the ordinary type, or it has none.

    Raises:
        OSError: the file can't be read.
    """
    with file.open("rb", buffering=0) as source:
        fd = source.fileno()
        header = os.pread(fd, 64, 0)
        if len(header) < 64:
            return -1
        programs_at, sections_at = struct.unpack_from("<QQ", header, 32)
        program_size, programs, section_size, sections, names = struct.unpack_from("<5H", header, 54)
        table = bytearray(os.pread(fd, _SECTION * sections, sections_at))
        if section_size != _SECTION or sections > _MOST_SECTIONS or len(table) != _SECTION * sections:
            return -1
        kept = [(0, header), (programs_at, os.pread(fd, program_size * programs, programs_at))]
        found = False
        for number in range(sections):
            _, kind, _, _, offset, size = struct.unpack_from("<IIQQQQ", table, number * _SECTION)
            if size > _MOST_BYTES and kind == _UNWIND:
                return -1
            if kind in (_UNWIND, _NOTE) or number == names:
                kept.append((offset, os.pread(fd, min(size, _MOST_BYTES), offset)))
            if kind in (_UNWIND, _PROGBITS):
                struct.pack_into("<I", table, number * _SECTION + 4, _PROGBITS if kind == _UNWIND else _NOBITS)
            found = found or kind == _UNWIND
        if not found:
            return -1
        made = os.memfd_create("unwind", os.MFD_CLOEXEC)
        os.ftruncate(made, os.fstat(fd).st_size)
        for offset, data in (*kept, (sections_at, bytes(table))):
            os.pwrite(made, data, offset)
        return made
