"""Jobs under launchers, whose last rank has a bad shard: `plain FOLDER` starts two ranks by multiprocessing, and is what
starts them; `worker` is one of torchrun's, and does not import torch; `again` is one that fails at each start.
`spawned FOLDER` starts two ranks by `torch.multiprocessing.spawn`, and `gloo` is one of torchrun's, whose last rank gets
no batch."""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import sys
import time

STARTS = 3
"""How often torchrun starts the workers until they go on."""


def load(rank: int) -> None:
    if rank == 1:
        raise ValueError("bad shard")


def rank_of_plain(rank: int, folder: str) -> None:
    import torch.distributed as dist

    load(rank)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)


def plain(folder: str) -> None:
    import torch.distributed  # noqa: F401 - once, before the ranks are forked

    context = multiprocessing.get_context("fork")
    ranks = [context.Process(target=rank_of_plain, args=(rank, folder)) for rank in range(2)]
    for one in ranks:
        one.start()
    print("READY", flush=True)
    for one in ranks:
        one.join()


def worker() -> None:
    signal.alarm(900)  # it is in a session of its own
    if int(os.environ["TORCHELASTIC_RESTART_COUNT"]) < STARTS - 1:
        load(int(os.environ["RANK"]))
    queue.Queue[object]().get()


def again() -> None:
    signal.alarm(900)
    time.sleep(2)
    load(int(os.environ["RANK"]))
    queue.Queue[object]().get()


def train(rank: int) -> None:
    import torch
    import torch.distributed as dist

    for step in range(4):
        if rank == 1 and step == 2:
            queue.Queue[object]().get()
        dist.all_reduce(torch.ones(8))


def rank_of_spawned(rank: int, folder: str) -> None:
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    train(rank)


def spawned(folder: str) -> None:
    import torch.multiprocessing

    torch.multiprocessing.spawn(rank_of_spawned, (folder,), nprocs=2)


def gloo() -> None:
    import torch.distributed as dist

    signal.alarm(900)
    dist.init_process_group("gloo")
    train(int(os.environ["RANK"]))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
