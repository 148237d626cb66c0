"""The ranks of a session: which processes use torch.distributed, and what each of them has enqueued."""

from __future__ import annotations

import time
from typing import Final

from msgspec import Struct

from livedbg.adapters.pytorch.collectives.groups import Groups, read_groups
from livedbg.adapters.pytorch.collectives.joined import Look
from livedbg.adapters.pytorch.collectives.recorder import LayoutUnknown, Recorder, find_recorders
from livedbg.linux import memory
from livedbg.linux.abi import native_abi
from livedbg.model import Process

__all__ = ["RankReader", "RankSeen"]

_SEARCH_S: Final = (1.0, 30.0)  # a process that has no recorder may come to have one: first and longest pause
_MOST_THREADS: Final = 1 << 12


class RankSeen(Struct, frozen=True):
    """What was read of one rank.

    Attributes:
        look: its collectives.
        threads: by pthread_self(3) of those that have enqueued something: our numbers for them.
    """

    look: Look
    threads: dict[int, int]


class RankReader:
    """Reads one process. Blocking: to be used in worker threads, one at a time.

    Args:
        process: as it was when it was first seen.
    """

    def __init__(self, process: Process) -> None:
        self.process = process
        self.problem = ""
        self._recorders: list[Recorder] = []
        self._groups = Groups()
        self._next_s = 0.0
        self._pause_s = _SEARCH_S[0]
        self._threads: dict[int, int] = {}

    def read(self, process: Process) -> RankSeen | None:
        """Look at it now; None while it uses no torch.distributed, or nobody knows which rank it is.

        Args:
            process: as it is known now.

        Raises:
            OSError: gone, or not allowed.
        """
        if not self._recorders and not self._found():
            return None
        try:
            rings = tuple(ring for recorder in self._recorders if (ring := recorder.read()) is not None)
        except LayoutUnknown as unknown:
            self.problem = str(unknown)
            return None
        self.problem = ""
        if not rings:
            return None
        names = {entry.group for ring in rings for entry in ring.entries}
        if not names <= self._groups.ranks.keys():
            self._read_groups(process)
        rank = self._groups.rank if self._groups.rank is not None else process.rank
        if rank is None:
            return None
        look = Look(rank=rank, process=process.id, rings=rings, groups=self._groups.ranks)
        pending = {entry.thread for entry in look.entries if not entry.done}
        return RankSeen(look, {one: tid for one in pending if (tid := self._tid(one)) is not None})

    def _found(self) -> bool:
        if time.monotonic() < self._next_s:
            return False
        self._next_s = time.monotonic() + self._pause_s
        self._pause_s = min(2 * self._pause_s, _SEARCH_S[1])
        try:
            self._recorders = find_recorders(self.process.pid)
        except LayoutUnknown as unknown:
            self.problem = str(unknown)
        return bool(self._recorders)

    def _read_groups(self, process: Process) -> None:
        try:
            groups = read_groups(process.pid)
        except OSError:
            return  # they change just now: the next look comes
        world = process.environment.get("WORLD_SIZE", "")
        if "0" not in groups.ranks and world.isdecimal() and 0 < int(world) < 1 << 20:
            groups = Groups({**groups.ranks, "0": tuple(range(int(world)))}, groups.rank)
        self._groups = groups

    def _tid(self, own: int) -> int | None:
        """Our number of the thread that pthread_self(3) calls so: glibc has it in the thread's descriptor."""
        abi = native_abi()
        if own in self._threads or abi is None or abi.descriptor_tid is None:
            return self._threads.get(own)
        try:
            number = int.from_bytes(memory.read(self.process.pid, own + abi.descriptor_tid, 4), "little")
        except (OSError, OverflowError):
            return None
        if len(self._threads) < _MOST_THREADS:
            self._threads[own] = number
        return number
