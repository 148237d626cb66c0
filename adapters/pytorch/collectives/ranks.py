"""Reads the ranks of a session: processes that use torch.distributed, and their enqueued operations."""

from __future__ import annotations

import signal
import time
from typing import Final

from msgspec import Struct, structs

from livedbg.adapters.pytorch.collectives.groups import (
    WORLD,
    Groups,
    library_symbols,
    read_groups,
    thread_reader,
    tid_of,
)
from livedbg.adapters.pytorch.collectives.joined import Look
from livedbg.adapters.pytorch.collectives.python_calls import CallReader, PythonCall
from livedbg.adapters.pytorch.collectives.recorder import LayoutUnknown, Recorder, find_recorders
from livedbg.adapters.pytorch.rpc.tasks import AGENT, RpcThread, agent_worker
from livedbg.cpython.threads import PyThread, ThreadReader
from livedbg.linux.procfs import handled_signals, signal_name
from livedbg.model import Process

_USUAL: Final = frozenset({signal.SIGINT, signal.SIGCHLD, signal.SIGPIPE})
"""Python's own handler of SIGINT raises, and that of a DataLoader for SIGCHLD only looks at its workers."""

_SEARCH_S: Final = (1.0, 30.0)  # a process that has no recorder may come to have one: first and longest pause
_GROUPS_S: Final = 0.25  # a group that is not known yet may be there in a moment: first pause
_MOST_THREADS: Final = 1 << 12
_FRESH_S: Final = 30.0  # how long what was read of code objects is believed


class RankSeen(Struct, frozen=True):
    """State of one rank.

    Attributes:
        threads: pthread_self(3) -> tid of threads that have enqueued or call something.
        worker: its name in torch.distributed.rpc; "" if it doesn't use RPC.
        rpc: its threads' activity in RPC.
        entrants: pthread_self(3) -> tid of all threads with entries in its recorders.
    """

    look: Look
    threads: dict[int, int]
    worker: str = ""
    rpc: tuple[RpcThread, ...] = ()
    entrants: dict[int, int] = {}


class RankReader:
    """Reads one process. Blocking: use it in worker threads, one at a time."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.problem = ""
        self._recorders: list[Recorder] = []
        self._groups = Groups()
        self._next_s = 0.0
        self._pause_s = _SEARCH_S[0]
        self._apart_s = 0.0
        self._apart_pause_s = _SEARCH_S[0]
        self._threads: dict[int, int] = {}
        self._groups_s = 0.0
        self._groups_pause_s = _GROUPS_S
        self._python: ThreadReader | None = None
        self._python_until_s = 0.0
        self._calls: CallReader | None = None
        self._agent: int | None = None

    def read(self, process: Process) -> RankSeen | None:
        """Sample it, None without torch.distributed or a known rank; raise OSError if the process can't be read."""
        if not self._recorders and not self._found():
            return self._rank_before_torch(process)
        if process.rank is None and time.monotonic() < self._apart_s:
            return None
        seen = self._seen(process)
        if seen is not None:
            self._apart_pause_s = _SEARCH_S[0]
        elif not self.problem:  # else it is tried again at the next look
            self._apart_s = time.monotonic() + self._apart_pause_s
            self._apart_pause_s = min(2 * self._apart_pause_s, _SEARCH_S[1])
        return seen

    def _seen(self, process: Process) -> RankSeen | None:
        try:
            rings = tuple(ring for recorder in self._recorders if (ring := recorder.read()) is not None)
        except LayoutUnknown as unknown:
            self.problem = str(unknown)
            return None
        self.problem = ""
        self._refresh()
        names = {entry.group for ring in rings for entry in ring.entries if entry.group}
        if not names <= self._groups.ranks.keys() or not self._groups.ranks:
            self._read_groups(process)
        calls, threads = self._read_calls(process)
        rank = self._groups.rank if self._groups.rank is not None else process.rank
        worker = self._worker(rank) if threads else None
        rank = worker[1] if rank is None and worker is not None else rank
        if rank is None or not (rings or worker is not None or WORLD in self._groups.ranks):
            return None
        initialised = bool(rings or worker or self._groups.objects)
        look = Look(
            rank=rank,
            process=process.id,
            rings=rings,
            groups=self._groups.ranks,
            calls=calls,
            initialised=initialised,
            handles=_handles(self.process.pid),
        )
        rpc = self._read_rpc(threads) if worker is not None else ()
        wanted = {entry.thread for entry in look.entries if not entry.done} | {call.ident for call in calls}
        wanted |= {one.ident for one in rpc}
        name = worker[0] if worker is not None else ""
        return RankSeen(look, self._tids(wanted), name, rpc, self._tids({entry.thread for entry in look.entries}))

    def _rank_before_torch(self, process: Process) -> RankSeen | None:
        """Return a Python process with a rank's environment that has not loaded torch yet."""
        world, met = _world_size(process), process.environment.get("MASTER_PORT")
        if process.rank is None or world is None or not met or self.problem or not process.rank < world:
            return None
        self._refresh()
        if self._python is None:
            return None  # such as the shell that has started it
        groups = {WORLD: tuple(range(world))}
        return RankSeen(Look(rank=process.rank, process=process.id, rings=(), groups=groups, initialised=False), {})

    def count(self) -> int | None:
        """Return the number of recorded operations, None if there are none, or if the process can't be read."""
        try:
            counts = [recorder.count() for recorder in self._recorders]
        except OSError:
            return None  # gone, or not ours to look at: the next look says so
        return sum(count for count in counts if count is not None) if any(counts) else None

    def _refresh(self) -> None:
        if time.monotonic() < self._python_until_s:
            return
        self._python_until_s = time.monotonic() + _FRESH_S
        self._python = thread_reader(self.process.pid)
        self._calls = CallReader(self._python) if self._python is not None else None

    def _worker(self, rank: int | None) -> tuple[str, int] | None:
        try:
            if self._agent is None:
                self._agent = library_symbols(self.process.pid, (AGENT,)).get(AGENT, 0)
            return agent_worker(self.process.pid, self._agent, rank) if self._agent else None
        except OSError:
            return None

    def _read_rpc(self, threads: list[PyThread]) -> tuple[RpcThread, ...]:
        try:
            return self._calls.rpc(threads) if self._calls is not None else ()
        except OSError:
            return ()

    def _read_calls(self, process: Process) -> tuple[tuple[PythonCall, ...], list[PyThread]]:
        """Return the threads and their calls; none if they change too fast."""
        if self._calls is None:
            return (), []
        try:
            threads = self._calls.threads()
            if self._calls.unknown_group(threads, self._groups):
                self._read_groups(process)
            joining = self._calls.joining(threads) if WORLD not in self._groups.ranks else None
            if joining is not None:
                self._groups = Groups({WORLD: tuple(range(joining[1]))}, joining[0])
            return self._calls.calls(threads, self._groups), threads
        except OSError:
            return (), []

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
        if time.monotonic() < self._groups_s:
            return
        self._groups_s = time.monotonic() + self._groups_pause_s
        self._groups_pause_s = min(2 * self._groups_pause_s, _SEARCH_S[1])
        try:
            groups = read_groups(self._python) if self._python is not None else Groups()
        except OSError:
            return  # they change just now: the next look comes
        world = _world_size(process)
        if WORLD not in groups.ranks and world is not None:
            groups = structs.replace(groups, ranks={**groups.ranks, WORLD: tuple(range(world))})
        if groups.ranks.keys() - self._groups.ranks.keys():
            self._groups_pause_s = _GROUPS_S
        self._groups = groups

    def _tids(self, wanted: set[int]) -> dict[int, int]:
        return {one: tid for one in wanted if (tid := self._tid(one)) is not None}

    def _tid(self, own: int) -> int | None:
        number = self._threads.get(own) or tid_of(self.process.pid, own)
        if number is not None and len(self._threads) < _MOST_THREADS:
            self._threads[own] = number
        return number


def _world_size(process: Process) -> int | None:
    world = process.environment.get("WORLD_SIZE", "")
    return int(world) if world.isdecimal() and 0 < int(world) < 1 << 20 else None


def _handles(pid: int) -> str:
    """Return the handled signals whose handlers may be the program's own: `SIGTERM, SIGUSR1`; "" for none."""
    try:
        return ", ".join(signal_name(number) for number in handled_signals(pid) if number not in _USUAL)
    except (OSError, KeyError, ValueError):
        return ""
