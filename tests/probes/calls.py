"""A program whose threads call a function of the C library when they are told to, and what its code looks like."""

from __future__ import annotations

import sys
from collections.abc import Callable

from livedbg.linux import memory
from livedbg.probes.places import Found, find_places
from livedbg.probes.tracefs import TraceEvent, TraceEvents
from tests.conftest import Target

__all__ = ["call", "code_of", "define", "found", "start_caller"]

_FUNCTION = "getppid"
_PROGRAM = """
import os, queue, signal, sys, threading
if sys.argv[1:]:
    signal.signal(signal.SIGURG, lambda *_: None)
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
def serve(orders, answers):
    for order in iter(orders.get, "end"):
        if order == "new":
            born = threading.Thread(target=os.getppid)
            born.start()
            born.join()
        else:
            for _ in range(int(order)):
                os.getppid()
        answers.put("done")
pairs = [(queue.Queue(), queue.Queue()) for _ in range(2)]
threads = [threading.Thread(target=serve, args=pair, daemon=True) for pair in pairs]
for thread in threads:
    thread.start()
print("READY", *(thread.native_id for thread in threads), flush=True)
for line in sys.stdin:
    number, order = line.split()
    pairs[int(number)][0].put(order)
    print(pairs[int(number)][1].get(), flush=True)
"""


def start_caller(spawn: Callable[..., Target], *, handles: bool = False) -> tuple[Target, list[int]]:
    """Start it, on one CPU; gives its two threads that take orders, too. It may have a handler for SIGURG."""
    target = spawn([sys.executable, "-c", _PROGRAM, *["handles"] * handles])
    return target, [int(word) for word in target.words]


def call(target: Target, thread: int, order: int | str) -> None:
    """Have one of the two threads call the function so often, or (`new`) start a thread that calls it once."""
    target.stdin.write(f"{thread} {order}\n".encode())
    target.stdin.flush()
    assert target.line() == "done"


def found(pid: int) -> Found:
    """The function in a process."""
    (one, *_), _ = find_places(pid, [_FUNCTION])
    return one


def define(trace: TraceEvents, pid: int) -> TraceEvent:
    """A trace event for it."""
    place = found(pid).place
    return trace.define(place.path, place.offset, ())


def code_of(pid: int) -> bytes:
    """The function's first bytes, as the process has them."""
    return memory.read(pid, found(pid).address, 16)
