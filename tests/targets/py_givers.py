"""Somebody waits for a queue, an event or a condition, and another one sleeps: who gives, and who only looks on."""

import asyncio
import multiprocessing
import os
import queue
import socket
import sys
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn, TextIO

inbox: "queue.Queue[int]" = queue.Queue()
_RESTS = 300.0


class Board:
    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.begins = threading.Event()
        self.events: queue.Queue[str] = queue.Queue()
        self.results: queue.Queue[str] = queue.Queue()
        self.value = 0

    def publish(self) -> None:
        with self.changed:
            self.value += 1
            self.changed.notify_all()

    def follow(self) -> NoReturn:
        while True:
            with self.changed:
                self.changed.wait()

    def beat(self) -> NoReturn:
        while True:
            time.sleep(_RESTS)
            self.events.put("beat")


def beside(work: object, *given: object) -> None:
    threading.Thread(target=work, args=given, daemon=True).start()  # type: ignore[arg-type]


def consume(box: "queue.Queue[int]") -> NoReturn:
    while True:
        box.get()


def feed(box: "queue.Queue[int]") -> NoReturn:
    while True:
        time.sleep(_RESTS)
        box.put(1)


def feeds_by_an_argument() -> None:
    box: queue.Queue[int] = queue.Queue()
    beside(feed, box)
    consume(box)


def feeds_a_global() -> None:
    def work() -> NoReturn:
        while True:
            time.sleep(_RESTS)
            inbox.put(1)

    beside(work)
    consume(inbox)


def notifies_in_a_method() -> None:
    board = Board()
    beside(board.follow)
    while True:
        time.sleep(_RESTS)
        board.publish()


def sets_once_later() -> None:
    board = Board()

    def work() -> None:
        time.sleep(_RESTS)
        board.begins.set()

    beside(work)
    board.begins.wait()


def looks_on() -> None:
    beside(consume, inbox)
    while True:
        time.sleep(_RESTS)
        inbox.qsize()


def fed_before() -> None:
    beside(consume, inbox)
    inbox.put(1)
    while True:
        time.sleep(_RESTS)
        inbox.qsize()


def feeds_if_a_file_has_come() -> None:
    def work() -> NoReturn:
        while True:
            time.sleep(_RESTS)
            if Path("/nowhere/at/all").exists():
                inbox.put(1)

    beside(work)
    consume(inbox)


def feeds_unless_it_fails() -> None:
    def work() -> NoReturn:
        while True:
            try:
                inbox.put(len(Path("/nowhere/at/all").read_text()))
            except OSError:
                time.sleep(_RESTS)

    beside(work)
    consume(inbox)


def feeds_another_queue() -> None:
    board = Board()
    beside(board.beat)
    board.results.get()


def feeds_a_queue_far_away() -> None:
    box: queue.Queue[int] = queue.Queue()

    def work(rings: object) -> NoReturn:
        while True:
            time.sleep(_RESTS)
            found = rings
            while isinstance(found, list):
                found = found[0]
            found.put(1)  # type: ignore[attr-defined]

    beside(work, [[[[[[[box]]]]]]])
    consume(box)


async def produce(box: "asyncio.Queue[int]") -> NoReturn:
    while True:
        await asyncio.sleep(_RESTS)
        box.put_nowait(1)


async def tasks() -> None:
    box: asyncio.Queue[int] = asyncio.Queue()
    feeding = asyncio.create_task(produce(box))
    while True:
        await box.get()
    feeding.cancel()


async def tasks_of_another() -> None:
    box: asyncio.Queue[int] = asyncio.Queue()
    feeding = asyncio.create_task(produce(asyncio.Queue()))
    while True:
        await box.get()
    feeding.cancel()


def a_task_feeds() -> None:
    asyncio.run(tasks())


def a_task_feeds_another() -> None:
    asyncio.run(tasks_of_another())


def feed_between_pauses(box: "queue.Queue[int]", stop: threading.Event) -> None:
    while not stop.wait(_RESTS):
        box.put(1)


def feeds_between_pauses() -> None:
    box: queue.Queue[int] = queue.Queue()
    beside(feed_between_pauses, box, threading.Event())
    consume(box)


def pauses_and_looks_on(box: "queue.Queue[int]", stop: threading.Event) -> None:
    while not stop.wait(_RESTS):
        print(box.qsize())


def pauses_beside_a_lost_wait() -> None:
    box: queue.Queue[int] = queue.Queue()
    beside(pauses_and_looks_on, box, threading.Event())
    consume(box)


async def tasks_and_a_thread() -> None:
    box: asyncio.Queue[int] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def work() -> NoReturn:
        while True:
            time.sleep(_RESTS)
            loop.call_soon_threadsafe(box.put_nowait, 1)

    beside(work)
    while True:
        await box.get()


def a_thread_feeds_a_task() -> None:
    asyncio.run(tasks_and_a_thread())


async def tasks_and_a_thread_that_looks_on() -> None:
    box: asyncio.Queue[int] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def work() -> NoReturn:
        while True:
            time.sleep(_RESTS)
            print(box.qsize(), loop.time())

    beside(work)
    while True:
        await box.get()


def a_thread_looks_at_a_task() -> None:
    asyncio.run(tasks_and_a_thread_that_looks_on())


def child(work: object, *given: object) -> None:
    context = multiprocessing.get_context("fork")
    context.Process(target=work, args=given, daemon=True).start()  # type: ignore[arg-type]


def put(box: "multiprocessing.Queue[int]", many: float) -> NoReturn:
    while True:
        time.sleep(_RESTS + many)
        box.put(1)


def get(box: "multiprocessing.Queue[int]") -> NoReturn:
    while True:
        box.get()


def processes_feed() -> None:
    box: multiprocessing.Queue[int] = multiprocessing.Queue()
    for many in range(2):
        child(put, box, many)
    get(box)


def processes_feed_another() -> None:
    box: multiprocessing.Queue[int] = multiprocessing.Queue()
    other: multiprocessing.Queue[int] = multiprocessing.Queue()
    for many in range(2):
        child(put, other, many)
    get(box)


def send(link: Connection, many: float) -> NoReturn:
    while True:
        time.sleep(_RESTS + many)
        link.send(1)


def receive(link: Connection, many: float) -> NoReturn:
    while True:
        time.sleep(_RESTS + many)
        link.recv()


def processes_send() -> None:
    near, far = multiprocessing.Pipe()
    for many in range(2):
        child(send, far, many)
    while True:
        near.recv()


def processes_receive() -> None:
    near, far = multiprocessing.Pipe()
    for many in range(2):
        child(receive, far, many)
    while True:
        near.recv()


def write(file: TextIO, many: float) -> NoReturn:
    while True:
        time.sleep(_RESTS + many)
        file.write("x\n")
        file.flush()


def processes_write() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading) as source, os.fdopen(writing, "w") as sink:
        for many in range(2):
            child(write, sink, many)
        for _ in source:
            pass


def shout(link: socket.socket, many: float) -> NoReturn:
    while True:
        time.sleep(_RESTS + many)
        link.sendall(b"x")


def processes_shout() -> None:
    near, far = socket.socketpair()
    for many in range(2):
        child(shout, far, many)
    far.close()
    while near.recv(1):
        pass


if __name__ == "__main__":
    print("READY", flush=True)
    globals()[sys.argv[1]]()
