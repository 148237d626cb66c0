"""Demo `gil`: a Python data loader whose decoder, in C, keeps the GIL while it waits.

The main thread and three workers want to run Python code; the thread `decode` sits in a C call that
was made without releasing the GIL, as badly written extensions do. Nothing in Python can say so:
every profiler that needs the GIL hangs with it.
"""

from __future__ import annotations

import ctypes
import threading
import time


def preprocess(number: int) -> None:
    """Work that needs the GIL now and then."""
    total = 0
    while True:
        total += number
        time.sleep(0.01)


def decode() -> None:
    """A C call that keeps the GIL: PyDLL doesn't release it, unlike CDLL."""
    time.sleep(1.0)
    print("decoding batch 17", flush=True)
    ctypes.PyDLL(None).pause()


def main() -> None:
    """Start the loader; it hangs after a second."""
    for number in range(3):
        threading.Thread(target=preprocess, args=(number,), name=f"preprocess-{number}", daemon=True).start()
    threading.Thread(target=decode, name="decode", daemon=True).start()
    for step in range(10_000_000):
        print(f"step {step}", flush=True)
        time.sleep(0.2)


if __name__ == "__main__":
    main()
