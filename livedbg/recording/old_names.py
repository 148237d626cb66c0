"""Translates names in events of old recordings to today's: sources of stacks, counters, engines of catchpoints.

Invariants:
    old_names.O1. A recording made before a rename replays as one made after it.
"""

from __future__ import annotations

from typing import Final

from msgspec import structs

from livedbg.model.events import CatchpointSeen, CounterSeen, Event, StacksSeen
from livedbg.model.launches import TRACED, TRACED_TO

__all__ = ["renamed"]

_SOURCES: Final = {"zero": "no stop", "zero+py-spy": "no stop+py-spy"}
_COUNTERS: Final = {"launches heard": TRACED, "launches heard to": TRACED_TO}
_ENGINES: Final = {"listen": "probes"}


def renamed(event: Event) -> Event:
    """The event with today's names."""
    match event:
        case StacksSeen() if any(stack.source in _SOURCES for stack in event.stacks):
            stacks = (structs.replace(s, source=_SOURCES.get(s.source, s.source)) for s in event.stacks)
            return structs.replace(event, stacks=tuple(stacks))
        case CounterSeen() if event.name in _COUNTERS:
            return structs.replace(event, name=_COUNTERS[event.name])
        case CatchpointSeen() if event.catchpoint.engine in _ENGINES:
            point = structs.replace(event.catchpoint, engine=_ENGINES[event.catchpoint.engine])
            return structs.replace(event, catchpoint=point)
        case _:
            return event
