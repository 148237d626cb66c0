"""Waits of a Python program, one a word: those that end by themselves or from outside, and those that never end."""

import asyncio
import multiprocessing
import os
import queue
import select
import selectors
import signal
import socket
import sys
import threading
import time


def ready() -> None:
    print("READY", flush=True)


def wakeup_fd() -> None:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    signal.set_wakeup_fd(theirs.fileno())
    signal.signal(signal.SIGTERM, lambda *_: None)
    ready()
    while True:
        ours.recv(1)


def http_server() -> None:
    from http.server import HTTPServer, SimpleHTTPRequestHandler

    server = HTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler)
    ready()
    server.serve_forever()


def asyncio_server() -> None:
    async def main() -> None:
        server = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
        ready()
        await server.serve_forever()

    asyncio.run(main())


def asyncio_idle_timer() -> None:
    async def main() -> None:
        ready()
        while True:  # noqa: ASYNC110
            await asyncio.sleep(7)

    asyncio.run(main())


def event_ctrl_c() -> None:
    ready()
    threading.Event().wait()


def event_sigint() -> None:
    ended = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: ended.set())
    ready()
    ended.wait()


def pool_idle() -> None:
    with multiprocessing.Pool(2) as pool:
        pool.map(abs, range(4))
        ready()
        threading.Event().wait()


def loop_forever() -> None:
    loop = asyncio.new_event_loop()
    loop.call_soon(ready)
    loop.run_forever()


def worker_pool() -> None:
    jobs: queue.Queue[int] = queue.Queue()
    for _ in range(4):
        threading.Thread(target=lambda: [jobs.get() for _ in iter(int, 1)], daemon=True).start()
    listener = socket.create_server(("127.0.0.1", 0))
    ready()
    while True:
        listener.accept()


def busy_threads() -> None:
    def work() -> None:
        while True:
            sum(range(1000))

    for _ in range(16):
        threading.Thread(target=work, daemon=True).start()
    ready()
    while True:
        time.sleep(1)


def pool_map() -> None:
    ready_once = False
    with multiprocessing.Pool(2) as pool:
        while True:
            pool.map(abs, range(50_000))
            if not ready_once:
                ready()
                ready_once = True


def sleeps() -> None:
    ready()
    while True:
        time.sleep(30)


def selector_idle() -> None:
    selector = selectors.DefaultSelector()
    selector.register(socket.create_server(("127.0.0.1", 0)), selectors.EVENT_READ)
    ready()
    while True:
        selector.select()


def long_gil() -> None:
    def slow() -> None:
        while True:
            sorted(range(3_000_000), key=lambda n: -n)

    threading.Thread(target=slow, daemon=True).start()
    ready()
    while True:
        sum(range(1000))


def event_never() -> None:
    event = threading.Event()
    ready()
    event.wait()


def queue_never() -> None:
    ready()
    queue.Queue().get()


def barrier_short() -> None:
    barrier = threading.Barrier(3)
    threading.Thread(target=barrier.wait).start()
    ready()
    barrier.wait()


def locks_crossed() -> None:
    one, two = threading.Lock(), threading.Lock()

    def other() -> None:
        with two:
            time.sleep(0.3)
            with one:
                pass

    threading.Thread(target=other).start()
    with one:
        time.sleep(0.3)
        ready()
        with two:
            pass


def locks_crossed_ticker() -> None:
    threading.Thread(target=lambda: [time.sleep(0.01) for _ in iter(int, 1)], daemon=True).start()
    locks_crossed()


def semaphore_never() -> None:
    semaphore = threading.Semaphore(0)
    ready()
    semaphore.acquire()


def asyncio_crossed() -> None:
    async def main() -> None:
        one, two = asyncio.Lock(), asyncio.Lock()

        async def take(first: asyncio.Lock, second: asyncio.Lock) -> None:
            async with first:
                await asyncio.sleep(0.2)
                ready()
                async with second:
                    pass

        await asyncio.gather(take(one, two), take(two, one))

    asyncio.run(main())


def asyncio_future_never() -> None:
    async def main() -> None:
        ready()
        await asyncio.get_running_loop().create_future()

    asyncio.run(main())


def mp_lock_dead_owner() -> None:
    lock = multiprocessing.Lock()

    def die() -> None:
        lock.acquire()
        os.kill(os.getpid(), signal.SIGKILL)

    child = multiprocessing.get_context("fork").Process(target=die)
    child.start()
    child.join()
    ready()
    lock.acquire()


def mp_queue_never() -> None:
    box: multiprocessing.Queue[int] = multiprocessing.Queue()
    child = multiprocessing.get_context("fork").Process(target=box.get)
    child.start()
    ready()
    child.join()


def fork_in_thread() -> None:
    lock = threading.Lock()

    def hold() -> None:
        with lock:
            time.sleep(1)

    threading.Thread(target=hold).start()
    time.sleep(0.2)
    child = os.fork()
    if not child:
        lock.acquire()
        os._exit(0)
    time.sleep(1.5)
    ready()
    os.waitpid(child, 0)


def join_self_made() -> None:
    """A thread waits for a result that only the thread that joins it would give."""
    results: queue.Queue[int] = queue.Queue()
    thread = threading.Thread(target=results.get)
    thread.start()
    ready()
    thread.join()


def join_again_and_again() -> None:
    """It looks after a thread that hangs."""
    thread = threading.Thread(target=threading.Semaphore(0).acquire)
    thread.start()
    ready()
    while thread.is_alive():
        thread.join(1)


def sleep_beside_hang() -> None:
    thread = threading.Thread(target=threading.Semaphore(0).acquire)
    thread.start()
    ready()
    while thread.is_alive():
        time.sleep(1)


def select_beside_hang() -> None:
    ours, _theirs = socket.socketpair()
    threading.Thread(target=threading.Semaphore(0).acquire).start()
    ready()
    while True:
        select.select([ours], [], [], 1)


def manager_lock() -> None:
    """The manager's process looks once a second whether to stop, while a lock in it is never released."""
    lock = multiprocessing.Manager().Lock()
    lock.acquire()
    ready()
    lock.acquire()


def select_beside_worker() -> None:
    """An event loop with a time limit, beside a thread that has no job."""
    ours, _theirs = socket.socketpair()
    jobs: queue.Queue[int] = queue.Queue()
    threading.Thread(target=lambda: [jobs.get() for _ in iter(int, 1)], daemon=True).start()
    ready()
    while True:
        select.select([ours], [], [], 1)


globals()[sys.argv[1].replace("-", "_")]()
