"""Two ranks that train a small model with DistributedDataParallel and gloo. Usage: torch_training.py FILE

The file has the number of steps of each rank (two uint64).
"""

import mmap
import os
import socket
import struct
import sys

import torch
import torch.distributed as dist

RANKS = 2
torch.set_num_threads(1)

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]

steps = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 8 * RANKS)


def train(rank: int) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(RANKS))
    dist.init_process_group("gloo")
    model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    number = 0
    while True:
        optimizer.zero_grad()
        loss = model(torch.randn(32, 256)).square().mean()
        loss.backward()
        optimizer.step()
        number += 1
        struct.pack_into("<Q", steps, 8 * rank, number)


for number in range(RANKS):
    if os.fork() == 0:
        train(number)
print("READY", flush=True)
os.wait()
