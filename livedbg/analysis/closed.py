"""Closed sets: processes of which no thread will ever run again, because only threads of the set could end their waits.

Each thread of such a process is in a wait without a time limit, for which all that could end it is known
(`Thread.wakers`), and nothing else could wake the process (`Process.outside`: a handled signal, a timer, a tracer). A
process is removed from the set while one that could wake it is not in it: the rest is the largest closed set.

Invariants:
    closed.C1. A process is in a closed set only if all of its threads were sampled, all of them wait, and for each wait
        all that could end it is in the set.
    closed.C2. For a process outside, `open_because` gives the first reason.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from livedbg.analysis.behaviour import unseen_runtimes
from livedbg.analysis.rules.words import name_of, waited_ns
from livedbg.model import Process, Thread, ThreadState
from livedbg.model.snapshot import Snapshot

_OVER: Final = frozenset({ThreadState.ZOMBIE, ThreadState.DEAD})


class ClosedSet(Struct, frozen=True):
    """Processes that nothing can wake, those that the user named first; all have waited for `waited_ns` at least."""

    processes: tuple[Process, ...]
    threads: tuple[Thread, ...]
    waited_ns: int


class Closed(Struct, frozen=True):
    """The closed sets, each as small as possible, and what could wake each other process whose threads all wait."""

    sets: Sequence[ClosedSet] = ()
    open_because: Mapping[str, str] = field(default_factory=dict)


def closed_sets(snapshot: Snapshot) -> Closed:
    """Return the closed sets of a state."""
    asleep = {p.id: p for p in snapshot.processes.values() if p.outside is not None and not p.exited}
    if not asleep:
        return Closed()
    unseen = unseen_runtimes(snapshot)
    threads: defaultdict[str, list[Thread]] = defaultdict(list)
    for thread in snapshot.threads.values():
        if thread.process in asleep and not thread.exited:
            threads[thread.process].append(thread)
    reasons = {name: _open(process, threads[name], snapshot) for name, process in asleep.items()}
    for name in unseen.keys() & reasons.keys():
        reasons[name] = reasons[name] or f"{name_of(name, snapshot)} runs in a runtime that livedbg does not look into"
    inside = {name for name, reason in reasons.items() if not reason}
    wakers = {name: {waker for thread in threads[name] for waker in thread.wakers} for name in inside}
    while out := {name for name in inside if not wakers[name] <= inside}:
        for name in out:
            waker = min(wakers[name] - inside)
            reasons[name] = f"{name_of(waker, snapshot)} could wake {name_of(name, snapshot)}"
        inside -= out
    sets = [_closed([asleep[name] for name in part], threads, snapshot) for part in _parts(inside, wakers)]
    return Closed(sets, {name: reason for name, reason in reasons.items() if reason})


def _open(process: Process, threads: Sequence[Thread], snapshot: Snapshot) -> str:
    """Return why a process may be woken by others than known threads; "" if only they can wake it."""
    alive = [thread for thread in threads if thread.state not in _OVER]
    if not alive or process.thread_count != len(threads):
        return f"not all threads of {name_of(process.id, snapshot)} can be seen"
    for thread in alive:
        name = name_of(thread.id, snapshot)
        if thread.state is not ThreadState.WAITING or thread.timed:
            return f"{name} may go on by itself"
        if thread.outside or thread.timed is None or not thread.wakers:
            return f"{name} may be woken from outside ({thread.outside or 'what could end its wait is not known'})"
    return f"{name_of(process.id, snapshot)} {process.outside}" if process.outside else ""


def _parts(inside: set[str], wakers: Mapping[str, set[str]]) -> list[list[str]]:
    """Split processes into parts that can be woken only from within."""
    links: defaultdict[str, set[str]] = defaultdict(set)
    for name in inside:
        for waker in wakers[name]:
            links[name].add(waker)
            links[waker].add(name)
    parts = []
    left = set(inside)
    while left:
        part: set[str] = set()
        todo = [min(left)]
        while todo:
            name = todo.pop()
            if name not in part:
                part.add(name)
                todo += links[name]
        left -= part
        parts.append(sorted(part))
    return parts


def _closed(part: Sequence[Process], threads: Mapping[str, Sequence[Thread]], snapshot: Snapshot) -> ClosedSet:
    processes = sorted(part, key=lambda process: (not process.named, not process.target, process.pid))
    members = [
        thread
        for process in processes
        for thread in sorted(threads[process.id], key=lambda thread: thread.tid)
        if thread.state not in _OVER
    ]
    waited = min(waited_ns(thread, snapshot) or 0 for thread in members)
    return ClosedSet(tuple(processes), tuple(members), waited)
