"""Running threads, and their share of a core; threads that nap."""

from __future__ import annotations

from typing import Final

from livedbg.model import Thread, ThreadState
from livedbg.model.snapshot import Snapshot

_BUSY: Final = 0.2  # share of a core from which a thread is sampled though it was blocked when it was read


def running(snapshot: Snapshot) -> list[Thread]:
    """Return the threads that run, or use much CPU time, those that use the most of it first."""
    found: list[tuple[float, Thread]] = []
    for thread in snapshot.threads.values():
        process = snapshot.processes.get(thread.process)
        if thread.exited or (process is not None and (process.exited or not process.target)):
            continue
        share = share_of(thread.id, snapshot)
        if thread.state is ThreadState.RUNNING or share >= _BUSY:
            found.append((share, thread))
    found.sort(key=lambda one: -one[0])
    return [thread for _, thread in found]


_MOST_NAPPING: Final = 32


def napping(snapshot: Snapshot) -> list[Thread]:
    """Return threads of Python programs that are in a wait with a time limit, main threads first."""
    found: list[tuple[bool, Thread]] = []
    for thread in snapshot.threads.values():
        process = snapshot.processes.get(thread.process)
        if process is None or process.exited or not process.target or thread.exited:
            continue
        if thread.timed and thread.state is ThreadState.WAITING and "python" in (process.exe or ""):
            found.append((thread.tid != process.pid, thread))
    found.sort(key=lambda one: one[0])
    return [thread for _, thread in found[:_MOST_NAPPING]]


def share_of(thread: str, snapshot: Snapshot) -> float:
    """Return the share of a core that a thread used lately."""
    activity = snapshot.activity.get(thread)
    return min(1.0, activity.cpu_ns / activity.window_ns) if activity is not None and activity.window_ns else 0.0
