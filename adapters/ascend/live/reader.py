"""Read a process's scheduler without stopping it: rings, tasks, cores and counts.

Invariants:
    reader.N1. The emitted state of a task or a core existed at one moment: its bytes were equal in two reads, and
        all results of one sample held together in between. Whatever changed meanwhile is left out of the sample.
    reader.N2. The cost is proportional to changes: `CHUNK` slots with the bytes of the last sample are not decoded
        again.
    reader.N3. A task's descriptor must name the task: a slot that is being reassigned is left out.
    reader.N4. A run is a new one, even with the same memory and numbers, if the scheduler's start time differs, or one
        of its counts (ring heads, completed tasks, loop turns) has decreased.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from livedbg.adapters.ascend.live.core_threads import CoreThread
from livedbg.adapters.ascend.live.layout import Layout
from livedbg.adapters.ascend.live.scene import (
    Unreturned,
    WaiterLists,
    deferred_tasks,
    read_began,
    read_cores,
    read_errors,
    read_queued,
    read_rings,
    read_turns,
    read_unreturned,
    scheduler_threads,
)
from livedbg.adapters.ascend.live.slots import (
    CHUNK,
    Block,
    Fixed,
    Holders,
    Image,
    Ring,
    Shot,
    Slot,
    SlotReader,
    chunks,
    holders_of,
    segments,
    state_of,
    task_at,
)
from livedbg.adapters.ascend.live.state import LiveCore, LiveTask, Sample
from livedbg.adapters.ascend.names import local_of, ring_of
from livedbg.linux.maps import parse_maps

_TRIES: Final = 4


class SchedulerReader:
    """Reads one process's scheduler, by the address of its executor and a layout without missing fields."""

    def __init__(self, pid: int, address: int, layout: Layout) -> None:
        self._pid, self._address, self._layout = pid, address, layout
        self._slots = SlotReader(layout)
        self._lists = WaiterLists(layout)
        self._scheduler = 0
        self._last = Sample()
        self._latest = Sample()
        self._shown: dict[int, LiveTask] = {}
        self._heads: dict[int, int] = {}
        self._tails: dict[int, int] = {}
        self._seen: dict[tuple[int, int], bytes] = {}
        self._parts: dict[int, Slot] = {}
        self._fixed: dict[int, Fixed] = {}
        self._unlinked: set[int] = set()
        self._flags: dict[int, bytes] = {}
        self._consumers: dict[int, list[int]] = {}

    @property
    def cut(self) -> bool:
        """Return whether some dependencies were left for the next sample, since there are too many."""
        return self._lists.cut

    def sample(self) -> Sample | None:
        """Return the current state, None while no run is set up; raise OSError if it can't be read (any more)."""
        best: tuple[int, Shot] | None = None
        for _ in range(_TRIES):
            shot = self._shoot()
            if shot is None:
                self._reset(0)
                return None
            shot.image.confirm()
            if not all(block.steady() for block in shot.headers) and any(not ring.sound for ring in shot.rings):
                continue
            moving = sum(1 for _, block, start in shot.slots.values() if not self._steady(block, start))
            moving += 0 if shot.cores is None or shot.cores.steady() else 1
            if best is None or moving < best[0]:
                best = (moving, shot)
            if not moving:
                break
        if best is None:  # at each try the rings were being written
            return replace(self._latest, fresh=False, changed=set(), gone=set(), waiters={})
        self._latest = self._fold(best[1])
        return self._latest

    def unreturned(self, threads: Mapping[int, CoreThread]) -> list[Unreturned]:
        """Return the cores of threads whose kernels have not returned after the run's end; OSError if unreadable."""
        return read_unreturned(Image(self._pid), self._layout, self._address, threads, parse_maps(self._pid))

    # reading

    def _shoot(self) -> Shot | None:
        layout, image = self._layout, Image(self._pid)
        names = ("scheduler", "core_count", "threads", "completed", "total", "submitted", "over")
        places = {name: place for name in names if (place := layout.get(f"executor.{name}")) is not None}
        read = image.read([(self._address + place.offset, place.size) for place in places.values()])
        numbers = {
            name: place.of(data, -place.offset)
            for (name, place), data in zip(places.items(), read, strict=True)
            if data is not None
        }
        scheduler = numbers.get("scheduler", 0)
        if not scheduler:
            return None
        rings, headers = read_rings(layout, image, scheduler)
        if not any(ring.head for ring in rings):
            return None
        turns, began_mono_ns = read_turns(layout, image, self._address), read_began(layout, image, self._address)
        if scheduler != self._scheduler or self._began_again(rings, numbers, turns, began_mono_ns):
            self._reset(scheduler)
        shot = Shot(image, numbers, [ring for ring in rings if ring.sound], headers)
        shot.turns, shot.began_mono_ns = turns, began_mono_ns
        for ring in shot.rings:
            self._take_slots(shot, ring)
        fresh = {raw: slot for raw, (slot, _, _) in shot.slots.items() if raw not in self._fixed}
        shot.fixed = self._slots.fixed(image, fresh)
        lists = {raw: slot.waiters for raw, (slot, _, _) in shot.slots.items() if slot.waiters}
        for raw in self._unlinked - lists.keys():
            if raw in self._parts:
                lists[raw] = self._parts[raw].waiters
        shot.waiters = self._lists.read(image, lists)
        self._take_cores(shot, scheduler)
        return shot

    def _began_again(
        self, rings: list[Ring], numbers: dict[str, int], turns: tuple[int, ...], began_mono_ns: int | None
    ) -> bool:
        """Return whether this is a new run since the last sample (N4)."""
        back = any(ring.head < self._heads.get(ring.number, 0) for ring in rings)
        back = back or any(now < before for now, before in zip(turns, self._latest.turns, strict=False))
        before = self._latest.began_mono_ns
        later = None not in (before, began_mono_ns) and before != began_mono_ns
        return back or later or numbers.get("completed", 0) < (self._last.completed or 0)

    def _reset(self, scheduler: int) -> None:
        """Drop the state of the former run."""
        self._scheduler = scheduler
        self._last = Sample(fresh=True)
        self._latest = Sample()
        self._lists.clear()
        for known in (self._heads, self._tails, self._seen, self._parts, self._fixed, self._flags, self._consumers):
            known.clear()
        self._unlinked.clear()

    def _take_slots(self, shot: Shot, ring: Ring) -> None:
        """Read the slots in use; unchanged ones are not decoded (N2)."""
        parts = list(segments(ring))
        blocks = shot.image.take([(part.address, part.length * ring.slot_size) for part in parts])
        for part, block in zip(parts, blocks, strict=True):
            if block is None:
                continue
            for low, high in chunks(part):
                start, end = low * ring.slot_size, high * ring.slot_size
                data = block.data[start:end]
                key = (ring.number, part.first + low)
                shot.chunks[key] = (block, start, data)
                if self._seen.get(key) == data:
                    continue
                for index in range(low, high):
                    at = index * ring.slot_size
                    slot = self._slots.of(block.data, at, block.address + at)
                    shot.slots[part.raw(index)] = (slot, block, at)
        if ring.done_flags:
            taken = shot.image.take([(ring.done_flags, ring.mask + 1)])[0]
            if taken is not None:
                shot.flags[ring.number] = taken

    def _take_cores(self, shot: Shot, scheduler: int) -> None:
        layout, image = self._layout, shot.image
        cores, trackers = layout.get("executor.cores"), layout.get("executor.trackers")
        if cores is not None:
            shot.cores = image.take([(self._address + cores.offset, cores.length * cores.target_size)])[0]
        if trackers is not None:
            data = image.read([(self._address + trackers.offset, trackers.length * trackers.target_size)])[0]
            shot.threads = scheduler_threads(layout, data, shot.numbers.get("threads", trackers.length))
        shot.queued = read_queued(layout, image, scheduler)
        waits = layout.get("scheduler.waits")
        if waits is not None:
            shot.waits = deferred_tasks(layout, image, scheduler + waits.offset)
        shot.errors = read_errors(layout, image, scheduler)

    # what stood still

    def _steady(self, block: Block, start: int) -> bool:
        return block.steady(start, self._layout["ring.slots"].target_size)

    def _fold(self, shot: Shot) -> Sample:
        """Return the sample: known state, and whatever did not change during the read."""
        known = self._last
        changed = {raw for raw, (_, block, start) in shot.slots.items() if self._steady(block, start)}
        for raw in changed:
            self._parts[raw] = shot.slots[raw][0]
        self._fixed.update({raw: fixed for raw, fixed in shot.fixed.items() if raw in changed})
        self._seen = {key: data for key, (block, start, data) in shot.chunks.items() if block.steady(start, len(data))}
        self._force_decoding(changed - self._fixed.keys())
        gone = self._leave(shot.rings)
        waiters = self._link(shot)
        cores, unsteady = read_cores(
            self._layout,
            shot.cores,
            shot.numbers.get("core_count", 0),
            shot.threads,
            lambda address: task_at(shot.rings, address),
        )
        waits = {raw: conditions for raw, (block, conditions) in shot.waits.items() if block.steady()}
        moved = self._moved(known, cores) | waits.keys() | {r for r, t in known.tasks.items() if t.deferred}
        held = holders_of(cores, unsteady, waits)
        fresh: set[int] = set()
        for raw in changed | moved | self._dependent(shot):
            task = self._task(raw, shot, held)
            if task is not None and known.tasks.get(raw) != task:
                known.tasks[raw] = task
                fresh.add(raw)
        for ring in shot.rings:
            self._heads[ring.number] = ring.head
        if fresh or gone or known.fresh:
            self._shown = dict(known.tasks)  # a copy: others iterate it while the next sample changes ours
        numbers = shot.numbers
        sample = Sample(
            fresh=known.fresh,
            changed=fresh,
            gone=gone,
            tasks=self._shown,
            waiters=waiters,
            cores={**known.cores, **cores},
            completed=numbers.get("completed"),
            total=numbers.get("total") or None,
            submitted=bool(numbers["submitted"]) if "submitted" in numbers else bool(numbers.get("total")),
            over=bool(numbers.get("over")),
            queued=shot.queued,
            turns=shot.turns,
            began_mono_ns=shot.began_mono_ns,
            tails={ring.number: ring.tail for ring in shot.rings},
            errors=shot.errors,
        )
        self._last = Sample(tasks=known.tasks, cores=sample.cores, completed=sample.completed)
        return sample

    def _force_decoding(self, unfinished: set[int]) -> None:
        """Force slots that are being assigned to be decoded at the next sample."""
        for raw in unfinished:
            first = local_of(raw) - local_of(raw) % CHUNK
            for number in range(first, local_of(raw) + 1):
                self._seen.pop((ring_of(raw), number), None)

    def _leave(self, rings: list[Ring]) -> set[int]:
        """Forget the tasks whose slots were freed; return the known ones."""
        tails = {ring.number: ring.tail for ring in rings}
        if all(tail == self._tails.get(number, 0) for number, tail in tails.items()):
            return set()
        self._tails.update(tails)
        gone = {raw for raw in self._parts if local_of(raw) < tails.get(ring_of(raw), 0)}
        for raw in gone:
            self._parts.pop(raw)
            self._fixed.pop(raw, None)
            self._last.tasks.pop(raw, None)
            self._lists.forget(raw)
            self._unlinked.discard(raw)
        return gone

    def _link(self, shot: Shot) -> dict[int, tuple[int, ...]]:
        """Return the new dependencies since the last sample."""
        found: dict[int, tuple[int, ...]] = {}
        for raw, addresses in shot.waiters.items():
            if raw not in self._parts:
                continue
            if raw in shot.slots and not self._steady(*shot.slots[raw][1:]):
                self._unlinked.add(raw)
                continue
            consumers = [task_at(shot.rings, address) for address in addresses]
            found[raw] = tuple(consumer for consumer in consumers if consumer is not None)
            if None in consumers:
                self._unlinked.add(raw)  # one that is not submitted yet: the list is read again
            else:
                self._unlinked.discard(raw)
                self._lists.keep(raw, self._parts[raw].waiters, addresses)
        for raw, fixed in shot.fixed.items():
            for number in fixed.producers:
                producer = (ring_of(raw) << 32) | number
                self._consumers.setdefault(producer, []).append(raw)
                found[producer] = (*found.get(producer, ()), raw)
        return found

    def _moved(self, known: Sample, cores: dict[int, LiveCore]) -> set[int]:
        """Return the tasks that came to a core or left one."""
        found: set[int] = set()
        for number, core in cores.items():
            before = known.cores.get(number)
            if before != core:
                found.update(raw for c in (before, core) if c for raw in (c.running, c.pending) if raw is not None)
        return found

    def _dependent(self, shot: Shot) -> set[int]:
        """Return the tasks whose readiness is in their producers' flags, not in their own slots (host_build_graph)."""
        if not shot.flags:
            return set()
        found: set[int] = set()
        for ring, block in shot.flags.items():
            now, before = block.data, self._flags.get(ring, b"")
            if now != before:
                self._flags[ring] = now
                known = before.ljust(len(now), b"\0")
                for at in (at for at in range(len(now)) if now[at] != known[at]):
                    found.update(self._consumers.get((ring << 32) | at, ()))
        return found

    def _task(self, raw: int, shot: Shot, held: Holders) -> LiveTask | None:
        slot, fixed = self._parts.get(raw), self._fixed.get(raw)
        if slot is None or fixed is None or (raw in shot.slots and not self._steady(*shot.slots[raw][1:])):
            return None
        holders = held.running.get(raw, ())
        if held.unsteady and not holders and slot.next_block and not slot.done:
            return None  # it may be on a core that was changing
        flags = shot.flags.get(ring_of(raw))
        done: frozenset[int] = frozenset()
        if flags is not None:
            both = flags.data if flags.again is None else flags.again
            done = frozenset(number for number in fixed.producers if number < len(both) and both[number])
            if flags.again is not flags.data and any(
                not flags.steady(number, 1) for number in fixed.producers if number < len(both)
            ):
                return None
        return state_of(
            raw,
            slot,
            fixed,
            holders,
            owner=held.cores[holders[0][0]].thread if holders else None,
            queued=held.queued.get(raw),
            done=done,
            conditions=held.waits.get(raw),
        )
