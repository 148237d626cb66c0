"""Threads that use CPU time and show nothing else: they compute, or they spin, and only their stacks could tell.

A loop over a matrix in registers and a loop that waits for a flag look the same from outside: no system call, no wait,
no page fault. So this CPU time is no progress that was seen, and no stall either.

Invariants:
    burning.B1. A thread of which it isn't known what calls it makes is not one of these.
    burning.B2. A thread that got on while it was watched is not one of these before ten times its usual step has passed
        without another one, and never before the threshold.
"""

from __future__ import annotations

from typing import Final

from livedbg.model import Thread, ThreadState, ids
from livedbg.model.snapshot import Snapshot

__all__ = ["burns", "burns_for_ns"]

_FACTOR: Final = 10


def burns(thread: Thread, snapshot: Snapshot, threshold_ns: int) -> bool:
    """Whether a thread only uses CPU time, as far as was seen.

    Args:
        thread: it.
        snapshot: the state.
        threshold_ns: for how long a thread that got on before has to show nothing.
    """
    return burns_for_ns(thread, snapshot, threshold_ns) is not None


def burns_for_ns(thread: Thread, snapshot: Snapshot, threshold_ns: int) -> int | None:
    """For how long a thread has only used CPU time, as far as was seen; None if it isn't one of these."""
    activity = snapshot.activity.get(thread.id)
    if activity is None or thread.state is not ThreadState.RUNNING or thread.marks is None:
        return None
    quiet_ns = snapshot.now(ids.parse(thread.id).parts[0]).mono_ns - activity.step_mono_ns
    if not activity.steps:
        return quiet_ns
    usual_ns = (activity.step_mono_ns - activity.first_mono_ns) / activity.steps
    return quiet_ns if quiet_ns >= max(threshold_ns, _FACTOR * usual_ns) else None
