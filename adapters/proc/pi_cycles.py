"""Threads that glibc parked because the kernel found a cycle of PI mutexes: what they wait for.

The kernel answers EDEADLK to FUTEX_LOCK_PI when the owner of the wanted mutex waits, through other
PI mutexes, for the caller. The parked thread no longer says which mutex it wanted. But its owner is
at the far end of those who wait behind the parked thread, or, when several threads of one cycle ran
into it at once and were parked, behind another parked one. Often the mutex's address is still on the
stack: it counts when its owner is the only thread that this leaves. Whatever is chosen is marked as inferred.

Invariants:
    pi_cycles.P1. Only who waits for a PI mutex waits behind a parked thread: the kernel follows no other lock.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from livedbg.adapters.proc.waits import Wait, Waited
from livedbg.model import WaitKind, ids

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
                for holding in waited.holders if _is_pi(waited) else ():
                    waiters[holding.entity].append(ids.thread(host, pid, tid))
    threads = {tid: ids.thread(host, pid, tid) for tid in parked}
    ends = {tid: _farthest(thread, waiters) for tid, thread in threads.items()}
    for tid, thread in threads.items():
        behind_others = {end for other in parked if other != tid for end in ends[other]}
        owners = (ends[tid] | behind_others) - {thread}
        waits[tid] = Wait("pthread_mutex_lock", False, _choose(waits[tid].waited, owners), kind=WaitKind.MUTEX)


def _is_pi(waited: Waited) -> bool:
    return waited.resource is not None and waited.resource.attributes.get("kind", "").startswith("PI")


def _farthest(thread: str, waiters: dict[str, list[str]]) -> set[str]:
    """Of the threads that wait for `thread`, directly or through others, those at the far end;
    itself when nobody does."""
    seen = {thread}
    edge = {thread}
    while further := {w for t in edge for w in waiters.get(t, ())} - seen:
        seen |= further
        edge = further
    return edge


def _choose(possible: tuple[Waited, ...], owners: set[str]) -> tuple[Waited, ...]:
    """The mutex of the stack that fits, else any of the threads of which one must hold the wanted one."""
    fitting = [waited for waited in possible if not owners or any(h.entity in owners for h in waited.holders)]
    if fitting and len(owners) <= 1:
        return (fitting[0],)
    names = ", ".join(sorted(entity.rpartition("/")[2] for entity in owners))
    evidence = f"the kernel found a cycle of PI mutexes (EDEADLK): it wants one that {names} holds"
    return tuple(Waited(entity, evidence, inferred=True) for entity in sorted(owners))
