"""Loops, one a word: some come to an end, some poll for what never comes; they only compute, or nap between."""

from __future__ import annotations

import asyncio
import itertools
import queue
import sched
import signal
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator

MANY = 10**12
NAP_S = 0.1
NAPS = 10**6
SLEEP_S = 3600.0
FEW = tuple(range(200))
FLAG: list[int] = []  # stays empty
STOP = threading.Event()  # is not set


def ready() -> None:
    print("READY", flush=True)


def over(items: Iterable[object]) -> int:
    done = 0
    for item in items:
        done += len(str(item)) % 3
    return done


def passes(items: Iterable[object]) -> Iterator[object]:
    yield from (item for item in items)


def by_range() -> None:
    over(range(MANY))


def by_step() -> None:
    over(range(10, MANY, 5))


def downwards() -> None:
    over(range(MANY, 0, -1))


def by_list() -> None:
    over([0] * 20_000_000)


def by_zip() -> None:
    over(zip(range(MANY), itertools.repeat(1)))  # noqa: B905


def by_generator() -> None:
    over(item for item in range(MANY))


def by_enumerate() -> None:
    over(enumerate(passes(range(MANY))))


def by_enumerated_list() -> None:
    over(enumerate([0] * 20_000_000))


def by_dict() -> None:
    over(dict.fromkeys(range(4_000_000)).items())


def by_map() -> None:
    over(map(abs, range(MANY)))


def by_filter() -> None:
    over(filter(None, range(MANY)))


def by_slice() -> None:
    over(itertools.islice(itertools.count(), MANY))


def by_reversed() -> None:
    over(reversed([0] * 20_000_000))


def computes_until_a_time() -> None:
    number, end = 0, time.monotonic() + SLEEP_S
    while time.monotonic() < end:
        factors(number)
        number += 1


def factors(number: int) -> int:
    total, by = 0, 2
    while by * by <= number:
        if number % by == 0:
            total += by
        by += 1
    return total


def computes_short_jobs() -> None:
    jobs = queue.SimpleQueue[int | None]()
    for _ in range(1_000_000):
        jobs.put(20)
    while (job := jobs.get()) is not None:
        over(range(job))


def counts_what_comes() -> None:
    got = 0
    while got < MANY:
        if FLAG:
            got += 1


def counts_what_comes_after_it() -> None:
    got = 0
    while got < MANY:
        if not FLAG:
            continue
        got += 1


def polls_a_cycle() -> None:
    for _, item in enumerate(itertools.cycle(FEW)):
        if item in FLAG:
            raise SystemExit


def polls_for_jobs() -> None:
    while True:
        for job in FLAG:
            over(range(job))


async def looks_again() -> None:
    while not FLAG:
        await asyncio.sleep(0)


def polls_in_an_event_loop() -> None:
    for _ in range(NAPS):
        asyncio.run(looks_again())


def nested() -> None:
    for _ in range(100_000):
        over(range(20_000))


def counts_in_a_while() -> None:
    done, end = 0, MANY
    while done < end:
        done += 1


def counts_its_polls() -> None:
    tries = 0
    while tries < MANY:
        tries += 1
        if FLAG:
            return


def polls_a_flag() -> None:
    for _ in range(10):
        while not FLAG:
            pass


def polls_a_short_list() -> None:
    while True:
        for item in FEW:
            if item in FLAG:
                return


def counts_while_it_polls() -> None:
    for _ in itertools.count():
        if FLAG:
            return


def numbers_its_polls() -> None:
    for _ in enumerate(itertools.repeat(None)):
        if FLAG:
            return


def naps_in_a_for() -> None:
    for _ in range(NAPS):
        time.sleep(NAP_S)


def naps_in_a_while(end: int = NAPS) -> None:
    step = 0
    while step < end:
        time.sleep(NAP_S)
        step += 1


def naps_until_a_count() -> None:
    left, size = NAPS, 1
    while True:
        time.sleep(NAP_S)
        left -= size
        size = max(size, 1)
        if left == 0:
            return


def joins_one_that_naps() -> None:
    worker = threading.Thread(target=naps_in_a_while)
    worker.start()
    worker.join()


def retries() -> bool:
    for _ in range(NAPS):
        if FLAG:
            return True
        time.sleep(NAP_S)
    return False


def retries_while_it_may() -> None:
    tries = 0
    while not FLAG and tries < NAPS:
        time.sleep(NAP_S)
        tries += 1


def naps_in_slices() -> None:
    while not FLAG:
        naps_in_a_for()


def sleeps_until_it_is_there() -> None:
    while not FLAG:
        time.sleep(SLEEP_S)


def sleeps_for_ever() -> None:
    while True:
        time.sleep(SLEEP_S)


def rests_between_rounds() -> None:
    while True:
        sum(FEW)
        time.sleep(NAP_S)


def rests_until_told_to_stop() -> None:
    stopped = False
    while not stopped:
        time.sleep(NAP_S)


def pauses_until_told_to_stop() -> None:
    while not STOP.wait(NAP_S):
        sum(FEW)


def rest() -> bool:
    return STOP.wait(NAP_S)


def pauses_in_a_helper() -> None:
    while not STOP.is_set():
        sum(FEW)
        rest()


def polls_with_a_helper_that_pauses() -> None:
    while not FLAG:
        rest()


def takes_one_after_the_other() -> None:
    items = queue.SimpleQueue[int]()
    for number in range(NAPS):
        items.put(number)
    while True:
        item = items.get()
        if item is None:
            break
        time.sleep(NAP_S)


def naps_if_nothing_has_come() -> None:
    while True:
        if not FLAG:
            time.sleep(NAP_S)


def a_scheduler_sleeps() -> None:
    scheduler = sched.scheduler()
    scheduler.enter(SLEEP_S, 1, ready)
    scheduler.run()


def a_library_polls() -> None:
    file = f"{tempfile.mkdtemp(prefix='livedbg-')}/runs"
    holder = sqlite3.connect(file, isolation_level=None)
    holder.execute("create table runs (number)")
    holder.execute("begin immediate")
    waiter = sqlite3.connect(file, isolation_level=None, timeout=SLEEP_S)
    for number in range(NAPS):
        waiter.execute("insert into runs values (?)", (number,))


def rests_beside_one_that_polls() -> None:
    threading.Thread(target=sleeps_until_it_is_there, daemon=True).start()
    rests_between_rounds()


def rests_beside_a_lost_wait() -> None:
    threading.Thread(target=threading.Semaphore(0).acquire, daemon=True).start()
    rests_between_rounds()


def naps_beside_a_lost_wait() -> None:
    threading.Thread(target=naps_in_a_for, daemon=True).start()
    threading.Semaphore(0).acquire()


async def naps(many: int) -> None:
    for _ in range(many):
        await asyncio.sleep(NAP_S)


async def retries_in_a_task() -> None:
    for _ in range(NAPS):
        if FLAG:
            return
        await asyncio.sleep(NAP_S)


async def gathers() -> None:
    await asyncio.gather(naps(NAPS), naps(NAPS + 1))


async def tells_beside_a_lost_wait() -> None:
    beside = {asyncio.create_task(naps(NAPS))}
    for task in beside:
        task.add_done_callback(beside.discard)
    await asyncio.get_running_loop().create_future()


async def gives(items: asyncio.Queue[int]) -> None:
    while True:
        await items.put(1)
        await asyncio.sleep(NAP_S)


async def takes(items: asyncio.Queue[int]) -> None:
    while True:
        await items.get()


async def waits_for_a_reply(items: asyncio.Queue[int]) -> None:
    await items.get()
    await asyncio.Queue[int]().get()


async def asks_again(items: asyncio.Queue[int]) -> None:
    while True:
        await items.put(0)
        if await items.get():
            return
        await asyncio.sleep(NAP_S)


async def gives_up_again(items: asyncio.Queue[int]) -> None:
    done = 0
    while done < NAPS:
        try:
            await asyncio.wait_for(items.get(), NAP_S)
            done += 1
        except TimeoutError:
            continue


async def beside(*works: Callable[[asyncio.Queue[int]], Awaitable[None]]) -> None:
    items = asyncio.Queue[int]()
    stop = asyncio.Event()
    tasks = [asyncio.ensure_future(work(items)) for work in works]
    await stop.wait()
    del tasks


def does_jobs(jobs: queue.Queue[float]) -> None:
    while True:
        time.sleep(jobs.get())
        jobs.task_done()


def does_none(jobs: queue.Queue[float]) -> None:
    while True:
        time.sleep(jobs.get())


def joins_a_queue(work: Callable[[queue.Queue[float]], None]) -> None:
    jobs = queue.Queue[float]()
    for _ in range(2):
        threading.Thread(target=work, args=(jobs,), daemon=True).start()
    for _ in range(NAPS):
        jobs.put(NAP_S)
    jobs.join()


def joins_a_queue_of_jobs() -> None:
    joins_a_queue(does_jobs)


def joins_a_queue_whose_jobs_are_never_done() -> None:
    joins_a_queue(does_none)


def tasks_between_queues() -> None:
    asyncio.run(beside(gives, takes))


def a_task_waits_for_a_reply() -> None:
    asyncio.run(beside(gives, takes, waits_for_a_reply))


def a_task_asks_again() -> None:
    asyncio.run(beside(asks_again))


def a_task_gives_up_again() -> None:
    asyncio.run(beside(gives_up_again))


def waits_for_an_order() -> None:
    signal.signal(signal.SIGTERM, lambda *_: STOP.set())
    threading.Thread(target=rests_between_rounds, daemon=True).start()
    STOP.wait()


def waits_for_an_order_beside_a_lost_wait() -> None:
    signal.signal(signal.SIGTERM, lambda *_: STOP.set())
    threading.Thread(target=rests_beside_a_lost_wait, daemon=True).start()
    STOP.wait()


def tasks_that_nap() -> None:
    asyncio.run(gathers())


def a_task_that_retries() -> None:
    asyncio.run(retries_in_a_task())


def a_task_beside_a_lost_wait() -> None:
    asyncio.run(tells_beside_a_lost_wait())


if __name__ == "__main__":
    ready()
    globals()[sys.argv[1]]()
