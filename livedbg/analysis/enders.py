"""Who may still end the wait of a blocked thread.

A thread that holds a lock and waits for an event, a future, a queue or an answer is no stall as long as somebody may
give it what it waits for: the request that is answered under a lock looks the same as the one that never will be.

Invariants:
    enders.E1. "" only if all who could end the wait can be named, and none of them runs, wakes by itself, has run
        within the threshold, or waits for something that may come from outside. Who isn't known may end it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from livedbg.analysis.job_waits import waits_for_job
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.words import name_of, waited_ns
from livedbg.model import IDLE, OUTSIDE, Thread, ThreadState, ids

__all__ = ["behind", "may_be_ended_by"]

_SIGNALS: Final = re.compile(r"sigwait|sigsuspend|pause|read of signalfd")
_OVER: Final = frozenset({ThreadState.ZOMBIE, ThreadState.DEAD})


def behind(entity: str, state: RuleInput) -> set[str]:
    """An entity, and all that wait for it, directly or through others."""
    found, todo = {entity}, [entity]
    while todo:
        fresh = set(state.graph.waiters_of(todo.pop())) - found
        found |= fresh
        todo += fresh
    return found


def may_be_ended_by(thread: Thread, stuck: Collection[str], state: RuleInput) -> str:
    """Who may end the wait of a thread, in words: `thread 12 (worker), which runs`; "" for nobody (E1).

    Args:
        thread: it is blocked.
        stuck: those that wait for it.
        state: the state.
    """
    if reason := _from_outside(thread, state):
        return reason
    snapshot = state.snapshot
    for process in sorted(_processes(thread, state)):
        known = snapshot.processes.get(process)
        others = snapshot.threads_of(process)
        if known is None or (not known.exited and not others):
            return f"{name_of(process, snapshot)}, which is not seen"
        for other in others:
            if other.id != thread.id and other.id not in stuck and (does := _does(other, state)):
                return f"{name_of(other.id, snapshot)}, which {does}"
    return ""


def _from_outside(thread: Thread, state: RuleInput) -> str:
    """Who but threads that are seen may end a wait; "" for nobody."""
    if thread.outside:
        return thread.outside
    if _SIGNALS.match(thread.waits_in or ""):
        process = state.snapshot.processes.get(thread.process)
        handles = process.outside if process is not None else None  # "": it was looked at, and handles none
        return "a signal" if handles is None else handles
    blockers = state.graph.blockers_of(thread.id)
    for entity in blockers:
        resource = state.snapshot.resources.get(entity)
        if resource is None:
            continue
        if IDLE in resource.attributes:
            return resource.attributes[IDLE]
        if OUTSIDE in resource.attributes:
            return resource.attributes[OUTSIDE]
        if resource.kind == "socket" and not state.graph.blockers_of(entity):
            return "the other end of the socket"
    return "" if blockers or thread.wakers else "somebody who is not known"


def _processes(thread: Thread, state: RuleInput) -> set[str]:
    """The processes whose threads could end a wait: its own; those that have the other end, or the same memory."""
    ends = {end for entity in state.graph.blockers_of(thread.id) for end in (entity, *state.graph.blockers_of(entity))}
    owners = {owner for end in ends if (owner := ids.process_of(end)) is not None}
    return {thread.process, *thread.wakers, *owners}


def _does(thread: Thread, state: RuleInput) -> str:
    """What a thread does that may end the wait of another one; "" if it can't."""
    if thread.state in _OVER:
        return ""
    if thread.state is not ThreadState.WAITING:
        return "runs" if thread.state is ThreadState.RUNNING else ""
    stack = state.snapshot.stacks.get(thread.id)
    if stack is not None and waits_for_job(stack.frames):
        return ""
    waited = waited_ns(thread, state.snapshot)
    if thread.timed or waited is None or waited < state.settings.thread_stall_ns:
        return "goes on by itself" if thread.timed else "has just run"
    outside = _from_outside(thread, state)
    return f"waits for {outside}" if outside else ""
