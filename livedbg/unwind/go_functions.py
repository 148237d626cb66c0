"""Names of functions in Go programs, from the table that Go's runtime needs itself: a stripped program keeps it.

Layout: Go's debug/gosym/pclntab.go and internal/abi, for Go 1.18 and 1.19 and for 1.20 and later; of others nothing is
known. No Python library reads it.

Invariants:
    go_functions.G1. A name is given only for an address between the beginning of its function and that of the next.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from typing import Final

from livedbg.linux.elf import ElfError, ElfFile

__all__ = ["go_functions_at"]

_SECTIONS: Final = (".gopclntab", ".data.rel.ro.gopclntab")
_MAGICS: Final = frozenset({0xFFFFFFF0, 0xFFFFFFF1})
_HEAD: Final = struct.Struct("<IHBB8Q")
_ENTRY: Final = struct.Struct("<II")
_MOST_FUNCTIONS: Final = 1 << 24
_LONGEST: Final = 1 << 12


def go_functions_at(file: ElfFile, addresses: Collection[int]) -> dict[int, str]:
    """The functions that addresses lie in, by address; those that lie in none are left out.

    Args:
        file: the file.
        addresses: relative to the load bias.

    Raises:
        ElfError: the file is cut short.
    """
    place = next(filter(None, map(file.section_place, _SECTIONS)), None)
    if place is None:
        return {}
    try:
        magic, zero, _, word, count, _, text, names, _, _, _, table = _HEAD.unpack(
            file.bytes_at(place.offset, _HEAD.size)
        )
        if magic not in _MAGICS or zero or word != 8 or not text or not 0 < count <= _MOST_FUNCTIONS:
            return {}  # another version; a text of 0 is filled in when the program is loaded
        found = {address: _name(file, place.offset, (names, table), count, address - text) for address in addresses}
    except struct.error:
        raise ElfError("the ELF file is cut short") from None
    return {address: name for address, name in found.items() if name}


def _name(file: ElfFile, start: int, tables: tuple[int, int], count: int, at: int) -> str:
    """The name of the function at a place in the text; "" where there is none.

    Raises:
        struct.error: the file is cut short.
    """
    names, table = start + tables[0], start + tables[1]

    def entry(number: int) -> tuple[int, int]:
        begins, described = _ENTRY.unpack(file.bytes_at(table + number * _ENTRY.size, _ENTRY.size))
        return begins, described

    (end,) = struct.unpack("<I", file.bytes_at(table + count * _ENTRY.size, 4))
    if not entry(0)[0] <= at < end:  # G1
        return ""
    low, high = 0, count
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if entry(middle)[0] <= at else (low, middle)
    begins, described = entry(low)
    function, name = struct.unpack("<Ii", file.bytes_at(table + described, 8))
    if function != begins or name < 0:
        return ""
    return file.bytes_at(names + name, _LONGEST).partition(b"\0")[0].decode("utf-8", "replace")
