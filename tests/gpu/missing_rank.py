"""Two ranks with NCCL; rank 1 never enters the third all_reduce. Run by torchrun; not tried on a GPU yet."""

from __future__ import annotations

import os
import time

import torch
import torch.distributed as dist

RANK = int(os.environ["RANK"])


def fetch_batch() -> None:
    while True:
        time.sleep(3600)


torch.cuda.set_device(RANK)
dist.init_process_group("nccl")
numbers = torch.ones(8, device="cuda")
for step in range(3):
    if step == 2:
        print(f"READY {os.getpid()}", flush=True)
        if RANK == 1:
            fetch_batch()
    dist.all_reduce(numbers)
    torch.cuda.synchronize()
