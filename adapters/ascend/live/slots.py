"""Read a scheduler's memory, and decode the task rings and slots in it.

Ranges are read twice. This is a seqlock's reader without the writer's help: a range (a whole structure with a number in
it that only grows) with equal bytes before and after was not being written. All ranges that pass held together at the
one moment in between.

Task n is in slot n & mask, from its allocation until its output has been consumed: the slots between the tail (oldest
task) and the head (next to allocate) are in use (simpler pto_shared_memory.h).

As its last step, the orchestrator counts itself as met in a submitted task (tensormap_and_ringbuffer,
pto_orchestrator.cpp): while the count is 0 the slot and its descriptor are still being filled, and are skipped.

Invariants:
    image.I1. `steady` is True only for bytes that were read twice and were equal.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct, field

from livedbg.adapters.ascend.live.layout import Layout, Place, wanted_fields
from livedbg.adapters.ascend.live.state import NO_ERRORS, Condition, Errors, LiveCore, LiveTask
from livedbg.adapters.ascend.names import raw_id
from livedbg.linux import memory
from livedbg.model import TaskState

CHUNK: Final = 64  # slots that are compared at once
_MOST: Final = 1 << 17  # slots of one ring that are believed
_DEFERRED: Final = 4  # PTO2_SUBTASK_DEFERRED, simpler pto_runtime2_types.h
_MOST_FANIN: Final = 4096
_DONE: Final = ("COMPLETED", "CONSUMED")
_CODES: Final = {1: "B", 2: "H", 4: "I", 8: "Q"}  # of the struct module, by size; lower case if signed


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


class Fixed(NamedTuple):
    """The constant part of a task in its slot.

    Attributes:
        kernels: func ids (aic, aiv0, aiv1).
        fanin: number of dependencies; None if not known.
        producers: numbers of these, if the runtime keeps them (host_build_graph).
    """

    kernels: tuple[int, ...] = ()
    fanin: int | None = None
    producers: tuple[int, ...] = ()


class Slot(NamedTuple):
    """One slot in use.

    Attributes:
        task, payload: addresses; 0 for none.
        met, wanted: the counts whose equality makes a task ready; None if there are none.
        waiters: address of the list of dependents; 0 for none.
    """

    done: bool
    task: int
    payload: int
    met: int | None
    wanted: int | None
    returned: int | None
    required: int | None
    blocks: int
    next_block: int | None
    deferred: bool
    waiters: int


class SlotReader:
    """Decodes slots."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._done = {
            number for number, name in layout["slot.state"].values.items() if name.rpartition("_")[2] in _DONE
        }
        names = [name.partition(".")[2] for name in wanted_fields() if name.startswith("slot.")]
        places = {name: place for name in names if (place := layout.get(f"slot.{name}")) is not None}
        self._unpacker, order = _unpacker(places)
        self._at = {name: order.index(name) if name in order else -1 for name in names}
        self._relative = {name: place.offset for name, place in places.items() if place.relative}

    def of(self, data: bytes, start: int, address: int) -> Slot:
        """Decode the slot at `address`, whose bytes begin at `start`."""
        values = (*self._unpacker.unpack_from(data, start), None)  # the last for those that are not there
        at = self._at
        task, payload = values[at["task"]] or 0, values[at["payload"]] or 0
        if self._relative:
            task += address + self._relative["task"] if task and "task" in self._relative else 0
            payload += address + self._relative["payload"] if payload and "payload" in self._relative else 0
        flags = values[at["flags"]]
        return Slot(
            values[at["state"]] in self._done,
            task,
            payload,
            values[at["met"]],
            values[at["fanin"]],
            values[at["returned"]],
            values[at["required"]],
            max(1, values[at["blocks"]] or 1),
            values[at["next_block"]],
            bool(values[at["deferred"]]) or bool(flags is not None and flags & _DEFERRED),
            values[at["waiters"]] or 0,
        )

    def fixed(self, image: Image, slots: dict[int, Slot]) -> dict[int, Fixed]:
        """Read the constant parts of tasks; only if the descriptor is theirs already."""
        layout = self._layout
        ident, kernels = layout["task.id"], layout.get("task.kernels")
        size = max(place.offset + place.size * place.length for place in (ident, kernels) if place is not None)
        found: dict[int, Fixed] = {}
        slots = {raw: slot for raw, slot in slots.items() if slot.task and slot.met != 0}  # 0: it is being submitted
        for raw, data in zip(slots, image.read([(slot.task, size) for slot in slots.values()]), strict=True):
            if data is None or ident.of(data) != raw:
                continue  # it is being allocated: the descriptor is still the former task's
            found[raw] = Fixed(() if kernels is None else kernels.array(data))
        self._fanins(image, {raw: slots[raw] for raw in found}, found)
        return found

    def _fanins(self, image: Image, slots: dict[int, Slot], found: dict[int, Fixed]) -> None:
        counted = self._layout.get("payload.fanin_actual") or self._layout.get("payload.fanin_count")
        if counted is None:
            return
        listed = self._layout.get("payload.fanin")
        size = max(place.offset + place.size for place in (counted, listed) if place is not None)
        payloads = [raw for raw, slot in slots.items() if slot.payload]
        lists: dict[int, tuple[int, int]] = {}
        for raw, data in zip(payloads, image.read([(slots[raw].payload, size) for raw in payloads]), strict=True):
            count = -1 if data is None else counted.of(data)
            if data is None or not 0 <= count <= _MOST_FANIN:
                continue
            found[raw] = found[raw]._replace(fanin=count)
            where = 0 if listed is None else listed.pointer(data, slots[raw].payload)
            if where and count:
                lists[raw] = (where, 4 * count)
        for raw, data in zip(lists, image.read(list(lists.values())), strict=True):
            if data is not None:
                producers = tuple(int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4))
                found[raw] = found[raw]._replace(producers=producers)


def _unpacker(places: Mapping[str, Place]) -> tuple[struct.Struct, list[str]]:
    """Return a struct that unpacks all fields at once, and their order."""
    shape, end, order = "<", 0, []
    for name, place in sorted(places.items(), key=lambda item: item[1].offset):
        code = _CODES[place.size]
        shape += f"{place.offset - end}x{code.lower() if place.signed else code}"
        end = place.offset + place.size
        order.append(name)
    return struct.Struct(shape), order


def state_of(
    raw: int,
    slot: Slot,
    fixed: Fixed,
    cores: Iterable[tuple[int, str]],
    *,
    owner: int | None,
    queued: int | None,
    done: frozenset[int],
    conditions: tuple[Condition, ...] | None,
) -> LiveTask:
    """Return the state of a task, from its slot and holders.

    Args:
        cores: cores that execute it.
        owner: the scheduler thread that drives these.
        queued: core that it is queued on.
        done: completed producers (host_build_graph).
        conditions: its conditions in the list of asynchronous waits, if it is listed.
    """
    on = tuple(sorted(cores))
    fanin = fixed.fanin
    if slot.wanted is not None and slot.met is not None:
        missing = max(0, slot.wanted - slot.met)  # both count one more than there are: who submits it
        fanin = slot.wanted - 1 if fanin is None and slot.wanted else fanin
    else:
        missing = sum(1 for number in fixed.producers if number not in done)
    if fanin is not None:
        missing = min(missing, fanin)
    returned = bool(slot.required) and slot.returned is not None and slot.returned >= (slot.required or 0)
    deferred = conditions is not None or (slot.deferred and returned)
    staged = bool(on) and missing > 0
    if slot.done:
        state = TaskState.COMPLETED
    elif deferred and not on:
        state = TaskState.READY
    elif staged:
        state = TaskState.SUBMITTED
    elif on or slot.next_block:
        state = TaskState.RUNNING
    elif missing:
        state = TaskState.SUBMITTED
    else:
        state = TaskState.READY
    over = state is TaskState.COMPLETED
    if queued is not None and state is TaskState.RUNNING and not on:
        state = TaskState.READY
    return LiveTask(
        raw=raw,
        state=state,
        kernels=fixed.kernels,
        blocks=slot.blocks,
        missing=0 if over else missing,
        fanin=fanin,
        cores=() if over else on,
        owner=None if over else owner,
        queued=None if over or on else queued,
        deferred=deferred and state is TaskState.READY,
        staged=staged and not over,
        conditions=(conditions or ()) if state is TaskState.READY else (),
    )


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
