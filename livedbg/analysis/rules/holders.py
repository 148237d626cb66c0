"""Locks that are not released: their holder has ended, is blocked in a call, sleeps, or runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from livedbg.analysis.behaviour import burns_for_ns
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.enders import behind, may_be_ended_by
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.places import at, blocked_in, places_in, thing_name, waiting
from livedbg.analysis.rules.words import (
    duration,
    edge_evidence,
    many,
    name_of,
    pids_of,
    since_wall_ns,
    thread_evidence,
    waited_ns,
)
from livedbg.model import Evidence, Resource, Severity, Thread, ThreadState, WaitKind, ids
from livedbg.model.entities import FORKED_LIKELY
from livedbg.model.facts import LockFacts, facts_of
from livedbg.text.wording import sentence_case

_LOCKS: Final = ("mutex:", "rwlock:", "pylock:", "flock:", "gil:", "core:")
_LONG_SLEEP_S: Final = 600.0
"""Who sleeps for that long with a lock is a stall from the start."""

_SURE_NS: Final = 200_000_000
"""A wait that lasts from one sample to the next, at least so long, is no passing one."""


def _stacks(entities: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"livedbg stacks {pid} --native" for pid in pids_of(entities)[:2])


def _proofs(pairs: Iterable[tuple[str, str]], state: RuleInput) -> list[Evidence]:
    found = [edge_evidence(waiter, blocker, state.snapshot) for waiter, blocker in pairs]
    return [proof for proof in found if proof is not None]


def _who_can(others: int) -> str:
    if not others:
        return "no thread of the child can"
    return f"only {'the other thread' if others == 1 else f'{others:,} other threads'} of the child can"


def _more(count: int) -> str:
    return f" {many(count, 'more thread waits', 'more threads wait')} for it." if count > 0 else ""


def _held_locks(state: RuleInput) -> Iterator[tuple[Thread, str, list[str]]]:
    graph, snapshot = state.graph, state.snapshot
    stuck = {member for cycle in graph.cycles for member in cycle}
    held = []
    for lock in snapshot.resources:
        if not lock.startswith(_LOCKS):
            continue
        waiters = list(graph.waiters_of(lock))
        if waiters:
            held += [(snapshot.threads.get(holder), lock, waiters) for holder in graph.blockers_of(lock)]
    held.sort(key=lambda row: (-graph.behind(row[1]), row[1]))
    for thread, lock, waiters in held:
        if thread is not None and thread.id not in stuck:
            yield thread, lock, waiters


class DeadOwner:
    """Rule for a lock whose owner has ended."""

    name = "dead-owner"
    doc = (
        "Threads wait for a lock whose owner word names a thread that has ended: no thread can release it. Rests on "
        "the owner word and on the list of live threads. Where a forked child waits for a lock that a thread of its "
        "parent held at the fork, the rule `fork-held-lock` reports it instead."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        for lock, resource in state.snapshot.resources.items():
            waiters = tuple(state.graph.waiters_of(lock))
            owner = self._owner(lock, resource, state) if waiters else None
            if owner is None:
                continue
            threads = [state.snapshot.threads[w] for w in waiters if w in state.snapshot.threads]
            since = [s for s in (since_wall_ns(t, state.snapshot) for t in threads) if s is not None]
            yield Finding(
                rule=self.name,
                severity=Severity.CRITICAL,
                sentence=(
                    f"{sentence_case(name_of(waiters[0], state.snapshot))} waits{at(waiters[0], state)} for "
                    f"{thing_name(lock, state.snapshot)} whose owner, thread {owner}, has ended: no thread can release "
                    f"it.{_more(state.graph.behind(lock) - 1)}"
                ),
                entities=(lock, *waiters),
                gone=_thread_of(lock, owner),
                evidence=tuple(_proofs([(waiter, lock) for waiter in waiters[:8]], state)),
                next=(
                    *_stacks(waiters),
                    "find the code that ends a thread (return, exception, pthread_exit) with this lock taken; "
                    "a robust mutex (PTHREAD_MUTEX_ROBUST) would tell the next one that takes it",
                ),
                since_wall_ns=min(since, default=None),
                state=VerdictState.STALLED,
                roots=(lock,),
                who=waiters[0],
                holder="".join(_thread_of(lock, owner)),
            )

    def _owner(self, lock: str, resource: Resource, state: RuleInput) -> str | None:
        if _forked_owner(lock, resource, state) is not None:
            return None
        ended = facts_of(resource.facts, LockFacts).ended_owner
        if ended is not None and not state.graph.blockers_of(lock):
            return str(ended)
        for holder in state.graph.blockers_of(lock):
            thread = state.snapshot.threads.get(holder)
            if thread is not None and (thread.exited or thread.state in (ThreadState.ZOMBIE, ThreadState.DEAD)):
                return str(thread.tid)
        return None


def _thread_of(lock: str, tid: str) -> tuple[str, ...]:
    process = ids.process_of(lock)
    return (f"thread:{process.partition(':')[2]}/{tid}",) if process is not None else ()


def _forked_owner(lock: str, resource: Resource, state: RuleInput) -> Thread | None:
    """Return the live thread of the parent process that a lock of a forked child names as its owner, or None."""
    told = facts_of(resource.facts, LockFacts).ended_owner
    parts = lock.partition(":")[2].split("/")
    if told is None or len(parts) < 3:
        return None
    process = state.snapshot.processes.get(f"process:{parts[0]}/{parts[1]}")
    if process is None or process.ppid is None:
        return None
    owner = state.snapshot.threads.get(f"thread:{parts[0]}/{process.ppid}/{told}")
    return owner if owner is not None and not owner.exited else None


class ForkHeldLock:
    """Rule for a lock that was held when the process was forked."""

    name = "fork-held-lock"
    doc = (
        "A forked child waits for a lock that another thread of its parent held at the moment of the fork. fork(2) "
        "copies the lock as taken and the one calling thread only, so nobody in the child can release it. A Python "
        "lock can be released by any thread: where the child has threads that don't wait for it, this is inferred, and "
        "a stall only once it has lasted for the threshold (10 s). Rests on the owner word (a thread of the parent). A "
        "Python lock without one most likely was held at the fork if a thread of the parent has it in a `with` block "
        "and none of the child has; the sentence says so."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        for lock, resource in state.snapshot.resources.items():
            waiters = tuple(state.graph.waiters_of(lock))
            if not waiters or state.graph.blockers_of(lock):
                continue
            owner = _forked_owner(lock, resource, state)
            facts = facts_of(resource.facts, LockFacts)
            told, forked = facts.inherited, facts.forked
            if owner is None and not forked:
                continue
            likely = "most likely " if owner is None and forked == FORKED_LIKELY else ""
            others = 0 if owner is not None else self._others(waiters, lock, state)
            sure = not others and not likely
            lasts = self._lasts(waiters, state) and not (likely and self._may_release(waiters, lock, state))
            holder = f"At the fork, {name_of(owner.id, state.snapshot)} of the parent process held it" if owner else ""
            basis = holder or sentence_case(told.rstrip("."))
            proofs = _proofs([(waiter, lock) for waiter in waiters], state)
            if told:
                proofs.append(Evidence(kind="memory", source=name_of(lock, state.snapshot), text=told))
            yield Finding(
                rule=self.name,
                severity=Severity.CRITICAL,
                sentence=(
                    f"{sentence_case(name_of(waiters[0], state.snapshot))} waits{at(waiters[0], state)} for "
                    f"{thing_name(lock, state.snapshot)} {likely}held at the fork: "
                    f"{_who_can(others)} release it.{_more(state.graph.behind(lock) - 1)} {basis}."
                ),
                entities=(lock, *waiters),
                evidence=tuple(proofs),
                next=(
                    *_stacks(waiters),
                    "use the start method `spawn` or `forkserver` (Python), exec after fork, or pthread_atfork",
                ),
                inferred=bool(others or likely),
                state=VerdictState.STALLED if sure or lasts else VerdictState.UNKNOWN,
                roots=(waiters[0], lock),
            )

    def _may_release(self, waiters: Sequence[str], lock: str, state: RuleInput) -> str:
        child = state.snapshot.threads.get(waiters[0])
        return may_be_ended_by(child, behind(lock, state), state) if child is not None else ""

    def _others(self, waiters: Sequence[str], lock: str, state: RuleInput) -> int:
        child = state.snapshot.threads.get(waiters[0])
        threads = state.snapshot.threads_of(child.process) if child is not None else ()
        return sum(
            thread.state not in (ThreadState.ZOMBIE, ThreadState.DEAD) and lock not in state.graph.chain(thread.id)
            for thread in threads
        )

    def _lasts(self, waiters: Iterable[str], state: RuleInput) -> bool:
        threads = (state.snapshot.threads[name] for name in waiters if name in state.snapshot.threads)
        waits = (waited_ns(thread, state.snapshot) for thread in threads)
        return any(waited is not None and waited >= state.settings.thread_stall_ns for waited in waits)


class GilHeld:
    """Rule for a thread that holds the GIL while it is blocked in a call."""

    name = "gil-held"
    doc = (
        "A thread holds the GIL of a Python process and is blocked in a system call, from one sample to the next: C "
        "code that blocks without releasing the GIL. It is a stall once the call has lasted for the threshold (10 s), "
        "or if it is a sleep for longer than that, and other threads wait for the GIL or could. Rests on the GIL's "
        "holder in the interpreter's memory and on the holder's system call. A holder that runs is no stall, nor is "
        "one in a wait with a time limit: a thread that waits for the GIL is in such a wait."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        for lock, resource in state.snapshot.resources.items():
            if resource.kind != "gil":
                continue
            for holder in state.graph.blockers_of(lock):
                thread = state.snapshot.threads.get(holder)
                if thread is not None and self._keeps(thread, lock, state):
                    yield self._finding(thread, lock, state)

    def _keeps(self, thread: Thread, lock: str, state: RuleInput) -> bool:
        waited, waiters = waited_ns(thread, state.snapshot), state.graph.waiters_of(lock)
        if waited is None or waited < _SURE_NS or thread.state not in (ThreadState.WAITING, ThreadState.DISK):
            return False
        if thread.id in waiters or _in_cycle(thread, state):
            return False
        alone = len(state.snapshot.threads_of(thread.process)) == 1
        lasting = waited >= state.settings.thread_stall_ns and not thread.timed
        return (lasting or _sleeps_long(thread, state)) and (bool(waiters) or not alone)

    def _finding(self, thread: Thread, lock: str, state: RuleInput) -> Finding:
        behind = state.graph.behind(lock)
        harm = f"{many(behind, 'thread')} can't run Python" if behind else "no other thread can run Python"
        return Finding(
            rule=self.name,
            severity=Severity.ERROR if behind else Severity.WARNING,
            sentence=(
                f"{sentence_case(name_of(thread.id, state.snapshot))} holds the GIL, blocked in "
                f"{blocked_in(thread, state)} for "
                f"{duration(waited_ns(thread, state.snapshot) or 0)} or more; {harm}."
            ),
            entities=(thread.id, lock, *state.graph.waiters_of(lock)),
            evidence=(*_proofs([(lock, thread.id)], state), thread_evidence(thread, state)),
            next=(
                *_stacks((thread.id,)),
                "the C code on its stack should release the GIL around the call (Py_BEGIN_ALLOW_THREADS)",
            ),
            since_wall_ns=since_wall_ns(thread, state.snapshot),
            state=VerdictState.STALLED,
            roots=(thread.id,),
        )


def _in_cycle(thread: Thread, state: RuleInput) -> bool:
    return any(thread.id in cycle for cycle in state.graph.cycles)


def _sleeps_long(thread: Thread, state: RuleInput) -> bool:
    return _sleep_s(thread) >= state.settings.thread_stall_s


def _accepts(thread: Thread, state: RuleInput) -> bool:
    """Return whether a thread waits for connections: of servers that share a lock, the holder does."""
    awaited = (state.snapshot.resources.get(entity) for entity in state.graph.blockers_of(thread.id))
    return any(one is not None and one.listening for one in awaited)


def _sleeps(thread: Thread) -> bool:
    return thread.wait is WaitKind.SLEEP


def _sleep_s(thread: Thread) -> float:
    return thread.sleeps_s or 0.0


class HeldAndWaiting:
    """Rule for a thread that holds a lock that others wait for, and waits for something else itself."""

    name = "held-lock"
    doc = (
        "A thread holds a lock that others wait for, and has slept or waited for something else for the threshold "
        "(10 s). It is a stall if nobody can end its wait: all threads that could are known, and each of them waits "
        "for this one, or has waited for the threshold for what only such threads could give it; or if it sleeps for "
        "10 minutes and longer. Else it is a note that names who may end its wait, as a request that is answered under "
        "a lock. A wait with a time limit is no stall, of it or of who holds what it waits for: that thread may give "
        "up and release its lock. Nor is a wait for connections: servers take turns with a lock."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield a finding for each holder and lock."""
        seen = set()
        for thread, lock, _ in _held_locks(state):
            waited = waited_ns(thread, state.snapshot)
            if waited is None or thread.state not in (ThreadState.WAITING, ThreadState.DISK):
                continue
            if waited < state.settings.thread_stall_ns and not self._sleeps_on(thread, waited):
                continue
            if lock.startswith("gil:") or thread.id in seen or self._passes_on(thread, state):
                continue
            seen.add(thread.id)
            yield self._finding(thread, lock, waited, state)

    def _passes_on(self, thread: Thread, state: RuleInput) -> bool:
        """Return whether a thread waits for a known thread, process or task, which then is the root."""
        chain = state.graph.chain(thread.id)
        end = chain[-1] if chain else thread.id
        return end != thread.id and end.startswith(("thread:", "process:", "task:"))

    def _sleeps_on(self, thread: Thread, waited: int) -> bool:
        """Return whether a thread's sleep is long enough to be a stall from the start."""
        return waited >= _SURE_NS and _sleep_s(thread) >= _LONG_SLEEP_S

    def _ender(self, thread: Thread, state: RuleInput) -> str:
        if _sleeps(thread):
            return "" if _sleep_s(thread) >= _LONG_SLEEP_S else "the time it sleeps for"
        ahead = (state.snapshot.threads.get(name) for name in (thread.id, *state.graph.chain(thread.id)))
        if any(one is not None and one.timed and not _sleeps(one) for one in ahead):
            return "a time limit"
        if _accepts(thread, state):
            return "a connection"
        return may_be_ended_by(thread, behind(thread.id, state), state)

    def _finding(self, thread: Thread, lock: str, waited: int, state: RuleInput) -> Finding:
        ender = self._ender(thread, state)
        sure = not ender
        next_steps = _stacks((thread.id,))
        if not sure:
            next_steps += (f"livedbg watch {pids_of((thread.id,))[0]}   shows whether it continues",)
        return Finding(
            rule=self.name,
            severity=Severity.ERROR if sure else Severity.WARNING,
            sentence=(
                f"{sentence_case(name_of(thread.id, state.snapshot))} holds {thing_name(lock, state.snapshot)}, "
                f"blocked in {blocked_in(thread, state)} for {duration(waited)} or more; "
                f"{waiting(lock, state)} for it.{f' Its wait may be ended by {ender}.' if ender else ''}"
            ),
            entities=(thread.id, lock, *state.graph.waiters_of(lock)),
            evidence=(*_proofs([(lock, thread.id)], state), thread_evidence(thread, state)),
            next=next_steps,
            since_wall_ns=since_wall_ns(thread, state.snapshot),
            state=VerdictState.STALLED if sure else VerdictState.UNKNOWN,
            roots=(thread.id,),
        )


class LockConvoy(Struct, frozen=True):
    """Rule for a running thread that holds a lock that others wait for."""

    name: str = "lock-convoy"
    doc: str = (
        "A thread holds a lock (or the GIL) that others wait for, and it runs. That is no stall: it may release the "
        "lock at any time. If it never does, its stack shows where it loops. The verdict is `unknown` while the thread "
        "shows nothing but CPU time."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield a finding for each lock with a running holder."""
        for thread, lock, waiters in _held_locks(state):
            if thread.state is not ThreadState.RUNNING:
                continue
            blind = burns_for_ns(thread, state) is not None
            yield Finding(
                rule=self.name,
                severity=Severity.INFO,
                sentence=(
                    f"{sentence_case(name_of(thread.id, state.snapshot))} holds {thing_name(lock, state.snapshot)} and "
                    f"is running{' (it computes, or spins)' if blind else ''}; {waiting(lock, state)} for it"
                    f"{at(waiters[0], state) if len(waiters) == 1 else places_in(sorted(waiters)[:3], state)}."
                ),
                entities=(thread.id, lock, *waiters),
                evidence=(*_proofs([(lock, thread.id)], state), thread_evidence(thread, state)),
                next=_stacks((thread.id,)),
                state=VerdictState.UNKNOWN if blind else VerdictState.RUNNING,
                roots=(thread.id,),
            )


def rules() -> Sequence[Rule]:
    return (DeadOwner(), ForkHeldLock(), GilHeld(), HeldAndWaiting(), LockConvoy())
