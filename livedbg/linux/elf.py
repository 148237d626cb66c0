"""Segments and sections of ELF files (elf(5)). Little-endian 64-bit files only (x86-64, aarch64)."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple

from livedbg.linux.file_bytes import FileBytes
from livedbg.linux.maps import Mapping

_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_PROGRAM: Final = struct.Struct("<IIQQQQQQ")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_PT_LOAD: Final = 1
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


class Section(NamedTuple):
    """A header of a section, as the file has it; it may promise more than there is (`ElfFile.inside`).

    Attributes:
        name: where its name is in the section of names.
        kind: SHT_ of elf(5).
        link: number of another section: for a table of symbols, that of their names.
    """

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


class SectionPlace(NamedTuple):
    """Where a section is; `address` is relative to the load bias.

    Attributes:
        size: bytes that the file has of it.
    """

    address: int
    offset: int
    size: int


class ElfFile:
    """One ELF file. A context manager; close it to let the file go.

    Args:
        path: the file.

    Attributes:
        data: its bytes.
        machine: EM_ of elf(5).

    Raises:
        OSError: it can't be opened.
        ElfError: it is not a 64-bit little-endian ELF file.
    """

    def __init__(self, path: Path | str) -> None:
        self.data = FileBytes(path)
        try:
            header = _HEADER.unpack(self.data.read(0, _HEADER.size))
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
        self.data.close()

    def segments(self) -> tuple[Segment, ...]:
        """The loadable segments in the order of the file.

        Raises:
            ElfError: the file is cut short.
        """
        found = []
        for number in range(self._program_count):
            kind, flags, offset, address, _, in_file, in_memory, _ = self.unpack(
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
                return self.data.read(segment.offset + start, size)
        return b""

    def has_section(self, name: str) -> bool:
        """Whether it has a section of a name.

        Raises:
            ElfError: the file is cut short.
        """
        return self.section_named(name) is not None

    def section_place(self, name: str) -> SectionPlace | None:
        """Where a section is; None where there is none.

        Raises:
            ElfError: the file is cut short.
        """
        found = self.section_named(name)
        return None if found is None else SectionPlace(found.address, *self.inside(found))

    def bytes_at(self, offset: int, size: int) -> bytes:
        """Bytes of the file; fewer where it ends."""
        return self.data.read(offset, size)

    def section(self, name: str, most: int) -> bytes:
        """What a section holds, as far as the file has it; b"" where there is none, or one of more than `most` bytes.

        Raises:
            ElfError: the file is cut short.
        """
        found = self.section_named(name)
        if found is None or found.size > most:
            return b""
        return self.data.read(*self.inside(found))

    def sections(self) -> list[Section]:
        """The headers of all sections.

        Raises:
            ElfError: the file is cut short.
        """
        return [
            Section(*self.unpack(_SECTION, self._section_at + n * _SECTION.size)) for n in range(self._section_count)
        ]

    def section_named(self, name: str) -> Section | None:
        """The header of the section of a name.

        Raises:
            ElfError: the file is cut short.
        """
        sections = self.sections()
        if self._section_names >= len(sections):
            return None
        names, wanted = sections[self._section_names].offset, name.encode() + b"\0"
        return next((one for one in sections if self.data.read(names + one.name, len(wanted)) == wanted), None)

    def inside(self, section: Section) -> tuple[int, int]:
        """Where a section begins and how many bytes it has, as far as the file has them."""
        start = min(section.offset, self.data.size)
        return start, min(section.size, self.data.size - start)

    def unpack(self, shape: struct.Struct, offset: int) -> tuple[int, ...]:
        """Numbers of the file.

        Raises:
            ElfError: the file is cut short.
        """
        try:
            return shape.unpack(self.data.read(offset, shape.size))
        except struct.error as error:
            raise ElfError("the ELF file is cut short") from error
