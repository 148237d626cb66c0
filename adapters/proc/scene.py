"""What all watched processes share: who has which descriptor open, sockets, file locks, shared memory, control groups.

The scans of descriptors span the whole machine, so they are taken only when a wait needs them, and at most so
often that they cost 1 % of the time (`_LIMIT`).
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from livedbg.adapters.proc.groups import Groups
from livedbg.linux.descriptors import DescriptorIndex, FileLock, read_locks
from livedbg.linux.maps import Mapping, find_mapping, has_a_name, parse_maps
from livedbg.linux.procfs import process_ids
from livedbg.linux.sockets import SocketTable
from livedbg.session.pacing import Cost, Limit
from livedbg.text.sanitize import clean_line

_FRESH_S: Final = 5.0
_LIMIT: Final = Limit(wall=0.01, least_s=0.4)


class Scene:
    """Looks that are shared. Used from one thread at a time.

    Attributes:
        host: name of this host.
        version: changes when descriptors or locks were read anew.
        groups: control groups.
    """

    def __init__(self, host: str) -> None:
        self.host = host
        self.version = 0
        self.groups = Groups(host)
        self._index: DescriptorIndex | None = None
        self._sockets: dict[int, SocketTable] = {}
        self._locks: list[FileLock] | None = None
        self._shared: dict[tuple[str, int, int], tuple[int, int]] = {}

    def renew(self, *, wanted: bool) -> None:
        """Forget what is too old.

        Args:
            wanted: a wait is new, so that what is known may lack its peers.
        """
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
        """Who has which descriptor open."""
        if self._index is None:
            self._index = DescriptorIndex()
        return self._index

    def sockets(self, pid: int) -> SocketTable:
        """The sockets of the network namespace of a process."""
        self.index()  # its age decides when the sockets are read anew
        try:
            namespace = Path(f"/proc/{pid}/ns/net").stat().st_ino
        except OSError:
            namespace = -pid
        if namespace not in self._sockets:
            self._sockets[namespace] = SocketTable(pid)
        return self._sockets[namespace]

    def locks(self) -> list[FileLock]:
        """The advisory file locks."""
        self.index()
        if self._locks is None:
            self._locks = read_locks()
        return self._locks

    def shared_identity(self, pid: int, address: int, mappings: list[Mapping]) -> tuple[int, int]:
        """One (pid, address) for an object in shared memory, whichever process looks at it.

        The lowest visible pid that maps it when it is first seen; for private memory, the process
        itself. The kernel tells shared futexes apart the same way: by inode and offset (futex.c,
        get_futex_key).
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
        """The processes that have the file or memory of a shared mapping of a process in their memory or open, and what
        else could come to have it: "" for nothing."""
        if mapping.path.startswith("/SYSV"):
            return frozenset(), "any process that may attach its System V shared memory"
        if not mapping.deleted or has_a_name(pid, mapping):
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
        return frozenset(pids), ""

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
