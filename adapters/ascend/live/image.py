"""Memory that is read twice: what is the same both times held at the moment between the two.

A seqlock's reader without the writer's help: a range whose bytes (a whole structure with a number in it that only
grows) are equal before and after was not being written. All ranges that pass held together at that one moment.

Invariants:
    image.I1. `steady` is True only for bytes that were read twice and were equal.
"""

from __future__ import annotations

from collections.abc import Sequence

from livedbg.linux import memory


class Block:
    """One range of a process's memory.

    Attributes:
        address: of its first byte.
        data: what was read first.
    """

    __slots__ = ("address", "again", "data")

    def __init__(self, address: int, data: bytes) -> None:
        self.address = address
        self.data = data
        self.again: bytes | None = None

    def steady(self, start: int = 0, size: int | None = None) -> bool:
        """Whether a part of it was the same at the second reading."""
        if self.again is None:
            return False
        end = len(self.data) if size is None else start + size
        return self.again is self.data or self.again[start:end] == self.data[start:end]


class Image:
    """Ranges of one process's memory, for one sample.

    Args:
        pid: the process.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._blocks: list[Block] = []

    def read(self, ranges: Sequence[tuple[int, int]]) -> list[bytes | None]:
        """Read ranges once: what doesn't change while other things stand still.

        Raises:
            PermissionError, ProcessLookupError: as memory.read_many.
        """
        return memory.read_many(self._pid, ranges)

    def take(self, ranges: Sequence[tuple[int, int]]) -> list[Block | None]:
        """Read ranges that `confirm` reads again; None for what is not mapped.

        Raises:
            PermissionError, ProcessLookupError: as memory.read_many.
        """
        found: list[Block | None] = []
        for (address, _), data in zip(ranges, self.read(ranges), strict=True):
            block = Block(address, data) if data is not None else None
            found.append(block)
            if block is not None:
                self._blocks.append(block)
        return found

    def confirm(self) -> None:
        """Read all that was taken a second time.

        Raises:
            PermissionError, ProcessLookupError: as memory.read_many.
        """
        again = self.read([(block.address, len(block.data)) for block in self._blocks])
        for block, data in zip(self._blocks, again, strict=True):
            block.again = block.data if data == block.data else data  # one copy in the end
