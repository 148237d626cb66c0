"""Cycles of waits that were put together from two sources: whether all of it held at one moment.

Who holds a Python lock or the GIL is read at other times than what a thread waits for in the kernel. A thread that ran
between the two may have released the one before it waited for the other.

Invariants:
    confirmed.F1. A cycle through the GIL, or through Python locks and others, is reported only if none of its threads
        has run since it was seen to wait for or to hold such a lock, or has waited for the threshold since. A thread
        that waits for the GIL wakes to ask for it again and again: it has only to ask still.
    confirmed.F2. The mutex inside of the GIL is held for moments only, by who asks for the GIL or releases it: a cycle
        through both is none, however long a busy machine lets its holder wait for a CPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.words import host_of
from livedbg.model import Edge, EdgeKey, EdgeKind, ids
from livedbg.model.snapshot import Snapshot

__all__ = ["confirmed"]

_ONE_SOURCE: Final = frozenset({"thread", "process", "pylock"})
"""A cycle of these is from one sample, in which none of its threads ran."""
_READ: Final = ("gil:", "pylock:")
_GIL_LOCKS: Final = range(32, 512)
"""Where CPython's `struct _gil_runtime_state` has its locks (3.8 to 3.13: bytes 32 to 208)."""


def confirmed(cycle: Sequence[str], state: RuleInput) -> bool:
    """Whether all waits of a cycle held at one moment, as far as it can be told (F1).

    Args:
        cycle: its members.
        state: the state.
    """
    read = [entity for entity in cycle if entity.startswith(_READ)]
    if not read or _ONE_SOURCE.issuperset(entity.partition(":")[0] for entity in cycle):
        return True
    if _inside_of_gil(cycle):
        return False
    inside, snapshot = set(cycle), state.snapshot
    return all(_still(thread, edge, state) for lock in read for thread, edge in _edges(lock, inside, state, snapshot))


def _inside_of_gil(cycle: Sequence[str]) -> bool:
    """Whether a lock of a cycle is a part of the GIL that is in it too (F2)."""
    gils = [ids.parse(entity).parts for entity in cycle if entity.startswith("gil:")]
    locks = [ids.parse(entity).parts for entity in cycle if entity.startswith(("mutex:", "cond:"))]
    return any(
        gil[:2] == lock[:2] and int(lock[2], 16) - int(gil[2], 16) in _GIL_LOCKS for gil in gils for lock in locks
    )


def _edges(lock: str, inside: set[str], state: RuleInput, snapshot: Snapshot) -> Iterator[tuple[str, Edge]]:
    """The threads of a cycle that hold a lock or wait for it, but for those that wait for the GIL."""
    ends = [(EdgeKind.HOLDS, thread) for thread in state.graph.blockers_of(lock)]
    if not lock.startswith("gil:"):
        ends += [(EdgeKind.WAITS_FOR, thread) for thread in state.graph.waiters_of(lock)]
    for kind, thread in ends:
        edge = snapshot.edges.get(EdgeKey(kind, thread, lock))
        if thread in inside and edge is not None:
            yield thread, edge


def _still(thread: str, edge: Edge, state: RuleInput) -> bool:
    """Whether a thread has not run since an edge of it was seen."""
    activity = state.snapshot.activity.get(thread)
    if activity is None or edge.since_mono_ns is None:
        return True  # nothing is known of when
    waits_since = activity.waiting_since_mono_ns
    if waits_since is None:
        return False
    now = state.snapshot.now(host_of(thread)).mono_ns
    return waits_since <= edge.since_mono_ns or now - waits_since >= state.settings.thread_stall_ns
