"""Rules for unanswered requests of torch.distributed.rpc: caller, callee, function, and the callee's activity.

Invariants:
    rules_rpc.Q1. A request is a stall only if each thread that serves it, or those at the end of its own requests, has
        been in one wait without a time limit for the threshold, which nothing from outside explains and no other thread
        of its worker may end.
    rules_rpc.Q2. Workers that ask each other in a cycle are a stall only if no thread of their pools is free.
    rules_rpc.Q3. A worker in `rpc.shutdown` serves the others for as long as they like: that is a stall only if one
        that is not in it is blocked itself, and not in torch's C++ code, where it may wait for an unseen request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from livedbg.adapters.pytorch.facts import RpcFacts, rpc_facts
from livedbg.adapters.pytorch.rules.absent import Absence, absence_of, liveliest_of, of_long_wait, others_may
from livedbg.adapters.pytorch.rules.calls import who_wait
from livedbg.adapters.pytorch.rules.threads import main_thread
from livedbg.adapters.pytorch.rules.wakers import family_of_rank
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.places import at, blocked_in
from livedbg.analysis.rules.words import duration, thread_evidence, waited_ns
from livedbg.model import Severity, TaskState, Thread, ThreadState, WaitKind
from livedbg.text.patterns import lazy_re

_PREFIX: Final = "task:rpc/"
_OF_PTHREADS: Final = (WaitKind.MUTEX, WaitKind.RWLOCK, WaitKind.CONDITION, WaitKind.BARRIER, WaitKind.JOIN)
_TORCH: Final = lazy_re(r"torch::|c10::|libtorch|libc10|_ZN?\d*torch")
_POOL: Final = "pt_thread_pool"
_SEVERITY: Final = {VerdictState.STALLED: Severity.ERROR, VerdictState.RUNNING: Severity.INFO}


class _RequestWait(NamedTuple):
    """A thread's wait for a request, or in `shutdown`."""

    task: str
    facts: RpcFacts
    thread: Thread


def _waiting(state: RuleInput, *, leaves: bool = False) -> Iterator[_RequestWait]:
    """Yield the threads that wait for a request, or in `shutdown`."""
    for task in state.tasks_in(TaskState.RUNNING):
        if task.id.startswith(_PREFIX) and (facts := rpc_facts(task)).leaves is leaves:
            threads = (state.snapshot.threads.get(waiter) for waiter in state.graph.waiters_of(task.id))
            yield from (_RequestWait(task.id, facts, thread) for thread in threads if thread is not None)


def _free(process: str, busy: set[str], state: RuleInput) -> bool:
    """Return whether a worker's pool has an idle thread; True if no pool is seen."""
    pool = [one for one in state.snapshot.threads_of(process) if one.name.startswith(_POOL) and not one.exited]
    return not pool or any(one.id not in busy for one in pool)


def _end(facts: RpcFacts, seen: frozenset[str], state: RuleInput) -> Absence:
    """Return what blocks a request (Q1), and its thread; `what` continues `worker1 carries it out: `."""
    asked, to = facts.asked, facts.to
    process = state.snapshot.processes.get(asked)
    if process is None:
        return Absence("which worker it asks is not known", VerdictState.UNKNOWN, "")
    main = main_thread(asked, state)
    if process.exited:
        return Absence(f"{to} has ended", VerdictState.STALLED, asked)
    if main is not None and ThreadState.STOPPED in (process.state, main.state):
        return Absence(f"{to} is stopped (SIGCONT lets it go on)", VerdictState.STALLED, asked)
    busy = set(facts.busy)
    servers = (state.snapshot.threads.get(one) for one in facts.served_by)
    fresh = [one for one in servers if one is not None and one.id not in seen]
    if not fresh:
        if not busy or _free(asked, busy, state):
            return Absence(f"no thread of {to} carries it out", VerdictState.UNKNOWN, asked)
        circle = seen & busy
        ends = [
            _of_server(state.snapshot.threads[one], to, seen, state)
            for one in busy - seen
            if one in state.snapshot.threads
        ]
        liveliest = liveliest_of(ends).state if ends else VerdictState.STALLED
        why = "they wait for this one" if circle else "they are held up"
        return Absence(f"no thread of {to} is free, and {why}", liveliest, sorted(busy)[0])
    return liveliest_of(_of_server(one, to, seen, state) for one in fresh)


def _of_server(thread: Thread, worker: str, seen: frozenset[str], state: RuleInput) -> Absence:
    """Return what a serving thread does."""
    for asked in _waiting(state):
        if asked.thread.id == thread.id:
            inner = _end(asked.facts, seen | {thread.id}, state)
            asks = f"{worker} waits{at(thread.id, state)} for {_what(asked.facts)}: {inner.what}"
            return inner._replace(what=asks, entity=inner.entity or thread.id)
    if thread.state is ThreadState.RUNNING:
        return Absence(f"{worker} computes{at(thread.id, state)}", VerdictState.RUNNING, thread.id)
    waited = waited_ns(thread, state.snapshot)
    where = f"{worker} waits in {blocked_in(thread, state)}"
    if waited is None or waited < state.settings.thread_stall_ns:
        return Absence(where, VerdictState.UNKNOWN, thread.id)
    where += f" for {duration(waited)}"
    process = state.snapshot.processes.get(thread.process)
    family = family_of_rank(process, state) if process is not None else []
    return of_long_wait(thread, where, {thread.id, *seen}, family, state)


def _what(facts: RpcFacts) -> str:
    return f"{facts.function or 'a request'} of {facts.to or 'a worker that is not known'}"


class RpcRequests:
    """Requests without an answer."""

    name = "rpc-request"
    doc = (
        "A thread has waited for what it has asked another worker of torch.distributed.rpc for (`rpc_sync`, or `wait` "
        "of a future) for the threshold (10 s) and longer. It is a stall where the threads that carry it out are in "
        "one wait without a time limit for the threshold that nothing explains, where the worker has ended or is "
        "stopped, or where workers ask each other in a circle and no thread of their pools is free. Where the function "
        "computes it is late, and the job runs; else it is `unknown`. Rests on the Python frames of all workers in "
        "memory: whom `rpc_sync` asks for which function, and what the threads of each worker carry out; which of "
        "several requests for one function is not known."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield one finding for each request, except those of threads that serve one themselves."""
        serving = {one for asked in _waiting(state) for one in asked.facts.busy}
        found = [
            (asked, waited)
            for asked in _waiting(state)
            if (waited := waited_ns(asked.thread, state.snapshot) or 0) >= state.settings.thread_stall_ns
        ]
        outer = [one for one in found if one[0].thread.id not in serving] or found[:1]
        for (task, facts, thread), waited in outer:
            end = _end(facts, frozenset({thread.id}), state)
            if not facts.function and end.state is VerdictState.STALLED:  # any future of torch
                may = others_may({thread.process: thread.id}, state)
                end = end._replace(state=VerdictState.UNKNOWN) if may else end
            held = state.snapshot.threads.get(end.entity)
            who = "Rank ?" if facts.rank is None else f"Rank {facts.rank}"
            yield Finding(
                rule=self.name,
                severity=_SEVERITY.get(end.state, Severity.WARNING),
                sentence=(f"{who} waits for {_what(facts)}{at(thread.id, state)} for {duration(waited)}: {end.what}."),
                entities=tuple(dict.fromkeys(one for one in (end.entity, task, thread.id) if one)),
                evidence=tuple(thread_evidence(one, state) for one in (thread, held) if one is not None),
                state=end.state,
                roots=(end.entity or thread.id,),
                decides=end.state is VerdictState.UNKNOWN,
            )


class RpcShutdown:
    """Workers in `rpc.shutdown` that wait for one that is blocked elsewhere."""

    name = "rpc-shutdown"
    doc = (
        "Workers are in `torch.distributed.rpc.shutdown`, which returns once all workers have called it, and one that "
        "has not is in one wait without a time limit for the threshold (10 s) that nothing explains, has ended or is "
        "stopped. A worker in `shutdown` serves the others, so of any other state nothing is said. Rests on the "
        "Python frames of all workers in memory."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield one finding for each blocked absent worker."""
        inside = list(_waiting(state, leaves=True))
        asking = {asked.thread.process for asked in _waiting(state)}
        absent = {rank: one.facts.processes.get(rank, "") for one in inside for rank in one.facts.absent}
        for rank, process in absent.items():
            absence = absence_of(process, state)
            if process in asking or absence.state is not VerdictState.STALLED or _in_torch(absence.entity, state):
                continue
            waiting = sorted({one.facts.rank for one in inside if one.facts.rank is not None})
            threads = [one.thread for one in inside]
            yield Finding(
                rule=self.name,
                severity=Severity.ERROR,
                sentence=(
                    f"{who_wait(waiting, start=True)} in rpc.shutdown{at(threads[0].id, state)} for rank "
                    f"{rank}, which does not call it: {absence.what}."
                ),
                entities=(absence.entity, process, *(thread.id for thread in threads)),
                evidence=tuple(thread_evidence(one, state) for one in threads[:4]),
                state=VerdictState.STALLED,
                roots=(absence.entity,),
            )


def _in_torch(entity: str, state: RuleInput) -> bool:
    """Return whether a thread waits in torch's C++ code; True if not known."""
    thread = state.snapshot.threads.get(entity)
    if thread is None:
        return False
    stack = state.snapshot.stacks.get(entity)
    native = [frame for frame in stack.frames if frame.language != "python"] if stack is not None else []
    inside = any(_TORCH.search(f"{frame.function} {frame.module or ''}") for frame in native)
    return inside or (not native and thread.wait in _OF_PTHREADS)
