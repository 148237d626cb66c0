"""Find out which worker of a DataLoader owes the batch that its process waits for.

The main thread asks for data with a time limit of 5 s, again and again, and gets it from any worker; but it gives the
batches out in order. `_rcvd_idx` is the number of the next one, and `_task_info` has its worker (torch 2.x,
torch/utils/data/dataloader.py, _MultiProcessingDataLoaderIter).

Invariants:
    loaders.D1. A worker owes the batch only if the thread was in the same call, for the same batch, at two readings.
    loaders.D2. With a time limit of the user's (`timeout=`), the wait ends by itself. Out of order (`in_order=False`),
        any worker with an open task may end it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from livedbg.adapters.pytorch.collectives.groups import thread_reader
from livedbg.cpython.heap import HeapReader
from livedbg.cpython.threads import ThreadReader
from livedbg.linux.procfs import thread_ids
from livedbg.linux.pthreads import inner_tids
from livedbg.model import Edge, EdgeKind, Process, ids
from livedbg.session.adapter import Context
from livedbg.session.pacing import Limit, timed
from livedbg.session.polling import PolledAdapter
from livedbg.session.publisher import Publisher

_FILE: Final = "/torch/utils/data/dataloader.py"
_CALL: Final = "_MultiProcessingDataLoaderIter._get_data"
_NEAR: Final = 24  # frames: the queue's are above it
_MOST_WORKERS: Final = 1 << 12
_MOST_TASKS: Final = 1 << 16
_LIMIT: Final = Limit(cpu=0.005, wall=0.1, least_s=1.0)


class Owed(NamedTuple):
    """A wait for a batch.

    Attributes:
        thread: that waits, by its number in its own PID namespace.
        frame: address of the iterator.
        batch: its number, from 0.
        workers: numbers of the processes that may give it, in their own PID namespace, each with its place among all.
        timed: it ends by itself after a time.
    """

    thread: int
    frame: int
    batch: int
    workers: tuple[tuple[int, int], ...]
    timed: bool


class LoadersAdapter(PolledAdapter):
    """Workers of DataLoaders."""

    name = "loaders"
    title = "DataLoaders"
    sees = "which worker of a DataLoader owes the batch that its process waits for, from its memory"
    cost = "no stop; some ms of CPU for a process that has children, once a second at most"

    def __init__(self) -> None:
        super().__init__()
        self._shown = Publisher("pytorch/loaders")

    async def reread(self, context: Context) -> None:
        """Sample again."""
        await self.turn(context)

    async def look(self, context: Context) -> float:
        snapshot = context.snapshot()
        alive = [one for one in snapshot.processes.values() if not one.exited and one.host == context.request.host]
        edges, cost = await asyncio.to_thread(timed, _edges, alive)
        context.emit(*self._shown.show(context.stamp(), edges=edges))
        return _LIMIT.rest_s(cost)


def _edges(processes: Sequence[Process]) -> list[Edge]:
    return [
        edge
        for process in processes
        if (children := [one.pid for one in processes if one.ppid == process.pid])
        for edge in _of(process, children)
    ]


def _of(process: Process, children: Sequence[int]) -> Iterator[Edge]:
    try:
        reader = thread_reader(process.pid)
        first = owed(reader) if reader is not None else []
        again = owed(reader) if reader is not None and first else []
        threads = inner_tids(process.pid, thread_ids(process.pid)) if again else {}
    except (OSError, ValueError):  # gone, not ours to look at, or it changes
        return
    numbers = {inner: pid for child in children for inner, pid in inner_tids(child, [child]).items()}
    for wait in again:
        if wait not in first or wait.thread not in threads:
            continue
        for place, worker in wait.workers:
            if worker in numbers:
                pid = numbers[worker]
                yield Edge(
                    kind=EdgeKind.WAITS_FOR,
                    source=ids.thread(process.host, process.pid, threads[wait.thread]),
                    target=ids.thread(process.host, pid, pid),
                    evidence=f"batch {wait.batch} of its DataLoader is a task of worker {place}",
                    any_of=len(wait.workers) > 1,
                    timed=wait.timed,
                )


def owed(reader: ThreadReader) -> list[Owed]:
    """Return the threads of a process that wait for a batch; raise OSError if it can't be read."""
    heap, found = HeapReader(reader.objects), []
    for thread in reader.threads():
        frames = (one for one in thread.frames[:_NEAR] if one.code.name == _CALL and one.code.file.endswith(_FILE))
        frame = next(frames, None)
        if frame is not None and frame.slots:
            wait = _owed(heap, frame.slots[0], thread.native_id)
            found += [wait] if wait is not None else []
    return found


def _owed(heap: HeapReader, iterator: int, thread: int) -> Owed | None:
    of = heap.attributes(iterator)
    batch, limit = heap.integer(of.get("_rcvd_idx", 0)), heap.number(of.get("_timeout", 0))
    if batch is None or limit is None or heap.type_name(of.get("_task_info", 0)) != "dict":
        return None
    tasks = {heap.integer(key): heap.items(value, 2) for key, value in heap.dict_items(of["_task_info"], _MOST_TASKS)}
    open_tasks = {number: heap.integer(items[0]) for number, items in tasks.items() if len(items) == 1}
    any_of = heap.integer(of.get("_in_order", 0)) == 0
    owing = (place for number, place in open_tasks.items() if any_of or number == batch)
    places = sorted({place for place in owing if place is not None})
    processes = heap.items(of.get("_workers", 0), _MOST_WORKERS)
    workers = [(place, _pid(heap, processes[place])) for place in places if place < len(processes)]
    known = tuple((place, pid) for place, pid in workers if pid is not None)
    return Owed(thread, iterator, batch, known, limit > 0) if known and len(known) == len(places) else None


def _pid(heap: HeapReader, process: int) -> int | None:
    """Return the number of a multiprocessing.Process that was started (multiprocessing/popen_fork.py)."""
    popen = heap.attributes(process).get("_popen", 0)
    return heap.integer(heap.attributes(popen).get("pid", 0)) if popen else None
