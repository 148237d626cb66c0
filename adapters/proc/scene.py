"""State shared by all process watches: descriptors, sockets, file locks, shared memory, control groups.

Descriptor scans span the whole machine, so they are taken only when a wait needs them, and at most so often that they
cost 1 % of the time (`_LIMIT`).

A control group is emitted only while it holds its processes back: frozen, throttled, or short of memory. Shares are
rounded, so that small changes make no event.

Invariants:
    groups.G1. Counters from before livedbg attached (since the group was made) say nothing about now.
    groups.G2. A full group is no trouble by itself: its page cache can be reclaimed.
"""

from __future__ import annotations

import time
from itertools import filterfalse
from pathlib import Path
from typing import Final

from msgspec import Struct, field, structs

from livedbg.linux.cgroups import CpuLimit, Group, read_cpu, read_frozen, read_memory, view_of
from livedbg.linux.descriptors import DescriptorIndex, FileLock, read_locks
from livedbg.linux.ending import has_ended
from livedbg.linux.maps import Mapping, find_mapping, names_of, parse_maps
from livedbg.linux.procfs import child_pids, process_ids
from livedbg.linux.sockets import SocketTable
from livedbg.model import Resource, ids
from livedbg.model.facts import GroupFacts
from livedbg.model.reach import reachable
from livedbg.session.pacing import Cost, Limit
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line

KIND: Final = "cgroup"

_GROUPS_FRESH_S: Final = 0.2
"""Two reads of the same group within this time are one."""

_UNGUESSED: Final = lazy_re(r"sem\.(?:mp|loky)-[\w-]{8,64}")
"""Semaphores of Python's multiprocessing and of loky: a random name, which they tell their own children only."""

_WINDOW_S: Final = 10.0
_PERIODS: Final = 2
"""Fewer scheduling periods than this say nothing."""

_THROTTLED: Final = 0.5
_STALLED: Final = 0.2
"""Shares from which on a group is reported."""


class _State(Struct):
    """State of one control group.

    Attributes:
        counts: by file, (time, periods, throttled) of the last _WINDOW_S seconds, oldest first.
        kills: number of OOM kills when the group was first read.
    """

    taken_s: float = -1e9
    resource: Resource | None = None
    frozen: bool = False
    counts: dict[str, list[tuple[float, int, int]]] = field(default_factory=dict)
    kills: int | None = None


class Groups:
    """The control groups of all watched processes. Used from one thread at a time."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._views: dict[int, Group | None] = {}
        self._states: dict[Group, _State] = {}

    def forget(self, pid: int) -> None:
        """Look up the group of a process again at the next sample: it may have been moved."""
        self._views.pop(pid, None)

    def readable(self, pid: int) -> bool:
        """Return whether the group's files can be read."""
        view = self._view(pid)
        return view is not None and view.readable

    def frozen(self, pid: int) -> bool:
        """Return whether the group of a process is frozen."""
        return self._state(pid).frozen

    def resource(self, pid: int) -> Resource | None:
        """Return the group of a process if it holds the process back."""
        return self._state(pid).resource

    def _view(self, pid: int) -> Group | None:
        if pid not in self._views:
            self._views[pid] = view_of(pid)
        return self._views[pid]

    def _state(self, pid: int) -> _State:
        view = self._view(pid)
        if view is None:
            return _State()
        state = self._states.setdefault(view, _State())
        now_s = time.monotonic()
        if now_s - state.taken_s >= _GROUPS_FRESH_S:
            state.taken_s = now_s
            self._read(view, state, now_s)
        return state

    def _read(self, view: Group, state: _State, now_s: float) -> None:
        facts, words = GroupFacts(), []
        file = read_frozen(view)
        state.frozen = bool(file)
        if file:
            facts = structs.replace(facts, frozen_by=clean_line(file, 300))
            words.append("frozen")
        for limit in read_cpu(view):
            share = _throttled(state, limit, now_s)
            if share is not None and share >= _THROTTLED and facts.throttled is None:
                facts = structs.replace(
                    facts,
                    throttled=round(share, 1),
                    cores=limit.cores,
                    throttled_by=clean_line(limit.control, 300),
                    cpu_stat=clean_line(limit.file, 300),
                )
                words.append("throttled")
        facts, more = self._memory(view, state, facts)
        words += more
        name = clean_line(view.path, 200)
        entity = ids.fd_object(KIND, self._host, name.strip("/").replace("/", ":") or "root")
        known = state.resource
        if not words:
            state.resource = None
        elif known is None or known.facts != facts:
            state.resource = Resource(
                id=entity, kind=KIND, name=f"control group {name}", state=", ".join(words), facts=facts
            )

    def _memory(self, view: Group, state: _State, facts: GroupFacts) -> tuple[GroupFacts, list[str]]:
        memory = read_memory(view)
        if memory is None:
            return facts, []
        words = []
        if state.kills is None:
            state.kills = memory.kills
        killed = memory.kills - state.kills if memory.kills is not None and state.kills is not None else 0
        if memory.under_oom:
            words.append("out of memory")
            facts = structs.replace(facts, under_oom=True)
        if memory.stalled is not None and memory.stalled >= _STALLED:
            words.append("short of memory")
            facts = structs.replace(facts, memory_stalled=round(memory.stalled, 1))
        if killed > 0:
            words.append("tasks killed for memory")
            facts = structs.replace(facts, killed=killed)
        if words:
            share = round((memory.used or 0) / memory.limit, 2) if memory.limit else None
            file = clean_line(memory.file, 300)
            facts = structs.replace(facts, memory_file=file, memory_limit=memory.limit or None, memory_used=share)
        return facts, words


def _throttled(state: _State, limit: CpuLimit, now_s: float) -> float | None:
    """Return the share of throttled periods in the last seconds; None if too few periods have passed (G1)."""
    counts = state.counts.setdefault(limit.file, [])
    while len(counts) > 1 and now_s - counts[1][0] >= _WINDOW_S:
        del counts[0]
    if not counts or now_s - counts[-1][0] >= 1.0 or len(counts) == 1:
        counts.append((now_s, limit.periods, limit.throttled))
    _, periods, throttled = counts[0]
    passed = limit.periods - periods
    return (limit.throttled - throttled) / passed if passed >= _PERIODS else None


_FRESH_S: Final = 5.0
_LIMIT: Final = Limit(wall=0.01, least_s=0.4)


class Scene:
    """Shared scans; `version` changes when descriptors or locks were read again. Used from one thread at a time."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.version = 0
        self.groups = Groups(host)
        self._index: DescriptorIndex | None = None
        self._sockets: dict[int, SocketTable] = {}
        self._locks: list[FileLock] | None = None
        self._shared: dict[tuple[str, int, int], tuple[int, int]] = {}

    def renew(self, *, wanted: bool) -> None:
        """Drop scans that are too old; with `wanted`, the last scan may lack the peers of a new wait."""
        if self._index is None:
            return
        age_s = time.monotonic() - self._index.taken_s
        least_s = _LIMIT.rest_s(Cost(wall_s=self._index.cost_s))
        if age_s > max(least_s, 0.0 if wanted else _FRESH_S):
            self._index = None
            self._locks = None
            self._sockets.clear()
            self.version += 1

    def index(self) -> DescriptorIndex:
        """Return the open descriptors of all processes."""
        if self._index is None:
            self._index = DescriptorIndex()
        return self._index

    def sockets(self, pid: int) -> SocketTable:
        """Return the sockets of the network namespace of a process."""
        self.index()  # its age decides when the sockets are read anew
        try:
            namespace = Path(f"/proc/{pid}/ns/net").stat().st_ino
        except OSError:
            namespace = -pid
        if namespace not in self._sockets:
            self._sockets[namespace] = SocketTable(pid)
        return self._sockets[namespace]

    def locks(self) -> list[FileLock]:
        """Return the advisory file locks."""
        self.index()
        if self._locks is None:
            self._locks = read_locks()
        return self._locks

    def shared_identity(self, pid: int, address: int, mappings: list[Mapping]) -> tuple[int, int]:
        """Return one (pid, address) for an object in shared memory, the same for every process that maps it.

        This is the lowest visible pid that maps it when first seen; for private memory, the process itself. The kernel
        identifies shared futexes in the same way, by inode and offset (futex.c, get_futex_key).
        """
        mapping = find_mapping(mappings, address)
        if mapping is None or not mapping.shared:
            return pid, address
        offset = mapping.offset + address - mapping.start
        key = (mapping.device, mapping.inode, offset)
        if key not in self._shared:
            self._shared[key] = self._lowest(key) or (pid, address)
        return self._shared[key]

    def mapped_by(self, pid: int, mapping: Mapping) -> tuple[frozenset[int], str]:
        """Return the processes with access to a shared mapping's file, and what else could get access ("" for none).

        Processes that have it mapped or open are included, and those that may know its name.
        """
        if mapping.path.startswith("/SYSV"):
            return frozenset(), "any process that may attach its System V shared memory"
        names = names_of(pid, mapping)
        if names is None or not all(_UNGUESSED.fullmatch(name) for name in names):
            return frozenset(), f"any process that may open {clean_line(mapping.path, 200)}"
        pids = {pid for link in (mapping.path, f"{mapping.path} (deleted)") for pid, _ in self.index().opened(link)}
        wanted = f" {mapping.device} {mapping.inode} ".encode()
        for other in process_ids():
            try:
                data = Path(f"/proc/{other}/maps").read_bytes()
            except OSError:
                continue  # gone, or not ours to see (livedbg.adapters.proc.asleep)
            if wanted in data:
                pids.add(other)
        return frozenset(reachable(pids, lambda pid: filterfalse(has_ended, child_pids(pid))) if names else pids), ""

    def _lowest(self, key: tuple[str, int, int]) -> tuple[int, int] | None:
        device, inode, offset = key
        for pid in sorted(process_ids()):
            try:
                mappings = parse_maps(pid)
            except OSError:
                continue
            for mapping in mappings:
                size = mapping.end - mapping.start
                same = mapping.inode == inode and mapping.device == device and mapping.shared
                if same and mapping.offset <= offset < mapping.offset + size:
                    return pid, mapping.start + offset - mapping.offset
        return None
