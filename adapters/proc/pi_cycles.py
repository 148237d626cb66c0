"""Threads that glibc parked because the kernel found a cycle of PI mutexes: what they wait for.

The kernel answers EDEADLK to FUTEX_LOCK_PI when the owner of the wanted mutex waits, through other
PI mutexes, for the caller. The parked thread no longer says which mutex it wanted. But its owner
must be one of the threads that wait behind the parked one, and often the mutex's address is still on
the stack. So: a mutex from the stack, when its owner is the farthest of those behind; otherwise one
of those threads. Either way it is marked as inferred.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from livedbg import ids
from livedbg.adapters.proc.waits import Wait, Waited

__all__ = ["PARKED", "resolve_parked"]

PARKED: Final = "parked"
"""`Wait.waits_in` of a parked thread until it is resolved."""


def resolve_parked(host: str, pid: int, waits: dict[int, Wait]) -> None:
    """Put in place what the parked threads among `waits` wait for.

    Args:
        host: name of this host.
        pid: the process.
        waits: tid -> wait; those that are parked hold the mutexes found on their stacks.
    """
    parked = [tid for tid, wait in waits.items() if wait.waits_in == PARKED]
    if not parked:
        return
    waiters: defaultdict[str, list[str]] = defaultdict(list)
    for tid, wait in waits.items():
        if wait.waits_in != PARKED:
            for waited in wait.waited:
                for holding in waited.holders:
                    waiters[holding.entity].append(ids.thread(host, pid, tid))
    for tid in parked:
        depths = _behind(ids.thread(host, pid, tid), waiters)
        waits[tid] = Wait("pthread_mutex_lock", False, _choose(waits[tid].waited, depths))


def _behind(thread: str, waiters: dict[str, list[str]]) -> dict[str, int]:
    """The threads that wait for `thread`, directly (1) or through others (2 and more)."""
    depths: dict[str, int] = {}
    edge = [thread]
    depth = 0
    while edge:
        depth += 1
        edge = [w for t in edge for w in waiters.get(t, ()) if w not in depths and w != thread]
        depths.update(dict.fromkeys(edge, depth))
    return depths


def _choose(possible: tuple[Waited, ...], depths: dict[str, int]) -> tuple[Waited, ...]:
    fitting = [(depths.get(h.entity, 0), waited) for waited in possible for h in waited.holders]
    depth, best = max(fitting, key=lambda item: item[0], default=(0, None))
    if best is not None and (not depths or depth == max(depths.values())):
        return (best,)
    names = ", ".join(entity.rpartition("/")[2] for entity in depths)
    evidence = f"the kernel found a cycle of PI mutexes (EDEADLK): it wants one that a thread behind it holds ({names})"
    farthest = [entity for entity, far in depths.items() if far == max(depths.values())]
    return tuple(Waited(entity, evidence, inferred=True) for entity in farthest)
