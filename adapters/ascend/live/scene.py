"""Read the scheduler's state other than tasks: rings, queues, cores, asynchronous waits, error codes.

Also dependents of tasks, from lists in their slots (simpler pto_runtime2_types.h, PTO2DepListEntry), and cores whose
kernel has not returned although the scheduler has ended the run, with their last dispatch. The scheduler clears its
state when it ends (SchedulerContext::deinit, scheduler_cold_path.cpp of simpler src/a2a3/runtime/
tensormap_and_ringbuffer/runtime/scheduler), but not its dispatches: two records for each core, selected by the lowest
bit of the number that the core acknowledged in its register COND (src/a2a3/platform/include/common/platform_config.h).
An idle core has a number there that is no task's.
"""

from __future__ import annotations

import platform
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from livedbg.adapters.ascend.live.core_threads import CoreThread
from livedbg.adapters.ascend.live.layout import Layout, Place
from livedbg.adapters.ascend.live.slots import Block, Image, Ring
from livedbg.adapters.ascend.live.state import NO_ERRORS, Condition, Errors, LiveCore
from livedbg.adapters.ascend.names import task_name
from livedbg.linux.maps import Mapping as MappedRange
from livedbg.linux.maps import find_mapping
from livedbg.text.patterns import lazy_re

_MOST: Final = 8  # threads, or queues
_SUBSLOTS: Final = ("aic", "aiv0", "aiv1")
_CONDITIONS: Final = 16  # of one task
_PAGE: Final = 4096
_ENTRIES: Final = 200_000  # of lists, in one sample
_COND: Final = 0x4C8
_TASKS_END: Final = 0x7FFFFFF0  # numbers from here on, and those with the highest bit (done), are no running task's
_KERNEL: Final = lazy_re(r"/kernel_(\d{1,9})_\w{6}$")
_HZ: Final = (50_000_000, 1_000_000_000)
"""PLATFORM_PROF_SYS_CNT_FREQ of simpler src/{a2a3,a5}/platform/include/common/platform_config.h."""


def read_rings(layout: Layout, image: Image, scheduler: int) -> tuple[list[Ring], list[Block]]:
    """Return the rings, and the blocks they were read from."""
    states, pointer = layout["scheduler.rings"], layout["rings.ring"]
    first = scheduler + states.offset
    holders = image.read([(first + n * states.target_size, states.target_size) for n in range(states.length)])
    addresses = [0 if data is None else pointer.of(data) for data in holders]
    head, mask, slots = (layout[f"ring.{name}"] for name in ("head", "mask", "slots"))
    tail, flags = layout.get("ring.tail"), layout.get("ring.done_flags")
    rings, headers = [], []
    wanted = [(address, max(1, pointer.target_size)) for address in addresses if address]
    for number, block in enumerate(image.take(wanted)):
        if block is None:
            continue
        headers.append(block)
        data = block.data
        rings.append(
            Ring(
                number,
                0 if tail is None else tail.of(data),
                head.of(data),
                mask.of(data),
                slots.of(data),
                slots.target_size,
                0 if flags is None else flags.of(data),
            )
        )
    return rings, headers


def read_turns(layout: Layout, image: Image, executor: int) -> tuple[int, ...]:
    """Return the loop turns of each scheduler thread; () if not counted."""
    beats, turns = layout.get("executor.beats"), layout.get("beat.turns")
    if beats is None or turns is None:
        return ()
    return tuple(_numbers(image, executor + beats.offset, beats, turns))


def read_began(layout: Layout, image: Image, executor: int) -> int | None:
    """Return when the scheduler's threads began the run (CLOCK_MONOTONIC, ns); None if not known.

    On x86 the simulator's counter is the steady clock in units of the chip's counter (sys_cnt_now_ticks, simpler
    src/common/platform/include/aicpu/device_time.h); on other machines it is a clock with another origin.
    """
    beats, began = layout.get("executor.beats"), layout.get("beat.began")
    if beats is None or began is None or platform.machine() != "x86_64":
        return None
    ticks = max((count for count in _numbers(image, executor + beats.offset, beats, began) if count), default=0)
    return began_mono_ns(ticks, time.monotonic_ns())


def began_mono_ns(ticks: int, now_ns: int) -> int | None:
    """Convert a value of the chip's counter, using the slowest frequency that puts it into the past."""
    found = [ticks * (1_000_000_000 // hz) for hz in _HZ]
    return next((at for at in found if 0 < at <= now_ns), None)


def read_queued(layout: Layout, image: Image, scheduler: int) -> int | None:
    """Return the number of tasks in the ready queues."""
    queues, put, taken = (layout.get(n) for n in ("scheduler.queues", "queue.enqueued", "queue.dequeued"))
    if queues is None or put is None or taken is None:
        return None
    dequeued = sum(_numbers(image, scheduler + queues.offset, queues, taken))
    return max(0, sum(_numbers(image, scheduler + queues.offset, queues, put)) - dequeued)


def read_errors(layout: Layout, image: Image, scheduler: int) -> Errors:
    """Return the error codes that the runtime has latched."""
    header = layout.get("scheduler.header")
    if header is None:
        return NO_ERRORS
    where = image.field(scheduler, header)
    places = [layout.get(f"header.{name}") for name in ("orchestrator_error", "scheduler_error")]
    return Errors(*((image.field(where, place) or 0 if where and place is not None else 0) for place in places))


def _numbers(image: Image, address: int, array: Place, inner: Place) -> list[int]:
    """Return one number of each structure of an array."""
    places = [(address + n * array.target_size + inner.offset, inner.size) for n in range(min(array.length, _MOST))]
    return [0 if data is None else inner.of(data, -inner.offset) for data in image.read(places)]


def scheduler_threads(layout: Layout, data: bytes | None, count: int) -> dict[int, tuple[int, str]]:
    """Map each core to the thread that drives it and its place in its cluster, by the threads' trackers."""
    trackers, clusters, cores = (layout.get(n) for n in ("executor.trackers", "tracker.clusters", "tracker.cores"))
    if data is None or trackers is None or clusters is None or cores is None:
        return {}
    found: dict[int, tuple[int, str]] = {}
    for thread in range(min(count, trackers.length)):
        start = thread * trackers.target_size
        for index, core in enumerate(cores.array(data, start)[: 3 * max(0, clusters.of(data, start))]):
            found[core] = (thread, _SUBSLOTS[index % 3])
    return found


def read_cores(
    layout: Layout,
    block: Block | None,
    count: int,
    threads: dict[int, tuple[int, str]],
    task_at: Callable[[int], int | None],
) -> tuple[dict[int, LiveCore], set[int]]:
    """Return the steady cores, and the numbers of cores that changed during the read.

    Args:
        block: bytes of all cores, read twice.
        count: number of cores of the run.
        threads: the driving threads.
        task_at: returns the task whose slot is at an address.
    """
    cores, running = layout.get("executor.cores"), layout.get("core.running")
    if block is None or cores is None or running is None:
        return {}, set()
    pending, dispatches = layout.get("core.pending"), layout.get("core.dispatches")
    found: dict[int, LiveCore] = {}
    moving: set[int] = set()
    for number in range(min(count, cores.length)):
        start = number * cores.target_size
        if not block.steady(start, cores.target_size):
            moving.add(number)
            continue
        held, queued = running.of(block.data, start), 0 if pending is None else pending.of(block.data, start)
        thread, subslot = threads.get(number, (None, ""))
        found[number] = LiveCore(
            number,
            subslot,
            thread,
            task_at(held) if held else None,
            task_at(queued) if queued else None,
            0 if dispatches is None else dispatches.of(block.data, start),
        )
    return found, moving


def deferred_tasks(layout: Layout, image: Image, waits: int) -> dict[int, tuple[Block, tuple[Condition, ...]]]:
    """Map tasks whose kernels have returned to their asynchronous waits, with their block (pto_async_wait.h)."""
    count, entries, ident = (layout.get(name) for name in ("waits.count", "waits.entries", "entry.task"))
    returned = layout.get("entry.kernel_returned")
    if count is None or entries is None or ident is None:
        return {}
    counted = image.take([(waits + count.offset, count.size)])[0]
    number = 0 if counted is None else min(max(0, count.of(counted.data, -count.offset)), entries.length)
    found: dict[int, tuple[Block, tuple[Condition, ...]]] = {}
    first = waits + entries.offset
    size = entries.target_size
    for block in image.take([(first + index * size, size) for index in range(number)]):
        if block is None or (returned is not None and not returned.of(block.data)):
            continue
        found[ident.of(block.data)] = (block, _conditions(layout, image, block.data))
    return found


def _conditions(layout: Layout, image: Image, entry: bytes) -> tuple[Condition, ...]:
    conditions, count = layout.get("entry.conditions"), layout.get("entry.condition_count")
    address, expected = layout.get("condition.address"), layout.get("condition.expected")
    engine, satisfied = layout.get("condition.engine"), layout.get("condition.satisfied")
    if conditions is None or address is None or expected is None:
        return ()
    number = conditions.length if count is None else min(count.of(entry), conditions.length)
    found = []
    for index in range(min(number, _CONDITIONS)):
        start = conditions.offset + index * conditions.target_size
        if satisfied is not None and satisfied.of(entry, start):
            continue
        where = address.of(entry, start)
        data = image.read([(where, 4)])[0] if where else None
        name = "" if engine is None else engine.values.get(engine.of(entry, start), "")
        found.append(
            Condition(
                name.rpartition("_")[2] or "no engine named",
                where,
                expected.of(entry, start),
                None if data is None else int.from_bytes(data, "little"),
            )
        )
    return tuple(found)


class WaiterLists:
    """Dependents of tasks, from the lists of one ring system.

    A consumer is added at the front, and an entry never changes while the producer has its slot: so a known list is
    read only up to its known part.
    """

    def __init__(self, layout: Layout) -> None:
        slot, following = layout.get("waiter.slot"), layout.get("waiter.next")
        self._places = None if slot is None or following is None else (slot.offset, following.offset)
        self._known: dict[int, tuple[int, tuple[int, ...]]] = {}
        self.cut = False

    def clear(self) -> None:
        self._known.clear()

    def forget(self, raw: int) -> None:
        self._known.pop(raw, None)

    def read(self, image: Image, heads: dict[int, int]) -> dict[int, tuple[int, ...]]:
        """Return the slots of tasks' dependents, newest first, of new or longer lists; `heads` are first entries."""
        if self._places is None:
            return {}
        pages: dict[int, bytes | None] = {}
        found: dict[int, tuple[int, ...]] = {}
        left = _ENTRIES
        for raw, head in heads.items():
            known_head, known = self._known.get(raw, (0, ()))
            if head == known_head:
                continue
            fresh: list[int] = []
            at = head
            while at and at != known_head and left > 0:
                entry = self._entry(image, pages, at)
                if entry is None:
                    break
                slot, at = entry
                fresh.append(slot)
                left -= 1
            if at == known_head or not at:
                found[raw] = (*fresh, *known) if at else tuple(fresh)
        self.cut = left <= 0
        return found

    def keep(self, raw: int, head: int, addresses: tuple[int, ...]) -> None:
        """Keep a list that was steady during the read."""
        self._known[raw] = (head, addresses)

    def _entry(self, image: Image, pages: dict[int, bytes | None], address: int) -> tuple[int, int] | None:
        assert self._places is not None
        words = []
        for offset in self._places:
            page, at = divmod(address + offset, _PAGE)
            if page not in pages:
                pages[page] = image.read([(page * _PAGE, _PAGE)])[0]
            data = pages[page]
            if data is None or at > _PAGE - 8:
                return None
            words.append(struct.unpack_from("<Q", data, at)[0])
        return words[0], words[1]


class Unreturned(NamedTuple):
    """A core whose kernel has not returned: the tid of its thread, and task and func id, if known."""

    tid: int
    core: int
    task: int | None
    func: int | None

    @property
    def text(self) -> str:
        kernel = f"kernel func {self.func}" if self.func is not None else "its kernel"
        task = f" of task {task_name(self.task)}" if self.task is not None else ""
        return f"The scheduler has ended the run, and core {self.core} has not returned from {kernel}{task}."


def read_unreturned(
    image: Image, layout: Layout, executor: int, threads: Mapping[int, CoreThread], mapped: Sequence[MappedRange]
) -> list[Unreturned]:
    """Return the cores of remaining threads that have acknowledged a task and not reported its end."""
    records = layout.get("executor.dispatched")
    names = image.read([(thread.registers + _COND, 4) for thread in threads.values()])
    found = []
    for (tid, thread), data in zip(threads.items(), names, strict=True):
        number = _TASKS_END if data is None else int.from_bytes(data, "little")
        if number >= _TASKS_END:
            continue
        task = func = None
        if records is not None:
            index = 2 * thread.core + (number & 1)
            where = executor + records.offset + index * records.target_size
            task, func = _record(image, layout, where, mapped)
        found.append(Unreturned(tid, thread.core, task, func))
    return sorted(found, key=lambda one: one.core)


def _record(image: Image, layout: Layout, where: int, mapped: Sequence[MappedRange]) -> tuple[int | None, int | None]:
    """Return task and func id of a dispatch record."""
    places = (layout.get(f"dispatched.{name}") for name in ("task", "function"))
    task, function = (None if place is None else image.field(where, place) for place in places)
    return task, None if not function else func_at(function, mapped)


def func_at(address: int, mapped: Sequence[MappedRange]) -> int | None:
    """Return the func id of the kernel whose code is at an address (names.kernel_label); None for other code."""
    found = find_mapping(mapped, address)
    match = _KERNEL.search(found.path.removesuffix(" (deleted)")) if found is not None else None
    return int(match[1]) if match is not None else None
