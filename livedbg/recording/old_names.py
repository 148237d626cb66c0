"""Translates names in events of old recordings to today's: sources of stacks, counters, engines of catchpoints, kinds
of waits.

Invariants:
    old_names.O1. A recording made before a rename replays as one made after it.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import structs

from livedbg.model import Thread, WaitKind
from livedbg.model.events import CatchpointSeen, CounterSeen, Event, StacksSeen, ThreadsSeen
from livedbg.model.launches import TRACED, TRACED_TO

__all__ = ["renamed", "sleeps_s", "wait_kind"]

_SOURCES: Final = {"zero": "no stop", "zero+py-spy": "no stop+py-spy"}
_COUNTERS: Final = {"launches heard": TRACED, "launches heard to": TRACED_TO}
_ENGINES: Final = {"listen": "probes"}
_WAITS: Final = (
    (r"sleep\b", WaitKind.SLEEP),
    (r"sigwait|sigsuspend|pause|read of signalfd", WaitKind.SIGNAL),
    (r"(?:poll|select) of|epoll_wait", WaitKind.POLL),
    (r"pthread_mutex|lock of a stdio", WaitKind.MUTEX),
    (r"pthread_rwlock", WaitKind.RWLOCK),
    (r"pthread_cond", WaitKind.CONDITION),
    (r"pthread_barrier", WaitKind.BARRIER),
    (r"pthread_join", WaitKind.JOIN),
    (r"sem_", WaitKind.SEMAPHORE),
    (r"futex", WaitKind.FUTEX),
    (r"accept on", WaitKind.ACCEPT),
    (r"connect of", WaitKind.CONNECT),
    (r"(?:read of|recv on|splice from|tee from|vmsplice of)", WaitKind.READ),
    (r"(?:write to|send on|sendfile to)", WaitKind.WRITE),
    (r"open of", WaitKind.OPEN),
    (r"wait(?:p?id)|vfork", WaitKind.CHILD),
    (r"flock|fcntl", WaitKind.FILE_LOCK),
    (r"(?:receive from|send to)", WaitKind.MESSAGE_QUEUE),
    (r"(?:msgrcv|msgsnd|semop)", WaitKind.SYSTEM_V),
    (r"page fault", WaitKind.FAULT),
    (r"stopped|a freeze", WaitKind.STOP),
)
"""How `Thread.waits_in` begins -> what kind of wait that is: recordings of before 0.2 have the words alone."""
_SLEEP: Final = re.compile(r"sleep ([\d.]+(?:e[+-]?\d+)?) s")


def wait_kind(words: str | None) -> WaitKind | None:
    """The kind of wait that words of `Thread.waits_in` name."""
    if words is None:
        return None
    return next((kind for begin, kind in _WAITS if re.match(begin, words)), WaitKind.UNKNOWN)


def sleeps_s(words: str | None) -> float | None:
    """The time that a sleep asked for, by words of `Thread.waits_in`."""
    asleep = _SLEEP.match(words or "")
    return float(asleep[1]) if asleep is not None else None


def _with_kind(thread: Thread) -> Thread:
    return structs.replace(thread, wait=wait_kind(thread.waits_in), sleeps_s=sleeps_s(thread.waits_in))


def renamed(event: Event) -> Event:
    """The event with today's names."""
    match event:
        case StacksSeen() if any(stack.source in _SOURCES for stack in event.stacks):
            stacks = (structs.replace(s, source=_SOURCES.get(s.source, s.source)) for s in event.stacks)
            return structs.replace(event, stacks=tuple(stacks))
        case CounterSeen() if event.name in _COUNTERS:
            return structs.replace(event, name=_COUNTERS[event.name])
        case ThreadsSeen() if any(thread.waits_in is not None and thread.wait is None for thread in event.threads):
            return structs.replace(event, threads=tuple(map(_with_kind, event.threads)))
        case CatchpointSeen() if event.catchpoint.engine in _ENGINES:
            point = structs.replace(event.catchpoint, engine=_ENGINES[event.catchpoint.engine])
            return structs.replace(event, catchpoint=point)
        case _:
            return event
