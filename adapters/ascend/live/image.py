"""Consistent memory reads by reading twice: bytes equal both times held at the moment in between.

This is a seqlock's reader without the writer's help: a range (a whole structure with a number in it that only grows)
with equal bytes before and after was not being written. All ranges that pass held together at that one moment.

Invariants:
    image.I1. `steady` is True only for bytes that were read twice and were equal.
"""

from __future__ import annotations

from collections.abc import Sequence

from livedbg.adapters.ascend.live.layout import Place
from livedbg.linux import memory


class Block:
    """One range of a process's memory, with the data of the first read."""

    __slots__ = ("address", "again", "data")

    def __init__(self, address: int, data: bytes) -> None:
        self.address = address
        self.data = data
        self.again: bytes | None = None

    def steady(self, start: int = 0, size: int | None = None) -> bool:
        """Return whether a part of it was the same at the second read."""
        if self.again is None:
            return False
        end = len(self.data) if size is None else start + size
        return self.again is self.data or self.again[start:end] == self.data[start:end]


class Image:
    """Memory ranges of one process, for one sample."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._blocks: list[Block] = []

    def read(self, ranges: Sequence[tuple[int, int]]) -> list[bytes | None]:
        """Read ranges once, for data that is constant while the other ranges are steady; raises as memory.read_many."""
        return memory.read_many(self._pid, ranges)

    def field(self, address: int, place: Place) -> int | None:
        """Read the number of one field of a structure once; None if it is unmapped."""
        data = self.read([(address + place.offset, place.size)])[0]
        return None if data is None else place.of(data, -place.offset)

    def take(self, ranges: Sequence[tuple[int, int]]) -> list[Block | None]:
        """Read ranges that `confirm` reads again, None for unmapped ones; raises as memory.read_many."""
        found: list[Block | None] = []
        for (address, _), data in zip(ranges, self.read(ranges), strict=True):
            block = Block(address, data) if data is not None else None
            found.append(block)
            if block is not None:
                self._blocks.append(block)
        return found

    def confirm(self) -> None:
        """Read all ranges of `take` a second time; raises as memory.read_many."""
        again = self.read([(block.address, len(block.data)) for block in self._blocks])
        for block, data in zip(self._blocks, again, strict=True):
            block.again = block.data if data == block.data else data  # one copy in the end
