"""Symbol tables of ELF files, read selectively. The functions raise ElfError if the file is cut short.

Own code and not pyelftools: to find one name, that library decodes every symbol in Python, a second or more in a 20 MB
interpreter; here the name is found in the string table by a search for its bytes.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from livedbg.linux.elf import ElfError, ElfFile

_SYMBOL: Final = struct.Struct("<IBBHQQ")
_SHT_SYMTAB, _SHT_DYNSYM = 2, 11
_SHN_UNDEF: Final = 0
_NO_ADDRESS: Final = frozenset({3, 4, 6})  # STT_SECTION, STT_FILE, STT_TLS: not where code or data lies
_CODE: Final = frozenset({0, 2, 10})  # STT_NOTYPE, as of assembler, STT_FUNC, STT_GNU_IFUNC
_NOWHERE: Final = frozenset({_SHN_UNDEF, 0xFFF1})  # SHN_ABS
_LONGEST_NAME: Final = 1 << 16
_MOST_NAMES: Final = 200_000
_MOST_TEXT: Final = 32 << 20  # bytes of all names
_LARGE: Final = 2 << 20  # bytes of a table that is worth the import of numpy
_MOST_TABLES: Final = 16  # a file has two; each costs a pass over it

_Entry: TypeAlias = tuple[int, int, int, int, int, int]


class Symbol(NamedTuple):
    """A defined symbol; `address` is relative to the load bias."""

    name: str
    address: int
    size: int


class FunctionSymbol(NamedTuple):
    """A symbol of code; `address` is relative to the load bias.

    Attributes:
        size: 0 if the file has none.
        binding: STB_ of elf(5).
        complete: it is in .symtab, which has local functions too.
    """

    address: int
    size: int
    binding: int
    complete: bool
    name_at: int


def defined_symbols(elf: ElfFile, names: Collection[str]) -> dict[str, Symbol]:
    """Return the defined symbols among `names`: from .dynsym, or else from .symtab."""
    found: dict[str, Symbol] = {}
    for table, strings in _symbol_tables(elf):
        missing = [name for name in names if name not in found]
        if missing:
            found.update(_look_up(elf, missing, table, strings))
    return found


def symbol_at(elf: ElfFile, address: int) -> Symbol | None:
    """Return the symbol of .symtab or .dynsym that begins at an address, or else one that contains it, or None."""
    around: Symbol | None = None
    for table, (strings, _) in _symbol_tables(elf):
        for name, info, _, home, value, length in _entries(elf, *table):
            inside = value <= address < value + max(length, 1)
            if inside and home != _SHN_UNDEF and name and info & 0xF not in _NO_ADDRESS:
                text = elf.data.read(strings + name, _LONGEST_NAME).partition(b"\0")[0]
                around = Symbol(text.decode("utf-8", "replace"), value, length)
                if value == address:
                    return around
    return around


def code_symbols(elf: ElfFile, near: Sequence[int], reach: int) -> Iterator[FunctionSymbol]:
    """Yield the defined symbols of code, by .dynsym first, that begin at most `reach` bytes before some addresses.

    The addresses are in rising order. Longer functions count too; a symbol may come twice.
    """
    for kind in (_SHT_DYNSYM, _SHT_SYMTAB):
        for table, (strings, _) in _symbol_tables(elf, (kind,)):
            entries = _near_of_many if table[1] >= _LARGE else _near
            for name, info, _, home, value, length in entries(elf, table, near, reach):
                if info & 0xF in _CODE and home not in _NOWHERE and name:
                    yield FunctionSymbol(value, length, info >> 4, kind == _SHT_SYMTAB, strings + name)


def symbol_name(elf: ElfFile, symbol: FunctionSymbol) -> str:
    """Return the name of a symbol of code."""
    return elf.data.read(symbol.name_at, _LONGEST_NAME).partition(b"\0")[0].decode("utf-8", "replace")


def possible_names(elf: ElfFile, beginnings: Collection[str]) -> set[str]:
    """Return possible symbol names with some beginnings, such as `_ZN3app9checkFail`.

    Some are only the ends of longer names; `defined_symbols` tells which are names. At most _MOST_NAMES, and none
    longer than _LONGEST_NAME.
    """
    found: set[str] = set()
    held = 0
    for _, (start, size) in _symbol_tables(elf):
        end = start + size
        for beginning in beginnings:
            needle = beginning.encode()  # with nothing before it: linkers merge a name with the tail of another
            at = elf.data.find(needle, start, end)
            while at >= 0 and len(found) < _MOST_NAMES and held < _MOST_TEXT:
                stop = elf.data.find(b"\0", at, min(at + _LONGEST_NAME, end))
                if stop >= 0:
                    found.add(elf.data.read(at, stop - at).decode("ascii", "replace"))
                    held += stop - at
                at = elf.data.find(needle, at + len(needle) if stop >= 0 else at + _LONGEST_NAME, end)
    return found


def _symbol_tables(
    elf: ElfFile, kinds: Sequence[int] = (_SHT_DYNSYM, _SHT_SYMTAB)
) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield offset and size of each symbol table and of its strings, .dynsym first, each once.

    Raises:
        ElfError: the file is cut short, or declares more than _MOST_TABLES.
    """
    sections = elf.sections()
    chosen = [
        (elf.inside(section), elf.inside(sections[section.link]))
        for wanted in kinds
        for section in sections
        if section.kind == wanted and section.link < len(sections)
    ]
    distinct = dict.fromkeys(chosen)
    if len(distinct) > _MOST_TABLES:
        raise ElfError(f"the ELF file declares {len(distinct)} symbol tables")
    yield from distinct


def _look_up(elf: ElfFile, names: list[str], table: tuple[int, int], strings: tuple[int, int]) -> dict[str, Symbol]:
    wanted = {at: name for name in names for at in _string_places(elf, name, *strings)}
    if not wanted:
        return {}
    found = {}
    for entry in _entries_named(elf, list(wanted), *table):
        at, _, _, section, address, length = entry
        if section != _SHN_UNDEF:
            found[wanted[at]] = Symbol(wanted[at], address, length)
            if len(found) == len(names):
                break
    return found


def _entries_named(
    elf: ElfFile, names: Sequence[int], start: int, size: int
) -> Iterator[tuple[int, int, int, int, int, int]]:
    """Yield the entries of a symbol table with some names.

    They are found by their bytes: a large library has a million others.
    """
    needles = [at.to_bytes(4, "little") for at in names if at < 1 << 32]
    left = b""
    for piece in elf.data.pieces(start, size):
        data = left + piece
        whole = len(data) // _SYMBOL.size * _SYMBOL.size
        places: set[int] = set()
        for needle in needles:
            at = data.find(needle, 0, whole)
            while at >= 0:
                if at % _SYMBOL.size == 0:
                    places.add(at)
                at = data.find(needle, at + 1, whole)
        for place in sorted(places):
            yield _SYMBOL.unpack_from(data, place)
        left = data[whole:]


def _near(elf: ElfFile, table: tuple[int, int], near: Sequence[int], reach: int) -> Iterator[_Entry]:
    """Yield the entries that begin shortly before some addresses, or reach one."""
    ends = [*near, 1 << 128]
    for entry in _entries(elf, *table):
        ahead = ends[bisect_left(near, entry[4])] - entry[4]
        if ahead < reach or ahead < entry[5]:
            yield entry


def _near_of_many(elf: ElfFile, table: tuple[int, int], near: Sequence[int], reach: int) -> Iterator[_Entry]:
    """Do the same for some hundred thousand entries: numpy takes a tenth of the time."""
    import numpy as np  # a tenth of a second that small tables are not worth

    names = ("name", "info", "other", "home", "value", "size")
    fields = np.dtype(list(zip(names, ("<u4", "u1", "u1", "<u2", "<u8", "<u8"), strict=True)))
    ends = np.array([at for at in near if 0 <= at < 1 << 64], dtype=np.uint64)
    if not len(ends):
        return
    left = b""
    for piece in elf.data.pieces(*table):
        data = left + piece
        whole = len(data) // _SYMBOL.size * _SYMBOL.size
        entries = np.frombuffer(data, dtype=fields, count=whole // _SYMBOL.size)
        places = np.searchsorted(ends, entries["value"])
        ahead = ends[np.minimum(places, len(ends) - 1)] - entries["value"]
        chosen = (places < len(ends)) & ((ahead < reach) | (ahead < entries["size"]))
        for number in np.flatnonzero(chosen).tolist():
            yield _SYMBOL.unpack_from(data, number * _SYMBOL.size)
        left = data[whole:]


def _entries(elf: ElfFile, start: int, size: int) -> Iterator[tuple[int, int, int, int, int, int]]:
    left = b""
    for piece in elf.data.pieces(start, size):
        data = left + piece
        whole = len(data) // _SYMBOL.size * _SYMBOL.size
        yield from _SYMBOL.iter_unpack(data[:whole])
        left = data[whole:]


def _string_places(elf: ElfFile, name: str, start: int, size: int) -> list[int]:
    """Return the offsets of a name in a string table (also as the tail of a longer one: linkers merge those)."""
    needle = name.encode() + b"\0"
    places = []
    at = elf.data.find(needle, start, start + size)
    while at >= 0:
        places.append(at - start)
        at = elf.data.find(needle, at + 1, start + size)
    return places
