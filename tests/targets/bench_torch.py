"""A torch process with THREADS threads that wait, and a heartbeat. Usage: bench_torch.py THREADS LIB FILE"""

import ctypes
import sys
import threading

import torch

threads, library, file = int(sys.argv[1]), sys.argv[2], sys.argv[3]
lock = threading.Lock()
lock.acquire()


def wait() -> None:
    with lock:
        pass


heart = ctypes.CDLL(library)
assert heart.heartbeat_start(file.encode()) == 0
for number in range(threads - 2 - (threading.active_count() - 1)):
    threading.Thread(target=wait, name=f"worker-{number}", daemon=True).start()
print("READY", torch.ones(2).sum().item(), flush=True)
threading.Event().wait()
