"""Enders: the threads and outside events that may still end the wait of a blocked thread.

A thread that holds a lock and waits for an event, a future, a queue or an answer is no stall as long as somebody may
end its wait: a request that will be answered under a lock looks the same as one that never will.

Invariants:
    enders.E1. "" only if all who could end the wait can be named, all who could end theirs, and so on, and none of them
        runs, wakes by itself, has run within the threshold, or waits for something that may come from outside. Anyone
        unknown may end it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from livedbg.analysis.python_calls import waits_for_job
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.words import name_of, waited_ns
from livedbg.model import Thread, ThreadState, WaitKind, ids

_OWNED: Final = ("thread:", "mutex:", "rwlock:", "pylock:", "flock:", "gil:")
"""What one thread alone can give up. The end of a pipe may be served by any who has it."""


def behind(entity: str, state: RuleInput) -> set[str]:
    """Return a thread or lock, and all that wait for it and for nobody else: by locks that it holds, and by joins."""
    found, todo = {entity}, [entity]
    while todo:
        fresh = {name for name in state.graph.waiters_of(todo.pop()) if name.startswith(_OWNED)} - found
        found |= fresh
        todo += fresh
    return found


class Reach(NamedTuple):
    """The enders of a wait: threads, transitively, and a description of another ender, or ""."""

    threads: list[Thread]
    outside: str


def may_be_ended_by(thread: Thread, stuck: Collection[str], state: RuleInput) -> str:
    """Describe the thread that may end the wait of a thread: `thread 12 (worker), which runs`; "" for nobody (E1)."""
    for found in _ahead(thread, stuck, state):
        if isinstance(found, str):
            return found
        if does := _does(found, state):
            return f"{name_of(found.id, state.snapshot)}, which {does}"
    return ""


def reachable(thread: Thread, stuck: Collection[str], state: RuleInput) -> Reach:
    """Return all threads that may end the wait of a thread; see `may_be_ended_by`."""
    found = list(_ahead(thread, stuck, state))
    reasons = (one for one in found if isinstance(one, str))
    return Reach([one for one in found if not isinstance(one, str)], next(reasons, ""))


def nearest(thread: Thread, state: RuleInput) -> Reach:
    """Return the threads that may end the wait of a thread themselves, not through others."""
    processes = sorted(_processes(thread, state))
    others = [one for name in processes for one in state.snapshot.threads_of(name) if one is not thread]
    return Reach([one for one in others if not one.exited], _from_outside(thread, state))


def _ahead(thread: Thread, stuck: Collection[str], state: RuleInput) -> Iterator[Thread | str]:
    """Yield the threads that may end a wait, transitively; a text for enders that are not seen as a thread."""
    reached, todo = {thread.id, *stuck}, [thread]
    looked_at = set[str]()  # processes of which all threads are reached
    while todo:
        waiter = todo.pop()
        if reason := _from_outside(waiter, state):
            yield reason if waiter is thread else f"{name_of(waiter.id, state.snapshot)}, which waits for {reason}"
        for process in sorted(_processes(waiter, state) - looked_at):
            looked_at.add(process)
            others = state.snapshot.threads_of(process)
            if not others and not _has_ended(process, state):
                yield f"{name_of(process, state.snapshot)}, which is not seen"
            for other in others:
                if other.id not in reached:
                    reached.add(other.id)
                    yield other
                    if other.state is ThreadState.WAITING and not _is_idle_worker(other, state):
                        todo.append(other)


def _has_ended(process: str, state: RuleInput) -> bool:
    known = state.snapshot.processes.get(process)
    return known is not None and known.exited


def _is_idle_worker(thread: Thread, state: RuleInput) -> bool:
    stack = state.snapshot.stacks.get(thread.id)
    return stack is not None and waits_for_job(stack.frames, state.code.workers)


def _from_outside(thread: Thread, state: RuleInput) -> str:
    """Describe an ender of the wait other than visible threads; "" if there is none."""
    if thread.outside:
        return thread.outside
    if thread.wait is WaitKind.SIGNAL:
        process = state.snapshot.processes.get(thread.process)
        handles = process.outside if process is not None else None  # "": it was looked at, and handles none
        return "a signal" if handles is None else handles
    blockers = state.graph.blockers_of(thread.id)
    for entity in blockers:
        resource = state.snapshot.resources.get(entity)
        if resource is None:
            continue
        if resource.idle or resource.outside:
            return resource.idle or resource.outside
        if resource.kind == "socket" and not state.graph.blockers_of(entity):
            return "the other end of the socket"
    return "" if blockers or thread.wakers else "somebody who is not known"


def _processes(thread: Thread, state: RuleInput) -> set[str]:
    """Return the processes whose threads could end a wait: its own, and those with the other end or the same memory."""
    ends = {end for entity in state.graph.blockers_of(thread.id) for end in (entity, *state.graph.blockers_of(entity))}
    owners = {owner for end in ends if (owner := ids.process_of(end)) is not None}
    return {thread.process, *thread.wakers, *owners}


def _does(thread: Thread, state: RuleInput) -> str:
    """Return the activity by which a thread may end another's wait; "" if it is blocked or has ended."""
    if thread.state is ThreadState.RUNNING:
        return "runs"
    if thread.state is not ThreadState.WAITING or _is_idle_worker(thread, state):
        return ""
    waited = waited_ns(thread, state.snapshot)
    if thread.timed:
        return "will wake by itself"
    return "has just run" if waited is None or waited < state.settings.thread_stall_ns else ""
