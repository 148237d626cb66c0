"""Read command buffers of the local-task driver, and the progress of their workers.

A recording (runtime/src/iree/hal/drivers/local_task/block_isa.h) is a chain of blocks: consecutive commands in regions
separated by barriers. Workers take workgroups ("tiles") of the active region's commands; the processor's context has
the current block and region, and the number of remaining tiles.

Dispatches on stacks that no operation in memory explains are of local-sync, of a runtime of another version, or of one
of several operations.

Invariants:
    iree_recordings.G1. A command is reported only if it agrees with the library: its function is the dispatch with its
        ordinal.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct, field, structs

from livedbg.adapters.iree.facts import DispatchFacts, dispatch_facts, iree_task
from livedbg.adapters.iree.live.image import Image
from livedbg.adapters.iree.live.libraries import Dispatch, Library
from livedbg.adapters.iree.live.loops import Loop, OnStack
from livedbg.adapters.iree.live.operations import Names
from livedbg.model import Edge, EdgeKind, Task, TaskState

_BLOCK: Final = struct.Struct("<Q8H")  # next, used, regions, most dispatches, bindings, fixups, dispatches, size, end
_DISPATCH: Final = struct.Struct("<4BBBHQQHHI3I3I2I")
_RECORDING: Final = struct.Struct("<QQ3H")  # block pool, first block, blocks, most dispatches, most bindings
_CONTEXT: Final = struct.Struct("<4QQQHHI")  # recording, table, its length, states, size, stride, count, next, workers
_POINTERS: Final = struct.Struct("<3Q")  # error, current block, current state: a cache line
_COUNTERS: Final = struct.Struct("<Q56xQ")  # active region, tiles left: a cache line each
_WORD: Final = struct.Struct("<Q")
_LINE: Final = 64
_POINTERS_AT: Final = 3 * _LINE
_DONE_AT: Final = _LINE
_DISPATCH_CODE, _BARRIER, _BRANCH, _RETURN = 0, 4, 5, 6
_MOST_BLOCKS: Final = 256
_MOST_COMMANDS: Final = 4096
_BUFFER: Final = 4096  # bytes of a command buffer in which its recording is looked for
_KINDS: Final = {1: "fill", 2: "copy", 3: "update"}


class Command(Struct, frozen=True):
    """One command of a recording.

    Attributes:
        index: its number in the command buffer, as profiles count; -1 for none.
        region: number of its region, over all blocks: commands of one region may run concurrently.
        dispatch: None for a fill, copy or update.
        kind: `dispatch`, `fill`, `copy`, `update`.
        slot: of its tile counter, in its region.
        tiles: number of workgroups; 0 if not known.
    """

    region: int
    kind: str
    index: int = -1
    dispatch: Dispatch | None = None
    slot: int = 0
    tiles: int = 0


class Progress(Struct, frozen=True):
    """Progress of the workers.

    Attributes:
        region: the active one.
        epoch: increases with each begun region.
        left: unfinished tiles of the region.
        taken: tiles taken so far, by slot of the region's commands.
        done: the whole recording is done.
    """

    region: int
    epoch: int
    left: int
    taken: tuple[int, ...]
    workers: int
    done: bool


class Recording(Struct, frozen=True):
    """One command buffer's commands in order.

    Attributes:
        context: address of the workers' counters; 0 if not seen.
        blocks: number of its first region, by address of each block.
        progress: None if a single worker runs it (it counts nothing), or none has begun.
    """

    commands: tuple[Command, ...]
    context: int = 0
    blocks: dict[int, int] = field(default_factory=dict)
    progress: Progress | None = None


def read_recordings(image: Image, buffers: Sequence[int], libraries: Sequence[Library]) -> dict[int, Recording]:
    """Return the recordings of some command buffers, by address; unreadable ones are left out."""
    dispatches = {one.address: one for library in libraries for one in library.dispatches}
    places = {buffer: at for buffer in buffers if (at := _recording_at(image, buffer, dispatches)) is not None}
    contexts = _contexts(image, set(places.values()))
    found = {}
    for buffer, at in places.items():
        blocks, commands = _commands(image, at, dispatches)
        context = contexts.get(at, 0)
        found[buffer] = Recording(commands, context, blocks, _progress(image, context, blocks))
    return found


def read_progress(image: Image, recordings: Mapping[int, Recording]) -> dict[int, Recording]:
    """Return the recordings with their current progress."""
    return {
        buffer: structs.replace(one, progress=_progress(image, one.context, one.blocks))
        for buffer, one in recordings.items()
    }


def _recording_at(image: Image, buffer: int, dispatches: Mapping[int, Dispatch]) -> int | None:
    """Find the recording in a command buffer: two pointers, the second to a block that begins with a barrier."""
    data = image.bytes_at(buffer, _BUFFER) or b""
    for place in range(0, len(data) - _RECORDING.size, 8):
        _, block, count, most, _ = _RECORDING.unpack_from(data, place)
        if 0 < count <= _MOST_BLOCKS and block > _BUFFER:
            head = image.unpack(_BLOCK, block)
            if head is not None and head[3] <= most and _commands(image, buffer + place, dispatches)[1]:
                return buffer + place
    return None


def _commands(image: Image, at: int, dispatches: Mapping[int, Dispatch]) -> tuple[dict[int, int], tuple[Command, ...]]:
    """Return the first region of each block, by block address, and all commands."""
    fields = image.unpack(_RECORDING, at)
    blocks: dict[int, int] = {}
    commands: list[Command] = []
    block, region = fields[1] if fields else 0, 0
    while block and block not in blocks and len(blocks) < _MOST_BLOCKS:
        head = image.unpack(_BLOCK, block)
        if head is None or not 0 < head[1] <= head[7]:
            break
        blocks[block] = region
        data = image.bytes_at(block + _BLOCK.size, head[1])
        commands += _in_block(data or b"", region, dispatches)
        region, block = region + head[2], head[0]
    return blocks, tuple(commands)


def _in_block(data: bytes, region: int, dispatches: Mapping[int, Dispatch]) -> Iterator[Command]:
    at, region = 0, region - 1
    for _ in range(_MOST_COMMANDS):
        if at + 4 > len(data):
            return
        code, _, size, slot = data[at : at + 4]
        if code == _BARRIER:
            region += 1
        elif code in _KINDS:
            yield Command(region, _KINDS[code], slot=slot)
        elif code == _DISPATCH_CODE and at + _DISPATCH.size <= len(data):
            fields = _DISPATCH.unpack_from(data, at)
            function, ordinal, index, indirect = fields[8], fields[9], fields[11], fields[1] & 1
            dispatch = dispatches.get(function)
            if dispatch is None or dispatch.ordinal != ordinal:
                return  # G1
            x, y, z = fields[15:18]
            yield Command(region, "dispatch", index, dispatch, slot, 0 if indirect else x * y * z)
        else:
            return  # a branch to the next block, or the end
        if not size:
            return
        at += 8 * size


def _contexts(image: Image, recordings: set[int]) -> dict[int, int]:
    """Map each recording's address to the context of the processor that runs it."""
    found: dict[int, int] = {}
    for place, recording in image.places(recordings):
        fields = image.unpack(_CONTEXT, place)
        if fields is not None and place % _LINE == 0 and 0 < fields[8] <= 4096 and 0 < fields[6] <= _MOST_BLOCKS:
            found[recording] = place
    return found


def _progress(image: Image, context: int, blocks: Mapping[int, int]) -> Progress | None:
    if not context:
        return None
    fields, pointers = image.unpack(_CONTEXT, context), image.unpack(_POINTERS, context + _POINTERS_AT)
    done = image.unpack(_WORD, context + _DONE_AT)
    if fields is None or pointers is None or done is None:
        return None
    _, block, state = pointers
    workers = fields[8]
    counters = image.unpack(_COUNTERS, state)
    head = image.unpack(_BLOCK, block)
    if workers < 2 or block not in blocks or counters is None or head is None:
        return None
    active, left = counters
    epoch = active >> 32
    slots = [image.unpack(_WORD, state + (2 + slot) * _LINE) for slot in range(min(head[3], 256))]
    taken = tuple(one[0] & 0xFFFFFFFF if one is not None and one[0] >> 32 == epoch else 0 for one in slots)
    region = blocks[block] + (active & 0xFFFFFFFF)
    return Progress(region, epoch, left & 0xFFFFFFFF, taken, workers, bool(done[0] & 0xFFFFFFFF))


_TOLD: Final = 8
_LINES: Final = 4


def with_loops(task: Task, looping: Mapping[str, Loop]) -> Task:
    """Add the number of repeated samples to a running dispatch, if all of its workers repeat themselves."""
    threads = [place for place in task.where if place.startswith("thread:")]
    loops = [looping[thread] for thread in threads if thread in looping]
    if task.state is not TaskState.RUNNING or not loops or len(loops) < len(threads):
        return task
    if any(loop.dispatch != task.kernel for loop in loops):
        return task
    return structs.replace(task, facts=structs.replace(dispatch_facts(task), loops=sum(loop.samples for loop in loops)))


def mark_of(recording: Recording | None) -> tuple[int, ...]:
    """Return a value that changes when a worker begins or finishes workgroups."""
    progress = recording.progress if recording is not None else None
    return (progress.epoch, progress.left, *progress.taken) if progress is not None else ()


def begun(recording: Recording) -> tuple[int, int] | None:
    """Return the taken workgroups, and all; None if not known."""
    progress, commands = recording.progress, [one for one in recording.commands if one.dispatch is not None]
    if progress is None or not all(one.tiles for one in commands) or len(commands) < len(recording.commands):
        return None
    before = sum(one.tiles for one in commands if one.region < progress.region)
    return before + sum(progress.taken), sum(one.tiles for one in commands)


def active_in(recording: Recording, running: Sequence[OnStack], *, alone: bool) -> list[Command]:
    """Return the commands of a recording that may run now; [] if not known.

    Args:
        recording: of an operation that has begun.
        running: the dispatches that threads run.
        alone: no other operation of its device has begun.
    """
    dispatches = [command for command in recording.commands if command.dispatch is not None]
    if recording.progress is not None:
        return [command for command in dispatches if command.region == recording.progress.region]
    if alone and len(recording.commands) == len(dispatches) == 1:
        return dispatches  # it has nothing else
    on = {one.dispatch.address for one in running}
    found = [one for one in dispatches if one.dispatch is not None and one.dispatch.address in on]
    return found if len(found) == 1 else []  # its stack tells, if it can mean one only


def one_of(recording: Recording) -> str:
    """Return what may run of a recording, in order: dispatches by name, and other commands by kind."""
    counts = Counter(one.dispatch.name if one.dispatch is not None else one.kind for one in recording.commands)
    told = [f"{name} ({count} times)" if count > 1 else name for name, count in counts.items()]
    more = len(told) - _TOLD
    return ", ".join([*told[:_TOLD], *([f"{more} more"] if more > 0 else [])])


def state_of(command: Command, progress: Progress | None) -> TaskState:
    if progress is None or (command.slot < len(progress.taken) and progress.taken[command.slot]):
        return TaskState.RUNNING
    return TaskState.READY


def facts_of_command(command: Command, progress: Progress | None, device: str, *, waits: bool) -> DispatchFacts:
    assert command.dispatch is not None
    counted = progress is not None and not waits and command.slot < len(progress.taken)
    return DispatchFacts(
        dispatch=command.dispatch.name,
        source=command.dispatch.source,
        device=device,
        workgroups=command.tiles or None,
        begun=progress.taken[command.slot] if progress is not None and counted else None,
    )


def lines_of(running: Sequence[OnStack]) -> str:
    """Return the lines at which threads of a dispatch were found, `FILE:LINE, LINE`; "" for none."""
    files: dict[str, set[int]] = {}
    for line in (line for one in running for line in one.lines):
        file, _, number = line.rpartition(":")
        files.setdefault(file, set()).add(int(number))
    told = [f"{file}:{', '.join(map(str, sorted(numbers)[:_LINES]))}" for file, numbers in files.items()]
    return "; ".join(told)


class Loose:
    """Dispatches of a process (`owner`) that no operation explains."""

    def __init__(self, names: Names, owner: str) -> None:
        self._names = names
        self._owner = owner
        self._alone: dict[tuple[str, str], tuple[int, int]] = {}

    @property
    def any(self) -> bool:
        return bool(self._alone)

    def shown(self, running: list[OnStack], tasks: dict[str, Task], looping: Mapping[str, Loop]) -> Iterator[Edge]:
        """Add their tasks, and yield their edges."""
        shown = {task.kernel for task in tasks.values() if task.state is TaskState.RUNNING}
        known: dict[tuple[str, str], tuple[int, int]] = {}
        for on in running:
            if on.dispatch.name in shown:
                continue
            key = (on.dispatch.device or on.thread, on.dispatch.name)  # the threads of a driver share one
            first, last = self._alone.get(key, (on.taken_mono_ns, on.taken_mono_ns))
            loop = looping.get(on.thread)
            newest = max(last, on.taken_mono_ns, on.seen_mono_ns)
            first = min(first, loop.since_ns) if loop is not None else first
            known[key] = (first, newest)
            if newest <= first and loop is None:
                continue  # one stack (W1)
            name = self._names.task(on.dispatch.name, key[0])
            before = tasks[name].where if name in tasks else tuple(filter(None, (on.device,)))
            tasks[name] = iree_task(
                name,
                on.dispatch.name,
                TaskState.RUNNING,
                since_mono_ns=first,
                where=(*before, on.thread),
                owner=self._owner,
                facts=DispatchFacts(
                    dispatch=on.dispatch.name,
                    by="stacks",
                    lines=lines_of([on]),
                    source=on.dispatch.source,
                    device=on.device,
                ),
            )
            yield Edge(kind=EdgeKind.RUNS_ON, source=name, target=on.thread)
        self._alone = known
