"""The cores and what waits asynchronously, as the scheduler's memory has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from livedbg.adapters.ascend.live.image import Block, Image
from livedbg.adapters.ascend.live.layout import Layout
from livedbg.adapters.ascend.live.state import Condition, LiveCore

__all__ = ["deferred_tasks", "read_cores", "scheduler_threads"]

_SUBSLOTS: Final = ("aic", "aiv0", "aiv1")
_CONDITIONS: Final = 16  # of one task


def scheduler_threads(layout: Layout, data: bytes | None, count: int) -> dict[int, tuple[int, str]]:
    """By core: the scheduler thread that drives it, and its place in its cluster.

    Args:
        layout: where the fields lie.
        data: bytes of all trackers, one per thread.
        count: how many threads schedule.
    """
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
    """The cores.

    Args:
        layout: where the fields lie.
        block: bytes of all cores, read twice.
        count: how many cores the run has.
        threads: who drives them.
        task_at: the task that has the slot at an address.

    Returns:
        the cores that stood still; and the numbers of those that changed while they were read.
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
    """By task: what it waits for after its kernel has returned (simpler pto_async_wait.h), and where that stands.

    Args:
        layout: where the fields lie.
        image: the memory.
        waits: address of the list.
    """
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
