"""The ELF files mapped into a process: which one holds an address, and its load bias.

Code without symbols, in deleted files and in memory that no file backs, is named by functions that systems declare:
only the system that generated such code knows it.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct

from livedbg.linux import memory, target_files
from livedbg.linux.elf import ElfError, ElfFile
from livedbg.linux.mapped_files import mapped_file
from livedbg.linux.maps import Mapping, copies, parse_maps


class NamedCode(NamedTuple):
    """A function in memory that no file backs."""

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
    """Set the functions that label deleted files."""
    _labellers[:] = labellers


def label_of(pid: int, file: str) -> str | None:
    """Return the label of a deleted file that a process has mapped, or None."""
    return next((label for labeller in _labellers if (label := labeller(pid, file)) is not None), None)


def use_namers(namers: Iterable[CodeNamer]) -> None:
    """Set the functions that name code that no file backs."""
    _namers[:] = namers


def code_name(pid: int, address: int) -> NamedCode | None:
    """Return the function at an address in memory that no file backs, or None."""
    return next((name for namer in _namers if (name := namer(pid, address)) is not None), None)


_VDSO: Final = "[vdso]"


class Module(Struct, frozen=True, eq=False):
    """A mapped ELF file, one object for each that `Modules` has found.

    Attributes:
        name: base name of its path in the process.
        file: a path by which we can open it.
        inode: tells it from another file of the same `file`, after an exec.
        code: a mapping of its code.
    """

    name: str
    file: Path
    bias: int
    inode: int
    code: Mapping


class Modules:
    """The mapped files of one process, from mappings by rising address; `code` are the executable ones."""

    def __init__(self, pid: int, mappings: Sequence[Mapping]) -> None:
        self._pid = pid
        self._files = [mapping for mapping in mappings if mapping.path.startswith("/")]
        self.code = [mapping for mapping in mappings if mapping.executable]
        self._starts = [mapping.start for mapping in self.code]
        self._modules: dict[tuple[str, int], Module | None] = {}  # by path and first address
        self._copies: dict[str, list[list[Mapping]]] = {}
        self._opened: dict[tuple[str, int], Path] = {}

    def mapping_at(self, address: int) -> Mapping | None:
        """Return the executable mapping that holds an address."""
        place = bisect_right(self._starts, address) - 1
        return self.code[place] if place >= 0 and address < self.code[place].end else None

    def at(self, address: int) -> Module | None:
        """Return the file whose code holds an address; None for other memory and for files that aren't ELF."""
        mapping = self.mapping_at(address)
        if mapping is None or not (mapping.path.startswith("/") or mapping.path == _VDSO):
            return None
        copy = self._copy(mapping)
        key = (mapping.path, copy[0].start)
        if key not in self._modules:
            self._modules[key] = self._open(mapping, copy)
        return self._modules[key]

    def overlaid(self, module: Module) -> bool:
        """Return whether another file's code now lies where a module's code was (execve(2), dlclose(3))."""
        code = module.code
        place = bisect_right(self._starts, code.start) - 1
        for other in self.code[max(place, 0) :]:
            if other.start >= code.end:
                break
            if other.end > code.start and _identity(other) != _identity(code):
                return True
        return False

    def name_at(self, address: int) -> str | None:
        """Return the base name of the file at an address, or `[vdso]` and the like; the label of a deleted file."""
        mapping = self.mapping_at(address)
        if mapping is None:
            return None
        name = Path(mapping.path).name
        return (label_of(self._pid, name) if mapping.deleted else None) or name or None

    def code_at(self, address: int) -> NamedCode | None:
        """Return the function at an address in memory that no file backs, or None."""
        mapping = self.mapping_at(address)
        return code_name(self._pid, address) if mapping is not None and not mapping.path else None

    def opened(self, mapping: Mapping) -> Path:
        """Return a path by which the file of a mapping can be opened: its own path where that is the same file."""
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
        """Return all mappings made together with this one: a file may be loaded several times."""
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
    return mapping.device, mapping.inode, mapping.start - mapping.offset


@cache
def _vdso() -> Path | None:
    """Return a file with our own vdso (vdso(7)), which is the same as the target's, or None. It ends with us."""
    own = next((mapping for mapping in parse_maps(os.getpid()) if mapping.path == _VDSO), None)
    if own is None:
        return None
    try:
        fd = os.memfd_create("vdso", os.MFD_CLOEXEC)
        os.write(fd, memory.read(os.getpid(), own.start, own.end - own.start))
    except OSError:
        return None
    return Path(f"/proc/{os.getpid()}/fd/{fd}")
