"""Programs of drgn's that are kept from one request to the next. Imported in the unwinding process only.

What takes the time of an unwinding is drgn's reading of unwind tables: those of a large library are some ten megabytes.
A program has them until it is let go of; it reads the memory of the request that is being answered.

Invariants:
    programs.P1. A program is used again only where each file that was opened in it is mapped, at the same addresses
        and with the same content. Processes that were forked from one another share a program.
    programs.P2. At most `MOST` are kept, those that were used last.
"""

from __future__ import annotations

from collections.abc import Mapping as Table
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import drgn

from livedbg.linux import registers as machine
from livedbg.linux import target_files
from livedbg.linux.maps import Mapping
from livedbg.unwind.copied_stacks import CopiedStacks
from livedbg.unwind.drgn_files import add_file, new_program
from livedbg.unwind.modules import Module, Modules
from livedbg.unwind.wire import Request

MOST: Final = 4
"""Programs that are kept: that of a process with libraries of gigabytes takes some 40 MB."""

_EVERYWHERE: Final = (1 << 64) - 1
_WORD: Final = 8


class _Place(NamedTuple):
    """Where a file is mapped.

    Attributes:
        start: the address that its first byte would have.
    """

    path: str
    device: str
    inode: int
    start: int

    @classmethod
    def of(cls, mapping: Mapping) -> _Place:
        """That of the file of a mapping."""
        return cls(mapping.path, mapping.device, mapping.inode, mapping.start - mapping.offset)


class KeptProgram:
    """A program that can be used for one request after another.

    Args:
        debug: as the requests have it.
    """

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
        """Have a file in the program; whether it was not there yet, and can be used."""
        place = _Place.of(module.code)
        if place in self._opened:
            return False
        self._opened[place] = _content(module.file)
        return add_file(self.program, module, module.bias, debug=debug, unwinds=True) is not None

    def fits(self, mapped: Table[_Place, Mapping], modules: Modules) -> bool:
        """Whether all of its files are mapped so (P1)."""
        return all(
            place in mapped and _content(modules.opened(mapped[place])) == content
            for place, content in self._opened.items()
        )

    def stack(self, registers: Sequence[int]) -> drgn.StackTrace:
        """The stack from some registers on, as far as the files that were opened tell it."""
        return self.program.stack_trace(drgn.Object(self.program, self._registers, {"words": registers}))


class Programs:
    """The programs that are kept."""

    def __init__(self) -> None:
        self._kept: list[KeptProgram] = []

    def of(self, request: Request, modules: Modules) -> KeptProgram:
        """A program for a request; one of its own where variables are to be read: these need all debug information."""
        if request.values:
            return KeptProgram(debug=request.debug)
        mapped = {_Place.of(mapping): mapping for mapping in modules.code}
        found = next((one for one in self._kept if one.debug == request.debug and one.fits(mapped, modules)), None)
        if found is None:
            found = KeptProgram(debug=request.debug)
        self._kept = [found, *(one for one in self._kept if one is not found)][:MOST]
        return found


def _content(file: Path) -> tuple[int, int]:
    """By what it is known that a file was changed: its size, and when."""
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
