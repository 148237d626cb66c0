"""Two gloo ranks: `healthy` steps for ever; `missing`: rank 1 never enters the fourth all_reduce."""

import os
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def rank(number: int, mode: str, port: int) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "RANK": str(number), "WORLD_SIZE": "2"}
    dist.init_process_group("gloo")
    data = torch.ones(1000)
    for step in range(1 << 30):
        if step == 4:
            print("READY", flush=True)
        if mode == "missing" and number == 1 and step == 3:
            print("READY", flush=True)
            time.sleep(10_000)
        dist.all_reduce(data)
        time.sleep(0.05)


if __name__ == "__main__":
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(rank, (sys.argv[1], port), 2)
