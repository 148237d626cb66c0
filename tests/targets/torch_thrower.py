"""torch throws c10::Error on several threads, steadily, and each thread counts in a shared file.

torch_thrower.py COUNTERS [PAUSE_S]
"""

from __future__ import annotations

import mmap
import struct
import sys
import threading
import time
from pathlib import Path

import torch


def main(file: str, pause_s: float) -> None:
    path = Path(file)
    path.write_bytes(bytes(4096))
    with path.open("r+b") as opened:
        page = mmap.mmap(opened.fileno(), 4096)

    def count(place: int) -> None:
        (value,) = struct.unpack_from("<Q", page, 8 * place)
        struct.pack_into("<Q", page, 8 * place, value + 1)

    def throw(place: int) -> None:
        left, right = torch.ones(2, 3), torch.ones(4, 5)
        while True:
            try:
                left @ right
            except RuntimeError:
                count(place)
            time.sleep(pause_s)

    for place in (1, 2, 3):
        threading.Thread(target=throw, args=(place,), daemon=True).start()
    print("READY", flush=True)
    while True:
        count(0)
        time.sleep(0.002)


if __name__ == "__main__":
    torch.set_num_threads(2)
    main(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 0.01)
