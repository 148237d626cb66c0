"""Glances at all threads of a process, again and again, until something ends it: nearly all of its time is spent where
a thread can stand."""

from __future__ import annotations

import sys

from livedbg.linux.procfs import thread_ids
from livedbg.touch.glance import glance


def main(pid: int) -> None:
    print("READY", flush=True)
    while True:
        glance(pid, thread_ids(pid))


if __name__ == "__main__":
    main(int(sys.argv[1]))
