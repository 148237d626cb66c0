"""Python threads that wait, one way each: py_waits.py MODE [ARGUMENT]. Prints READY and a line of JSON.

Runs under every Python from 3.7 on.
"""

import ctypes
import json
import multiprocessing
import os
import queue
import signal
import sys
import threading
import time

threads = {"main": threading.get_native_id() if hasattr(threading, "get_native_id") else os.getpid()}
facts = {"pid": os.getpid(), "t": threads, "a": {}}


def start(name, body):
    up = threading.Event()

    def run():
        threads[name] = threading.get_native_id() if hasattr(threading, "get_native_id") else 0
        up.set()
        body()

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    up.wait()
    return thread


def ready():
    print("READY", json.dumps(facts), flush=True)


def forever():
    while True:
        signal.pause()


def cycle(kind):
    first, second = kind(), kind()
    facts["a"].update(first=hex(id(first)), second=hex(id(second)))
    both = threading.Barrier(2)

    def left():
        with first:
            both.wait()
            with second:
                pass

    def right():
        with second:
            both.wait()
            with first:
                pass

    start("left", left)
    start("right", right)
    ready()
    forever()


def acquired():
    """A lock that was taken without `with`: nobody can tell its owner."""
    lock = threading.Lock()
    facts["a"]["lock"] = hex(id(lock))
    lock.acquire()
    start("waiter", lock.acquire)
    ready()
    forever()


def condition():
    """One waits to be notified; another one is inside the same Condition (with a plain Lock) and
    keeps a third one out."""
    inside = threading.Condition(threading.Lock())
    facts["a"].update(condition=hex(id(inside)), lock=hex(id(inside._lock)))
    waiting = threading.Event()
    held = threading.Event()

    def waiter():
        with inside:
            waiting.set()
            inside.wait()

    def holder():
        with inside:
            held.set()
            time.sleep(3600)

    def outsider():
        with inside:
            pass

    start("waiter", waiter)
    waiting.wait()
    start("holder", holder)
    held.wait()
    start("outsider", outsider)
    ready()
    forever()


def join():
    worker = start("worker", lambda: time.sleep(3600))
    ready()
    worker.join()


def idle():
    work = queue.Queue()
    facts["a"]["condition"] = hex(id(work.not_empty))
    start("consumer", work.get)
    start("patient", lambda: threading.Event().wait(3600))
    ready()
    forever()


def gil():
    """`hog` sleeps in C and keeps the GIL; main wants it."""
    libc = ctypes.PyDLL(None)

    def hog():
        threads["hog"] = threading.get_native_id()
        ready()
        libc.sleep(3600)

    threading.Thread(target=hog, name="hog", daemon=True).start()
    while True:
        time.sleep(0.01)


def gil_mutex():
    """`worker` has a C mutex and wants the GIL; main has the GIL and wants the mutex."""
    engine = ctypes.PyDLL(sys.argv[2])
    engine.engine_lock_address.restype = ctypes.c_void_p
    facts["a"]["mutex"] = hex(engine.engine_lock_address())
    heard, say = os.pipe()
    hear, tell = os.pipe()
    start("worker", lambda: engine.engine_step(say, hear))
    os.read(heard, 1)
    ready()
    engine.engine_lock_take(tell)


def fork():
    """The child was forked while `holder` had the lock."""
    lock = threading.RLock() if sys.argv[2] == "rlock" else threading.Lock()
    facts["a"]["lock"] = hex(id(lock))
    taken = threading.Event()

    def holder():
        with lock:
            taken.set()
            time.sleep(3600)

    start("holder", holder)
    taken.wait()

    def work():
        with lock:
            pass

    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    facts["child"] = child.pid
    ready()
    child.join()


def end():
    ready()
    sys.stdin.read(1)


def work():
    ready()
    while True:
        sum(range(100_000))
        time.sleep(0.01)


MODES = {
    "lock-cycle": lambda: cycle(threading.Lock),
    "rlock-cycle": lambda: cycle(threading.RLock),
    "acquired": acquired,
    "condition": condition,
    "join": join,
    "idle": idle,
    "gil": gil,
    "gil-mutex": gil_mutex,
    "fork": fork,
    "end": end,
    "work": work,
}

if __name__ == "__main__":
    signal.alarm(600)
    MODES[sys.argv[1]]()
