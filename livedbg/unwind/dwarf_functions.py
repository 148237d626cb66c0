"""Function names of code addresses: by debug information, symbol tables and Go's function table.

Debug information gives all functions at an address: what was inlined there, and from where. drgn gives only the last
part of an inlined function's name, and finds no function that lies in a namespace of the debug information, as Rust's
do. So the tree is read by elfutils' libdw, which comes with drgn. Imported in the unwinding process only: a damaged
file may end it.

It also gives the variables of a function that are declared behind its current line: what lies in their memory is no
value.

Distributions pack a symbol table into stripped files: `.gnu_debugdata`, an ELF file compressed by xz (gdb's manual,
MiniDebugInfo). Fedora and RHEL strip their programs so, and wheels that are built on them hold such libraries.

Go's runtime needs a table of functions itself, so a stripped program keeps it. Layout: Go's debug/gosym/pclntab.go and
internal/abi, for Go 1.18 and 1.19 and for 1.20 and later; other versions are not read. No Python library reads it.

Invariants:
    dwarf_functions.N1. What is read of a unit is bounded; where it is not enough, nothing is said of its addresses.
    dwarf_functions.W1. Only a variable with one place in the frame, declared in the file of the line that the function
        is at and behind that line, is not set yet; one that the compiler tracks, and a static one, are what they are.
    dwarf_functions.F1. An address has the name of a function that reaches over it. One without a size, as assembler
        writes them, reaches as far as the next symbol, and `_UNSIZED` bytes at most.
    dwarf_functions.F2. What was asked of a file once is not read again; what is kept is bounded.
    dwarf_functions.G1. A name is given only for an address between the beginning of its function and that of the next.
"""

from __future__ import annotations

import contextlib
import os
import struct
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Collection, Hashable, Iterator, Sequence
from contextlib import nullcontext, suppress
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from livedbg.linux import target_files
from livedbg.linux.elf import ElfError, ElfFile
from livedbg.linux.elf_symbols import FunctionSymbol, code_symbols, symbol_name
from livedbg.unwind.libdw import (
    CALL_COLUMN,
    CALL_FILE,
    CALL_LINE,
    FOLDER,
    LINKAGE_NAMES,
    Die,
    Libdw,
    Tag,
)

_MOST: Final = 4096
_NO_FOLDER: Final = "/proc/self/"  # Bazel writes /proc/self/cwd for the folder, which is gone


def later_variables(
    library: Libdw, unit: Die, scopes: Sequence[Die], file: str | None, line: int | None
) -> frozenset[str]:
    """Return the names of the variables that are declared behind a line, in a function and its blocks at an address."""
    if file is None or line is None:
        return frozenset()
    here = os.path.normpath(file)
    later: set[str] = set()
    others: set[str] = set()
    variables = (die for scope in scopes for die in library.children(scope) if library.tag(die) == Tag.VARIABLE)
    for _, die in zip(range(_MOST), variables, strict=False):
        name = library.name(die)
        if name is not None:
            (later if library.in_frame(die) and _is_behind(library.declared_at(die, unit), here, line) else others).add(
                name
            )
    return frozenset(later - others)


def _is_behind(declared: tuple[str, int] | None, file: str, line: int) -> bool:
    return declared is not None and os.path.normpath(declared[0]) == file and declared[1] > line


_MOST_FUNCTIONS: Final = 1 << 18  # of a unit
_MOST_ENTRIES: Final = 1 << 20  # of a unit that are looked at
_DEEPEST: Final = 256
_HOLDS_FUNCTIONS: Final = frozenset({Tag.NAMESPACE, Tag.MODULE})
_BLOCKS: Final = frozenset({Tag.LEXICAL_BLOCK, Tag.TRY_BLOCK, Tag.CATCH_BLOCK})
_NAMED_SCOPES: Final = frozenset({Tag.NAMESPACE, Tag.CLASS, Tag.STRUCT, Tag.UNION, Tag.SUBPROGRAM, Tag.MODULE})


class Function(NamedTuple):
    """A function at an address.

    Attributes:
        name: the last part of its name in the debug information, or None.
        symbol: its linkage name, or None.
        full: the name with the scopes around it, if there is no linkage name.
        inlined: it was inlined into the next one, which it was called from at `file`, `line`, `column`.
    """

    name: str | None
    symbol: str | None
    full: str | None
    inlined: bool
    file: str | None = None
    line: int | None = None
    column: int | None = None


class DwarfFunctions:
    """The functions in the debug information of one file."""

    def __init__(self, file: Path, library: Libdw) -> None:
        self._library = library
        self._units: dict[int, _Unit] = {}
        self._fd = -1
        with suppress(OSError):
            self._fd = target_files.open_fd(file)

    @cached_property
    def _handle(self) -> int | None:
        """It is opened for the first address: of the C library it takes 0.03 s, and nobody may ask."""
        return self._library.begin(self._fd) if self._fd >= 0 else None

    def close(self) -> None:
        self._units = {}
        if (handle := self.__dict__.pop("_handle", None)) is not None:
            self._library.end(handle)
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def at(self, address: int) -> list[Function]:
        """Return the functions at an address, innermost first, the last not inlined; empty if none is known.

        The address is relative to the load bias, within an instruction.
        """
        unit = self._unit_at(address)
        return unit.at(address) if unit is not None else []

    def whole_path(self, address: int, file: str) -> str:
        """Return the path of a source file, which may be relative to the folder that its unit was compiled in."""
        unit = self._unit_at(address) if not file.startswith("/") else None
        folder = self._library.text(unit.die, FOLDER) if unit is not None else None
        if folder is None or not folder.startswith("/") or folder.startswith(_NO_FOLDER):
            return file
        return os.path.normpath(os.path.join(folder, file))  # noqa: PTH118 (a path of the target)

    def later_variables(self, address: int, places: Sequence[tuple[str | None, int | None]]) -> list[frozenset[str]]:
        """Return for each function at an address the variables that are declared behind its line: they are not set yet.

        Args:
            address: relative to the load bias, within an instruction.
            places: file and line in each of the functions, innermost first.
        """
        unit = self._unit_at(address)
        scopes = unit.scopes(address) if unit is not None else []
        if unit is None or len(scopes) != len(places):
            return [frozenset()] * len(places)
        return [later_variables(self._library, unit.die, one, *at) for one, at in zip(scopes, places, strict=True)]

    def _unit_at(self, address: int) -> _Unit | None:
        if self._handle is None:
            return None
        unit = self._library.unit_at(self._handle, address)
        if unit is None:
            return None
        known = self._units.get(unit.address)
        if known is None:
            known = self._units[unit.address] = _Unit(self._library, unit)
        return known


class _Unit:
    def __init__(self, library: Libdw, unit: Die) -> None:
        self._library = library
        self.die = unit
        self._left = _MOST_ENTRIES
        self._found: list[tuple[int, int, Die]] = []
        self._collect(unit, 0)
        self._found.sort(key=lambda one: one[0])
        self._starts = [start for start, _, _ in self._found]
        if self._left <= 0:
            self._found, self._starts = [], []

    def _collect(self, parent: Die, depth: int) -> None:
        for die in self._library.children(parent):
            self._left -= 1
            if self._left <= 0 or len(self._found) > _MOST_FUNCTIONS:
                self._left = 0
                return
            tag = self._library.tag(die)
            if tag == Tag.SUBPROGRAM:
                self._found += [(start, end, die) for start, end in self._library.ranges(die) if start]
            elif tag in _HOLDS_FUNCTIONS and depth < _DEEPEST:
                self._collect(die, depth + 1)

    def at(self, address: int) -> list[Function]:
        chain = [scopes[0] for scopes in self.scopes(address)]
        return [self._function(die, inlined=number < len(chain) - 1) for number, die in enumerate(chain)]

    def scopes(self, address: int) -> list[list[Die]]:
        """Return for each function at an address, innermost first: itself, and its blocks that hold the address."""
        place = bisect_right(self._starts, address) - 1
        if place < 0 or address >= self._found[place][1]:
            return []
        here = self._found[place][2]
        chain = [[here]]
        for _ in range(_DEEPEST):
            for die in self._library.children(here):
                tag = self._library.tag(die)
                if (tag == Tag.INLINED or tag in _BLOCKS) and self._library.covers(die, address):
                    here = die
                    break
            else:
                break
            if tag == Tag.INLINED:
                chain.insert(0, [die])
            else:
                chain[0].append(die)
        return chain

    def _function(self, die: Die, *, inlined: bool) -> Function:
        library = self._library
        symbol = next((text for code in LINKAGE_NAMES if (text := library.text(die, code))), None)
        name = library.name(die)
        full = None
        if name is not None and symbol is None:
            full = "::".join([*self._around(die), name])
        if not inlined:
            return Function(name, symbol, full, False)
        number = library.number(die, CALL_FILE)
        file = library.file(self.die, number) if number else None
        return Function(
            name,
            symbol,
            full,
            True,
            os.path.normpath(file) if file else None,
            library.number(die, CALL_LINE),
            library.number(die, CALL_COLUMN),
        )

    def _around(self, die: Die) -> list[str]:
        names: list[str] = []
        for scope in self._library.scopes(self._library.declaration(die))[1:]:
            tag = self._library.tag(scope)
            if tag not in _NAMED_SCOPES:
                continue
            name = self._library.name(scope)
            if name is None:
                name = "(anonymous namespace)" if tag == Tag.NAMESPACE else "{lambda}"
            names.insert(0, name)
        return names


_SECTIONS: Final = (".gopclntab", ".data.rel.ro.gopclntab")
_MAGICS: Final = frozenset({0xFFFFFFF0, 0xFFFFFFF1})
_HEAD: Final = struct.Struct("<IHBB8Q")
_ENTRY: Final = struct.Struct("<II")
_MOST_SYMBOLS: Final = 1 << 24
_LONGEST: Final = 1 << 12


def go_functions_at(file: ElfFile, addresses: Collection[int]) -> dict[int, str]:
    """Return the Go functions at addresses (relative to the load bias), by address.

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
        if magic not in _MAGICS or zero or word != 8 or not text or not 0 < count <= _MOST_SYMBOLS:
            return {}  # another version; a text of 0 is filled in when the program is loaded
        found = {address: _name(file, place.offset, (names, table), count, address - text) for address in addresses}
    except struct.error:
        raise ElfError("the ELF file is cut short") from None
    return {address: name for address, name in found.items() if name}


def _name(file: ElfFile, start: int, tables: tuple[int, int], count: int, at: int) -> str:
    """Return the name of the function at an offset in the text, or ""."""
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
    """Open the ELF file in `.gnu_debugdata`; None if there is none, or it is damaged."""
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
    try:
        import lzma  # a Python may be built without it
    except ImportError:
        return b""
    try:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MOST_MEMORY).decompress(packed, _MOST_BYTES)
    except lzma.LZMAError:
        return b""


_UNSIZED: Final = 256
_FUNCTION_SYMBOLS_MOST: Final = 1 << 16  # addresses that are remembered
_GLOBAL, _WEAK = 1, 2  # STB_ of elf(5)


class _Rank(NamedTuple):
    """Rank of a symbol among those at an address: the largest is chosen. `plain` is minus the leading underscores."""

    sized: bool
    start: int
    plain: int
    binding: int
    short: int


def functions_at(file: ElfFile, addresses: Collection[int]) -> dict[int, str]:
    """Return the function symbols at addresses (relative to the load bias), by address.

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
    """Like `functions_at`, also from the packed symbols and from Go's table."""
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
    """Function symbols of files, cached."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[Hashable, int], str | None] = OrderedDict()

    def at(self, key: Hashable, files: Collection[Path], addresses: Collection[int]) -> dict[int, str]:
        """Return the symbols at addresses of a file, by address.

        Args:
            key: identifies the content of the file.
            files: the files with its symbols, the best first.
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
        while len(self._known) > _FUNCTION_SYMBOLS_MOST:
            self._known.popitem(last=False)
        return {at: name for at, name in found.items() if name is not None}
