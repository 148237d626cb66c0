"""Notes of ELF files: what the linker says the content is, and places in the code that are marked for tracers."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from livedbg.linux.elf import ElfError, ElfFile

_SHT_NOTE: Final = 7
_NT_GNU_BUILD_ID: Final = 3
_NOTE: Final = struct.Struct("<III8s")
_MARK: Final = struct.Struct("<QQQ")
_LONGEST_MARK: Final = 1 << 16
_LONGEST_BUILD_ID: Final = 64


class Mark(NamedTuple):
    """A place in the code that the file's maker marked for tracers (sys/sdt.h); `address` is relative to the load bias.

    Attributes:
        arguments: where its values are, in the words of the assembler: `8@%rdi 8@%rsi`.
    """

    name: str
    address: int
    arguments: str


def read_marks(elf: ElfFile, provider: str) -> list[Mark]:
    """The marks of one maker; a stripped file keeps them (NT_STAPSDT in .note.stapsdt, systemtap's sys/sdt.h).

    Raises:
        ElfError: the file is cut short.
    """
    found: list[Mark] = []
    marked_at = _marked_at(elf)
    for start, end in _notes(elf):
        at = start
        while at + _NOTE.size <= end:
            name_size, body_size, what, name = _unpack_note(elf, at)
            body = at + 12 + (name_size + 3) // 4 * 4
            at = body + (body_size + 3) // 4 * 4
            if (name, what) == (b"stapsdt\0", 3) and _MARK.size < body_size < _LONGEST_MARK:
                address, base, _ = elf.unpack(_MARK, body)
                texts = elf.data.read(body + _MARK.size, body_size - _MARK.size).split(b"\0")
                maker, mark, arguments = (text.decode("ascii", "replace") for text in [*texts, b"", b""][:3])
                if maker == provider:
                    found.append(Mark(mark, address + (base if marked_at is None else marked_at) - base, arguments))
    return found


def read_build_id(elf: ElfFile) -> str:
    """What the linker says the content is, in hex (NT_GNU_BUILD_ID, ld(1) --build-id); "" where it doesn't.

    Raises:
        ElfError: the file is cut short.
    """
    for at, end in _notes(elf):
        if end - at > 16:
            name_size, body_size, what, name = _unpack_note(elf, at)
            if (name_size, what, name[:4]) == (4, _NT_GNU_BUILD_ID, b"GNU\0"):
                return elf.data.read(at + 16, min(body_size, _LONGEST_BUILD_ID)).hex()
    return ""


def _notes(elf: ElfFile) -> Iterator[tuple[int, int]]:
    """Begin and end of each section with notes, each once.

    Raises:
        ElfError: the file is cut short, or the sections overlap.
    """
    chosen = dict.fromkeys(elf.inside(section) for section in elf.sections() if section.kind == _SHT_NOTE)
    if sum(size for _, size in chosen) > elf.data.size:
        raise ElfError("the sections of the ELF file overlap")
    yield from ((at, at + size) for at, size in chosen)


def _marked_at(elf: ElfFile) -> int | None:
    """Where the mark of the file's place lies now: prelink(8) moves .stapsdt.base with the code."""
    base = elf.section_named(".stapsdt.base")
    return None if base is None else base.address


def _unpack_note(elf: ElfFile, offset: int) -> tuple[int, int, int, bytes]:
    try:
        return _NOTE.unpack(elf.data.read(offset, _NOTE.size))
    except struct.error as error:
        raise ElfError("the ELF file is cut short") from error
