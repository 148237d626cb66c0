"""Listens to a process by debug registers, as another user where one is named, and prints what it hears.

PID USER TYPE: USER 0 stays who it is.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence

from livedbg.adapters.exceptions.debugged import DebuggedListener
from livedbg.adapters.exceptions.listener import Heard
from livedbg.model.catchpoints import Moment, Pattern


def main(pid: int, user: int, pattern: Pattern) -> None:
    if user:
        os.setuid(user)  # the groups stay, as the target's do

    said_ready = threading.Event()

    def tell(heard: Sequence[Heard]) -> None:
        said_ready.wait()
        for one in heard:
            print(f"{one.sample.tid} {one.call.names[0]}: {one.call.message}", flush=True)

    listener = DebuggedListener(
        pid, Moment.THROW, ["__cxa_throw"], wanted=lambda call: pattern.matches(call.names), tell=tell, follow=False
    )
    try:
        listener.start()
    except OSError as error:
        print(f"REFUSED {error.strerror}", flush=True)
        return
    print("READY", flush=True)
    said_ready.set()
    threading.Event().wait()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Pattern(sys.argv[3]))
