"""The Python interpreter inside a process: its version, `_PyRuntime`, and the layout of its state.

Functions that read a process raise OSError if it is gone or denied.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from msgspec import Struct

from livedbg.cpython.layout import DEBUG_OFFSETS_SIZE, Layout, layout_of
from livedbg.linux import memory
from livedbg.linux.elf import ElfError, ElfFile
from livedbg.linux.elf_symbols import defined_symbols
from livedbg.linux.mapped_files import mapped_file
from livedbg.linux.maps import Mapping, parse_maps
from livedbg.linux.procfs import living_task
from livedbg.text.patterns import lazy_re

_LIBRARY: Final = lazy_re(r"^libpython(\d)\.(\d+)([a-z]*)\.so")
_PROGRAM: Final = lazy_re(r"^(?:python|pypy)(\d)?(?:\.(\d+))?([a-z]*)$")


class Interpreter(Struct, frozen=True):
    """The interpreter of a process image.

    Attributes:
        runtime: address of `_PyRuntime`; None before 3.7 and in stripped static builds.
        layout: None if this version is not known to us.
        free_threaded: it has no GIL.
        image: start of the process's [vdso] mapping: a new one after each exec, the same after fork.
    """

    version: tuple[int, int] | None
    runtime: int | None
    file: str
    layout: Layout | None
    free_threaded: bool
    image: int

    @property
    def label(self) -> str:
        """Return `Python 3.11`."""
        name = "Python " + ".".join(map(str, self.version)) if self.version else "Python of an unknown version"
        return f"{name}, free-threaded" if self.free_threaded else name


class InterpreterFile(Struct, frozen=True):
    """A file that holds an interpreter, and addresses of symbols in it (no load bias); no version before 3.11."""

    version: tuple[int, int] | None
    symbols: dict[str, int]
    runtime: int
    layout: Layout | None


def interpreter_in(path: str, *names: str) -> InterpreterFile | None:
    """Return the interpreter in a file, or None.

    Raises:
        OSError: the file can't be opened.
        ElfError: it is no ELF file, or cut short.
    """
    with ElfFile(path) as elf:
        symbols = {
            symbol.name: symbol.address
            for symbol in defined_symbols(elf, ("_PyRuntime", "Py_Version", *names)).values()
        }
        if "_PyRuntime" not in symbols:
            return None
        version = _version(elf.initial(symbols["Py_Version"], 8)) if "Py_Version" in symbols else None
        published = elf.initial(symbols["_PyRuntime"], DEBUG_OFFSETS_SIZE)
    layout = layout_of(version, published) if version is not None else None
    return InterpreterFile(version, symbols, symbols["_PyRuntime"], layout)


def _version(word: bytes) -> tuple[int, int]:
    """Return (3, 11) from `Py_Version`: const unsigned long, the same as PY_VERSION_HEX; 3.11 and later."""
    number = int.from_bytes(word, "little")
    return number >> 24 & 0xFF, number >> 16 & 0xFF


def image_of(pid: int) -> tuple[object, ...]:
    """Return a value that changes when a process executes a program, or loads a file that may hold an interpreter."""
    mappings = parse_maps(pid)
    return (_vdso(mappings), *_candidates(pid, mappings))


def _vdso(mappings: Sequence[Mapping]) -> int:
    return next((mapping.start for mapping in mappings if mapping.path == "[vdso]"), 0)


def find_interpreter(pid: int) -> Interpreter | None:
    """Return the Python interpreter of a process, or None."""
    mappings = parse_maps(pid)
    vdso = _vdso(mappings)
    for path in _candidates(pid, mappings):
        of_file = [mapping for mapping in mappings if mapping.path == path]
        found = _interpreter_in(pid, path, of_file, vdso)
        if found is not None:
            return found
    return None


def _candidates(pid: int, mappings: Sequence[Mapping]) -> list[str]:
    """Return files that may hold an interpreter: libpython, then the program (also one that embeds it)."""
    paths = list(dict.fromkeys(m.path for m in mappings if m.path.startswith("/")))
    libraries = [path for path in paths if _LIBRARY.match(PurePosixPath(path).name)]
    named = [path for path in paths if _PROGRAM.match(PurePosixPath(path).name)]
    try:
        program = str(Path(f"/proc/{living_task(pid)}/exe").readlink()).removesuffix(" (deleted)")
    except OSError:
        program = ""
    return list(dict.fromkeys([*libraries, *named, *([program] if program in paths else [])]))


def _interpreter_in(pid: int, path: str, mappings: Sequence[Mapping], vdso: int) -> Interpreter | None:
    name = PurePosixPath(path).name
    by_name = _LIBRARY.match(name) or _PROGRAM.match(name)
    version = (int(by_name[1]), int(by_name[2])) if by_name and by_name[1] and by_name[2] else None
    free_threaded = bool(by_name and "t" in by_name[3] and version and version >= (3, 13))
    try:
        with ElfFile(mapped_file(pid, mappings[0])) as elf:
            bias = elf.load_bias(mappings)
            symbols = defined_symbols(elf, ("_PyRuntime", "Py_Version"))
    except (OSError, ElfError):
        bias, symbols = None, {}
    if bias is None or "_PyRuntime" not in symbols:
        return Interpreter(version, None, name, None, free_threaded, vdso) if by_name else None
    runtime = bias + symbols["_PyRuntime"].address
    if "Py_Version" in symbols:
        version = _version(memory.read(pid, bias + symbols["Py_Version"].address, 8))
    (published,) = memory.read_many(pid, [(runtime, DEBUG_OFFSETS_SIZE)])
    layout = layout_of(version, published) if version and published else None
    if layout is not None and layout.free_threaded:
        free_threaded = True
    return Interpreter(version, runtime, name, layout, free_threaded, vdso)
