"""ELF files (elf(5)): segments, sections, build IDs and probe marks. Little-endian 64-bit files only (x86-64, aarch64).

File contents are read by pread(2), a few bytes at a time on demand, and never mapped: a mapped file that somebody
truncates kills its reader (mmap(2), SIGBUS), and the files that livedbg reads are those of programs that run, write and
are rebuilt meanwhile.

Invariants:
    file_bytes.B1. A file that is truncated while it is read has fewer bytes from then on; nothing else happens.
    file_bytes.B2. However large the file and the part that is searched, a window of `_WINDOW` bytes is held.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple

from livedbg.linux import target_files
from livedbg.linux.maps import Mapping

_WINDOW: Final = 1 << 20
_SMALL: Final = 4096  # what is read alone


class FileBytes:
    """The bytes of a file. Close it.

    Raises:
        OSError: it can't be opened.
    """

    def __init__(self, path: Path | str) -> None:
        self._file = target_files.open_binary(path, 0)
        self.size: int = os.fstat(self._file.fileno()).st_size
        self._at = 0
        self._window = b""

    def close(self) -> None:
        self._file.close()
        self._window = b""

    def read(self, start: int, size: int) -> bytes:
        """Return some bytes; fewer if the file ends, or can't be read."""
        size = min(size, self.size - start)
        if start < 0 or size <= 0:
            return b""
        if self._at <= start and start + size <= self._at + len(self._window):
            return self._window[start - self._at : start - self._at + size]
        if size <= _SMALL:
            return self._pread(start, size)
        return b"".join(self.pieces(start, size))

    def pieces(self, start: int, size: int) -> Iterator[bytes]:
        """Yield some bytes in pieces of `_WINDOW`; the last one may be shorter."""
        end = min(start + size, self.size)
        while 0 <= start < end:
            piece = self._pread(start, min(_WINDOW, end - start))
            if not piece:
                return
            yield piece
            start += len(piece)

    def find(self, needle: bytes, start: int, end: int) -> int:
        """Return the first offset of some bytes, at most `_SMALL`, in a part of the file; -1 if not found."""
        end = min(end, self.size)
        while 0 <= start <= end - len(needle):
            if not self._at <= start <= start + len(needle) <= self._at + len(self._window):
                self._at, self._window = start, self._pread(start, _WINDOW)
            found = self._window.find(needle, start - self._at, end - self._at)
            if found >= 0:
                return self._at + found
            if len(self._window) < len(needle):
                return -1
            start = self._at + len(self._window) - len(needle) + 1
        return -1

    def _pread(self, start: int, size: int) -> bytes:
        """Read; a short read is the end of the file, or of its readable part."""
        data = b""
        try:
            while len(data) < size and (more := os.pread(self._file.fileno(), size - len(data), start + len(data))):
                data += more
        except OSError:
            pass
        return data


_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_PROGRAM: Final = struct.Struct("<IIQQQQQQ")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_PT_LOAD: Final = 1
_PAGE: Final = mmap.PAGESIZE


class ElfError(ValueError):
    """The file is no ELF file that we can read, or is damaged."""


class Segment(NamedTuple):
    """A PT_LOAD segment; `address` is relative to the load bias."""

    offset: int
    address: int
    file_size: int
    memory_size: int
    flags: int


class Section(NamedTuple):
    """A section header, as the file has it; it may exceed the file (`ElfFile.inside`).

    Attributes:
        kind: SHT_ of elf(5).
        link: number of another section: for a symbol table, that of its names.
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
    """Location of a section; `address` is relative to the load bias."""

    address: int
    offset: int
    size: int


class ElfFile:
    """An ELF file. A context manager, or close it. Its methods raise ElfError if the file is cut short.

    Attributes:
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
        self.data.close()

    def segments(self) -> tuple[Segment, ...]:
        """Return the loadable segments in the order of the file."""
        found = []
        for number in range(self._program_count):
            kind, flags, offset, address, _, in_file, in_memory, _ = self.unpack(
                _PROGRAM, self._program_at + number * _PROGRAM.size
            )
            if kind == _PT_LOAD:
                found.append(Segment(offset, address, in_file, in_memory, flags))
        return tuple(found)

    def load_bias(self, mappings: Sequence[Mapping]) -> int | None:
        """Return process address minus file address; None if no mapping fits a segment."""
        for segment in self.segments():
            for mapping in mappings:
                if mapping.offset == segment.offset // _PAGE * _PAGE:
                    return mapping.start - segment.address // _PAGE * _PAGE
        return None

    def initial(self, address: int, size: int) -> bytes:
        """Return the bytes that the file loads at an address, before relocation; b"" if none."""
        for segment in self.segments():
            start = address - segment.address
            if start >= 0 and start + size <= segment.file_size:
                return self.data.read(segment.offset + start, size)
        return b""

    def has_section(self, name: str) -> bool:
        return self.section_named(name) is not None

    def section_place(self, name: str) -> SectionPlace | None:
        """Return the location of a section, or None."""
        found = self.section_named(name)
        return None if found is None else SectionPlace(found.address, *self.inside(found))

    def bytes_at(self, offset: int, size: int) -> bytes:
        """Return bytes of the file; fewer if it ends."""
        return self.data.read(offset, size)

    def section(self, name: str, most: int) -> bytes:
        """Return the content of a section, as far as the file has it; b"" if missing or larger than `most` bytes."""
        found = self.section_named(name)
        if found is None or found.size > most:
            return b""
        return self.data.read(*self.inside(found))

    def sections(self) -> list[Section]:
        return [
            Section(*self.unpack(_SECTION, self._section_at + n * _SECTION.size)) for n in range(self._section_count)
        ]

    def section_named(self, name: str) -> Section | None:
        """Return the header of the section of that name, or None."""
        sections = self.sections()
        if self._section_names >= len(sections):
            return None
        names, wanted = sections[self._section_names].offset, name.encode() + b"\0"
        return next((one for one in sections if self.data.read(names + one.name, len(wanted)) == wanted), None)

    def inside(self, section: Section) -> tuple[int, int]:
        """Return offset and size of a section, clipped to the file."""
        start = min(section.offset, self.data.size)
        return start, min(section.size, self.data.size - start)

    def unpack(self, shape: struct.Struct, offset: int) -> tuple[Any, ...]:
        """Unpack a struct at an offset."""
        try:
            return shape.unpack(self.data.read(offset, shape.size))
        except struct.error as error:
            raise ElfError("the ELF file is cut short") from error


_SHT_NOTE: Final = 7
_NT_GNU_BUILD_ID: Final = 3
_NOTE: Final = struct.Struct("<III8s")
_MARK: Final = struct.Struct("<QQQ")
_LONGEST_MARK: Final = 1 << 16
_LONGEST_BUILD_ID: Final = 64


class Mark(NamedTuple):
    """A place in the code that the file's maker marked for tracers (sys/sdt.h); `address` is relative to the load bias.

    `arguments` are locations of its values, in assembler syntax: `8@%rdi 8@%rsi`.
    """

    name: str
    address: int
    arguments: str


def read_marks(elf: ElfFile, provider: str) -> list[Mark]:
    """Return the marks of one provider; a stripped file keeps them (NT_STAPSDT in .note.stapsdt, systemtap's
    sys/sdt.h).
    """
    found: list[Mark] = []
    moved = elf.section_named(".stapsdt.base")  # prelink(8) moves it with the code
    for start, end in _notes(elf):
        at = start
        while at + _NOTE.size <= end:
            name_size, body_size, what, name = elf.unpack(_NOTE, at)
            body = at + 12 + (name_size + 3) // 4 * 4
            at = body + (body_size + 3) // 4 * 4
            if (name, what) == (b"stapsdt\0", 3) and _MARK.size < body_size < _LONGEST_MARK:
                address, base, _ = elf.unpack(_MARK, body)
                texts = elf.data.read(body + _MARK.size, body_size - _MARK.size).split(b"\0")
                maker, mark, arguments = (text.decode("ascii", "replace") for text in [*texts, b"", b""][:3])
                if maker == provider:
                    found.append(Mark(mark, address + (base if moved is None else moved.address) - base, arguments))
    return found


def read_build_id(elf: ElfFile) -> str:
    """Return the build ID in hex (NT_GNU_BUILD_ID, ld(1) --build-id), or ""."""
    for at, end in _notes(elf):
        if end - at > 16:
            name_size, body_size, what, name = elf.unpack(_NOTE, at)
            if (name_size, what, name[:4]) == (4, _NT_GNU_BUILD_ID, b"GNU\0"):
                return elf.data.read(at + 16, min(body_size, _LONGEST_BUILD_ID)).hex()
    return ""


def _notes(elf: ElfFile) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each section with notes, each once.

    Raises:
        ElfError: the file is cut short, or the sections overlap.
    """
    chosen = dict.fromkeys(elf.inside(section) for section in elf.sections() if section.kind == _SHT_NOTE)
    if sum(size for _, size in chosen) > elf.data.size:
        raise ElfError("the sections of the ELF file overlap")
    yield from ((at, at + size) for at, size in chosen)
