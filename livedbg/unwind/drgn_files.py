"""Gives files and their load addresses to drgn, and keeps drgn's programs from one request to the next.

drgn looks for no file by itself, and asks no server. Imported in the unwinding process only.

Unwind tables that drgn overlooks: LLVM gives `.eh_frame` a section type of its own (SHT_X86_64_UNWIND, x86-64 ABI).
drgn 0.3 reads only tables of the ordinary type, and would guess by frame pointers. So it gets a copy in memory of the
file's headers and tables in which they have that type. The copy is as small as its contents, since drgn maps all of it
for each process that it unwinds.

Separate debug files: drgn would open them by itself, as root. They are found by build id and by `.gnu_debuglink`, in
the folders that gdb searches ("Debugging Information in Separate Files"), of this host and of the process's container;
so is the file that dwz made for several of them.

Reading unwind tables takes most of the time of an unwinding: those of a large library are some ten megabytes. A kept
program has them; it reads the memory of the current request.

Invariants:
    programs.P1. A program is used again only where each file that was opened in it is mapped, at the same addresses and
        with the same content. Processes that were forked from one another share a program.
    programs.P2. At most `MOST` are kept, those that were used last.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as Table
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import drgn

from livedbg.linux import registers as machine
from livedbg.linux import target_files
from livedbg.linux.elf import ElfError, ElfFile
from livedbg.linux.maps import Mapping
from livedbg.unwind.modules import Module, Modules
from livedbg.unwind.wire import CopiedStacks, Request

_DEBUG: Final = "/usr/lib/debug"
_LINK: Final = ".gnu_debuglink"
_MOST: Final = 4096  # bytes of a link
_PIECE: Final = 1 << 20


def add_debug_file(made: drgn.Module, module: Module) -> None:
    """Give drgn the separate debug file of a module, if there is one."""
    file = str(module.file)
    root, folders = _folders(file)
    if (build_id := made.build_id) is not None:
        for path in _by_id(build_id.hex(), folders):
            _try(made, path)
    else:
        for path, crc in _by_link(module.file, file.removeprefix(root), folders):
            if _wants(made) and _crc(path) == crc:
                _try(made, path, force=True)
    if build_id is not None and _wants(made):
        for path, _ in _by_link(module.file, file.removeprefix(root), folders):
            _try(made, path)
    if made.debug_file_status is drgn.ModuleFileStatus.WANT_SUPPLEMENTARY:
        wanted = made.wanted_supplementary_debug_file()
        named = os.path.join(os.path.dirname(wanted.path), wanted.supplementary_path)  # noqa: PTH118, PTH120
        inside = [f"{root}{named}"] if not named.startswith(f"{root}/") else []
        for path in (*inside, named, *_by_id(wanted.checksum.hex(), folders)):
            if made.debug_file_status is drgn.ModuleFileStatus.WANT_SUPPLEMENTARY:
                _try(made, path)


def _wants(made: drgn.Module) -> bool:
    return made.debug_file_status is drgn.ModuleFileStatus.WANT


def _try(made: drgn.Module, path: str, *, force: bool = False) -> None:
    """Offer a file to drgn, which takes it if it has the same build id."""
    if made.debug_file_status is not drgn.ModuleFileStatus.HAVE:
        with contextlib.suppress(OSError, ValueError):
            made.try_file(path, fd=target_files.open_fd(path), force=force)  # drgn closes it


def separate_files(file: Path, build_id: str) -> list[Path]:
    """Return the paths at which the separate debug file of a file with a build id (hexadecimal) may be."""
    return [Path(path) for path in _by_id(build_id, _folders(str(file))[1])] if build_id else []


def _folders(file: str) -> tuple[str, tuple[str, ...]]:
    """Return the root of the mount namespace through which we see a file ("": ours), and the folders to search."""
    root = f"{file.partition('/root/')[0]}/root" if file.startswith("/proc/") and "/root/" in file else ""
    return root, tuple(dict.fromkeys((f"{root}{_DEBUG}", _DEBUG)))


def _by_id(build_id: str, folders: tuple[str, ...]) -> Iterator[str]:
    return (f"{folder}/.build-id/{build_id[:2]}/{build_id[2:]}.debug" for folder in folders)


def _by_link(file: Path, named: str, folders: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    """Yield possible paths of the file that `.gnu_debuglink` names, each with the expected checksum.

    `file` is a path of ours to the linking file, `named` that of the process.
    """
    try:
        with ElfFile(file) as elf:
            data = elf.section(_LINK, _MOST)
    except (OSError, ElfError):
        return
    name, crc = os.fsdecode(data.partition(b"\0")[0]), int.from_bytes(data[-4:], "little")
    if not name or "/" in name:
        return
    beside, there = file.parent, os.path.dirname(named)  # noqa: PTH120 (text of the process)
    for place in (f"{beside}/{name}", f"{beside}/.debug/{name}", *(f"{folder}{there}/{name}" for folder in folders)):
        yield place, crc


def _crc(path: str) -> int:
    crc = 0
    try:
        with target_files.open_binary(path, 0) as file:
            while data := file.read(_PIECE):
                crc = zlib.crc32(data, crc)
    except OSError:
        return -1
    return crc


_HEADER: Final = 64
_SECTION: Final = 64
_ALIGNED: Final = 64  # greatest alignment of a section that is kept
_PROGBITS, _NOTE, _NOBITS, _UNWIND = 1, 7, 8, 0x70000001
_MOST_SECTIONS: Final = 4096
_MOST_BYTES: Final = 64 << 20


def readable_tables(file: Path) -> int:
    """Return a descriptor of a copy with tables that drgn reads; -1 if the file needs none, or has no tables.

    Raises:
        OSError: the file can't be read.
    """
    with target_files.open_binary(file) as source:
        fd = source.fileno()
        header = os.pread(fd, 64, 0)
        if len(header) < 64:
            return -1
        programs_at, sections_at = struct.unpack_from("<QQ", header, 32)
        program_size, programs, section_size, sections, names = struct.unpack_from("<5H", header, 54)
        table = bytearray(os.pread(fd, _SECTION * sections, sections_at))
        if section_size != _SECTION or sections > _MOST_SECTIONS or len(table) != _SECTION * sections:
            return -1
        heads = os.pread(fd, program_size * programs, programs_at)
        table_at = _aligned(_HEADER + len(heads))
        kept = [(0, header[:32] + struct.pack("<QQ", _HEADER, table_at) + header[48:]), (_HEADER, heads)]
        end = table_at + len(table)
        found = False
        for number in range(sections):
            _, kind, _, _, offset, size = struct.unpack_from("<IIQQQQ", table, number * _SECTION)
            if size > _MOST_BYTES and kind == _UNWIND:
                return -1
            if kind in (_UNWIND, _NOTE) or number == names:
                end = _aligned(end)
                kept.append((end, os.pread(fd, min(size, _MOST_BYTES), offset)))
                struct.pack_into("<Q", table, number * _SECTION + 24, end)
                end += len(kept[-1][1])
            if kind in (_UNWIND, _PROGBITS):
                struct.pack_into("<I", table, number * _SECTION + 4, _PROGBITS if kind == _UNWIND else _NOBITS)
            found = found or kind == _UNWIND
        if not found:
            return -1
        made = os.memfd_create("unwind", os.MFD_CLOEXEC)
        os.ftruncate(made, end)
        for offset, data in (*kept, (table_at, bytes(table))):
            os.pwrite(made, data, offset)
        return made


def _aligned(offset: int) -> int:
    return (offset + _ALIGNED - 1) & -_ALIGNED


_FINDERS: Final = ("standard",)  # not debuginfod
_PAGE: Final = 4096


def new_program(platform: drgn.Platform | None = None) -> drgn.Program:
    """Create a drgn program that makes no network requests."""
    program = drgn.Program(platform)
    program.set_enabled_debug_info_finders(_FINDERS)
    return program


def add_file(
    program: drgn.Program, module: Module, bias: int, *, debug: bool, unwinds: bool = False
) -> drgn.Module | None:
    """Add a file to a program; return None if drgn can't read it.

    With `debug`, also its debug information, its own or in a separate file of this host or of the process's container.
    """
    try:
        with ElfFile(module.file) as elf:
            segments = elf.segments()
        if not segments:
            return None
        tables = readable_tables(module.file) if unwinds else -1
    except (OSError, ElfError):
        return None
    low = min(segment.address for segment in segments)
    high = max(segment.address + segment.memory_size for segment in segments)
    try:
        return _added(program, module, bias, (low, high), tables, debug=debug)
    except OSError:
        return None
    finally:
        if tables >= 0:
            os.close(tables)


def _added(
    program: drgn.Program, module: Module, bias: int, span: tuple[int, int], tables: int, *, debug: bool
) -> drgn.Module | None:
    low, high = span
    for number, start in enumerate(dict.fromkeys((low, low & -_PAGE))):
        made = program.extra_module(f"{module.file}#{number}", bias, create=True)
        made.address_range = (bias + start, bias + high)
        if not debug:
            made.debug_file_status = drgn.ModuleFileStatus.DONT_WANT
        if tables >= 0:  # drgn closes it
            made.try_file(str(module.file), fd=os.dup(tables))
        made.try_file(str(module.file), fd=target_files.open_fd(module.file))
        if made.loaded_file_bias == bias:
            if debug and made.debug_file_status is not drgn.ModuleFileStatus.HAVE:
                add_debug_file(made, module)
            return made
        made.address_ranges = ()  # for drgn it begins elsewhere
    return None


MOST: Final = 4
"""Programs that are kept: that of a process with libraries of gigabytes takes some 40 MB."""

_EVERYWHERE: Final = (1 << 64) - 1
_WORD: Final = 8


class _Place(NamedTuple):
    """The place of a file in a process; `start` is the address that the first byte of the file would have."""

    path: str
    device: str
    inode: int
    start: int

    @classmethod
    def of(cls, mapping: Mapping) -> _Place:
        return cls(mapping.path, mapping.device, mapping.inode, mapping.start - mapping.offset)


class KeptProgram:
    """A drgn program that serves one request after another."""

    def __init__(self, *, debug: bool) -> None:
        self.debug = debug
        self.stacks = CopiedStacks()
        self.program = new_program(drgn.host_platform)
        self.program.add_memory_segment(0, _EVERYWHERE, partial(_read, self.stacks))
        words = self.program.array_type(self.program.int_type("unsigned long", _WORD, False), machine.COUNT)
        members = [drgn.TypeMember(words, "words", 0)]
        self._registers = self.program.struct_type("pt_regs", _WORD * machine.COUNT, members)
        self._opened: dict[_Place, tuple[int, int]] = {}

    def open(self, module: Module, *, debug: bool) -> bool:
        """Add a file to the program; return True if it was not there yet, and can be used."""
        place = _Place.of(module.code)
        if place in self._opened:
            return False
        self._opened[place] = _content(module.file)
        return add_file(self.program, module, module.bias, debug=debug, unwinds=True) is not None

    def fits(self, mapped: Table[_Place, Mapping], modules: Modules) -> bool:
        """Return whether all files of the program are mapped at the same addresses, unchanged (P1)."""
        return all(
            place in mapped and _content(modules.opened(mapped[place])) == content
            for place, content in self._opened.items()
        )

    def stack(self, registers: Sequence[int]) -> drgn.StackTrace:
        """Unwind from the given registers, with the files that were opened so far."""
        return self.program.stack_trace(drgn.Object(self.program, self._registers, {"words": registers}))


class Programs:
    """The kept programs."""

    def __init__(self) -> None:
        self._kept: list[KeptProgram] = []

    def of(self, request: Request, modules: Modules) -> KeptProgram:
        """Return a program for a request; a fresh one if variables are to be read: these need all debug information."""
        if request.values:
            return KeptProgram(debug=request.debug)
        mapped = {_Place.of(mapping): mapping for mapping in modules.code}
        found = next((one for one in self._kept if one.debug == request.debug and one.fits(mapped, modules)), None)
        if found is None:
            found = KeptProgram(debug=request.debug)
        self._kept = [found, *(one for one in self._kept if one is not found)][:MOST]
        return found


def _content(file: Path) -> tuple[int, int]:
    try:
        stat = target_files.status(file)
    except OSError:
        return -1, -1
    return stat.st_size, stat.st_mtime_ns


def _read(stacks: CopiedStacks, address: int, size: int, _offset: int, _physical: bool) -> bytes:
    try:
        return stacks.read(address, size)
    except LookupError as error:
        raise drgn.FaultError(str(error), address) from None
