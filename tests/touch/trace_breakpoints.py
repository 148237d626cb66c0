"""Traces a process by debug registers, as another user where one is named, and prints what it throws.

PID USER TYPE: USER 0 stays who it is.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence

from livedbg.adapters.exceptions.breakpoint_tracer import BreakpointTracer
from livedbg.adapters.exceptions.calls import TracedCall
from livedbg.model.catchpoints import Moment, Pattern
from livedbg.session.systems import problems


def main(pid: int, user: int, pattern: Pattern) -> None:
    problems(thorough=True)  # all is imported: another user may not be able to read this Python's folder
    if user:
        os.setuid(user)  # the groups stay, as the target's do

    said_ready = threading.Event()

    def report(traced: Sequence[TracedCall]) -> None:
        said_ready.wait()
        for one in traced:
            print(f"{one.sample.tid} {one.call.names[0]}: {one.call.message}", flush=True)

    tracer = BreakpointTracer(
        pid,
        Moment.THROW,
        ["__cxa_throw"],
        wanted=lambda call: pattern.matches(call.names),
        report=report,
        follow=False,
    )
    try:
        tracer.start()
    except OSError as error:
        print(f"REFUSED {error.strerror}", flush=True)
        return
    print("READY", flush=True)
    said_ready.set()
    threading.Event().wait()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Pattern(sys.argv[3]))
