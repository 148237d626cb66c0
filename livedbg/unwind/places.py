"""Function, file and line of addresses in files: read once for all processes that have a file mapped.

A file is known by its build id and size, or by its inode, so ten processes of one program cost what one costs.

Function starts come from the search table of the unwind tables (.eh_frame_hdr, LSB 5.0 core, 10.6.2). It is searched in
the file: that of a large library has a million entries.

Function names are written as a programmer writes them. Debug information has only the last part of a name (`run<int>`);
the symbol has all of it, with a result type and parameters (`void app::Engine::run<int>(int)`).

Invariants:
    places.L1. Two files have one name for an address only if they have one build id and one size, or are one file.
    places.L2. What is kept is bounded.
    places.S1. An address that no entry covers is in no function.
    places.S2. What is remembered is bounded.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Collection, Hashable, Sequence
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import drgn
from msgspec import Struct, field, structs

from livedbg.linux import target_files
from livedbg.linux.elf import ElfError, ElfFile, FileBytes, SectionPlace, read_build_id
from livedbg.probes.newest import Newest
from livedbg.text.demangling import demangled_rust, demangled_symbol
from livedbg.text.patterns import lazy_re
from livedbg.unwind.code_heights import Depth
from livedbg.unwind.drgn_files import add_file, new_program, separate_files
from livedbg.unwind.dwarf_functions import DwarfFunctions, Function, FunctionSymbols
from livedbg.unwind.libdw import libdw
from livedbg.unwind.modules import Module
from livedbg.unwind.wire import WireFrame

_OPERATOR: Final = lazy_re(r"operator(?:\(\)|\[\]|->\*?|<=>|<<=?|>>=?|&&|\|\||\+\+|--|[-+*/%^&|~!=<>]=?|,|\"\" ?\w+)")
_QUALIFIER: Final = lazy_re(r" (?:const|volatile|noexcept|&|\[)")
_RUST_HASH: Final = lazy_re(r"::h[0-9a-f]{16}$")
_RUST_ESCAPE: Final = lazy_re(r"\$(?:(SP|BP|RF|LT|GT|LP|RP|C)|u([0-9a-f]{1,6}))\$")
_RUST_LETTERS: Final = {"SP": "@", "BP": "*", "RF": "&", "LT": "<", "GT": ">", "LP": "(", "RP": ")", "C": ","}


@lru_cache(maxsize=1 << 14)
def symbol_name(symbol: str) -> str:
    """Return the demangled name of a symbol, without its version (`read@@GLIBC_2.2.5`)."""
    bare = symbol.partition("@")[0] or symbol
    if bare.startswith("_R"):
        return demangled_rust(bare) or bare
    name = demangled_symbol(bare)
    if bare.startswith("_ZN") and _RUST_HASH.search(name):
        return _rust(_RUST_HASH.sub("", name))
    return name


@lru_cache(maxsize=1 << 14)
def full_name(function: str | None, symbol: str | None) -> str | None:
    """Return the qualified name of a function, or None if it has neither name."""
    if function is None or symbol is None:
        return function if symbol is None else symbol_name(symbol)
    if symbol.startswith("_R"):
        return demangled_rust(symbol) or function
    if not symbol.startswith("_Z"):
        return function
    name = symbol_name(symbol)
    if "(" not in name:  # Rust's have no parameters
        return name if _base(name.rpartition("::")[2]) == _base(function) else function
    return _without_parameters(name, _base(function)) or function


def _rust(name: str) -> str:
    """Decode Rust's older mangling, which only looks like that of C++ (rustc_symbol_mangling, legacy)."""

    def letter(match: re.Match[str]) -> str:
        code = int(match[2], 16) if match[2] else 0
        return _RUST_LETTERS[match[1]] if match[1] else chr(code) if 0x20 <= code < 0x7F else match[0]

    return _RUST_ESCAPE.sub(letter, name.replace("::_$", "::$")).replace("..", "::")


def _base(function: str) -> str:
    operator = _OPERATOR.match(function)
    return operator[0] if operator else function.partition("<")[0]


def _without_parameters(name: str, base: str) -> str | None:
    """Return a demangled function name without result and parameters; None if it names another function than `base`."""
    found: tuple[int, int] | None = None
    spaces: list[int] = []
    depth = at = 0
    while at < len(name):
        operator = _OPERATOR.match(name, at)
        begins = depth == 0 and (at == 0 or name[at - 1] in ": *&")
        if begins and name.startswith(base, at):
            end = _behind_arguments(name, at + len(base))
            if name.startswith("(", end):
                found = at, end
        if operator is not None:
            at = operator.end()
            continue
        letter = name[at]
        if letter in "<([{":
            depth += 1
        elif letter in ">)]}":
            depth = max(0, depth - 1)
        elif letter == " " and depth == 0 and not _QUALIFIER.match(name, at):
            spaces.append(at)
        at += 1
    if found is None:
        return None
    result = max((space for space in spaces if space < found[0]), default=-1)
    return name[result + 1 : found[1]].lstrip("*&")


def _behind_arguments(name: str, at: int) -> int:
    if not name.startswith("<", at):
        return at
    depth = 0
    for place in range(at, len(name)):
        depth += (name[place] == "<") - (name[place] == ">" and name[place - 1] != "-")
        if depth == 0:
            return place + 1
    return at


_HEAD: Final = bytes((1, 0x1B, 0x03, 0x3B))  # version; pc-relative, unsigned and table-relative words of four bytes
_HEAD_SIZE: Final = 12
_ENTRY: Final = struct.Struct("<ii")
_RANGE_AT: Final = 12  # of an entry of .eh_frame: behind its length, its CIE and its beginning
_MOST: Final = 1 << 12


class FunctionStarts:
    """Starts of the functions of a file that have unwind tables; nothing is known unless the table can be read
    (`known`).
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
        """Return the start of the function that holds an address (relative to the load bias), or None."""
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


_GAP: Final = 1 << 21
_SHORTEST_ID: Final = 32  # hexadecimal digits: a shorter build id was written by hand
_MOST_FILES: Final = 512
_C_LIBRARY: Final = ("libc.so", "libc-2", "libpthread", "ld-")
_MOST_PLACES: Final = 1 << 16
_MOST_DEPTHS: Final = 1 << 10  # of a file


class KnownFile(Struct):
    """Cached knowledge of a file.

    Attributes:
        base: load bias in the program that has all files.
        debug_frames: it has unwind tables in its debug information (`.debug_frame`).
        tables: the files with its symbols, the best first.
        functions: its functions by debug information; None if that can't be read so.
        depths: frame depth by function start and address.
    """

    key: Hashable
    base: int
    made: drgn.Module | None
    debug_frames: bool
    tables: list[Path]
    functions: DwarfFunctions | None
    starts: FunctionStarts
    places: dict[int, tuple[WireFrame, ...]] = field(default_factory=dict)
    depths: Newest[tuple[int, int], Depth | None] = field(default_factory=lambda: Newest(_MOST_DEPTHS))


class _Identity(NamedTuple):
    """Identity of a file's content, the size of its image, and its build id (hexadecimal; "": none)."""

    key: Hashable
    size: int
    build_id: str


class Places:
    """The files that were seen, and the frames at addresses in them."""

    def __init__(self) -> None:
        self._symbols = FunctionSymbols()
        self._files: dict[Hashable, KnownFile] = {}
        self._identities: Newest[tuple[int, ...], _Identity] = Newest(_MOST_FILES)
        self._start()

    def _start(self) -> None:
        for file in self._files.values():
            if file.functions is not None:
                file.functions.close()
        self._program = new_program()
        self._files = {}
        self._next = _GAP
        self._count = 0

    def begin(self) -> None:
        """Empty the cache if it has grown too large; called before each request."""
        if len(self._files) > _MOST_FILES or self._count > _MOST_PLACES:
            self._start()

    def file_of(self, module: Module) -> KnownFile:
        key, size, _ = self._identity(module)
        known = self._files.get(key)
        if known is None:
            base = self._next
            self._next += (size + _GAP) & -_GAP
            made = add_file(self._program, module, base, debug=True)
            tables = [module.file]
            apart = made.debug_file_path if made is not None else None
            if apart and apart != str(module.file):
                tables.insert(0, Path(apart))
            library = libdw()
            functions = DwarfFunctions(tables[0], library) if library is not None and made is not None else None
            starts = FunctionStarts(module.file)
            known = KnownFile(key, base, made, any(map(_has_debug_frames, tables)), tables, functions, starts)
            self._files[key] = known
        return known

    def describe(self, module: Module, addresses: Collection[int], *, debug: bool) -> dict[int, tuple[WireFrame, ...]]:
        """Return the frames at addresses of a file, by address, the innermost inlined function first. Their counters
        are 0.

        Args:
            addresses: relative to its load bias, each within an instruction.
            debug: use debug information, and not names alone (of the C library always: nobody looks for its lines, and
                to read where they are takes a fifth of the CPU time of a report).
        """
        if not debug or module.file.name.startswith(_C_LIBRARY):
            known = self._identity(module)
            apart = separate_files(module.file, known.build_id) if debug else []
            names = self._symbols.at((known.key, debug), [*apart, module.file], addresses)
            return {at: (WireFrame(0, symbol_name(names[at]) if at in names else None),) for at in addresses}
        file = self.file_of(module)
        missing = [at for at in addresses if at not in file.places]
        names = self._symbols.at((file.key, file.tables[0]), file.tables, missing)
        for at in missing:
            file.places[at] = tuple(_whole(file, at, one) for one in self._located(file, at, names.get(at)))
            self._count += 1
        return {at: file.places[at] for at in addresses}

    def _identity(self, module: Module) -> _Identity:
        """Return the identity of a file's content; read once while the file does not change."""
        try:
            stat = target_files.status(module.file)
            state = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
            known = self._identities.get(state)
            if known is None:
                known = self._identities[state] = _read_identity(module.file, state)
        except (OSError, ElfError):
            return _Identity(module, 0, "")
        return known

    def later_variables(self, module: Module, at: int, frames: Sequence[WireFrame]) -> list[frozenset[str]]:
        """Return for each frame at an address of a file the variables that are declared behind its line."""
        functions = self.file_of(module).functions
        if functions is None:
            return [frozenset()] * len(frames)
        return functions.later_variables(at, [(frame.file, frame.line) for frame in frames])

    def _located(self, file: KnownFile, at: int, symbol: str | None) -> tuple[WireFrame, ...]:
        try:
            locations = list(self._program.source_location(file.base + at)) if file.made is not None else []
        except LookupError:
            locations = []
        functions = file.functions.at(at) if file.functions is not None else []
        if len(functions) >= max(1, len(locations)):
            return tuple(
                _of_function(one, symbol, place)
                for one, place in zip(functions, _lines(functions, locations), strict=True)
            )
        if not locations:
            return (WireFrame(0, full_name(None, symbol)),)
        last = len(locations) - 1
        return tuple(
            _frame(location, symbol if number == last else None, inlined=number < last)
            for number, location in enumerate(locations)
        )


def _whole(file: KnownFile, at: int, frame: WireFrame) -> WireFrame:
    """Return a frame with the whole path of its source file, if its unit tells it."""
    if not frame.file or file.functions is None:
        return frame
    whole = file.functions.whole_path(at, frame.file)
    return frame if whole == frame.file else structs.replace(frame, file=whole)


_Line: TypeAlias = tuple[str | None, int | None, int | None]
"""File, line and column."""


def _lines(functions: list[Function], locations: list[drgn.SourceLocation]) -> list[_Line]:
    """Return the place in each function: drgn's, and where it has fewer, those of the calls."""
    known = [_line(location) for location in locations]
    if len(known) == len(functions):
        return known
    calls: list[_Line] = [(one.file, one.line, one.column) for one in functions[:-1]]
    return [known[0] if known else (None, None, None), *calls]


def _line(location: drgn.SourceLocation) -> _Line:
    try:
        return location.filename or None, location.line or None, location.column or None
    except UnicodeDecodeError:
        return None, None, None


def _of_function(function: Function, symbol: str | None, line: _Line) -> WireFrame:
    symbol = function.symbol or (None if function.inlined else symbol)
    name = full_name(function.name, symbol) if symbol is not None or function.full is None else function.full
    return WireFrame(0, name, *line, function.inlined)


def _frame(location: drgn.SourceLocation, symbol: str | None, *, inlined: bool) -> WireFrame:
    try:
        function = location.name()
    except (UnicodeDecodeError, LookupError):
        function = None
    if function is not None and function.startswith("_Z"):  # a symbol: there is no other name
        symbol, function = symbol or function, None
    return WireFrame(0, full_name(function, symbol), *_line(location), inlined)


def _read_identity(file: Path, state: tuple[int, ...]) -> _Identity:
    with ElfFile(file) as elf:
        build_id = read_build_id(elf)
        span = max((segment.address + segment.memory_size for segment in elf.segments()), default=0)
    return _Identity((build_id, state[2]) if len(build_id) >= _SHORTEST_ID else state, span, build_id)


def _has_debug_frames(file: Path) -> bool:
    """Return whether unwind tables are only in the debug information: Go's files have such, or none at all."""
    try:
        with ElfFile(file) as elf:
            return elf.has_section(".debug_frame")
    except (OSError, ElfError):
        return False
