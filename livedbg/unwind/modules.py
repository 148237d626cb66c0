"""The ELF files that are mapped into a process: which one an address belongs to, and where it is loaded.

Names of code that no symbol names: in deleted files, and in memory that no file backs. Programs that load generated
code leave such.

What a file or a function is, only the system knows that made it; the session passes the functions that systems declare.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from livedbg.linux import memory, target_files
from livedbg.linux.elf import ElfError, ElfFile
from livedbg.linux.mapped_files import mapped_file
from livedbg.linux.maps import Mapping, copies, parse_maps


class NamedCode(NamedTuple):
    """A function in memory that no file backs.

    Attributes:
        function: its name.
        file: of its source; "" where that isn't known.
        line: in it.
    """

    function: str
    file: str = ""
    line: int | None = None


Labeller: TypeAlias = Callable[[int, str], str | None]
"""Takes a process and the base name of a deleted file; gives what stacks show instead, or None."""

CodeNamer: TypeAlias = Callable[[int, int], NamedCode | None]
"""Takes a process and an address in memory that no file backs; gives the function there, or None."""

_labellers: list[Labeller] = []
_namers: list[CodeNamer] = []


def use_labellers(labellers: Iterable[Labeller]) -> None:
    """Label deleted files by these functions from now on."""
    _labellers[:] = labellers


def label_of(pid: int, file: str) -> str | None:
    """The label of a deleted file that a process has mapped; None if nobody knows it."""
    return next((label for labeller in _labellers if (label := labeller(pid, file)) is not None), None)


def use_namers(namers: Iterable[CodeNamer]) -> None:
    """Name code that no file backs by these functions from now on."""
    _namers[:] = namers


def code_name(pid: int, address: int) -> NamedCode | None:
    """The function at an address in memory that no file backs; None if nobody knows it."""
    return next((name for namer in _namers if (name := namer(pid, address)) is not None), None)


_VDSO: Final = "[vdso]"


@dataclass(frozen=True, slots=True)
class Module:
    """One mapped ELF file.

    Attributes:
        name: base name of its path in the process.
        file: a path of ours by which it can be opened.
        bias: what was added to its addresses when it was loaded.
        inode: of the file: after an exec another one may have the same name of ours.
        code: a mapping of its code.
    """

    name: str
    file: Path
    bias: int
    inode: int
    code: Mapping = field(compare=False)


class Modules:
    """The mapped files of one process.

    Args:
        pid: the process.
        mappings: its mappings in rising order of address.

    Attributes:
        code: those of code.
    """

    def __init__(self, pid: int, mappings: Sequence[Mapping]) -> None:
        self._pid = pid
        self._files = [mapping for mapping in mappings if mapping.path.startswith("/")]
        self.code = [mapping for mapping in mappings if mapping.executable]
        self._starts = [mapping.start for mapping in self.code]
        self._modules: dict[tuple[str, int], Module | None] = {}  # by path and first address
        self._copies: dict[str, list[list[Mapping]]] = {}
        self._opened: dict[tuple[str, int], Path] = {}

    def mapping_at(self, address: int) -> Mapping | None:
        """The mapping of code that holds an address."""
        place = bisect_right(self._starts, address) - 1
        return self.code[place] if place >= 0 and address < self.code[place].end else None

    def at(self, address: int) -> Module | None:
        """The file whose code an address is in; None for other memory and for what is no ELF file."""
        mapping = self.mapping_at(address)
        if mapping is None or not (mapping.path.startswith("/") or mapping.path == _VDSO):
            return None
        copy = self._copy(mapping)
        key = (mapping.path, copy[0].start)
        if key not in self._modules:
            self._modules[key] = self._open(mapping, copy)
        return self._modules[key]

    def overlaid(self, module: Module) -> bool:
        """Whether another file's code lies now where a file's code lay earlier (execve(2), dlclose(3))."""
        code = module.code
        place = bisect_right(self._starts, code.start) - 1
        for other in self.code[max(place, 0) :]:
            if other.start >= code.end:
                break
            if other.end > code.start and _identity(other) != _identity(code):
                return True
        return False

    def name_at(self, address: int) -> str | None:
        """Base name of the file, or `[vdso]` and the like, that an address is in; a deleted file by its label."""
        mapping = self.mapping_at(address)
        if mapping is None:
            return None
        name = Path(mapping.path).name
        return (label_of(self._pid, name) if mapping.deleted else None) or name or None

    def code_at(self, address: int) -> NamedCode | None:
        """The function at an address in memory that no file backs, if a system knows it."""
        mapping = self.mapping_at(address)
        return code_name(self._pid, address) if mapping is not None and not mapping.path else None

    def opened(self, mapping: Mapping) -> Path:
        """A path by which the file of a mapping can be opened: its own where that is the same file."""
        key = (mapping.path, mapping.inode)
        if key not in self._opened:
            own = Path(mapping.path)
            try:
                same = not mapping.deleted and target_files.status(own).st_ino == mapping.inode
            except OSError:
                same = False
            self._opened[key] = own if same else mapped_file(self._pid, mapping)
        return self._opened[key]

    def _copy(self, mapping: Mapping) -> list[Mapping]:
        """All mappings of the file that were made with this one: a file may be loaded several times."""
        if mapping.path not in self._copies:
            self._copies[mapping.path] = copies([other for other in self._files if other.path == mapping.path])
        return next((copy for copy in self._copies[mapping.path] if mapping in copy), [mapping])

    def _open(self, mapping: Mapping, copy: Sequence[Mapping]) -> Module | None:
        if mapping.path == _VDSO:
            file = _vdso()
            return None if file is None else Module(_VDSO, file, mapping.start, 0, mapping)
        file = self.opened(mapping)
        try:
            with ElfFile(file) as elf:
                bias = elf.load_bias(copy)
        except (OSError, ElfError, ValueError):
            return None
        return None if bias is None else Module(Path(mapping.path).name, file, bias, mapping.inode, mapping)


def _identity(mapping: Mapping) -> tuple[str, int, int]:
    """What two mappings have in common that are parts of one copy of a file."""
    return mapping.device, mapping.inode, mapping.start - mapping.offset


@cache
def _vdso() -> Path | None:
    """A file with the code that the kernel maps into every process for calls such as clock_gettime (vdso(7)): a copy
    of our own, which is the same as the target's; None where there is none. It ends with us."""
    own = next((mapping for mapping in parse_maps(os.getpid()) if mapping.path == _VDSO), None)
    if own is None:
        return None
    try:
        fd = os.memfd_create("vdso", os.MFD_CLOEXEC)
        os.write(fd, memory.read(os.getpid(), own.start, own.end - own.start))
    except OSError:
        return None
    return Path(f"/proc/{os.getpid()}/fd/{fd}")
