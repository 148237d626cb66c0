"""Symbols and segments of ELF files (elf(5)): only what is looked for is read.

Own code and not pyelftools: to find one name, that library decodes every symbol in Python, a second
or more in a 20 MB interpreter; here the name is found in the string table by a search for its bytes.
Little-endian 64-bit files only (x86-64, aarch64).
"""

from __future__ import annotations

import mmap
import struct
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple

from livedbg.linux.file_bytes import FileBytes
from livedbg.linux.maps import Mapping
from livedbg.linux.procfs import living_task

__all__ = ["ElfError", "ElfFile", "FunctionSymbol", "Mark", "SectionPlace", "Segment", "Symbol", "mapped_file"]

_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_PROGRAM: Final = struct.Struct("<IIQQQQQQ")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_PT_LOAD: Final = 1
_SHT_SYMTAB, _SHT_NOTE, _SHT_DYNSYM = 2, 7, 11
_NT_GNU_BUILD_ID: Final = 3
_NOTE: Final = struct.Struct("<III8s")
_MARK: Final = struct.Struct("<QQQ")
_SHN_UNDEF: Final = 0
_NO_ADDRESS: Final = frozenset({3, 4, 6})  # STT_SECTION, STT_FILE, STT_TLS: not where code or data lies
_CODE: Final = frozenset({0, 2, 10})  # STT_NOTYPE, as of assembler, STT_FUNC, STT_GNU_IFUNC
_NOWHERE: Final = frozenset({_SHN_UNDEF, 0xFFF1})  # SHN_ABS
_LONGEST_NAME: Final = 1 << 16
_LONGEST_BUILD_ID: Final = 64
_MOST_NAMES: Final = 200_000
_MOST_TEXT: Final = 32 << 20  # bytes of all names
_MOST_TABLES: Final = 16  # a file has two; each costs a pass over it
_PAGE: Final = mmap.PAGESIZE


class ElfError(ValueError):
    """Not an ELF file that we can read, or a damaged one."""


class Segment(NamedTuple):
    """A PT_LOAD segment: what of the file is mapped where, relative to the load bias."""

    offset: int
    address: int
    file_size: int
    memory_size: int
    flags: int


class SectionPlace(NamedTuple):
    """Where a section is; `address` is relative to the load bias.

    Attributes:
        size: bytes that the file has of it.
    """

    address: int
    offset: int
    size: int


class Symbol(NamedTuple):
    """A defined symbol; `address` is relative to the load bias."""

    name: str
    address: int
    size: int


class FunctionSymbol(NamedTuple):
    """A symbol of code; `address` is relative to the load bias.

    Attributes:
        size: 0 where the file has none.
        binding: STB_ of elf(5).
        complete: it is in .symtab, which local functions are in too.
        name_at: where its name is in the file.
    """

    address: int
    size: int
    binding: int
    complete: bool
    name_at: int


class Mark(NamedTuple):
    """A place in the code that the file's maker marked for tracers (sys/sdt.h); `address` is relative to the load bias.

    Attributes:
        arguments: where its values are, in the words of the assembler: `8@%rdi 8@%rsi`.
    """

    name: str
    address: int
    arguments: str


class ElfFile:
    """One ELF file. A context manager; close it to let the file go.

    Args:
        path: the file.

    Raises:
        OSError: it can't be opened.
        ElfError: it is not a 64-bit little-endian ELF file.
    """

    def __init__(self, path: Path | str) -> None:
        self._data = FileBytes(path)
        try:
            header = _HEADER.unpack(self._data.read(0, _HEADER.size))
        except struct.error:
            self.close()
            raise ElfError(f"too short for an ELF file: {path}") from None
        if header[0][:6] != b"\x7fELF\x02\x01":
            self.close()
            raise ElfError(f"not a 64-bit little-endian ELF file: {path}")
        self.machine: int = header[2]
        self._program_at, self._section_at = header[5], header[6]
        self._program_count, self._section_count, self._section_names = header[10], header[12], header[13]

    def __enter__(self) -> ElfFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let the file go."""
        self._data.close()

    def segments(self) -> tuple[Segment, ...]:
        """The loadable segments in the order of the file.

        Raises:
            ElfError: the file is cut short.
        """
        found = []
        for number in range(self._program_count):
            kind, flags, offset, address, _, in_file, in_memory, _ = self._unpack(
                _PROGRAM, self._program_at + number * _PROGRAM.size
            )
            if kind == _PT_LOAD:
                found.append(Segment(offset, address, in_file, in_memory, flags))
        return tuple(found)

    def load_bias(self, mappings: Sequence[Mapping]) -> int | None:
        """What to add to a symbol's address to have it in the process's memory.

        Args:
            mappings: the mappings of this file in the process.

        Returns:
            None when no mapping fits a segment.
        """
        for segment in self.segments():
            for mapping in mappings:
                if mapping.offset == segment.offset // _PAGE * _PAGE:
                    return mapping.start - segment.address // _PAGE * _PAGE
        return None

    def initial(self, address: int, size: int) -> bytes:
        """What the file puts at an address when it is loaded, before relocation; b"" where it puts nothing."""
        for segment in self.segments():
            start = address - segment.address
            if start >= 0 and start + size <= segment.file_size:
                return self._data.read(segment.offset + start, size)
        return b""

    def symbols(self, names: Collection[str]) -> dict[str, Symbol]:
        """Those of `names` that the file defines: in .dynsym, or else in .symtab.

        Raises:
            ElfError: the file is cut short.
        """
        found: dict[str, Symbol] = {}
        for table, strings in self._symbol_tables():
            missing = [name for name in names if name not in found]
            if missing:
                found.update(self._look_up(missing, table, strings))
        return found

    def symbol_at(self, address: int) -> Symbol | None:
        """The symbol of .symtab or .dynsym that begins at an address, or else one that it lies in.

        Raises:
            ElfError: the file is cut short.
        """
        around: Symbol | None = None
        for table, (strings, _) in self._symbol_tables():
            for name, info, _, home, value, length in self._entries(*table):
                inside = value <= address < value + max(length, 1)
                if inside and home != _SHN_UNDEF and name and info & 0xF not in _NO_ADDRESS:
                    text = self._data.read(strings + name, _LONGEST_NAME).partition(b"\0")[0]
                    around = Symbol(text.decode("utf-8", "replace"), value, length)
                    if value == address:
                        return around
        return around

    def has_section(self, name: str) -> bool:
        """Whether it has a section of a name.

        Raises:
            ElfError: the file is cut short.
        """
        return self._section_named(name) is not None

    def section_place(self, name: str) -> SectionPlace | None:
        """Where a section is; None where there is none.

        Raises:
            ElfError: the file is cut short.
        """
        found = self._section_named(name)
        return None if found is None else SectionPlace(found[3], *self._inside(found))

    def bytes_at(self, offset: int, size: int) -> bytes:
        """Bytes of the file; fewer where it ends."""
        return self._data.read(offset, size)

    def section(self, name: str, most: int) -> bytes:
        """What a section holds, as far as the file has it; b"" where there is none, or one of more than `most` bytes.

        Raises:
            ElfError: the file is cut short.
        """
        found = self._section_named(name)
        if found is None or found[5] > most:
            return b""
        return self._data.read(*self._inside(found))

    def functions(self, near: Sequence[int], reach: int) -> Iterator[FunctionSymbol]:
        """The defined symbols of code, by .dynsym first, that begin shortly before some addresses; one may come twice.

        Args:
            near: the addresses, in rising order.
            reach: how many bytes before one of them a symbol begins at most, if its function is not longer.

        Raises:
            ElfError: the file is cut short.
        """
        ends = [*near, 1 << 128]
        for kind in (_SHT_DYNSYM, _SHT_SYMTAB):
            for table, (strings, _) in self._symbol_tables((kind,)):
                for name, info, _, home, value, length in self._entries(*table):
                    ahead = ends[bisect_left(near, value)] - value
                    if ahead >= reach and ahead >= length:
                        continue
                    if info & 0xF in _CODE and home not in _NOWHERE and name:
                        yield FunctionSymbol(value, length, info >> 4, kind == _SHT_SYMTAB, strings + name)

    def name_of(self, symbol: FunctionSymbol) -> str:
        """The name of a symbol of code."""
        return self._data.read(symbol.name_at, _LONGEST_NAME).partition(b"\0")[0].decode("utf-8", "replace")

    def names(self, beginnings: Collection[str]) -> set[str]:
        """What may be names in the symbol tables and begins so, such as `_ZN3app9checkFail`.

        Some are but the ends of longer names; `symbols` says which are names. At most _MOST_NAMES, and none that is
        longer than _LONGEST_NAME.

        Raises:
            ElfError: the file is cut short.
        """
        found: set[str] = set()
        held = 0
        for _, (start, size) in self._symbol_tables():
            end = start + size
            for beginning in beginnings:
                needle = beginning.encode()  # with nothing before it: linkers merge a name with the tail of another
                at = self._data.find(needle, start, end)
                while at >= 0 and len(found) < _MOST_NAMES and held < _MOST_TEXT:
                    stop = self._data.find(b"\0", at, min(at + _LONGEST_NAME, end))
                    if stop >= 0:
                        found.add(self._data.read(at, stop - at).decode("ascii", "replace"))
                        held += stop - at
                    at = self._data.find(needle, at + len(needle) if stop >= 0 else at + _LONGEST_NAME, end)
        return found

    def marks(self, provider: str) -> list[Mark]:
        """The marks of one maker; a stripped file keeps them (NT_STAPSDT in .note.stapsdt, systemtap's sys/sdt.h).

        Raises:
            ElfError: the file is cut short.
        """
        found: list[Mark] = []
        marked_at = self._marked_at()
        for start, end in self._notes():
            at = start
            while at + _NOTE.size <= end:
                name_size, body_size, what, name = self._unpack_note(at)
                body = at + 12 + (name_size + 3) // 4 * 4
                at = body + (body_size + 3) // 4 * 4
                if (name, what) == (b"stapsdt\0", 3) and _MARK.size < body_size < _LONGEST_NAME:
                    address, base, _ = self._unpack(_MARK, body)
                    texts = self._data.read(body + _MARK.size, body_size - _MARK.size).split(b"\0")
                    maker, mark, arguments = (text.decode("ascii", "replace") for text in [*texts, b"", b""][:3])
                    if maker == provider:
                        found.append(Mark(mark, address + (base if marked_at is None else marked_at) - base, arguments))
        return found

    def build_id(self) -> str:
        """What the linker says the content is, in hex (NT_GNU_BUILD_ID, ld(1) --build-id); "" where it doesn't.

        Raises:
            ElfError: the file is cut short.
        """
        for at, end in self._notes():
            if end - at > 16:
                name_size, body_size, what, name = self._unpack_note(at)
                if (name_size, what, name[:4]) == (4, _NT_GNU_BUILD_ID, b"GNU\0"):
                    return self._data.read(at + 16, min(body_size, _LONGEST_BUILD_ID)).hex()
        return ""

    def _sections(self) -> list[tuple[int, ...]]:
        return [self._unpack(_SECTION, self._section_at + n * _SECTION.size) for n in range(self._section_count)]

    def _section_named(self, name: str) -> tuple[int, ...] | None:
        sections = self._sections()
        if self._section_names >= len(sections):
            return None
        names, wanted = sections[self._section_names][4], name.encode() + b"\0"
        return next((one for one in sections if self._data.read(names + one[0], len(wanted)) == wanted), None)

    def _inside(self, section: tuple[int, ...]) -> tuple[int, int]:
        """Where a section begins and how many bytes it has, as far as the file has them."""
        start = min(section[4], self._data.size)
        return start, min(section[5], self._data.size - start)

    def _symbol_tables(
        self, kinds: Sequence[int] = (_SHT_DYNSYM, _SHT_SYMTAB)
    ) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        """Place and size of each symbol table and of its strings, .dynsym first, each once.

        Raises:
            ElfError: the file is cut short, or declares more than _MOST_TABLES.
        """
        sections = self._sections()
        chosen = [
            (self._inside(section), self._inside(sections[section[6]]))
            for wanted in kinds
            for section in sections
            if section[1] == wanted and section[6] < len(sections)
        ]
        distinct = dict.fromkeys(chosen)
        if len(distinct) > _MOST_TABLES:
            raise ElfError(f"the ELF file declares {len(distinct)} symbol tables")
        yield from distinct

    def _notes(self) -> Iterator[tuple[int, int]]:
        """Begin and end of each section with notes, each once.

        Raises:
            ElfError: the file is cut short, or the sections overlap.
        """
        chosen = dict.fromkeys(self._inside(section) for section in self._sections() if section[1] == _SHT_NOTE)
        if sum(size for _, size in chosen) > self._data.size:
            raise ElfError("the sections of the ELF file overlap")
        yield from ((at, at + size) for at, size in chosen)

    def _marked_at(self) -> int | None:
        """Where the mark of the file's place lies now: prelink(8) moves .stapsdt.base with the code."""
        base = self._section_named(".stapsdt.base")
        return None if base is None else base[3]

    def _unpack_note(self, offset: int) -> tuple[int, int, int, bytes]:
        try:
            return _NOTE.unpack(self._data.read(offset, _NOTE.size))
        except struct.error as error:
            raise ElfError("the ELF file is cut short") from error

    def _look_up(self, names: list[str], table: tuple[int, int], strings: tuple[int, int]) -> dict[str, Symbol]:
        wanted = {at: name for name in names for at in self._string_places(name, *strings)}
        if not wanted:
            return {}
        found = {}
        for entry in self._entries_named(list(wanted), *table):
            at, _, _, section, address, length = entry
            if section != _SHN_UNDEF:
                found[wanted[at]] = Symbol(wanted[at], address, length)
                if len(found) == len(names):
                    break
        return found

    def _entries_named(
        self, names: Sequence[int], start: int, size: int
    ) -> Iterator[tuple[int, int, int, int, int, int]]:
        """The whole entries of a symbol table whose names are at some places: found by their bytes, as a large library
        has a million others."""
        needles = [at.to_bytes(4, "little") for at in names if at < 1 << 32]
        left = b""
        for piece in self._data.pieces(start, size):
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

    def _entries(self, start: int, size: int) -> Iterator[tuple[int, int, int, int, int, int]]:
        """The whole entries of a symbol table, as far as the file has them."""
        left = b""
        for piece in self._data.pieces(start, size):
            data = left + piece
            whole = len(data) // _SYMBOL.size * _SYMBOL.size
            yield from _SYMBOL.iter_unpack(data[:whole])
            left = data[whole:]

    def _string_places(self, name: str, start: int, size: int) -> list[int]:
        """Where in a string table a name is (also as the tail of a longer one: linkers merge those)."""
        needle = name.encode() + b"\0"
        places = []
        at = self._data.find(needle, start, start + size)
        while at >= 0:
            places.append(at - start)
            at = self._data.find(needle, at + 1, start + size)
        return places

    def _unpack(self, shape: struct.Struct, offset: int) -> tuple[int, ...]:
        try:
            return shape.unpack(self._data.read(offset, shape.size))
        except struct.error as error:
            raise ElfError("the ELF file is cut short") from error


def mapped_file(pid: int, mapping: Mapping) -> Path:
    """A path of ours by which the file behind a mapping can be opened.

    Through the process's own root folder (containers); a file that was deleted or replaced only
    through map_files, which needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE (proc_pid_map_files(5)).
    """
    task = living_task(pid)
    path = Path(f"/proc/{task}/root{mapping.path}")
    try:
        same = not mapping.deleted and path.stat().st_ino == mapping.inode
    except OSError:
        same = False
    return path if same else Path(f"/proc/{task}/map_files/{mapping.start:x}-{mapping.end:x}")
