"""Which thread of a simulator is which AI core.

The simulator runs each core on a thread of its own (simpler src/a2a3/platform/sim/host/device_runner.cpp), and that
thread writes its core's number into thread-specific data before it does anything else: `g_core_id_key`, with the
core's registers in `g_reg_base_key` (sim/aicore/kernel.cpp; the number is the index of the core in the scheduler). Both
keys are variables of /tmp/aicore_sim_XXXXXX, which the symbols of that file name.

Invariants:
    core_threads.C1. A thread is named only if both keys are set in it, its registers are no other core's, no other
        thread of the library says that it is the same core, and the numbers leave no gap. Else none is.
    core_threads.C2. At the end of a run the cores' threads end one by one. Those that are left are told with their
        cores' numbers, gaps or not; two that claim one core, or the same registers, tell of none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from livedbg.linux import memory
from livedbg.linux.elf import ElfError, ElfFile
from livedbg.linux.elf_symbols import defined_symbols
from livedbg.linux.mapped_files import mapped_file
from livedbg.linux.maps import Mapping, copies, parse_maps_text
from livedbg.linux.procfs import thread_ids
from livedbg.linux.pthreads import ThreadData

__all__ = ["CoreThread", "CoreThreads"]

_FILE: Final = re.compile(r"^(?:aicore_sim_\w{6}|libaicore_kernel\.so)$")
_CORE: Final = "_ZL13g_core_id_key"
_REGISTERS: Final = "_ZL14g_reg_base_key"
_KEYS_MAX: Final = 1024  # PTHREAD_KEYS_MAX


class CoreThread(NamedTuple):
    """A core's thread.

    Attributes:
        registers: address of the core's simulated registers.
    """

    core: int
    registers: int


class CoreThreads:
    """The cores' threads of one process, looked for only when its threads have changed.

    Args:
        pid: the process.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._tids: list[int] = []
        self._found: tuple[dict[int, CoreThread], ...] = ()

    def sample(self) -> tuple[dict[int, int], ...]:
        """By tid its core, for each of the libraries (a process may simulate several chips) in order of address.

        Raises:
            OSError: the process is gone, or may not be looked at.
        """
        return tuple(_whole(found) for found in self._sample())

    def remaining(self) -> dict[int, CoreThread]:
        """By tid the cores whose threads are there (C2); none where the process simulates several chips.

        Raises:
            OSError: the process is gone, or may not be looked at.
        """
        found = self._sample()
        return found[0] if len(found) == 1 else {}

    def _sample(self) -> tuple[dict[int, CoreThread], ...]:
        tids = thread_ids(self._pid)
        if tids != self._tids:
            self._found = self._search()
            self._tids = tids if thread_ids(self._pid) == tids else []
        return self._found

    def _search(self) -> tuple[dict[int, CoreThread], ...]:
        mappings = parse_maps_text(Path(f"/proc/{self._pid}/maps").read_bytes())
        keys = [pair for library in _libraries(mappings) if (pair := self._keys(library)) is not None]
        data = ThreadData(self._pid, mappings) if keys else None
        if data is None or not data.known:
            return ()
        values = data.values({key for pair in keys for key in pair})
        return tuple(_checked(values, *pair) for pair in keys)

    def _keys(self, mappings: list[Mapping]) -> tuple[int, int] | None:
        """The keys' numbers in one loaded copy of the library; None where it has not made them yet."""
        try:
            with ElfFile(mapped_file(self._pid, mappings[0])) as elf:
                symbols = defined_symbols(elf, [_CORE, _REGISTERS])
                bias = elf.load_bias(mappings)
        except (OSError, ElfError):
            return None
        if bias is None or len(symbols) < 2:
            return None
        read = memory.read_many(self._pid, [(bias + symbols[name].address, 4) for name in (_CORE, _REGISTERS)])
        core, registers = (int.from_bytes(data or b"\xff" * 4, "little") for data in read)
        return (core, registers) if core != registers and max(core, registers) < _KEYS_MAX else None


def _libraries(mappings: Sequence[Mapping]) -> list[list[Mapping]]:
    """The mappings of each copy of the cores' library, by address."""
    files: dict[tuple[str, str, int], list[Mapping]] = {}
    for mapping in mappings:
        if _FILE.match(mapping.path.rpartition("/")[2].removesuffix(" (deleted)")):
            files.setdefault((mapping.path, mapping.device, mapping.inode), []).append(mapping)
    return sorted((copy for file in files.values() for copy in copies(file)), key=lambda copy: copy[0].start)


def _whole(found: dict[int, CoreThread]) -> dict[int, int]:
    """By tid its core, where all cores have a thread (C1)."""
    cores = {tid: thread.core for tid, thread in found.items()}
    return cores if sorted(cores.values()) == list(range(len(cores))) else {}


def _checked(values: dict[int, dict[int, int]], core_key: int, registers_key: int) -> dict[int, CoreThread]:
    """By tid its core (C2)."""
    found: dict[int, CoreThread] = {}
    registers: set[int] = set()
    for tid, held in values.items():
        base = held.get(registers_key, 0)
        if core_key not in held or not base:
            continue
        if base in registers:
            return {}
        registers.add(base)
        found[tid] = CoreThread(held[core_key], base)
    return found if len({thread.core for thread in found.values()}) == len(found) else {}
