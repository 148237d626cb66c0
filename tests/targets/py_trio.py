"""Programs of trio in a known state, one per word: what is read of their tasks is compared with this file."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from functools import partial

import trio
from trio.testing import wait_all_tasks_blocked

HOUR = 3_600


async def ready() -> None:
    await wait_all_tasks_blocked()
    print("READY", flush=True)


async def take(first: trio.Lock, second: trio.Lock, both: trio.Event, arrived: list[int]) -> None:
    async with first:
        arrived.append(1)
        if len(arrived) == 2:
            both.set()
        await both.wait()
        async with second:
            print("never")


def pair() -> tuple[tuple[object, ...], tuple[object, ...]]:
    one, two, both, arrived = trio.Lock(), trio.Lock(), trio.Event(), list[int]()
    return (one, two, both, arrived), (two, one, both, arrived)


async def crossed() -> None:
    left, right = pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(take, *left, name="left")
        nursery.start_soon(take, *right, name="right")
        await ready()


async def crossed_beside_work() -> None:
    """The same, and a task that sleeps, one that waits for a thread, and one that waits for a socket."""

    async def heartbeat() -> None:
        while True:
            await trio.sleep(0.2)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(heartbeat)
        nursery.start_soon(to_thread)
        nursery.start_soon(receives)
        nursery.start_soon(crossed)


async def crossed_with_timeout() -> None:
    """Both give up after a time: no deadlock."""
    with trio.fail_after(HOUR):
        await crossed()


async def crossed_with_deadline() -> None:
    """One of the two gives up by itself: no deadlock."""
    left, right = pair()

    async def patient() -> None:
        with trio.move_on_after(HOUR):
            await take(*left)  # type: ignore[arg-type]

    async with trio.open_nursery() as nursery:
        nursery.start_soon(patient, name="left")
        nursery.start_soon(take, *right, name="right")
        await ready()


class Service:
    """Has a nursery."""

    nursery: trio.Nursery

    async def watches(self) -> None:
        await trio.sleep(HOUR)
        self.nursery.cancel_scope.cancel()


async def crossed_with_watchdog() -> None:
    """A task that sleeps has the nursery of both in an object: it may cancel them."""
    left, right = pair()
    service = Service()
    async with trio.open_nursery() as outer, trio.open_nursery() as service.nursery:
        service.nursery.start_soon(take, *left, name="left")
        service.nursery.start_soon(take, *right, name="right")
        outer.start_soon(service.watches, name="watchdog")
        await ready()


async def crossed_with_stopper() -> None:
    """The task that opened the nursery sleeps in its block: it may cancel both."""
    left, right = pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(take, *left, name="left")
        nursery.start_soon(take, *right, name="right")
        await ready()
        await trio.sleep(HOUR)
        nursery.cancel_scope.cancel()


async def shielded() -> None:
    """A time limit that does not reach them, as they are shielded: a deadlock."""
    with trio.fail_after(HOUR), trio.CancelScope(shield=True):
        await crossed()


async def receives() -> None:
    one, other = trio.socket.socketpair()
    await one.recv(10)
    other.close()


async def to_thread() -> None:
    await trio.to_thread.run_sync(threading.Event().wait)


async def all_waits() -> None:
    """One task for each kind of wait."""
    lock, event, condition, notified = trio.Lock(), trio.Event(), trio.Condition(), trio.Condition()
    sends, takes = trio.open_memory_channel[int](0)
    one, other = trio.socket.socketpair()

    async def holds() -> None:
        async with lock:
            await event.wait()

    async def locks() -> None:
        async with lock:
            pass

    async def waits(what: trio.Condition) -> None:
        async with what:
            await what.wait()

    async def notifies() -> None:
        await wait_all_tasks_blocked()
        async with notified:
            notified.notify()
            await event.wait()

    async def nests() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, HOUR, name="inner")

    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "holds": holds,
        "locks": locks,
        "condition": lambda: waits(condition),
        "notified": lambda: waits(notified),
        "notifies": notifies,
        "semaphore": trio.Semaphore(0).acquire,
        "receives": takes.receive,
        "sleeps": lambda: trio.sleep(HOUR),
        "forever": trio.sleep_forever,
        "socket": lambda: one.recv(10),
        "thread": to_thread,
        "nests": nests,
    }
    async with trio.open_nursery() as nursery:
        for name, call in calls.items():
            nursery.start_soon(call, name=name)
            if name == "holds":
                await trio.sleep(0)  # trio runs tasks in any order
        await wait_all_tasks_blocked(0.01)
        print("READY", flush=True)
        await trio.sleep_forever()
    await sends.aclose()
    other.close()


async def channel_idle() -> None:
    """Workers wait for jobs whose producer sleeps."""
    sends, takes = trio.open_memory_channel[int](0)

    async def worker() -> None:
        async for _ in takes:
            pass

    async with trio.open_nursery() as nursery:
        for number in range(3):
            nursery.start_soon(worker, name=f"worker-{number}")
        await ready()
        while True:
            await trio.sleep(HOUR)
            await sends.send(1)


async def lock_over_socket() -> None:
    """Who has the lock waits for a peer."""
    lock = trio.Lock()

    async def asks() -> None:
        async with lock:
            await receives()

    async with trio.open_nursery() as nursery:
        for number in range(3):
            nursery.start_soon(asks, name=f"asks-{number}")
        await ready()


async def server() -> None:
    """A server with a client that says nothing."""

    async def serve(stream: trio.SocketStream) -> None:
        async for data in stream:
            await stream.send_all(data)

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        client = await trio.open_tcp_stream("127.0.0.1", listener.socket.getsockname()[1])
        await ready()
        await client.receive_some()


async def child() -> None:
    """A task waits for a child process."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.run_process, ["sleep", "3600"], name="child")
        await trio.sleep(0)
        await ready()


async def on_signal() -> None:
    with trio.open_signal_receiver(signal.SIGUSR1) as signals:
        await ready()
        async for _ in signals:
            pass


async def blocked() -> None:
    """A task that blocks the loop while others could run."""

    async def ticks() -> None:
        while True:
            await trio.sleep(0.01)

    async def blocks() -> None:
        await trio.sleep(0.05)
        print("READY", flush=True)
        call_that_blocks()

    async with trio.open_nursery() as nursery:
        for number in range(3):
            nursery.start_soon(ticks, name=f"tick-{number}")
        nursery.start_soon(blocks, name="culprit")


def call_that_blocks() -> None:
    threading.Event().wait()  # blocks the loop


if __name__ == "__main__":
    trio.run(globals()[sys.argv[1].replace("-", "_")])
