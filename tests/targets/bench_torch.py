"""A torch process with THREADS threads that wait, and a heartbeat. Usage: bench_torch.py THREADS LIB FILE [busy]

With `busy` each thread wakes some three times a second and multiplies two matrices.
"""

import ctypes
import random
import sys
import threading
import time

import torch

threads, library, file = int(sys.argv[1]), sys.argv[2], sys.argv[3]
lock = threading.Lock()
lock.acquire()


def wait() -> None:
    with lock:
        pass


def work() -> None:
    matrix = torch.ones(64, 64)
    while True:
        time.sleep(random.uniform(0.1, 0.5))
        matrix @ matrix


target = work if sys.argv[4:] == ["busy"] else wait
heart = ctypes.CDLL(library)
assert heart.heartbeat_start(file.encode()) == 0
for number in range(threads - 2 - (threading.active_count() - 1)):
    threading.Thread(target=target, name=f"worker-{number}", daemon=True).start()
print("READY", torch.ones(2).sum().item(), flush=True)
threading.Event().wait()
