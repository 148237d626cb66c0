"""Decode task slots, and the parts of a task that are constant while it has its slot.

As its last step, the orchestrator counts itself as met in a submitted task (tensormap_and_ringbuffer,
pto_orchestrator.cpp): while the count is 0 the slot and its descriptor are still being filled, and are skipped.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from livedbg.adapters.ascend.live.image import Image
from livedbg.adapters.ascend.live.layout import Layout, Place, wanted_fields
from livedbg.adapters.ascend.live.state import Condition, LiveTask
from livedbg.model import TaskState

_DEFERRED: Final = 4  # PTO2_SUBTASK_DEFERRED, simpler pto_runtime2_types.h
_MOST_FANIN: Final = 4096
_DONE: Final = ("COMPLETED", "CONSUMED")
_CODES: Final = {1: "B", 2: "H", 4: "I", 8: "Q"}  # of the struct module, by size; lower case if signed


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
