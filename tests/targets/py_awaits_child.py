"""Waits for the end of a child with a time limit, again and again: awaits_child HOW WHAT."""

import multiprocessing
import subprocess
import sys
import threading
import time
from contextlib import suppress

RESTS_S = 300.0


def rests() -> None:
    while True:
        time.sleep(RESTS_S)


def hangs() -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def by_subprocess(what: str) -> None:
    child = subprocess.Popen([sys.executable, __file__, "as", what])
    while True:
        with suppress(subprocess.TimeoutExpired):
            child.wait(timeout=20)
            break


def by_multiprocessing(what: str) -> None:
    child = multiprocessing.get_context("fork").Process(target=globals()[what])
    child.start()
    while child.is_alive():
        child.join(20)


if __name__ == "__main__":
    how, what = sys.argv[1:]
    if how == "as":
        globals()[what]()
    else:
        print("READY", flush=True)
        globals()[how](what)
