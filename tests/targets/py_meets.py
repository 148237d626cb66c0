"""Processes that meet at a barrier and one that does not come, and what looks like it: py_meets.py MODE.

Prints READY and a line of JSON when all are where they stay: their pids, the odd one last.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path

WORKERS = 4


def asleep(number: int, barrier: Barrier, work: Queue[int]) -> None:
    if number == WORKERS - 1:
        time.sleep(3600)  # @asleep odd
    barrier.wait()  # @asleep others


def starved(number: int, barrier: Barrier, work: Queue[int]) -> None:
    if number == WORKERS - 1:
        work.get()  # @starved odd
    barrier.wait()  # @starved others


def rounds(number: int, barrier: Barrier, work: Queue[int]) -> None:
    """All meet again and again; the last one comes a moment later each time."""
    while True:
        if number == WORKERS - 1:
            sum(range(100_000))
            time.sleep(0.02)
        barrier.wait()


def pool(number: int, barrier: Barrier, work: Queue[int]) -> None:
    """Workers with nothing to do, and one that has."""
    if number == WORKERS - 1:
        time.sleep(3600)
    work.get()


def listens(number: int, barrier: Barrier, work: Queue[int]) -> None:
    """Processes that accept on one socket; one of them serves a client that says nothing."""
    served.accept()[0].recv(1)


def coordinated(number: int, barrier: Barrier, work: Queue[int]) -> None:
    """All workers meet with their parent, which sleeps first."""
    barrier.wait()


MODES: dict[str, Callable[[int, Barrier, Queue[int]], None]] = {
    one.__name__: one for one in (asleep, starved, rounds, pool, listens, coordinated)
}
served = socket.create_server(("127.0.0.1", 0))


def blocked(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] == "S"


def began(number: int, mode: str, up: Queue[int], barrier: Barrier, work: Queue[int]) -> None:
    signal.alarm(3600)
    up.put(number)
    up.close()
    up.join_thread()
    MODES[mode](number, barrier, work)


def main(mode: str) -> None:
    context = multiprocessing.get_context("fork")
    up: Queue[int] = context.Queue()
    work: Queue[int] = context.Queue()
    barrier = context.Barrier(WORKERS + (mode == "coordinated"))
    children = [
        context.Process(target=began, args=(number, mode, up, barrier, work), daemon=True) for number in range(WORKERS)
    ]
    for child in children:
        child.start()
    for _ in children:
        up.get()
    pids = [child.pid or 0 for child in children]
    client = socket.create_connection(served.getsockname()) if mode == "listens" else None
    while mode != "rounds" and not all(map(blocked, pids)):
        time.sleep(0.01)
    print("READY", json.dumps({"pid": os.getpid(), "pids": pids}), flush=True)
    if client is not None or mode == "coordinated":
        time.sleep(3600)
    for child in children:
        child.join()


if __name__ == "__main__":
    main(sys.argv[1])
