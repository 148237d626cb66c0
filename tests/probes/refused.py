"""Whether this box lets us set kernel probes: for tests that need them, and skip with the reason where it doesn't."""

from __future__ import annotations

import os
from functools import cache

from livedbg.probes.perf import TRACEPOINT, PerfEvents, Source
from livedbg.probes.places import find_places
from livedbg.probes.tracefs import TraceEvents

__all__ = ["refused"]


@cache
def refused() -> str:
    """Why a probe can't be set here; "" when it can: one is set in this process, where nobody calls it."""
    try:
        (found, *_), _ = find_places(os.getpid(), ["abort"])
        with TraceEvents() as trace:
            event = trace.define(found.place.path, found.place.offset, ())
            with PerfEvents([Source(TRACEPOINT, event.number)]) as events:
                events.add(os.getpid())
    except OSError as error:
        return f"this box lets us set no probes: {error}"
    return ""
