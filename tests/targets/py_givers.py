"""Somebody waits for a queue, an event or a condition, and another one sleeps: who gives, and who only looks on."""

import asyncio
import queue
import sys
import threading
import time
from pathlib import Path
from typing import NoReturn

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


if __name__ == "__main__":
    print("READY", flush=True)
    globals()[sys.argv[1]]()
