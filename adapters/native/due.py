"""Which threads have begun to wait since their stacks were taken, and whether one of the waits lasts.

Invariants:
    native_due.D1. A wait lasts only if looks have seen it last: between two looks, which may be seconds apart, a thread
        may have moved a thousand times.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from livedbg.model import Process, Thread
from livedbg.model.snapshot import Snapshot

__all__ = ["Due", "due"]

_BRIEF_NS: Final = 2_000_000_000
"""A wait that was not seen to last longer is brief: its stack is old as soon as it is read."""


_LONG_NS: Final = 8_000_000_000
"""A wait of this length may soon be a stall (10 s): its stack can't wait for long."""


class Due(NamedTuple):
    """What there is to take of a process.

    Attributes:
        threads: those that have begun to wait, each with its wait.
        lasting: a stack of them is worth its cost: its thread has waited for a while, or none was ever taken of it.
        long: one of them may soon be a stall.
    """

    threads: list[tuple[Thread, object]]
    lasting: bool
    long: bool


def due(process: Process, snapshot: Snapshot, taken: Mapping[str, object]) -> Due:
    """The threads of a process of which a new stack would tell something.

    Args:
        process: it.
        snapshot: as of the last looks (`Snapshot.as_of_looks`).
        taken: thread -> its wait when its stack was taken.
    """
    found: list[tuple[Thread, object]] = []
    lasting, long, now_ns = False, False, snapshot.now(process.host).mono_ns
    for thread in snapshot.threads_of(process.id):
        activity = snapshot.activity.get(thread.id)
        since = activity.waiting_since_mono_ns if activity is not None else None
        wait = (since, thread.syscall, thread.waits_in)
        if since is not None and taken.get(thread.id) != wait:
            found.append((thread, wait))
            lasting = lasting or thread.id not in taken or now_ns - since >= _BRIEF_NS
            long = long or now_ns - since >= _LONG_NS
    return Due(found, lasting, long)
