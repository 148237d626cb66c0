"""Unwind tables that drgn overlooks: LLVM gives `.eh_frame` a section type of its own (SHT_X86_64_UNWIND, x86-64 ABI).

drgn 0.3 reads tables of the ordinary type only, and would guess by frame pointers. It is given a copy in memory of the
file's headers and tables, in which they have that type. The copy is as small as what it holds, since drgn maps all of
it for each process that it unwinds.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Final

from livedbg.linux import target_files

__all__ = ["readable_tables"]

_HEADER: Final = 64
_SECTION: Final = 64
_ALIGNED: Final = 64  # greatest alignment of a section that is kept
_PROGBITS, _NOTE, _NOBITS, _UNWIND = 1, 7, 8, 0x70000001
_MOST_SECTIONS: Final = 4096
_MOST_BYTES: Final = 64 << 20


def readable_tables(file: Path) -> int:
    """A descriptor of such a copy; -1 where the file's tables have the ordinary type, or it has none.

    Raises:
        OSError: the file can't be read.
    """
    with target_files.open_binary(file) as source:
        fd = source.fileno()
        header = os.pread(fd, 64, 0)
        if len(header) < 64:
            return -1
        programs_at, sections_at = struct.unpack_from("<QQ", header, 32)
        program_size, programs, section_size, sections, names = struct.unpack_from("<5H", header, 54)
        table = bytearray(os.pread(fd, _SECTION * sections, sections_at))
        if section_size != _SECTION or sections > _MOST_SECTIONS or len(table) != _SECTION * sections:
            return -1
        heads = os.pread(fd, program_size * programs, programs_at)
        table_at = _aligned(_HEADER + len(heads))
        kept = [(0, header[:32] + struct.pack("<QQ", _HEADER, table_at) + header[48:]), (_HEADER, heads)]
        end = table_at + len(table)
        found = False
        for number in range(sections):
            _, kind, _, _, offset, size = struct.unpack_from("<IIQQQQ", table, number * _SECTION)
            if size > _MOST_BYTES and kind == _UNWIND:
                return -1
            if kind in (_UNWIND, _NOTE) or number == names:
                end = _aligned(end)
                kept.append((end, os.pread(fd, min(size, _MOST_BYTES), offset)))
                struct.pack_into("<Q", table, number * _SECTION + 24, end)
                end += len(kept[-1][1])
            if kind in (_UNWIND, _PROGBITS):
                struct.pack_into("<I", table, number * _SECTION + 4, _PROGBITS if kind == _UNWIND else _NOBITS)
            found = found or kind == _UNWIND
        if not found:
            return -1
        made = os.memfd_create("unwind", os.MFD_CLOEXEC)
        os.ftruncate(made, end)
        for offset, data in (*kept, (table_at, bytes(table))):
            os.pwrite(made, data, offset)
        return made


def _aligned(offset: int) -> int:
    return (offset + _ALIGNED - 1) & -_ALIGNED
