"""A healthy job of sixteen threads that share one GIL: they compute, hash, pass work on, take turns, and sleep.

It prints, a line a second, how much all of them have done, and at its end the longest time in which one did nothing.
"""

from __future__ import annotations

import hashlib
import queue
import signal
import threading
import time
import zlib

COMPUTE, WORK, HASH, TURNS, SLEEP = 6, 4, 2, 2, 1  # threads of each kind, and one that makes the work

over = threading.Event()
done: dict[str, int] = {}
idle_s: dict[str, float] = {}
last_s: dict[str, float] = {}
jobs: queue.Queue[int] = queue.Queue(64)
results: dict[int, int] = {}
guard = threading.Lock()
turn = threading.Condition()
order = [0, 1]


def did(count: int = 1) -> None:
    """The calling thread has done something."""
    name, now_s = threading.current_thread().name, time.monotonic()
    idle_s[name] = max(idle_s.get(name, 0.0), now_s - last_s.get(name, now_s))
    last_s[name] = now_s
    done[name] = done.get(name, 0) + count


def compute(_: int) -> None:
    total = 0
    while not over.is_set():
        for number in range(20_000):
            total = (total * 31 + number) % 1_000_003
        did()


def make(_: int) -> None:
    number = 0
    while not over.is_set():
        jobs.put(number)
        number += 1
        did()


def work(_: int) -> None:
    while not over.is_set():
        number = jobs.get()
        value = sum(digit * digit for digit in range(number % 2_000))
        with guard:
            results[number % 100] = value
        did()


def hashes(_: int) -> None:
    block = bytes(4 << 20)
    while not over.is_set():
        hashlib.sha256(block).digest()  # without the GIL
        zlib.crc32(block)
        did()


def takes_turns(number: int) -> None:
    while not over.is_set():
        with turn:
            turn.wait_for(lambda: order[0] == number or over.is_set())
            order.reverse()
            turn.notify_all()
        time.sleep(0.002)
        did()


def sleeps(_: int) -> None:
    while not over.is_set():
        time.sleep(0.05)
        did()


def main() -> None:
    signal.signal(signal.SIGTERM, lambda number, frame: over.set())
    kinds = ((compute, COMPUTE), (work, WORK), (hashes, HASH), (takes_turns, TURNS), (sleeps, SLEEP), (make, 1))
    for run, count in kinds:
        for number in range(count):
            name = f"{run.__name__}-{number}"
            threading.Thread(target=run, args=(number,), name=name, daemon=True).start()
    print("READY", flush=True)
    while not over.wait(1.0):
        print(f"step {sum(done.values())}", flush=True)
    name, longest_s = max(idle_s.items(), key=lambda item: item[1])
    print(f"longest pause of a thread: {longest_s:.1f} s ({name}); {len(done)} threads", flush=True)


main()
