"""One raw read of a scheduler's memory: its task rings, and its parts before they are validated.

Task n is in slot n & mask, from its allocation until its output has been consumed: the slots between the tail (oldest
task) and the head (next to allocate) are in use (simpler pto_shared_memory.h).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from msgspec import Struct, field

from livedbg.adapters.ascend.live.image import Block, Image
from livedbg.adapters.ascend.live.slots import Fixed, Slot
from livedbg.adapters.ascend.live.state import NO_ERRORS, Condition, Errors, LiveCore
from livedbg.adapters.ascend.names import raw_id

CHUNK: Final = 64  # slots that are compared at once
_MOST: Final = 1 << 17  # slots of one ring that are believed


class Ring(NamedTuple):
    """One ring.

    Attributes:
        tail: number of the oldest task that has a slot.
        head: number of the next task.
        mask: number of slots less one.
        slots: address of the first slot.
        slot_size: in bytes.
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
        """Return whether its numbers are plausible, so were not being written during the read."""
        size = self.mask + 1
        return (
            0 < size <= _MOST
            and size & self.mask == 0
            and 0 <= self.tail <= self.head
            and self.head - self.tail <= size
            and self.slots != 0
            and self.slot_size > 0
        )


class Segment(NamedTuple):
    """Tasks in consecutive slots: `length` tasks starting with `first`."""

    ring: Ring
    first: int
    length: int

    @property
    def address(self) -> int:
        return self.ring.slots + (self.first & self.ring.mask) * self.ring.slot_size

    def raw(self, index: int) -> int:
        return raw_id(self.ring.number, self.first + index)


def segments(ring: Ring) -> Iterator[Segment]:
    """Yield the slots in use: one segment, or two if they wrap around."""
    count = ring.head - ring.tail
    until_end = min(count, ring.mask + 1 - (ring.tail & ring.mask))
    if until_end:
        yield Segment(ring, ring.tail, until_end)
    if count > until_end:
        yield Segment(ring, ring.tail + until_end, count - until_end)


def task_at(rings: list[Ring], address: int) -> int | None:
    """Return the task whose slot is at an address; None if that is no slot in use."""
    for ring in rings:
        index, rest = divmod(address - ring.slots, ring.slot_size)
        if rest == 0 and 0 <= index <= ring.mask:
            number = ring.tail + ((index - ring.tail) & ring.mask)
            return raw_id(ring.number, number) if number < ring.head else None
    return None


class Shot(Struct):
    """Memory of one sample, before it is known which parts were steady."""

    image: Image
    numbers: dict[str, int]
    rings: list[Ring]
    headers: list[Block]
    chunks: dict[tuple[int, int], tuple[Block, int, bytes]] = field(default_factory=dict)
    slots: dict[int, tuple[Slot, Block, int]] = field(default_factory=dict)
    fixed: dict[int, Fixed] = field(default_factory=dict)
    waiters: dict[int, tuple[int, ...]] = field(default_factory=dict)
    flags: dict[int, Block] = field(default_factory=dict)
    waits: dict[int, tuple[Block, tuple[Condition, ...]]] = field(default_factory=dict)
    cores: Block | None = None
    threads: dict[int, tuple[int, str]] = field(default_factory=dict)
    queued: int | None = None
    turns: tuple[int, ...] = ()
    began_mono_ns: int | None = None
    errors: Errors = NO_ERRORS


class Holders(NamedTuple):
    """The cores and waits that hold tasks.

    Attributes:
        running: task -> the cores that execute it.
        queued: task -> the core that it is queued on.
        waits: task -> its waits after its kernel has returned.
        unsteady: cores that changed during the read.
    """

    cores: dict[int, LiveCore]
    running: dict[int, tuple[tuple[int, str], ...]]
    queued: dict[int, int]
    waits: dict[int, tuple[Condition, ...]]
    unsteady: set[int]


def chunks(part: Segment) -> Iterator[tuple[int, int]]:
    """Yield pieces of a segment with borders that don't move as the ring advances."""
    low = 0
    while low < part.length:
        high = min(part.length, low + CHUNK - (part.first + low) % CHUNK)
        yield low, high
        low = high


def holders_of(cores: dict[int, LiveCore], unsteady: set[int], waits: dict[int, tuple[Condition, ...]]) -> Holders:
    running: dict[int, tuple[tuple[int, str], ...]] = {}
    queued: dict[int, int] = {}
    for core in cores.values():
        if core.running is not None:
            running[core.running] = (*running.get(core.running, ()), (core.number, core.subslot))
        if core.pending is not None:
            queued[core.pending] = core.number
    return Holders(cores, running, queued, waits, unsteady)
