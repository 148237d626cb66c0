"""Programs of gevent in a known state, one per word: what is read of their greenlets is compared with this file."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

import gevent
from gevent import socket
from gevent.event import AsyncResult, Event
from gevent.lock import BoundedSemaphore, RLock, Semaphore
from gevent.queue import Queue
from gevent.server import StreamServer

HOUR = 3_600


def ready() -> None:
    """All greenlets have begun, and wait."""
    gevent.sleep(0.05)
    gevent.idle()
    print("READY", flush=True)


def named(name: str, call: Callable[..., object], *arguments: object) -> gevent.Greenlet:
    greenlet = gevent.spawn(call, *arguments)
    greenlet.name = name
    return greenlet


def all_waits() -> None:
    """One greenlet for each kind of wait."""
    lock, semaphore, bounded, event, result = RLock(), Semaphore(0), BoundedSemaphore(1), Event(), AsyncResult()
    queue, full = Queue(), Queue(1)
    one, other = socket.socketpair()

    def holds() -> None:
        with lock, bounded:
            event.wait()

    def locks() -> None:
        with lock:
            pass

    def bounds() -> None:
        with bounded:
            pass

    def puts() -> None:
        full.put(1)
        full.put(2)

    def limited() -> None:
        with gevent.Timeout(HOUR):
            event.wait()

    holder = gevent.spawn(holds)
    calls: dict[str, Callable[[], object]] = {
        "locks": locks,
        "bounds": bounds,
        "semaphore": semaphore.acquire,
        "event": event.wait,
        "result": result.get,
        "gets": queue.get,
        "puts": puts,
        "sleeps": lambda: gevent.sleep(HOUR),
        "joins": holder.join,
        "socket": lambda: one.recv(10),
        "limited": limited,
    }
    greenlets = [named(name, call) for name, call in calls.items()]
    ready()
    event.wait()
    print(greenlets, other)


def take(first: RLock, second: RLock, arrived: list[int], both: Event) -> None:
    with first:
        arrived.append(1)
        if len(arrived) == 2:
            both.set()
        both.wait()
        with second:
            print("never")


def crossed() -> None:
    """Two greenlets with crossed locks beside a server, so that gevent does not end the program."""
    server = StreamServer(("127.0.0.1", 0), lambda *_: None)
    server.start()
    one, two, both = RLock(), RLock(), Event()
    arrived: list[int] = []
    left, right = named("left", take, one, two, arrived, both), named("right", take, two, one, arrived, both)
    ready()
    gevent.joinall([left, right])


def crossed_with_timeout() -> None:
    """The same; both give up after a time."""

    def patient(*locks: object) -> None:
        with gevent.Timeout(HOUR):
            take(*locks)  # type: ignore[arg-type]

    one, two, both = RLock(), RLock(), Event()
    arrived: list[int] = []
    left, right = named("left", patient, one, two, arrived, both), named("right", patient, two, one, arrived, both)
    ready()
    gevent.joinall([left, right])


def server() -> None:
    """A server that is idle, and a client that says nothing."""

    def serve(connection: socket.socket, _: object) -> None:
        connection.recv(10)

    listening = StreamServer(("127.0.0.1", 0), serve)
    listening.start()
    client = socket.create_connection(("127.0.0.1", listening.server_port))
    named("client", client.recv, 10)
    ready()
    listening.serve_forever()


def many() -> None:
    """A thousand greenlets that wait for jobs which come once an hour."""
    queue = Queue()

    def works() -> None:
        while True:
            queue.get()

    greenlets = [named(f"worker-{number}", works) for number in range(1_000)]
    ready()
    while greenlets:
        gevent.sleep(HOUR)
        queue.put(1)


def blocked() -> None:
    """A greenlet that blocks the hub while others could run."""

    def ticks() -> None:
        while True:
            gevent.sleep(0.01)

    def blocks() -> None:
        gevent.sleep(0.05)
        print("READY", flush=True)
        call_that_blocks()

    greenlets = [named(f"tick-{number}", ticks) for number in range(3)]
    named("culprit", blocks)
    gevent.joinall(greenlets)


def blocked_in_main() -> None:
    """The main greenlet blocks the hub while one gives way to others again and again."""

    def gives_way() -> None:
        while True:
            gevent.sleep(0)

    named("gives-way", gives_way)
    named("event", Event().wait)
    gevent.sleep(0)
    print("READY", flush=True)
    call_that_blocks()


def call_that_blocks() -> None:
    threading.Event().wait()  # blocks the hub


def threads() -> None:
    """A hub in another thread, whose greenlets wait; the main thread waits for it."""

    def runs() -> None:
        greenlets = [named(f"other-{number}", gevent.sleep, HOUR) for number in range(2)]
        ready()
        gevent.joinall(greenlets)

    thread = threading.Thread(target=runs)
    thread.start()
    thread.join()


if __name__ == "__main__":
    globals()[sys.argv[1].replace("-", "_")]()
