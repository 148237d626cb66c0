"""The task rings as they are mapped: which task has which slot.

A task of number n lies in slot n & mask, from when it is allocated until its output has been consumed: the slots
between the tail (oldest task) and the head (next to allocate) are in use (simpler pto_shared_memory.h).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from livedbg.adapters.ascend.names import raw_id

__all__ = ["Ring", "Segment", "segments", "task_at"]

MOST: Final = 1 << 17
"""Slots of one ring that are believed."""


class Ring(NamedTuple):
    """One ring.

    Attributes:
        number: which.
        tail: number of the oldest task that has a slot.
        head: number of the next task.
        mask: number of slots less one.
        slots: address of the first slot.
        slot_size: bytes of a slot.
        done_flags: address of the bytes that say which slots are done, or 0.
    """

    number: int
    tail: int
    head: int
    mask: int
    slots: int
    slot_size: int
    done_flags: int = 0

    @property
    def sound(self) -> bool:
        """Its numbers can be true: it was not being written while they were read."""
        size = self.mask + 1
        return (
            0 < size <= MOST
            and size & self.mask == 0
            and 0 <= self.tail <= self.head
            and self.head - self.tail <= size
            and self.slots != 0
            and self.slot_size > 0
        )


class Segment(NamedTuple):
    """Tasks whose slots lie one behind the other: `length` tasks from number `first` on."""

    ring: Ring
    first: int
    length: int

    @property
    def address(self) -> int:
        """Of the first one's slot."""
        return self.ring.slots + (self.first & self.ring.mask) * self.ring.slot_size

    def raw(self, index: int) -> int:
        """Id of the task with that index in the segment."""
        return raw_id(self.ring.number, self.first + index)


def segments(ring: Ring) -> Iterator[Segment]:
    """The slots in use: one segment, or two where they go round the end."""
    count = ring.head - ring.tail
    until_end = min(count, ring.mask + 1 - (ring.tail & ring.mask))
    if until_end:
        yield Segment(ring, ring.tail, until_end)
    if count > until_end:
        yield Segment(ring, ring.tail + until_end, count - until_end)


def task_at(rings: list[Ring], address: int) -> int | None:
    """Id of the task whose slot lies at an address; None for no slot in use."""
    for ring in rings:
        index, rest = divmod(address - ring.slots, ring.slot_size)
        if rest == 0 and 0 <= index <= ring.mask:
            number = ring.tail + ((index - ring.tail) & ring.mask)
            return raw_id(ring.number, number) if number < ring.head else None
    return None
