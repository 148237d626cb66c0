"""Demo `pipeline`: three processes over pipes that wait for each other.

`load` feeds `transform`, which feeds `store`; `store` acknowledges each batch to `load`. `load` sends a
batch that fills its pipe before it reads the acknowledgements, `transform` waits until its own output
is taken, and `store` waits until its acknowledgement is read: nobody can go on.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable

_BATCH = b"x" * 4096
_PR_SET_NAME = 15  # linux/prctl.h
_PR_SET_PDEATHSIG = 1


def _write(pipe: int, data: bytes) -> None:
    while data:
        data = data[os.write(pipe, data) :]


def _load(out: int, acknowledged: int) -> None:
    """Sends everything first; only then reads what was acknowledged."""
    for _ in range(1_000):
        _write(out, _BATCH)
    while os.read(acknowledged, 4096):
        pass


def _transform(source: int, out: int) -> None:
    while data := os.read(source, 4096):
        _write(out, data)


def _store(source: int, acknowledge: int) -> None:
    while data := os.read(source, 4096):
        _write(acknowledge, data)


def _start(name: str, body: Callable[..., None], *keep: int, pipes: list[int]) -> int:
    pid = os.fork()
    if pid:
        return pid
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc.prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)
    for pipe in pipes:
        if pipe not in keep:
            os.close(pipe)
    try:
        body(*keep)
    finally:
        os._exit(0)


def main() -> None:
    """Start the three, and wait for them (for ever)."""
    first, second, third = os.pipe(), os.pipe(), os.pipe()
    pipes = [*first, *second, *third]
    children = [
        _start("load", _load, first[1], third[0], pipes=pipes),
        _start("transform", _transform, first[0], second[1], pipes=pipes),
        _start("store", _store, second[0], third[1], pipes=pipes),
    ]
    for pipe in pipes:
        os.close(pipe)
    time.sleep(0.1)
    print("pipeline of", *children, flush=True)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
