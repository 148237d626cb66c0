"""The environment of a process as it is now, from its memory.

`/proc/PID/environ` shows the environment at exec. What a program sets later (`os.environ["RANK"] = …` in a process that
was forked or spawned) is only in the C library's `environ` array.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator, Sequence
from typing import Final

from livedbg.linux import memory
from livedbg.linux.elf import ElfError, ElfFile
from livedbg.linux.elf_symbols import defined_symbols
from livedbg.linux.libc import Libc
from livedbg.linux.mapped_files import mapped_file
from livedbg.linux.maps import Mapping

_NAMES: Final = ("environ", "__environ")
_POINTER: Final = struct.Struct("<Q")
_MOST: Final = 2_000
"""Variables that are read; an array without an end is no environment."""

_LONGEST: Final = 500
"""Bytes of one variable that are read."""


class LiveEnvironment:
    """Reads the `environ` array of one process, without a stop.

    Args:
        pid: the process. After an exec, make a new reader: the array is elsewhere.
        mappings: its mappings.
        libc: its C library.
    """

    def __init__(self, pid: int, mappings: Sequence[Mapping], libc: Libc) -> None:
        self._pid = pid
        program = next((mapping.path for mapping in mappings if mapping.path.startswith("/")), "")
        # a program that refers to the array has the one that counts in its own memory
        paths = dict.fromkeys((program, libc.path))
        files = [[mapping for mapping in mappings if mapping.path == path] for path in paths if path]
        self._files = [found for found in files if found]
        self._places: tuple[int, ...] | None = None

    def read(self) -> dict[str, str]:
        """Its variables (not sanitised, with its secrets); {} where they can't be found or read."""
        if self._places is None:
            self._places = tuple(place for mappings in self._files for place in self._in_file(mappings))
        with contextlib.suppress(OSError):
            for place in self._places:
                array = self._pointer(place)
                if array:
                    return dict(self._variables(array))
        return {}

    def _in_file(self, mappings: Sequence[Mapping]) -> Sequence[int]:
        """Where the pointer to the array may be."""
        with contextlib.suppress(OSError, ElfError), ElfFile(mapped_file(self._pid, mappings[0])) as elf:
            bias, found = elf.load_bias(mappings), defined_symbols(elf, _NAMES)
            if bias is not None:
                return sorted({symbol.address + bias for symbol in found.values() if symbol.address})
        return ()

    def _variables(self, array: int) -> Iterator[tuple[str, str]]:
        for number in range(_MOST):
            at = self._pointer(array + number * _POINTER.size)
            if not at:
                return
            with contextlib.suppress(OSError):  # the array was replaced while it was read
                name, sep, value = memory.read_text(self._pid, at, _LONGEST).decode("utf-8", "replace").partition("=")
                if sep and name:
                    yield name, value

    def _pointer(self, at: int) -> int:
        value: int = _POINTER.unpack(memory.read(self._pid, at, _POINTER.size))[0]
        return value
