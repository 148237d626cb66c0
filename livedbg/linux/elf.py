"""Symbols and segments of ELF files (elf(5)), read through a memory map: only what is looked for.

Own code and not pyelftools: to find one name, that library decodes every symbol in Python, a second
or more in a 20 MB interpreter; here the name is found in the string table by one `mmap.find`.
Little-endian 64-bit files only (x86-64, aarch64).
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple

from livedbg.linux.maps import Mapping
from livedbg.linux.procfs import living_task

__all__ = ["ElfError", "ElfFile", "Mark", "Segment", "Symbol", "mapped_file"]

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
_LONGEST_NAME: Final = 1 << 16
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


class Symbol(NamedTuple):
    """A defined symbol; `address` is relative to the load bias."""

    name: str
    address: int
    size: int


class Mark(NamedTuple):
    """A place in the code that the file's maker marked for tracers (sys/sdt.h); `address` is relative to the load bias.

    Attributes:
        arguments: where its values are, in the words of the assembler: `8@%rdi 8@%rsi`.
    """

    name: str
    address: int
    arguments: str


class ElfFile:
    """One ELF file. A context manager; close it to let the map go.

    Args:
        path: the file.

    Raises:
        OSError: it can't be opened.
        ElfError: it is not a 64-bit little-endian ELF file.
    """

    def __init__(self, path: Path | str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if os.fstat(fd).st_size < _HEADER.size:
                raise ElfError(f"too short for an ELF file: {path}")
            self._data = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
        finally:
            os.close(fd)
        header = _HEADER.unpack_from(self._data)
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
                return self._data[segment.offset + start : segment.offset + start + size]
        return b""

    def symbols(self, names: Collection[str]) -> dict[str, Symbol]:
        """Those of `names` that the file defines: in .dynsym, or else in .symtab.

        Raises:
            ElfError: the file is cut short.
        """
        sections = [
            self._unpack(_SECTION, self._section_at + number * _SECTION.size) for number in range(self._section_count)
        ]
        found: dict[str, Symbol] = {}
        for wanted in (_SHT_DYNSYM, _SHT_SYMTAB):
            for section in sections:
                missing = [name for name in names if name not in found]
                if section[1] == wanted and missing and section[6] < len(sections):
                    strings = sections[section[6]]
                    found.update(self._look_up(missing, (section[4], section[5]), (strings[4], strings[5])))
        return found

    def symbol_at(self, address: int) -> Symbol | None:
        """The symbol of .symtab or .dynsym that begins at an address, or else one that it lies in.

        Raises:
            ElfError: the file is cut short.
        """
        around: Symbol | None = None
        for number in range(self._section_count):
            section = self._unpack(_SECTION, self._section_at + number * _SECTION.size)
            if section[1] not in {_SHT_DYNSYM, _SHT_SYMTAB} or section[6] >= self._section_count:
                continue
            strings = self._unpack(_SECTION, self._section_at + section[6] * _SECTION.size)[4]
            for name, info, _, home, value, length in self._entries(section[4], section[5]):
                inside = value <= address < value + max(length, 1)
                if inside and home != _SHN_UNDEF and name and info & 0xF not in _NO_ADDRESS:
                    text = self._data[strings + name : strings + name + _LONGEST_NAME].partition(b"\0")[0]
                    around = Symbol(text.decode("utf-8", "replace"), value, length)
                    if value == address:
                        return around
        return around

    def names(self, beginnings: Collection[str]) -> set[str]:
        """What may be names in the symbol tables and begins so, such as `_ZN3app9checkFail`.

        Some are but the ends of longer names; `symbols` tells which are names.

        Raises:
            ElfError: the file is cut short.
        """
        found: set[str] = set()
        for number in range(self._section_count):
            section = self._unpack(_SECTION, self._section_at + number * _SECTION.size)
            if section[1] not in {_SHT_DYNSYM, _SHT_SYMTAB} or section[6] >= self._section_count:
                continue
            strings = self._unpack(_SECTION, self._section_at + section[6] * _SECTION.size)
            start, end = strings[4], strings[4] + strings[5]
            for beginning in beginnings:
                needle = beginning.encode()  # with nothing before it: linkers merge a name with the tail of another
                at = self._data.find(needle, start, end)
                while at >= 0:
                    found.add(self._data[at : self._data.find(b"\0", at, end)].decode("ascii", "replace"))
                    at = self._data.find(needle, at + 1, end)
        return found

    def marks(self, provider: str) -> list[Mark]:
        """The marks of one maker; a stripped file keeps them (NT_STAPSDT in .note.stapsdt, systemtap's sys/sdt.h).

        Raises:
            ElfError: the file is cut short.
        """
        found: list[Mark] = []
        for number in range(self._section_count):
            _, kind, _, _, at, size, *_ = self._unpack(_SECTION, self._section_at + number * _SECTION.size)
            end = at + size
            while kind == _SHT_NOTE and at + _NOTE.size <= end:
                name_size, body_size, what, name = self._unpack_note(at)
                body = at + 12 + (name_size + 3) // 4 * 4
                at = body + (body_size + 3) // 4 * 4
                if (name, what) == (b"stapsdt\0", 3) and body_size > _MARK.size:
                    address, base, _ = self._unpack(_MARK, body)
                    texts = self._data[body + _MARK.size : body + body_size].split(b"\0")
                    maker, mark, arguments = (text.decode("ascii", "replace") for text in [*texts, b"", b""][:3])
                    if maker == provider:
                        found.append(Mark(mark, address + self._moved(base), arguments))
        return found

    def build_id(self) -> str:
        """What the linker says the content is, in hex (NT_GNU_BUILD_ID, ld(1) --build-id); "" where it doesn't.

        Raises:
            ElfError: the file is cut short.
        """
        for number in range(self._section_count):
            _, kind, _, _, at, size, *_ = self._unpack(_SECTION, self._section_at + number * _SECTION.size)
            if kind == _SHT_NOTE and size > 16:
                name_size, body_size, what, name = self._unpack_note(at)
                if (name_size, what, name[:4]) == (4, _NT_GNU_BUILD_ID, b"GNU\0"):
                    return self._data[at + 16 : at + 16 + body_size].hex()
        return ""

    def _moved(self, base: int) -> int:
        """How far the file was moved since its marks were made: prelink(8) moves .stapsdt.base with the code."""
        if self._section_names >= self._section_count:
            return 0
        names = self._unpack(_SECTION, self._section_at + self._section_names * _SECTION.size)[4]
        for number in range(self._section_count):
            section = self._unpack(_SECTION, self._section_at + number * _SECTION.size)
            name = b".stapsdt.base\0"
            if self._data[names + section[0] : names + section[0] + len(name)] == name:
                return section[3] - base
        return 0

    def _unpack_note(self, offset: int) -> tuple[int, int, int, bytes]:
        try:
            return _NOTE.unpack_from(self._data, offset)
        except struct.error as error:
            raise ElfError("the ELF file is cut short") from error

    def _look_up(self, names: list[str], table: tuple[int, int], strings: tuple[int, int]) -> dict[str, Symbol]:
        wanted = {at: name for name in names for at in self._string_places(name, *strings)}
        if not wanted:
            return {}
        found = {}
        for at, _, _, section, address, length in self._entries(*table):
            name = wanted.get(at)
            if name is not None and section != _SHN_UNDEF:
                found[name] = Symbol(name, address, length)
                if len(found) == len(names):
                    break
        return found

    def _entries(self, start: int, size: int) -> Iterator[tuple[int, int, int, int, int, int]]:
        """The whole entries of a symbol table, as far as the file has them."""
        data = self._data[start : start + size]
        return _SYMBOL.iter_unpack(data[: len(data) // _SYMBOL.size * _SYMBOL.size])

    def _string_places(self, name: str, start: int, size: int) -> list[int]:
        """Where in a string table a name stands (also as the tail of a longer one: linkers merge those)."""
        needle = name.encode() + b"\0"
        places = []
        at = self._data.find(needle, start, start + size)
        while at >= 0:
            places.append(at - start)
            at = self._data.find(needle, at + 1, start + size)
        return places

    def _unpack(self, shape: struct.Struct, offset: int) -> tuple[int, ...]:
        try:
            return shape.unpack_from(self._data, offset)
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
