"""Calls C++ that throws, under nested Python functions; which ones, is said line by line.

What `late` and `alone` call stays there until there is another line.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time

held = ctypes.PyDLL(sys.argv[1])  # keeps the GIL
free = ctypes.CDLL(sys.argv[1])  # gives it up meanwhile
turns_of_busy = ctypes.c_long(0)


def innermost(library: ctypes.CDLL, turns: object, stays: bool) -> None:
    """The last one of Python."""
    library.throw_here(turns, stays)


def caller(library: ctypes.CDLL, turns: object = None, stays: bool = False) -> None:
    """One further out."""
    innermost(library, turns, stays)


def through_c(library: ctypes.CDLL) -> None:
    """Calls C, which calls Python, which calls C."""
    library.call_back(ctypes.CFUNCTYPE(None)(called_back))


def called_back() -> None:
    """Called by C."""
    caller(held)


def busy() -> None:
    """Wants the GIL all the time."""
    while True:
        turns_of_busy.value += 1
        sum(range(1000))


def main() -> None:
    """Reads commands."""
    count = 0
    print(f"READY {os.getpid()}", flush=True)
    for line in sys.stdin:
        word = line.strip()
        if word == "held":
            caller(held)
        elif word == "free":
            caller(free)
        elif word == "through":
            through_c(held)
        elif word == "busy":
            threading.Thread(target=busy, daemon=True).start()
        elif word == "late":
            caller(free, ctypes.byref(turns_of_busy), True)
        elif word == "alone":
            thread = threading.Thread(target=caller, args=(free, None, True))
            thread.start()
            thread.join()
        time.sleep(0)
        count += 1
        print(count, flush=True)


main()
