"""Event loops in a known state, one per word: what is read of their tasks is compared with this file.

A program prints READY once its tasks are where they stay, and its lines carry a word of what waits there.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import signal
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator


def ready() -> None:
    print("READY", flush=True)


async def settled(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def take(first: asyncio.Lock, second: asyncio.Lock, both: asyncio.Event, arrived: list[int]) -> None:
    async with first:
        arrived.append(1)
        if len(arrived) == 2:
            both.set()
        await both.wait()
        async with second:
            print("never")


async def crossed() -> None:
    one, two, both, arrived = asyncio.Lock(), asyncio.Lock(), asyncio.Event(), list[int]()
    left = asyncio.create_task(take(one, two, both, arrived), name="left")
    right = asyncio.create_task(take(two, one, both, arrived), name="right")
    await settled(8)
    ready()
    await asyncio.gather(left, right)


async def crossed_beside_work() -> None:
    """The same, with a heartbeat and a timer beside it."""

    async def heartbeat() -> None:
        while True:
            await asyncio.sleep(0.2)

    beat = asyncio.create_task(heartbeat(), name="heartbeat")
    await crossed()
    await beat


async def crossed_beside_a_runner() -> None:
    """The same, and a task that runs on: it may cancel both."""
    one, two, both, arrived = asyncio.Lock(), asyncio.Lock(), asyncio.Event(), list[int]()
    tasks = [
        asyncio.create_task(take(one, two, both, arrived), name="left"),
        asyncio.create_task(take(two, one, both, arrived), name="right"),
    ]
    await settled(8)
    ready()
    while tasks:
        pass


async def crossed_with_timeout() -> None:
    """The same, and the one who waits for both gives up after a time: no deadlock."""
    await asyncio.wait_for(crossed(), 3_600)


async def crossed_with_deadline() -> None:
    """One of the two gives up by itself: no deadlock."""
    one, two, both, arrived = asyncio.Lock(), asyncio.Lock(), asyncio.Event(), list[int]()

    async def patient() -> None:
        async with asyncio.timeout(3_600):
            await take(one, two, both, arrived)

    left = asyncio.create_task(patient(), name="left")
    right = asyncio.create_task(take(two, one, both, arrived), name="right")
    await settled(8)
    ready()
    await asyncio.gather(left, right)


async def crossed_with_watchdog() -> None:
    """The same, and a task that sleeps may cancel both."""
    one, two, both, arrived = asyncio.Lock(), asyncio.Lock(), asyncio.Event(), list[int]()

    async def watches(tasks: list[asyncio.Task[None]]) -> None:
        await asyncio.sleep(3_600)
        for task in tasks:
            task.cancel()

    left = asyncio.create_task(take(one, two, both, arrived), name="left")
    right = asyncio.create_task(take(two, one, both, arrived), name="right")
    watchdog = asyncio.create_task(watches([left, right]), name="watchdog")
    await settled(8)
    ready()
    await asyncio.gather(left, right, watchdog)


async def ends() -> None:
    """A task that ends once something can be read from stdin."""
    more = asyncio.Event()
    asyncio.get_running_loop().add_reader(0, more.set)
    task = asyncio.create_task(more.wait(), name="short")
    await settled()
    ready()
    await task
    asyncio.get_running_loop().remove_reader(0)
    await asyncio.Event().wait()


async def again() -> None:
    """A task gets its lock once something can be read from stdin, and waits for the same one at another line."""
    lock, more = asyncio.Lock(), asyncio.Event()
    asyncio.get_running_loop().add_reader(0, more.set)

    async def has() -> None:
        await lock.acquire()
        await more.wait()
        asyncio.get_running_loop().remove_reader(0)
        lock.release()
        await lock.acquire()
        await asyncio.Event().wait()

    async def waits() -> None:
        await lock.acquire()
        lock.release()
        await lock.acquire()

    tasks = [asyncio.create_task(has(), name="has"), asyncio.create_task(waits(), name="waits")]
    await settled()
    ready()
    await asyncio.wait(tasks)


async def own_lock() -> None:
    """A task waits for a lock that it has."""
    lock = asyncio.Lock()

    async def twice() -> None:
        async with lock, lock:
            pass

    task = asyncio.create_task(twice(), name="twice")
    await settled()
    ready()
    await task


async def under_condition() -> None:
    """One task has the lock of a condition and waits for another one's; that one waits for the condition's lock."""
    condition, lock, both, arrived = asyncio.Condition(), asyncio.Lock(), asyncio.Event(), list[int]()

    async def waits_to_be_notified() -> None:
        async with condition:
            await condition.wait()

    idle = asyncio.create_task(waits_to_be_notified(), name="idle")
    await settled()
    left = asyncio.create_task(take(condition, lock, both, arrived), name="left")  # type: ignore[arg-type]
    right = asyncio.create_task(take(lock, condition, both, arrived), name="right")  # type: ignore[arg-type]
    await settled(8)
    ready()
    await asyncio.gather(idle, left, right)


async def acquired_by_hand() -> None:
    """Locks without `async with`: nobody knows who holds them."""
    one, two, both, arrived = asyncio.Lock(), asyncio.Lock(), asyncio.Event(), list[int]()

    async def by_hand(first: asyncio.Lock, second: asyncio.Lock) -> None:
        await first.acquire()
        arrived.append(1)
        if len(arrived) == 2:
            both.set()
        await both.wait()
        await second.acquire()

    left = asyncio.create_task(by_hand(one, two), name="left")
    right = asyncio.create_task(by_hand(two, one), name="right")
    await settled(8)
    ready()
    await asyncio.gather(left, right)


async def lost_future() -> None:
    lost = asyncio.get_running_loop().create_future()

    async def waiter() -> None:
        await lost

    task = asyncio.create_task(waiter(), name="waiter")
    await settled()
    ready()
    await task


class Client:
    """Keeps futures for its replies."""

    def __init__(self) -> None:
        self.pending: dict[int, asyncio.Future[int]] = {}
        self.only = asyncio.get_running_loop().create_future()

    async def call(self, number: int) -> int:
        self.pending[number] = asyncio.get_running_loop().create_future()
        return await self.pending[number]

    async def asks(self) -> int:
        value: int = await self.only
        return value


async def kept_futures() -> None:
    """Futures that somebody may complete: a table, an object, a timer, a thread, a signal handler, another task."""
    loop, client = asyncio.get_running_loop(), Client()
    by_timer, by_thread, by_signal, by_task, by_future, first = (loop.create_future() for _ in range(6))
    loop.call_later(3_600, by_timer.set_result, 1)
    loop.add_signal_handler(signal.SIGUSR1, by_signal.set_result, 1)
    first.add_done_callback(by_future.set_result)
    release = threading.Event()

    def completes(future: asyncio.Future[int]) -> None:
        release.wait()
        loop.call_soon_threadsafe(future.set_result, 1)

    threading.Thread(target=completes, args=(by_thread,), daemon=True).start()

    async def awaits(future: asyncio.Future[int]) -> None:
        await future

    async def sleeps(future: asyncio.Future[int]) -> None:
        await asyncio.sleep(3_600)
        future.set_result(1)

    tasks = [
        loop.create_task(client.call(1), name="table"),
        loop.create_task(client.asks(), name="object"),
        loop.create_task(awaits(by_timer), name="timer"),
        loop.create_task(awaits(by_thread), name="thread"),
        loop.create_task(awaits(by_signal), name="signal"),
        loop.create_task(awaits(by_task), name="task"),
        loop.create_task(awaits(by_future), name="future"),
        loop.create_task(sleeps(by_task), name="sleeps"),
    ]
    del by_timer, by_thread, by_signal, by_task, by_future
    await settled()
    ready()
    await asyncio.gather(*tasks)
    _KEPT.append(first)


async def all_waits() -> None:
    """One task for each kind of wait."""
    loop = asyncio.get_running_loop()
    lock, queue, event, condition = asyncio.Lock(), asyncio.Queue[int](), asyncio.Event(), asyncio.Condition()
    full, semaphore = asyncio.Queue[int](1), asyncio.Semaphore(0)
    full.put_nowait(1)
    future = loop.create_future()
    read, write = await asyncio.open_connection(sock=_half())
    pool = concurrent.futures.ThreadPoolExecutor(1)
    release = threading.Event()

    async def holds() -> None:
        async with lock:
            await event.wait()

    async def locks() -> None:
        async with lock:
            pass

    async def conditions() -> None:
        async with condition:
            await condition.wait()

    async def sleeps() -> None:
        await asyncio.sleep(3_600)

    async def awaits(thing: object) -> None:
        await thing  # type: ignore[misc]

    async def numbers() -> AsyncIterator[int]:
        await event.wait()
        yield 1

    async def iterates() -> None:
        async for _ in numbers():
            pass

    async def groups() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(sleeps(), name="of-group")

    inner = loop.create_task(sleeps(), name="inner")
    named = {
        "holds": holds(),
        "locks": locks(),
        "gets": queue.get(),
        "puts": full.put(2),
        "condition": conditions(),
        "semaphore": semaphore.acquire(),
        "sleeps": sleeps(),
        "future": awaits(future),
        "task": awaits(inner),
        "gathers": awaits(asyncio.gather(sleeps(), inner)),
        "waits": asyncio.wait([inner]),
        "shields": awaits(asyncio.shield(inner)),
        "reads": read.read(100),
        "executor": awaits(loop.run_in_executor(pool, release.wait)),
        "groups": groups(),
        "iterates": iterates(),
    }
    tasks = [loop.create_task(one, name=name) for name, one in named.items()]
    await settled(10)
    ready()
    await asyncio.gather(*tasks)
    write.close()


def _half() -> socket.socket:
    one, other = socket.socketpair()
    _KEPT.append(other)
    return one


_KEPT: list[object] = []


async def blocked() -> None:
    """A callback that blocks while other tasks could run."""

    async def ticks() -> None:
        while True:
            await asyncio.sleep(0.01)

    async def blocks() -> None:
        await settled()
        ready()
        call_that_blocks()

    others = [asyncio.create_task(ticks(), name=f"tick-{number}") for number in range(3)]
    await asyncio.create_task(blocks(), name="culprit")
    await asyncio.gather(*others)


def call_that_blocks() -> None:
    threading.Event().wait()  # blocks the loop


async def many() -> None:
    tasks = [asyncio.create_task(asyncio.sleep(3_600), name=f"many-{number}") for number in range(2_100)]
    await settled()
    ready()
    await asyncio.gather(*tasks)


async def queue_idle() -> None:
    """Workers wait for jobs whose producer sleeps."""
    queue = asyncio.Queue[int]()

    async def worker() -> None:
        while True:
            await queue.get()

    async def producer() -> None:
        while True:
            await asyncio.sleep(3_600)
            await queue.put(1)

    workers = [asyncio.create_task(worker(), name=f"worker-{number}") for number in range(3)]
    produces = asyncio.create_task(producer(), name="producer")
    await settled()
    ready()
    await asyncio.gather(produces, *workers)


async def pool_leaked() -> None:
    """Each task takes a connection of a pool, and none gives it back."""
    pool = asyncio.Queue[str]()
    pool.put_nowait("connection")

    async def asks() -> str:
        return await pool.get()

    tasks = [asyncio.create_task(asks(), name=f"asks-{number}") for number in range(3)]
    await settled()
    ready()
    await asyncio.gather(*tasks)


async def until_stopped() -> None:
    """Workers wait for jobs, and the program until somebody sets its event."""
    queue, stop = asyncio.Queue[int](), asyncio.Event()
    workers = [asyncio.create_task(queue.get(), name=f"worker-{number}") for number in range(2)]
    await settled()
    ready()
    await stop.wait()
    await asyncio.gather(*workers)


async def until_ctrl_c() -> None:
    """The program ends by what the callback of a signal puts into a queue."""
    stop = asyncio.Queue[None]()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.put_nowait, None)
    ready()
    await stop.get()


async def request_held_up() -> None:
    """A server that looks idle, and a request in it that waits for what nobody gives back."""
    limit = asyncio.Semaphore(1)
    await limit.acquire()

    async def request() -> None:
        async with limit:
            print("never")

    serving = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    task = asyncio.create_task(request(), name="request")
    await settled()
    ready()
    await asyncio.gather(task, serving.serve_forever())


async def answered(news: bool) -> None:
    """A server with a client, which waits for an answer, or for news while its messages are read."""
    price = asyncio.Event()

    async def reads(reader: asyncio.StreamReader) -> None:
        await reader.read()

    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        beside = asyncio.create_task(reads(reader)) if news else None
        ready()
        await price.wait()  # @price
        print(beside, writer)

    serving = await asyncio.start_server(answers, "127.0.0.1", 0)
    with socket.create_connection(serving.sockets[0].getsockname()) as client:
        client.sendall(b"price?\n")
        await serving.serve_forever()


async def answer_held_up() -> None:
    await answered(news=False)


async def news_later() -> None:
    await answered(news=True)


async def server() -> None:
    """A server without clients."""
    serving = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    ready()
    await serving.serve_forever()


async def executor() -> None:
    """A thread works for a task."""
    loop = asyncio.get_running_loop()

    async def works() -> None:
        await loop.run_in_executor(None, time.sleep, 3_600)

    task = asyncio.create_task(works(), name="works")
    await settled()
    ready()
    await task


async def child() -> None:
    """A task waits for a child process."""
    process = await asyncio.create_subprocess_exec("sleep", "3600")
    task = asyncio.create_task(process.wait(), name="child")
    await settled()
    ready()
    await task


async def on_signal() -> None:
    """A task waits for what a signal handler sets."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, stop.set)
    ready()
    await stop.wait()


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1].replace("-", "_")]())
