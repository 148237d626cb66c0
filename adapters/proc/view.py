"""What the wait describers know of one process."""

from __future__ import annotations

from msgspec import Struct, field

from livedbg.adapters.proc.scene import Scene
from livedbg.adapters.proc.threads import ThreadNumbers
from livedbg.linux.abi import Abi
from livedbg.linux.live_environment import Libc
from livedbg.linux.maps import Mapping, find_mapping, parse_maps


class ProcessView(Struct):
    """One process.

    Attributes:
        scene: what all processes share.
        abi: of its machine.
        libc: its C library.
        numbers: its threads.
        mappings: its mappings, as they were when last needed.
    """

    scene: Scene
    pid: int
    abi: Abi
    libc: Libc
    numbers: ThreadNumbers
    mappings: list[Mapping] = field(default_factory=list)

    def mappings_with(self, address: int) -> list[Mapping]:
        """The mappings, read anew when they don't hold `address`."""
        if find_mapping(self.mappings, address) is None:
            try:
                self.mappings = parse_maps(self.pid)
            except OSError:
                self.mappings = []
        return self.mappings
