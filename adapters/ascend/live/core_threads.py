"""Map the threads of a simulator to AI cores.

The simulator runs each core on its own thread (simpler src/a2a3/platform/sim/host/device_runner.cpp), which first
writes its core's number into thread-specific data: `g_core_id_key`, with the core's registers in `g_reg_base_key`
(sim/aicore/kernel.cpp; the number is the index of the core in the scheduler). Both keys are variables of
/tmp/aicore_sim_XXXXXX, found by that file's symbols.

Invariants:
    core_threads.C1. A thread is named only if both keys are set in it, its registers are unique, no other thread of the
        library claims the same core, and the numbers have no gap. Else none is.
    core_threads.C2. At the end of a run the cores' threads end one by one. Those that are left are returned with their
        cores' numbers, with gaps; if two claim one core, or the same registers, none is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Mapping as Table
from pathlib import Path
from typing import Final, NamedTuple

from livedbg.adapters.ascend.live.state import LiveCore
from livedbg.adapters.ascend.names import Names, core_name
from livedbg.linux import memory
from livedbg.linux.elf import ElfError, ElfFile
from livedbg.linux.elf_symbols import defined_symbols
from livedbg.linux.mapped_files import mapped_file
from livedbg.linux.maps import Mapping, copies, parse_maps_text
from livedbg.linux.procfs import thread_ids
from livedbg.linux.pthreads import ThreadData
from livedbg.model import Edge, EdgeKind, Process, ids
from livedbg.model.events import Event, Stamp, ThreadRolesSeen
from livedbg.model.snapshot import Snapshot
from livedbg.session.publisher import Publisher
from livedbg.text.patterns import lazy_re

_FILE: Final = lazy_re(r"^(?:aicore_sim_\w{6}|libaicore_kernel\.so)$")
_CORE: Final = "_ZL13g_core_id_key"
_REGISTERS: Final = "_ZL14g_reg_base_key"
_KEYS_MAX: Final = 1024  # PTHREAD_KEYS_MAX


class CoreThread(NamedTuple):
    """A core's thread, and the address of the core's simulated registers."""

    core: int
    registers: int


class CoreThreads:
    """The core threads of one process, searched only when its threads have changed."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._tids: list[int] = []
        self._found: tuple[dict[int, CoreThread], ...] = ()

    def sample(self) -> tuple[dict[int, int], ...]:
        """Map tid to core, for each library (chip) in address order; raise OSError if the process can't be read."""
        return tuple(_whole(found) for found in self._sample())

    def remaining(self) -> dict[int, CoreThread]:
        """Map tid to core for the remaining threads (C2), {} for several chips; raise OSError if it can't be read."""
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
        """Return the keys in one loaded copy of the library; None if not created yet."""
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
    """Return the mappings of each copy of the cores' library, by address."""
    files: dict[tuple[str, str, int], list[Mapping]] = {}
    for mapping in mappings:
        if _FILE.match(mapping.path.rpartition("/")[2].removesuffix(" (deleted)")):
            files.setdefault((mapping.path, mapping.device, mapping.inode), []).append(mapping)
    return sorted((copy for file in files.values() for copy in copies(file)), key=lambda copy: copy[0].start)


def _whole(found: dict[int, CoreThread]) -> dict[int, int]:
    """Map tid to core if all cores have a thread (C1)."""
    cores = {tid: thread.core for tid, thread in found.items()}
    return cores if sorted(cores.values()) == list(range(len(cores))) else {}


def _checked(values: dict[int, dict[int, int]], core_key: int, registers_key: int) -> dict[int, CoreThread]:
    """Map tid to core thread (C2)."""
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


class CoreRoles:
    """Publishes the core threads of a process that simulates one chip."""

    def __init__(self, process: Process, names: Names) -> None:
        self._process, self._names = process, names
        self.threads = CoreThreads(process.pid)
        self._shown = Publisher(f"ascend-cores/{process.id}")

    def sample(self) -> Table[int, int]:
        """Map tid to core, {} if uncertain or with several chips; raise OSError if the process can't be read."""
        found = self.threads.sample()
        return found[0] if len(found) == 1 else {}

    def events(
        self, found: Table[int, int], cores: Table[int, LiveCore], snapshot: Snapshot, stamp: Stamp
    ) -> Iterator[Event]:
        """Yield changes of the map from tid to core; threads that the snapshot lacks are published later."""
        host, pid = self._process.host, self._process.pid
        wanted = {ids.thread(host, pid, tid): core for tid, core in found.items() if core in cores}
        here = {thread.id: thread for thread in snapshot.threads.values() if thread.process == self._process.id}
        roles = {name: self._role(core, cores[core].subslot) for name, core in wanted.items() if name in here}
        lost = {name: "" for name, thread in here.items() if thread.role and name not in wanted and not thread.exited}
        new = {name: role for name, role in {**lost, **roles}.items() if here[name].role != role}
        if new:
            yield ThreadRolesSeen(roles=new, **stamp)
        edges = tuple(self._edge(core, name) for name, core in sorted(wanted.items()) if name in here)
        yield from self._shown.show(stamp, edges=edges)

    def _role(self, core: int, subslot: str) -> str:
        return f"{self._names.label} {core_name(core, subslot)}".lstrip()

    def _edge(self, core: int, thread: str) -> Edge:
        evidence = f"thread-specific data: g_core_id_key is {core} (memory of process {self._process.pid})"
        return Edge(kind=EdgeKind.RUNS_ON, source=self._names.core(core), target=thread, evidence=evidence)
