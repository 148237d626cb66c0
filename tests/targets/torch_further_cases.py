"""Further cases of torch_jobs.py, over libraries that nothing of livedbg was made for: uneven inputs with `join`, tensor
parallelism, objects, batches of messages, an agent inside of the program, queues of torch.multiprocessing, a sharded
optimizer, asynchronous checkpoints; with healthy ones."""

from __future__ import annotations

import multiprocessing
import os
import queue
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch_jobs import Rank


def next_item(items: queue.Queue[object]) -> object:
    return items.get()


def uneven_join(me: Rank) -> None:
    """The last rank has run out of rows and is in `join`; the first one gets no more."""
    model = DistributedDataParallel(torch.nn.Linear(2, 2), process_group=me.dp)
    with model.join():
        for step in range(6 if me.last else 100):
            if me.rank == 0 and step == 10:
                next_item(queue.Queue())
            model(torch.ones(2, 2)).sum().backward()


def uneven_join_healthy(me: Rank) -> None:
    model = DistributedDataParallel(torch.nn.Linear(2, 2), process_group=me.dp)
    with model.join():
        for _ in range(6 if me.last else 10**9):
            model(torch.ones(2, 2)).sum().backward()
            time.sleep(0.02)


def uneven_bare(me: Rank) -> None:
    """The same without `join`: the last rank has left the loop and saves."""
    model = DistributedDataParallel(torch.nn.Linear(2, 2), process_group=me.dp)
    for _ in range(6 if me.last else 8):
        model(torch.ones(2, 2)).sum().backward()
    dist.barrier(me.ep)


def tensor_parallel(me: Rank) -> None:
    """A layer that is split by DTensor; the last rank logs its weight alone, which gathers it."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh("cpu", (me.world,))
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
    model = parallelize_module(model, mesh, {"0": ColwiseParallel(), "1": RowwiseParallel()})
    for step in range(4):
        if me.last and step == 2:
            model[0].weight.full_tensor()
        model(torch.ones(2, 8)).sum().backward()
    dist.barrier()


def objects_gathered(me: Rank) -> None:
    """The ranks gather objects at different ranks."""
    to = 1 if me.rank == 1 else 0
    dist.gather_object({"rank": me.rank}, [None] * me.world if me.rank == to else None, dst=to)
    dist.barrier()


def objects_missing(me: Rank) -> None:
    """The last rank reads its metrics before it gives them."""
    metrics: object = None
    if me.last:
        metrics = next_item(queue.Queue())
    dist.all_gather_object([None] * me.world, metrics)


def batch_of_messages(me: Rank) -> None:
    """A halo exchange whose last rank has a neighbour too few: it sends nothing to the right."""
    left, right = (me.rank - 1) % me.world, (me.rank + 1) % me.world
    ops = [
        dist.P2POp(dist.irecv, torch.ones(8), left),
        dist.P2POp(dist.isend, torch.ones(8), left),
        dist.P2POp(dist.irecv, torch.ones(8), right),
        dist.P2POp(dist.isend, torch.ones(8), right),
    ]
    for work in dist.batch_isend_irecv(ops[:3] if me.last else ops):
        work.wait()
    dist.barrier()


def halo_healthy(me: Rank) -> None:
    left, right = (me.rank - 1) % me.world, (me.rank + 1) % me.world
    while True:
        ops = [dist.P2POp(dist.irecv, torch.ones(8), left), dist.P2POp(dist.isend, torch.ones(8), right)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        time.sleep(0.05)


def _fill(rows: object) -> None:
    for _ in range(8):
        rows.put(bytes(1 << 20))  # type: ignore[attr-defined]


def joined_before_read(me: Rank) -> None:
    """The last rank joins a child before it takes what that has put into a queue, whose pipe is full."""
    if me.last:
        context = torch.multiprocessing.get_context("fork")
        rows = context.Queue()
        child = context.Process(target=_fill, args=(rows,))
        child.start()
        child.join()
        rows.get()
    me.step(me.dp)


def queue_bounded(me: Rank) -> None:
    """The last rank puts into a bounded queue of torch.multiprocessing that nobody reads."""
    if me.last:
        rows = torch.multiprocessing.get_context("fork").Queue(1)
        for _ in range(3):
            rows.put(torch.ones(4))
    me.step(me.dp)


def sharded_optimizer(me: Rank) -> None:
    """ZeroRedundancyOptimizer, whose last rank leaves out a step whose loss is not finite."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.01)
    for step in range(6):
        model(torch.ones(2, 2)).sum().backward()
        if not (me.last and step == 3):
            optimizer.step()
    dist.barrier(me.ep)


def checkpoint_later(me: Rank) -> None:
    """All train on while a checkpoint is written; the last rank waits for its own before it goes on."""
    import torch.distributed.checkpoint as dcp

    release = threading.Event()

    class Writer(dcp.FileSystemWriter):
        def write_data(self, *plan: object) -> object:
            if me.last:
                release.wait()
            return super().write_data(*plan)

    where = me.folder / "saved"
    saved = dcp.async_save({"rows": torch.zeros(4)}, checkpoint_id=str(where), storage_writer=Writer(where))
    for step in range(8):
        me.step(me.dp)
        if me.last and step == 4:
            saved.result()


def heartbeat(me: Rank) -> None:
    """Helper threads compare clocks in a group of their own, while the last rank gets no batch."""

    def beat() -> None:
        while True:
            me.step(me.ep)
            time.sleep(0.5)

    threading.Thread(target=beat, daemon=True).start()
    if me.last:
        next_item(queue.Queue())
    me.step(me.dp)


def heartbeat_messages(me: Rank) -> None:
    """The same by messages."""

    def beat() -> None:
        while True:
            if me.last:
                dist.recv(torch.ones(1), 0, group=me.ep)
                dist.send(torch.ones(1), 0, group=me.ep)
            elif me.rank == 0:
                dist.send(torch.ones(1), me.world - 1, group=me.ep)
                dist.recv(torch.ones(1), me.world - 1, group=me.ep)
            time.sleep(0.5)

    threading.Thread(target=beat, daemon=True).start()
    if me.last:
        next_item(queue.Queue())
    me.step(me.dp)


def _saves(me: Rank) -> None:
    """A thread of each rank writes, and meets those of the others in a group of their own; the last one takes long."""
    saved = dist.new_group(list(range(me.world)), timedelta(hours=2), group_desc="saved")

    def save() -> None:
        me.step(saved)
        if me.last:
            time.sleep(3600)
        me.step(saved)

    threading.Thread(target=save, daemon=True).start()


def saves_beside(me: Rank) -> None:
    """Healthy: all train on while a checkpoint is written."""
    _saves(me)
    while True:
        me.step(me.dp)
        time.sleep(0.02)


def saves_crosswise(me: Rank) -> None:
    """Healthy: the thread of the first rank waits for that of the last one, and the last rank for the first one, which
    computes."""
    _saves(me)
    rows = torch.ones(100, 100)
    while me.rank == 0:
        rows = (rows @ rows).clamp(0, 1)
    me.step(me.dp)


def counted_down(me: Rank) -> None:
    """The last rank waits in a context's barrier that its own helper does not come to."""
    if me.last:
        threading.Barrier(2).wait()
    me.step(me.dp)


def _later() -> None:
    time.sleep(3600)


def child_sleeps(me: Rank) -> None:
    """Healthy as far as anybody knows: the last rank waits for a child that sleeps for a time of its own."""
    if me.last:
        child = multiprocessing.get_context("fork").Process(target=_later)
        child.start()
        os.waitpid(child.pid or 0, 0)
    me.step(me.dp)


def three_groups(me: Rank) -> None:
    """Three pairs of three ranks, each rank taking its two groups in another order: a circle."""
    pairs = [dist.new_group(pair, timedelta(hours=2), group_desc=f"pair{n}") for n, pair in enumerate(_PAIRS)]
    first, second = (pairs[me.rank], pairs[(me.rank - 1) % 3])
    me.step(first)
    me.step(second)


_PAIRS = ([0, 1], [1, 2], [2, 0])

CASES: tuple[Callable[[Rank], None], ...] = (
    uneven_join, uneven_join_healthy, uneven_bare, tensor_parallel, objects_gathered, objects_missing,
    batch_of_messages, halo_healthy, joined_before_read, queue_bounded, sharded_optimizer, checkpoint_later,
    heartbeat, heartbeat_messages, saves_beside, saves_crosswise, counted_down, child_sleeps, three_groups,
)  # fmt: skip
