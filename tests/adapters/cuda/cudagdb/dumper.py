"""A process that takes orders for a GPU core dump as one with CUDA does: reads a FIFO, writes a file when it is asked.

    dumper.py CORE [slow] [never] [cut] [abort] [blocks] [unprompted] [deaf] [closes]

The names of pipe and file come from the environment, as the CUDA driver has them (cuda-gdb manual, "GPU core dump
support"). CORE is what is written. `blocks`: it reacts to a whole megabyte only. `unprompted`: it writes at once, and
again at each line on its input, without any pipe. `deaf`: it reads no orders. `closes`: it closes its pipe as it takes
the order, and writes late.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import threading
import time
from pathlib import Path


def named(variable: str, default: str) -> Path:
    name = os.environ.get(variable, default)
    for mark, value in (("%h", socket.gethostname()), ("%p", str(os.getpid())), ("%t", str(int(time.time())))):
        name = name.replace(mark, value)
    return Path(name)


def write(core: bytes, words: list[str]) -> None:
    path = named("CUDA_COREDUMP_FILE", "core_%t_%h_%p.nvcudmp")
    if "cut" in words:
        core = core[: len(core) // 2]
    with path.open("wb", buffering=0) as file:
        for part in range(10):
            file.write(core[part * len(core) // 10 : (part + 1) * len(core) // 10])
            time.sleep(0.1 if "slow" in words else 0.002)
        if "abort" in words:  # with the file still open: whoever takes it for whole sees that the process has ended
            os.abort()
    print("WROTE", path, flush=True)


def take_orders(core: bytes, words: list[str]) -> None:
    pipe = named("CUDA_COREDUMP_PIPE", "corepipe.cuda.%h.%p")
    os.mkfifo(pipe)
    orders = os.open(pipe, os.O_RDWR)
    print("READY", pipe, flush=True)
    while "deaf" in words:
        time.sleep(60)
    while True:
        came = len(os.read(orders, 1 << 16))
        while "blocks" in words and came < 1 << 20:
            came += len(os.read(orders, 1 << 16))
        print("ORDERED", came, flush=True)
        if "closes" in words:
            os.close(orders)
            time.sleep(2.5)  # longer than an order stays a single byte
            write(core, words)
            return
        if "never" not in words:
            write(core, words)
        while select.select([orders], [], [], 0)[0]:
            os.read(orders, 1 << 16)  # more of the same order, which came as nobody read it in time


def main(core: Path, words: list[str]) -> None:
    content = core.read_bytes()
    if os.environ.get("CUDA_ENABLE_USER_TRIGGERED_COREDUMP", "0") != "0":
        threading.Thread(target=take_orders, args=(content, words), daemon=True).start()
    else:
        print("READY -", flush=True)
    for _line in sys.stdin:
        write(content, words)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
