"""Read the Flight Recorder of a running process from its memory, without a stop or environment variable.

In a stripped torch library it is found through the code of exported functions. `FlightRecorder<Event>::get()` keeps the
recorder in a static local variable. Its symbol is a local one, which `strip` removes. Exported functions access it
first: they read its guard (one byte, zero until the variable is made), then the variable itself (a pointer), which GCC
places directly behind the guard.

Sources: torch/csrc/distributed/c10d/{FlightRecorder.hpp,FlightRecorder.cpp,ProcessGroupGloo.cpp,ProcessGroupNCCL.cpp};
the Itanium C++ ABI, 3.3.3 (guard variables); compared with the symbols of torch 2.13.0 (CPU build) and 2.15.0 (CUDA
build, both libraries).

Invariants:
    flight_recorder.C1. An implausible entry is dropped; if the first entries are implausible, the whole ring is: the
        layout is not the one of the table, or it changes too fast.
    flight_recorder.C2. An entry that was overwritten during the read is dropped: its number occurs twice or is
        implausible.
    flight_recorder.K1. The variable is returned only if all of these functions that name any variable name this one.
"""

from __future__ import annotations

import contextlib
import struct
from functools import cache
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from livedbg.adapters.pytorch.aoti.settings import torch_version
from livedbg.adapters.pytorch.collectives.recorder_entry import (
    LAYOUTS,
    RECORDERS,
    Entry,
    EntryReader,
    RecorderLayout,
)
from livedbg.linux import memory
from livedbg.linux.elf import ElfFile
from livedbg.linux.elf_symbols import defined_symbols, possible_names
from livedbg.linux.mapped_files import ReadOnce
from livedbg.linux.maps import Mapping, parse_maps
from livedbg.text.patterns import lazy_re

_FUNCTIONS: Final = (
    "_ZN4c10d13dump_fr_trace",
    "_ZN4c10d18dump_fr_trace_json",
    "_ZN4c10d17getFlightRecorder",
    "_ZN4c10d16ProcessGroupGloo7runLoopE",
    "_ZN4c10d15dump_nccl_trace",
    "_ZN4c10d20dump_nccl_trace_json",
)
"""How the names of the functions begin; what follows are the types of their arguments."""

_MOST: Final = 96  # instructions that are looked at
_LENGTH: Final = 704  # in bytes
_CALLED: Final = 128  # of a function that is called, whose length no symbol tells
_BEHIND: Final = 8  # the variable lies so many bytes behind its guard
_RELATIVE: Final = lazy_re(r"^(?P<to>\w+, )?(?P<size>byte|qword) ptr \[rip (?P<sign>[+-]) (?P<by>0x[0-9a-f]+|\d+)\]")
_X86_64: Final = 62
_VERSION: Final = lazy_re(r"(\d{1,9})\.(\d{1,9})")


@cache
def _decoder() -> Any:
    try:
        import capstone
    except ImportError:
        return None
    return capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)


def recorder_in_code(elf: ElfFile) -> int | None:
    """Return the address of the pointer to the recorder, None if the code hides it (K1); ElfError if truncated."""
    if elf.machine != _X86_64 or _decoder() is None:
        return None
    names = {name for name in possible_names(elf, _FUNCTIONS) if not name.endswith(".cold")}
    named = [_guarded(elf, one.address, min(one.size, _LENGTH)) for one in defined_symbols(elf, names).values()]
    named = [variables for variables in named if variables]
    found = set.intersection(*named) if named else set()
    return found.pop() if len(found) == 1 else None


def _guarded(elf: ElfFile, start: int, length: int, *, follow: bool = True) -> set[int]:
    """Return the variables that a function, or a function it calls, reads after their guards."""
    guards: set[int] = set()
    found: set[int] = set()
    code = elf.initial(start, length)
    for number, (address, size, name, operands) in enumerate(_decoder().disasm_lite(code, start)):
        if number == _MOST:
            break
        if name == "call" and follow and operands.startswith("0x"):
            found |= _guarded(elf, int(operands, 16), _CALLED, follow=False)
        place = _RELATIVE.match(operands)
        if place is None or name not in ("mov", "movzx", "cmp"):
            continue
        by = int(place["by"], 0)
        target = address + size + (by if place["sign"] == "+" else -by)
        if place["size"] == "byte":
            guards.add(target)
        elif name == "mov" and place["to"] and target - _BEHIND in guards:
            found.add(target)
    return found


_MOST_ENTRIES: Final = 1 << 16
_TRIES: Final = 3
_SURE: Final = 4  # entries that are looked at before a ring is believed


class LayoutUnknown(Exception):
    """A recorder that can't be read; the text says why, for users."""


class Ring(Struct, frozen=True, kw_only=True):
    """State of a recorder at one moment.

    Attributes:
        entries: in enqueue order.
        count: number of operations since the process began.
        whole: the ring has not wrapped yet.
    """

    entries: tuple[Entry, ...]
    count: int
    whole: bool


class Recorder:
    """The recorder of one library in one process, by the address of the pointer to it."""

    def __init__(self, pid: int, pointer: int, layout: RecorderLayout) -> None:
        self._pid = pid
        self._pointer = pointer
        self._layout = layout
        self._done: dict[int, Entry] = {}
        self._reader = EntryReader(pid, layout.entry)

    def room(self) -> int | None:
        """Return the ring's capacity, None if nothing was recorded; raise OSError if the process can't be read."""
        at = self._word(self._pointer)
        return self._word(at + self._layout.most) if at else None

    def count(self) -> int | None:
        """Return the unchecked number of operations, None if there is none; OSError if the process can't be read."""
        at = self._word(self._pointer)
        return self._word(at + self._layout.count) if at else None

    def read(self) -> Ring | None:
        """Return the ring; None if nothing was ever recorded.

        Retries implausible reads: the vector moves while it grows.

        Raises:
            LayoutUnknown: it is implausible.
            OSError: the process is gone or not permitted.
        """
        for _ in range(_TRIES - 1):
            with contextlib.suppress(LayoutUnknown):
                return self._read()
        return self._read()

    def _read(self) -> Ring | None:
        layout = self._layout
        at = self._word(self._pointer)
        if not at:
            return None
        head = memory.read(self._pid, at, layout.size)
        first, last, _ = struct.unpack_from("<3Q", head, layout.entries)
        most, following, count = (
            struct.unpack_from("<Q", head, at)[0] for at in (layout.most, layout.next, layout.count)
        )
        number, rest = divmod(last - first, layout.entry.size)
        if not (
            last >= first and not rest and number <= most <= _MOST_ENTRIES and following <= most and number <= count
        ):
            raise LayoutUnknown("the Flight Recorder in its memory does not look as in this version of torch")
        data = memory.read(self._pid, first, number * layout.entry.size) if number else b""
        entries = self._entries(data, number, first)
        if number and not entries:
            raise LayoutUnknown("the entries of the Flight Recorder in its memory make no sense")
        return Ring(entries=entries, count=count, whole=count <= most)

    def _entries(self, data: bytes, number: int, address: int) -> tuple[Entry, ...]:
        size, layout = self._layout.entry.size, self._layout.entry
        found: dict[int, Entry] = {}
        tried = 0
        for place in range(number):
            at = place * size
            (record,) = struct.unpack_from("<Q", data, at + layout.record)
            entry = self._done.get(record)
            if entry is None:
                tried += 1
                entry = self._reader.read(data, at, record, address + at)
            if entry is not None and record not in found:
                found[record] = entry
            elif not found and tried >= _SURE:
                return ()  # C1
        self._done = {record: entry for record, entry in found.items() if entry.done}
        return tuple(found[record] for record in sorted(found))

    def _word(self, address: int) -> int:
        return int.from_bytes(memory.read(self._pid, address, 8), "little")


def find_recorders(pid: int) -> list[Recorder]:
    """Return the recorders of the loaded torch libraries; [] if there are none.

    Raises:
        LayoutUnknown: torch is loaded, but not in a version that can be read.
        OSError: the process is gone or not permitted.
    """
    loaded: dict[str, list[Mapping]] = {}
    for mapping in parse_maps(pid):
        name = mapping.path.rpartition("/")[2]
        if name in RECORDERS:
            loaded.setdefault(name, []).append(mapping)
    if not loaded:
        return []
    library = Path(f"/proc/{pid}/root{next(iter(loaded.values()))[0].path}")
    version = _VERSION.match(torch_version(library.parents[1]))
    layout = LAYOUTS.get((int(version[1]), int(version[2]))) if version is not None else None
    if layout is None:
        text = version[0] if version is not None else "of this process, whose version is not known"
        raise LayoutUnknown(f"where torch {text} keeps its collectives is not known")
    found = []
    for name, mappings in loaded.items():
        address = _address(pid, RECORDERS[name], mappings)
        if address is not None:
            found.append(Recorder(pid, address, layout))
    if not found:
        raise LayoutUnknown("its torch library is stripped, and its code does not say where the Flight Recorder is")
    return found


_symbols: ReadOnce[int | None] = ReadOnce()


def _address(pid: int, symbols: tuple[str, ...], mappings: list[Mapping]) -> int | None:
    def read(elf: ElfFile) -> int | None:
        one = next(iter(defined_symbols(elf, symbols).values()), None)
        return one.address if one is not None else recorder_in_code(elf)

    bias, value = _symbols.of(pid, mappings, read) or (0, None)
    return None if value is None else bias + value
