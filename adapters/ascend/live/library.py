"""Finds the scheduler in a process: the shared library of the AICPU, which the simulator loads once a device.

The simulator copies it to /tmp/aicpu_sim_XXXXXX and loads the copy (simpler src/a2a3/platform/sim/host/
device_runner.cpp). Only files with `aicpu` in their names are opened: to look through the symbols of everything that a
process has mapped would take seconds of some.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from livedbg.adapters.ascend.live.sign import WORD
from livedbg.linux.elf import ElfError, ElfFile, read_build_id
from livedbg.linux.elf_symbols import defined_symbols
from livedbg.linux.mapped_files import mapped_file
from livedbg.linux.maps import Mapping, copies, parse_maps_text
from livedbg.text.patterns import lazy_re

_SYMBOLS: Final = ("_ZL16g_aicpu_executor", "g_aicpu_executor")  # a static variable, and one that is not
_SIMULATOR: Final = lazy_re(r"^(?:aicpu_sim_\w{6}|libaicpu_kernel\.so)$")


class Library(Struct, frozen=True):
    """One copy of the library in a process.

    Attributes:
        name: of the file.
        file: a path of ours by which it can be opened.
        bias: what was added to its addresses when it was loaded.
        key: what its content is known by.
    """

    name: str
    file: Path
    bias: int
    key: str


class LibraryFinder(Struct):
    """Looks through the files that processes have mapped; each file once.

    Attributes:
        stripped: libraries of the simulator that have no symbols, by process.
    """

    stripped: dict[int, str] = field(default_factory=dict)
    _keys: dict[tuple[str, str, int], str | None] = field(default_factory=dict)

    def find(self, pid: int) -> list[Library]:
        """The libraries with a scheduler, in the order of their addresses.

        Raises:
            OSError: the process is gone, or may not be looked at.
        """
        text = Path(f"/proc/{pid}/maps").read_bytes()
        if WORD.encode() not in text:
            return []
        mappings = [mapping for mapping in parse_maps_text(text) if WORD in mapping.path.rpartition("/")[2]]
        by_file: dict[tuple[str, str, int], list[Mapping]] = {}
        for mapping in mappings:
            by_file.setdefault((mapping.path, mapping.device, mapping.inode), []).append(mapping)
        self.stripped.pop(pid, None)
        found = [library for file, mapped in by_file.items() for library in self._search(pid, file, mapped)]
        return sorted(found, key=lambda library: library.bias)

    def _search(self, pid: int, file: tuple[str, str, int], mapped: list[Mapping]) -> Iterable[Library]:
        if self._keys.get(file, "") is None or not any(mapping.executable for mapping in mapped):
            return
        path = mapped_file(pid, mapped[0])
        name = Path(file[0]).name
        try:
            with ElfFile(path) as elf:
                if file not in self._keys:
                    has = defined_symbols(elf, _SYMBOLS)
                    self._keys[file] = (read_build_id(elf) or f"{file[1]}:{file[2]}") if has else None
                key = self._keys[file]
                if key is None:
                    if _SIMULATOR.match(name):
                        del self._keys[file]  # said again at each sample
                        self.stripped[pid] = name
                    return
                biases = [elf.load_bias(copy) for copy in copies(mapped)]
        except (OSError, ElfError, ValueError):
            if _SIMULATOR.match(name):
                self.stripped[pid] = name
            return
        for bias in biases:
            if bias is not None:
                yield Library(name, path, bias, key)
