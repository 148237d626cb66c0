"""Calls C++ that throws, under nested Python functions; which ones, is said line by line."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time

held = ctypes.PyDLL(sys.argv[1])  # keeps the GIL
free = ctypes.CDLL(sys.argv[1])  # gives it up meanwhile


def innermost(library: ctypes.CDLL, before_us: int, after_us: int) -> None:
    """The last one of Python."""
    library.throw_here(before_us, after_us)


def caller(library: ctypes.CDLL, before_us: int = 0, after_us: int = 0) -> None:
    """One further out."""
    innermost(library, before_us, after_us)


def through_c(library: ctypes.CDLL) -> None:
    """Calls C, which calls Python, which calls C."""
    library.call_back(ctypes.CFUNCTYPE(None)(called_back))


def called_back() -> None:
    """Called by C."""
    caller(held)


def busy() -> None:
    """Wants the GIL all the time."""
    while True:
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
            caller(free, 300_000, 3_000_000)
        elif word == "alone":
            thread = threading.Thread(target=caller, args=(free, 0, 3_000_000))
            thread.start()
            thread.join()
        time.sleep(0)
        count += 1
        print(count, flush=True)


main()
