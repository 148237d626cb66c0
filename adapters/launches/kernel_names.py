"""Names of kernels.

Where a call names a kernel by the address of a host function (`LaunchCall.by_runtime`), the symbol of that function
gives the name if the file has kept it. Any other handle has no name of its own: it is known if the program looked the
kernel up while it was traced.

Invariants:
    kernel_names.N1. A handle has a name only if it was read from where exactly one lookup had put it.
"""

from __future__ import annotations

import struct
from typing import Final

from livedbg.linux import memory
from livedbg.linux.elf import ElfError, ElfFile
from livedbg.linux.elf_symbols import symbol_at
from livedbg.linux.mapped_files import mapped_file
from livedbg.linux.maps import Mapping, parse_maps
from livedbg.probes.launch_calls import LaunchCall
from livedbg.probes.newest import Newest
from livedbg.text.demangling import demangled_symbol
from livedbg.text.sanitize import clean_line

__all__ = ["HostNames", "Lookups"]

_REMEMBERED: Final = 4096


class HostNames:
    """The symbols at which functions of one process begin.

    Args:
        pid: the process.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._known: Newest[int, str | None] = Newest(_REMEMBERED)

    def name(self, address: int) -> str | None:
        """The demangled name of the function at an address; its file and offset where that has no symbol."""
        if address not in self._known:
            self._known[address] = self._find(address)
        return self._known[address]

    def _find(self, address: int) -> str | None:
        try:
            mappings = parse_maps(self._pid)
        except OSError:
            return None
        holder = next((mapping for mapping in mappings if mapping.start <= address < mapping.end), None)
        if holder is None or not holder.path.startswith("/"):
            return None
        same = [m for m in mappings if (m.device, m.inode) == (holder.device, holder.inode)]
        return self._in_file(address, holder, same)

    def _in_file(self, address: int, holder: Mapping, same: list[Mapping]) -> str | None:
        file = holder.path.rpartition("/")[2]
        try:
            with ElfFile(mapped_file(self._pid, holder)) as elf:
                bias = elf.load_bias(same)
                if bias is None:
                    return None
                symbol = symbol_at(elf, address - bias)
        except (OSError, ElfError):
            return None
        return demangled_symbol(symbol.name) if symbol is not None else clean_line(f"{file}+{address - bias:#x}")


class Lookups:
    """Handles of kernels whose lookups were traced."""

    def __init__(self) -> None:
        self._names: Newest[tuple[int, int], str] = Newest(_REMEMBERED)
        self._pending: list[tuple[LaunchCall, int, int]] = []
        self._fresh: list[LaunchCall] = []

    def add(self, lookup: LaunchCall) -> None:
        """A lookup was called; what it gives is read in a moment."""
        self._pending = [
            (one, value, read_ns)
            for one, value, read_ns in self._pending
            if (one.pid, one.handle) != (lookup.pid, lookup.handle) or lookup.mono_ns > read_ns
        ]  # fmt: skip  # another one may have written there before it was read: N1
        self._fresh = [one for one in self._fresh if (one.pid, one.handle) != (lookup.pid, lookup.handle)]
        self._fresh.append(lookup)

    def settle(self, now_ns: int) -> None:
        """Believe what was read the last time, and read what is new. All calls up to the last time were added.

        Args:
            now_ns: CLOCK_MONOTONIC, before anything is read.
        """
        for lookup, value, _ in self._pending:
            self._names[lookup.pid, value] = clean_line(lookup.name.decode("utf-8", "replace"))
        self._pending.clear()
        for lookup in self._fresh:
            try:
                (value,) = struct.unpack("<Q", memory.read(lookup.pid, lookup.handle, 8))
            except (OSError, OverflowError):
                continue
            if value:
                self._pending.append((lookup, value, now_ns))
        self._fresh.clear()

    def name(self, pid: int, handle: int) -> str | None:
        """The name of a handle."""
        return self._names.get((pid, handle))
