"""Jobs under launchers: `plain FOLDER` starts two ranks by multiprocessing, and is what starts them; `worker` is one of
torchrun's, and does not import torch. The last rank has a bad shard."""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import sys

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


if __name__ == "__main__":
    plain(sys.argv[2]) if sys.argv[1] == "plain" else worker()
