"""Data about one process that the wait describers share."""

from __future__ import annotations

from msgspec import Struct, field

from livedbg.adapters.proc.scene import Scene
from livedbg.adapters.proc.threads import ThreadNumbers
from livedbg.linux.abi import Abi
from livedbg.linux.live_environment import Libc
from livedbg.linux.maps import Mapping, find_mapping, parse_maps


class ProcessView(Struct):
    """A process as the wait describers see it, with the mappings as of their last use."""

    scene: Scene
    pid: int
    abi: Abi
    libc: Libc
    numbers: ThreadNumbers
    mappings: list[Mapping] = field(default_factory=list)

    def mappings_with(self, address: int) -> list[Mapping]:
        """Return the mappings, read again if none contains `address`."""
        if find_mapping(self.mappings, address) is None:
            try:
                self.mappings = parse_maps(self.pid)
            except OSError:
                self.mappings = []
        return self.mappings
