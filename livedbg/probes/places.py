"""Finds the traced functions in every file that a process has loaded.

libstdc++ and libc++abi export the functions that exceptions go through under the same names (Itanium C++ ABI: exception
handling, 2.4). Some libraries have a runtime of their own, hidden or linked statically: it is found by their symbol
table, if they kept one, or by the marks for tracers that libstdc++ has in its functions (libsupc++/eh_throw.cc,
PROBE2), which stripping leaves. cuBLAS, cuFFT, cuSOLVER and four more libraries are found so.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from livedbg.linux.elf import ElfError, ElfFile, read_marks
from livedbg.linux.elf_symbols import defined_symbols, possible_names
from livedbg.linux.mapped_files import mapped_file
from livedbg.linux.maps import Mapping, copies, parse_maps
from livedbg.text.patterns import lazy_re


class Place(NamedTuple):
    """File offset of a function's first instruction, or of its mark for tracers; `path` is one that we can open."""

    path: str
    offset: int


_MARKS: Final = {"__cxa_throw": ("throw", "8@%rdi 8@%rsi"), "__cxa_rethrow": ("rethrow", "")}
"""Functions of the runtime that libstdc++ marks: the name of the mark, and where its arguments must be: as at the
function's beginning. That of `__cxa_begin_catch` has them elsewhere."""

_WORD: Final = lazy_re(r"[A-Za-z_]\w*")
_PART: Final = lazy_re(r"\.(cold|part|constprop)")  # pieces of a function that are not its beginning


@dataclass(frozen=True, slots=True)
class Found:
    """A function in a file of the process; `marked`: found by its mark for tracers, which is further on in it."""

    name: str
    file: str
    address: int
    place: Place
    marked: bool = False


def find_places(
    pid: int, names: Collection[str], searched: set[tuple[str, int]] | None = None
) -> tuple[list[Found], list[str]]:
    """Find functions by name in all files that a process has mapped as code.

    Args:
        names: of C functions, or of C++ ones with their namespaces and classes but without arguments, or mangled.
        searched: files to skip, by device and inode; those that were read are added.

    Returns:
        The functions, those found by name first, and the files that could not be read.

    Raises:
        OSError: the process is gone, or its mappings may not be read.
    """
    files: dict[tuple[str, int], list[Mapping]] = {}
    for mapping in parse_maps(pid):
        if mapping.path.startswith("/") and mapping.inode:
            files.setdefault((mapping.device, mapping.inode), []).append(mapping)
    found: list[Found] = []
    unread: list[str] = []
    for file, mappings in files.items():
        if searched is not None and file in searched:
            continue
        code = next((mapping for mapping in mappings if mapping.executable), None)
        if code is None:
            continue
        try:
            found += _in_file(pid, code, mappings, names)
        except (OSError, ElfError):
            unread.append(code.path)
        if searched is not None:
            searched.add(file)
    return sorted(found, key=lambda one: one.marked), unread


def find_in_files(paths: Iterable[str], names: Collection[str]) -> list[Found]:
    """Find functions by name in files that need not be loaded; unreadable files are skipped."""
    found: list[Found] = []
    for path in paths:
        with contextlib.suppress(OSError, ElfError), ElfFile(path) as elf:
            found += _in_elf(elf, path, path, 0, names)
    return found


def _in_file(pid: int, code: Mapping, mappings: Sequence[Mapping], names: Collection[str]) -> list[Found]:
    path = mapped_file(pid, code)
    with ElfFile(path) as elf:
        found = _in_elf(elf, str(path), code.path, 0, names)
        loaded = [copy for copy in copies(mappings) if any(mapping.executable for mapping in copy)] if found else []
        biases = [bias for copy in loaded if (bias := elf.load_bias(copy)) is not None] or [0]
    return [replace(one, address=bias + one.address) for one in found for bias in biases]


def _in_elf(elf: ElfFile, path: str, shown: str, bias: int, names: Collection[str]) -> list[Found]:
    wanted = set(names)
    beginnings = [mangled for name in names for mangled in _mangled(name)]
    if beginnings:
        wanted |= {name for name in possible_names(elf, beginnings) if not _PART.search(name)}
    segments = [segment for segment in elf.segments() if segment.flags & 1]  # PF_X
    symbols = defined_symbols(elf, wanted)
    spots = [(symbol.name, symbol.address, False) for symbol in symbols.values()]
    spots += [(name, address, True) for name, address in _marked(elf, wanted - symbols.keys())]
    found = []
    for name, address, marked in spots:
        for segment in segments:
            if segment.address <= address < segment.address + segment.file_size:
                offset = address - segment.address + segment.offset
                found.append(Found(name, shown, bias + address, Place(path, offset), marked))
    return found


def _marked(elf: ElfFile, names: Collection[str]) -> list[tuple[str, int]]:
    """Return the functions of the runtime that a file has marks for, and no symbols."""
    wanted = {_MARKS[name][0]: name for name in names if name in _MARKS}
    if not wanted:
        return []
    marks = [mark for mark in read_marks(elf, "libstdcxx") if mark.name in wanted]
    return [(wanted[m.name], m.address) for m in marks if m.arguments.startswith(_MARKS[wanted[m.name]][1])]


def _mangled(name: str) -> tuple[str, ...]:
    """Return the mangled prefixes of a C++ function, whatever its arguments (Itanium C++ ABI, 5.1.2); () for others."""
    parts = name.split("::")
    if name.startswith(("_Z", "__")) or not all(_WORD.fullmatch(part) for part in parts):
        return ()
    if len(parts) == 1:
        return (f"_Z{len(name)}{name}",)
    spelled = "".join("St" if part == "std" and not place else f"{len(part)}{part}" for place, part in enumerate(parts))
    plain = (f"_Z{spelled}",) if parts[0] == "std" and len(parts) == 2 else ()
    return (f"_ZN{spelled}E", f"_ZNK{spelled}E", *plain)
