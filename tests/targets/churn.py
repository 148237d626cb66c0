"""A healthy Python program in which everything that is waited for comes and goes: short-lived threads take locks,
conditions, queues and the GIL, an event loop has tasks that wait for each other, children come and go. With the word
`deadlock`, two more of its threads stop in a cycle of locks after a second; with `loop`, two tasks of the event loop do.
"""

from __future__ import annotations

import asyncio
import os
import queue
import random
import subprocess
import sys
import threading
import time

LOCKS = [threading.Lock() for _ in range(4)] + [threading.RLock() for _ in range(4)]
READY = threading.Condition()
ITEMS: queue.Queue[int] = queue.Queue(2)
WORD = sys.argv[1] if len(sys.argv) > 1 else ""


def hold() -> None:
    what = random.random()
    time.sleep(random.random() * (0.003 if what < 0.7 else 0.1 if what < 0.97 else 1.2))


def take_locks() -> None:
    first = random.randrange(7)
    with LOCKS[first]:
        hold()
        with LOCKS[random.randrange(first + 1, 8)]:
            hold()


def notify() -> None:
    hold()
    with READY:
        READY.notify()


def be_notified() -> None:
    with READY:
        READY.wait(5)


def put() -> None:
    ITEMS.put(1)


def get() -> None:
    hold()
    ITEMS.get()


def burn() -> None:
    sum(range(random.randrange(200_000)))


def child() -> None:
    subprocess.run([sys.executable, "-S", "-c", "import time; time.sleep(0.1)"], check=False)


def pool() -> None:
    reader, writer = os.pipe()
    thread = threading.Thread(target=lambda: (hold(), os.write(writer, b"x")))
    thread.start()
    os.read(reader, 1)
    thread.join()
    os.close(reader)
    os.close(writer)


def again_and_again(what) -> None:
    while True:
        mortal = threading.Thread(target=what)
        mortal.start()
        mortal.join()


async def nap() -> None:
    what = random.random()
    await asyncio.sleep(random.random() * (0.003 if what < 0.7 else 0.1 if what < 0.97 else 1.2))


async def take(locks: list[asyncio.Lock]) -> None:
    while True:
        first = random.randrange(3)
        async with locks[first]:
            await nap()
            async with locks[random.randrange(first + 1, 4)]:
                await nap()


async def produce(items: asyncio.Queue[int]) -> None:
    while True:
        await nap()
        await items.put(1)


async def consume(items: asyncio.Queue[int]) -> None:
    while True:
        await items.get()
        await asyncio.wait([asyncio.ensure_future(nap()), asyncio.ensure_future(nap())])


async def cross(first: asyncio.Lock, second: asyncio.Lock) -> None:
    async with first:
        await asyncio.sleep(1)
        async with second:
            pass


async def serve() -> None:
    locks = [asyncio.Lock() for _ in range(4)]
    items: asyncio.Queue[int] = asyncio.Queue(1)
    more = []
    if WORD == "loop":
        one, other = asyncio.Lock(), asyncio.Lock()
        more = [cross(one, other), cross(other, one)]
    tasks = [take(locks) for _ in range(5)] + [produce(items), consume(items)] + more
    await asyncio.gather(*tasks)


def stop(first: threading.Lock, second: threading.Lock) -> None:
    with first:
        time.sleep(1)
        with second:
            pass


def main() -> None:
    if WORD == "deadlock":
        one, other = threading.Lock(), threading.Lock()
        threading.Thread(target=stop, args=(one, other), name="left").start()
        threading.Thread(target=stop, args=(other, one), name="right").start()
    doings = [take_locks] * 4 + [notify, be_notified, put, get, burn, pool, child]
    for what in doings * 2:
        threading.Thread(target=again_and_again, args=(what,), daemon=True).start()
    print("ready", flush=True)
    asyncio.run(serve())


main()
