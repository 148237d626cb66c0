"""Which symbols the code of an ELF file has where: for functions without debug information.

The symbol table that distributions pack into stripped files: `.gnu_debugdata`, an ELF file compressed by xz.

Fedora and RHEL strip their programs so, and wheels that are built on them hold such libraries (gdb's manual,
MiniDebugInfo).

Names of functions in Go programs, from the table that Go's runtime needs itself: a stripped program keeps it.

Layout: Go's debug/gosym/pclntab.go and internal/abi, for Go 1.18 and 1.19 and for 1.20 and later; of others nothing is
known. No Python library reads it.

Invariants:
    function_symbols.F1. An address has the name of a function that reaches over it. One without a size, as assembler
        writes them, reaches as far as the next symbol, and `_UNSIZED` bytes at most.
    function_symbols.F2. What was asked of a file once is not read again; what is kept is bounded.
    function_symbols.G1. A name is given only for an address between the beginning of its function and that of the next.
"""

from __future__ import annotations

import contextlib
import os
import struct
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Collection, Hashable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Final, NamedTuple

from livedbg.linux.elf import ElfError, ElfFile
from livedbg.linux.elf_symbols import FunctionSymbol, code_symbols, symbol_name

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


_SECTION: Final = ".gnu_debugdata"
_MOST_PACKED: Final = 16 << 20
_MOST_BYTES: Final = 64 << 20
_MOST_MEMORY: Final = 128 << 20  # of the decompressor


@contextlib.contextmanager
def packed_symbols(file: ElfFile) -> Iterator[ElfFile | None]:
    """The ELF file that another one holds; None where it holds none, or a damaged one."""
    packed = file.section(_SECTION, _MOST_PACKED)
    if not packed:
        yield None
        return
    fd = os.memfd_create("symbols", os.MFD_CLOEXEC)
    try:
        with contextlib.ExitStack() as stack:
            inner: ElfFile | None = None
            with contextlib.suppress(OSError, ElfError):
                os.pwrite(fd, _unpacked(packed), 0)
                inner = stack.enter_context(ElfFile(Path(f"/proc/self/fd/{fd}")))
            yield inner
    finally:
        os.close(fd)


def _unpacked(packed: bytes) -> bytes:
    """What was compressed, up to `_MOST_BYTES`; b"" where it can't be read."""
    try:
        import lzma  # a Python may be built without it
    except ImportError:
        return b""
    try:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MOST_MEMORY).decompress(packed, _MOST_BYTES)
    except lzma.LZMAError:
        return b""


_UNSIZED: Final = 256
_MOST: Final = 1 << 16  # addresses that are remembered
_GLOBAL, _WEAK = 1, 2  # STB_ of elf(5)


class _Rank(NamedTuple):
    """How well a symbol names an address: the largest is chosen.

    Attributes:
        plain: how few underscores the name begins with, as a negative number: `read` and not `__read`.
    """

    sized: bool
    start: int
    plain: int
    binding: int
    short: int


def functions_at(file: ElfFile, addresses: Collection[int]) -> dict[int, str]:
    """The symbols of the functions that addresses lie in, by address; those that lie in none are left out.

    Args:
        file: the file.
        addresses: relative to the load bias.

    Raises:
        ElfError: the file is cut short.
    """
    wanted = sorted(addresses)
    best: dict[int, tuple[_Rank, str]] = {}
    nearest: dict[int, int] = {}
    for symbol in code_symbols(file, wanted, _UNSIZED):
        reach = symbol.size or (_UNSIZED if symbol.complete else 0)
        place = bisect_left(wanted, symbol.address)
        rank: _Rank | None = None
        name = ""
        while place < len(wanted) and (address := wanted[place]) < symbol.address + max(reach, _UNSIZED):
            nearest[address] = max(nearest.get(address, 0), symbol.address)
            if address < symbol.address + reach:
                if rank is None:
                    name = symbol_name(file, symbol)
                    rank = _rank(symbol, name)
                if name and not name.startswith("$") and (address not in best or best[address][0] < rank):
                    best[address] = rank, name
            place += 1
    return {at: name for at, (rank, name) in best.items() if rank.sized or rank.start == nearest[at]}


def _rank(symbol: FunctionSymbol, name: str) -> _Rank:
    underscores = len(name) - len(name.lstrip("_"))
    plain = 0 if name.startswith(("_Z", "_R")) else -underscores
    binding = {_GLOBAL: 2, _WEAK: 1}.get(symbol.binding, 0)
    return _Rank(symbol.size > 0, symbol.address, plain, binding, -len(name))


def _named(file: ElfFile, addresses: Collection[int]) -> dict[int, str]:
    """The same as `functions_at`, with what a stripped file has packed, or has for Go's runtime."""
    names = functions_at(file, addresses)
    with packed_symbols(file) if len(names) < len(addresses) else nullcontext() as inner:
        if inner is not None:
            with suppress(ElfError):
                names |= functions_at(inner, [at for at in addresses if at not in names])
    if len(names) < len(addresses):
        with suppress(ElfError):
            names |= go_functions_at(file, [at for at in addresses if at not in names])
    return names


class FunctionSymbols:
    """The symbols of functions of files, remembered."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[Hashable, int], str | None] = OrderedDict()

    def at(self, key: Hashable, files: Collection[Path], addresses: Collection[int]) -> dict[int, str]:
        """The symbols at some addresses of a file, by address.

        Args:
            key: what the file's content is known by.
            files: where its symbols are, the best first.
            addresses: relative to the load bias.
        """
        found = {at: self._known[key, at] for at in addresses if (key, at) in self._known}
        missing = {at for at in addresses if at not in found}
        for file in files if missing else ():
            try:
                with ElfFile(file) as elf:
                    names = _named(elf, missing)
            except (OSError, ElfError):
                continue
            found |= names
            missing -= names.keys()
        for at in addresses:
            self._known[key, at] = found.get(at)
            self._known.move_to_end((key, at))
        while len(self._known) > _MOST:
            self._known.popitem(last=False)
        return {at: name for at, name in found.items() if name is not None}
