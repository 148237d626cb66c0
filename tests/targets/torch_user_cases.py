"""Further cases of torch_jobs.py, as users write them: retries, ranks that end, output of children, roots, meshes, a
checkpoint of torch.distributed.checkpoint; with healthy ones."""

from __future__ import annotations

import os
import queue
import subprocess
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch_jobs import Rank


def wait_turn(items: queue.Queue[object]) -> object:
    return items.get()


def fetch_with_retry(times: int, pause_s: float) -> None:
    for _ in range(times):
        try:
            with open("/nowhere/manifest"):
                return
        except OSError:
            sum(range(200_000))  # as much as it takes to log and to connect
            time.sleep(pause_s)


def tries_again(me: Rank) -> None:
    """The last rank tries the same again and again, and sleeps between."""
    if me.last:
        fetch_with_retry(10**9, 3)
    me.step(me.dp)


def tries_healthy(me: Rank) -> None:
    """It succeeds in the end, each time."""
    while True:
        if me.last:
            fetch_with_retry(3, 0.3)
        me.step(me.dp)


def _agree(me: Rank) -> None:
    store = dist.distributed_c10d._get_default_store()
    store.set(f"agreed/{me.rank}", "1")
    store.wait([f"agreed/{me.world - 1}"], timedelta(hours=2))


def ended_badly(me: Rank) -> None:
    """The last rank has ended, and the others wait for its key."""
    if me.last:
        os._exit(3)
    _agree(me)


def ended_well(me: Rank) -> None:
    if me.last:
        os._exit(0)
    _agree(me)


def child_output(me: Rank) -> None:
    """The first rank reads what a program prints that reads a FIFO."""
    if me.rank == 0:
        subprocess.run(["cat", str(me.folder / "ckpt.fifo")], check=True, capture_output=True)
    me.step(me.dp)


def child_healthy(me: Rank) -> None:
    while True:
        if me.rank == 0:
            subprocess.run(["sh", "-c", "sleep 0.5; echo done"], check=True, capture_output=True)
        me.step(me.dp)


def share_config(owner: int) -> None:
    found = [{"lr": 0.1}] if dist.get_rank() == owner else [None]
    dist.broadcast_object_list(found, src=owner)


def object_root(me: Rank) -> None:
    """The last rank expects the configuration from rank 1."""
    share_config(0)
    share_config(1 if me.last else 0)
    dist.barrier()


def deal(me: Rank, owner: int) -> None:
    rows = [torch.ones(2)] * me.world if me.rank == owner else None
    dist.scatter(torch.zeros(2), rows, src=owner, group=me.dp)


def scatter_root(me: Rank) -> None:
    deal(me, 1 if me.last else 0)
    dist.barrier()


def scatter_healthy(me: Rank) -> None:
    for owner in range(10**9):
        deal(me, owner % me.world)
        time.sleep(0.05)


def reduce_scattered(me: Rank) -> None:
    """A reduce_scatter, which gloo does by an all_reduce."""
    if me.last:
        wait_turn(queue.Queue())
    dist.reduce_scatter_tensor(torch.zeros(2), torch.ones(2 * me.world), group=me.dp)


def mesh_left(me: Rank) -> None:
    """The last rank has fewer batches in its group of a mesh, and waits in the barrier of all."""
    mesh = dist.init_device_mesh("cpu", (2, me.world // 2), mesh_dim_names=("replicas", "shards"))
    for _ in range(5 if me.last else 7):
        dist.all_reduce(torch.ones(2), group=mesh.get_group("replicas"))
    dist.barrier()


def whole_state(me: Rank) -> None:
    """FSDP2: the first rank alone gathers the weights."""
    from torch.distributed.fsdp import fully_shard

    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
    fully_shard(model[0])
    fully_shard(model)
    for _ in range(3):
        model(torch.ones(2, 8)).sum().backward()
    if me.rank == 0:
        for weight in model.state_dict().values():
            weight.full_tensor()
    dist.barrier()


def distributed_checkpoint(me: Rank) -> None:
    """The file of the last rank is a FIFO that nobody reads."""
    from torch.distributed.checkpoint import async_save
    from torch.distributed.fsdp import fully_shard

    model = torch.nn.Linear(8, 8)
    fully_shard(model)
    where = me.folder / "step"
    if me.rank == 0:
        where.mkdir()
        os.mkfifo(where / f"__{me.world - 1}_0.distcp")
    dist.barrier()
    async_save({"model": model.state_dict()}, checkpoint_id=str(where)).result()
    dist.barrier()


def distributed_healthy(me: Rank) -> None:
    from torch.distributed.checkpoint import async_save
    from torch.distributed.fsdp import fully_shard

    model = torch.nn.Linear(8, 8)
    fully_shard(model)
    for step in range(10**9):
        me.step(me.dp)
        async_save({"model": model.state_dict()}, checkpoint_id=str(me.folder / f"step{step % 2}")).result()


CASES: tuple[Callable[[Rank], None], ...] = (
    tries_again, tries_healthy, ended_badly, ended_well, child_output, child_healthy, object_root, scatter_root,
    scatter_healthy, reduce_scattered, mesh_left, whole_state, distributed_checkpoint, distributed_healthy,
)  # fmt: skip
