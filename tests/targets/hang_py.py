"""Python programs that hang, one way each: hang_py.py MODE. Prints the same READY line as hang_cases."""

from __future__ import annotations

import ctypes
import json
import multiprocessing
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

threads: dict[str, int] = {"main": threading.get_native_id()}
processes: dict[str, int] = {"main": os.getpid()}


def start(name: str, body: Callable[[], object], daemon: bool = True) -> threading.Thread:
    up = threading.Event()

    def run() -> None:
        threads[name] = threading.get_native_id()
        up.set()
        body()

    thread = threading.Thread(target=run, name=name, daemon=daemon)
    thread.start()
    up.wait()
    return thread


def ready() -> None:
    time.sleep(0.3)
    print("READY", json.dumps({"pid": os.getpid(), "t": threads, "p": processes, "a": {}}), flush=True)


def forever() -> None:
    while True:
        signal.pause()


def with_cycle(kind: Callable[[], threading.Lock]) -> None:
    first, second = kind(), kind()
    both = threading.Barrier(2)

    def left() -> None:
        with first:
            both.wait()
            with second:  # @lock-cycle @rlock-cycle
                pass

    def right() -> None:
        with second:
            both.wait()
            with first:  # @lock-cycle @rlock-cycle
                pass

    start("left", left)
    start("right", right)


def lock_cycle() -> None:
    with_cycle(threading.Lock)
    ready()
    forever()


def rlock_cycle() -> None:
    with_cycle(threading.RLock)
    ready()
    forever()


def join_behind_lock() -> None:
    """main joins a worker that waits for a lock that a sleeping thread holds."""
    lock = threading.Lock()

    def holder() -> None:
        with lock:
            time.sleep(3600)  # @join-behind-lock

    start("holder", holder)

    def work() -> None:
        with lock:
            pass

    worker = start("worker", work)
    ready()
    worker.join()


def gil_held() -> None:
    """One thread sleeps in C and keeps the GIL."""
    threading.Thread(target=ready_from_c, daemon=True).start()
    time.sleep(0.5)
    start_without_waiting("hog")
    forever()


def ready_from_c() -> None:
    time.sleep(3600)


def start_without_waiting(name: str) -> None:
    libc = ctypes.PyDLL(None)

    def hog() -> None:
        threads[name] = threading.get_native_id()
        print("READY", json.dumps({"pid": os.getpid(), "t": threads, "p": processes, "a": {}}), flush=True)
        libc.sleep(3600)  # @gil-held

    threading.Thread(target=hog, name=name, daemon=True).start()


def idle_queue() -> None:
    """A consumer with nothing to do, in a program that serves."""
    work: queue.Queue[int] = queue.Queue()
    start("consumer", work.get)
    server = socket.create_server(("127.0.0.1", 0))
    ready()
    server.accept()  # @idle-queue


def pipe_full() -> None:
    """The parent waits for a child that waits for its output to be read."""
    child = subprocess.Popen([sys.executable, "-c", "print('x' * 1000000)"], stdout=subprocess.PIPE)
    processes["child"] = child.pid
    ready()
    child.wait()  # @pipe-full


def fork_lock() -> None:
    """A child is forked while another thread holds a lock; the child waits for it."""
    lock = threading.Lock()
    taken = threading.Event()

    def holder() -> None:
        with lock:
            taken.set()
            time.sleep(3600)

    start("holder", holder)
    taken.wait()

    def work() -> None:
        with lock:  # @fork-lock
            pass

    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    assert child.pid is not None
    processes["child"] = child.pid
    ready()
    child.join()


def self_call(later: bool = False) -> None:
    """A server with one thread asks itself for something; with `later` a thread that sleeps now accepts as well."""
    server = socket.create_server(("127.0.0.1", 0))

    def client() -> None:
        with socket.create_connection(server.getsockname()) as asks:
            asks.recv(1)

    def second() -> None:
        time.sleep(100_000)
        server.accept()

    start("client", client)
    if later:
        start("second", second)
    accepted = server.accept()[0]
    ready()
    with socket.create_connection(server.getsockname()) as asks_itself:
        asks_itself.recv(1)  # @self-call
    accepted.close()


def polls_often() -> None:
    """Looks a thousand times a second for a file that nobody makes."""
    ready()
    while not Path("/never").exists():
        time.sleep(0.001)  # @polls-often


def progress() -> None:
    """Works on, with pauses."""
    ready()
    while True:
        sum(range(200_000))
        time.sleep(0.05)


MODES = {
    "lock-cycle": lock_cycle,
    "rlock-cycle": rlock_cycle,
    "join-behind-lock": join_behind_lock,
    "gil-held": gil_held,
    "idle-queue": idle_queue,
    "pipe-full": pipe_full,
    "fork-lock": fork_lock,
    "self-call": self_call,
    "self-call-later": lambda: self_call(later=True),
    "polls-often": polls_often,
    "progress": progress,
}

if __name__ == "__main__":
    signal.alarm(3600)  # longer than a module of tests takes on a slow machine
    MODES[sys.argv[1]]()
