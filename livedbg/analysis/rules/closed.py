"""Processes that nothing can wake."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from livedbg.analysis.behaviour import LOCKS, in_users_code, progressing
from livedbg.analysis.closed import ClosedSet, closed_sets
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.idle_by_design import may_be_meant, stuck_tasks
from livedbg.analysis.place_names import line_of
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.places import at, blocked_in, shortest, thing_name, user_frame
from livedbg.analysis.rules.words import call_of, duration, many, name_of, since_wall_ns, thread_evidence
from livedbg.model import Evidence, Process, Severity, Thread, WaitKind
from livedbg.model.snapshot import Snapshot
from livedbg.text.wording import sentence_case

_SHOWN: Final = 16
"""Sets that are findings of their own; threads and processes of a set that become evidence."""

_SURE_NS: Final = 200_000_000
"""From the first sample to the second one."""

_CHECKED: Final = (
    "all threads are in waits without a time limit; no signal is waited for, and none handled (but for faults, and "
    "Python's own KeyboardInterrupt); no timer is set, nobody traces it or shares all of its memory; only threads of "
    "these processes could end a wait"
)


class NoWaker:
    """Rule for processes whose threads all wait for each other only, or for nobody."""

    name = "no-waker"
    doc = (
        "Every thread of a process, or of several, is in a wait without a time limit that only threads of the same "
        "processes could end, and nothing else can wake one: no signal is handled or waited for, no timer is set, "
        "nobody traces them, and every other end of what they wait for is in these processes. Whatever they wait for "
        "(a semaphore, a condition variable, a future, a pipe), nothing can go on. It is a stall once that has lasted "
        "for the threshold (10 s). Rests on the system calls of all threads, on SigCgt and timers in /proc, and on who "
        "has what they wait for open or in memory. Something wakes a program that is only idle, so it is not reported. "
        "While a child of theirs makes progress it is a note: a parent that waits for Ctrl-C looks the same. It is "
        "`unknown` where the wait may be meant: a Python main thread in `Event.wait`, an event loop that only its own "
        "program could give something to do (also one of another thread, beside a main thread that waits for no lock; "
        "not one whose tasks all wait for locks, semaphores and queues of its own), or a parent whose child is not "
        "stuck."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield a finding for each closed set without a deadlock; those after the first `_SHOWN` are one finding."""
        cyclic = {member for cycle in state.graph.cycles for member in cycle}
        closed = state.once(closed_sets)
        stuck = [
            found
            for found in closed.sets
            if found.waited_ns >= state.settings.thread_stall_ns
            and any(process.target for process in found.processes)
            and _looked_at_twice(found, state.snapshot)
            and cyclic.isdisjoint(_ids(found))
        ]
        yield from (self._finding(found, may_be_meant(found, closed, state), state) for found in stuck[:_SHOWN])
        if rest := [found for found in stuck[_SHOWN:] if not may_be_meant(found, closed, state)]:
            count = sum(len(found.processes) for found in rest)
            yield Finding(
                rule=self.name,
                severity=Severity.ERROR,
                sentence=f"Nothing can wake {many(count, 'more process', 'more processes')}.",
                entities=tuple(found.threads[0].id for found in rest[:_SHOWN]),
                state=VerdictState.STALLED,
            )

    def _finding(self, found: ClosedSet, meant: str, state: RuleInput) -> Finding:
        snapshot, child = state.snapshot, _child_at_work(found, state)
        mains = [thread for thread in found.threads if _is_main(thread)] or [found.threads[0]]
        first = _last_waited_for(mains[0], found, state)
        locked = _locked(found, state) if first is mains[0] else []
        first = next(iter(locked), first)
        rest = [thread for thread in found.threads if thread is not first]
        began = [since for thread in found.threads if (since := since_wall_ns(thread, snapshot)) is not None]
        more = (
            f", but {name_of(child.id, snapshot)}, a child, makes progress" if child else f": {meant}" if meant else ""
        )
        return Finding(
            rule=self.name,
            severity=Severity.INFO if child else Severity.WARNING if meant else Severity.ERROR,
            sentence=f"{_locked_said(locked, mains[0], state) or _blocked(first, mains[0], found, state)}{more}.",
            entities=(first.id, *(thread.id for thread in rest)),
            evidence=(
                *(_checked(process.pid, snapshot) for process in found.processes[:_SHOWN]),
                *(thread_evidence(thread, state) for thread in [first, *rest][:_SHOWN]),
            ),
            next=tuple(f"livedbg stacks {process.pid} --native" for process in found.processes[:2]),
            since_wall_ns=max(began, default=None),
            inferred=bool(meant),
            state=None if child else VerdictState.UNKNOWN if meant else VerdictState.STALLED,
            roots=() if child else tuple(dict.fromkeys(one.id for one in (first, *mains[1:_SHOWN]))),
        )


def _child_at_work(found: ClosedSet, state: RuleInput) -> Process | None:
    family = {process.pid for process in found.processes}
    living = [p for p in state.snapshot.processes.values() if not p.exited and p.host == found.processes[0].host]
    left = [process for process in living if process.pid not in family]
    while children := [process for process in left if process.ppid in family]:
        names = {child.id: child for child in children}
        threads = [t for t in state.snapshot.threads.values() if t.process in names and not t.exited]
        if at_work := progressing(threads, state):
            return names[at_work[0].process]
        family |= {child.pid for child in children}
        left = [process for process in left if process.pid not in family]
    return None


def _ids(found: ClosedSet) -> list[str]:
    return [thread.id for thread in found.threads]


def _is_main(thread: Thread) -> bool:
    return thread.process.rpartition("/")[2] == str(thread.tid)


def _main(thread: Thread, snapshot: Snapshot) -> str:
    return f"main {name_of(thread.id, snapshot)}" if _is_main(thread) else name_of(thread.id, snapshot)


def _last_waited_for(main: Thread, found: ClosedSet, state: RuleInput) -> Thread:
    """Return the last thread of the set that a main thread waits for: also through the end of a child of it."""
    members = {thread.id: thread for thread in found.threads}
    mains = {thread.process: thread for thread in found.threads if _is_main(thread)}
    last = main
    for _ in found.processes:
        chain = state.graph.chain(last.id)
        last = next((members[name] for name in reversed(chain) if name in members), last)
        child = mains.get(chain[-1]) if chain else None
        if child is None:
            break
        last = child
    return last


def _locked(found: ClosedSet, state: RuleInput) -> list[Thread]:
    """Return the threads of one process that wait for a lock at one place; [] if its main thread waits for one."""
    if len(found.processes) > 1:
        return []
    locked = [one for one in found.threads if any(name.startswith(LOCKS) for name in state.graph.blockers_of(one.id))]
    if any(map(_is_main, locked)):
        return []
    own = [one for one in locked if in_users_code(one, state)]
    return [one for one in own if blocked_in(one, state) == blocked_in(own[0], state)]


def _locked_said(locked: Sequence[Thread], main: Thread, state: RuleInput) -> str:
    if not locked:
        return ""
    first, others = locked[0], len(locked) - 1
    more = f" and {many(others, 'other')} are" if others else " is"
    held = f"{sentence_case(name_of(first.id, state.snapshot))}{more} blocked in {blocked_in(first, state)}"
    return f"{held}, main thread in {blocked_in(main, state)}; nothing can wake them"


def _blocked(first: Thread, main: Thread, found: ClosedSet, state: RuleInput) -> str:
    head = (
        f"{sentence_case(_main(first, state.snapshot))} is blocked in {blocked_in(first, state)} for "
        f"{duration(found.waited_ns)} or more; "
    )
    if first is main:
        return _tasks_blocked(main, found, state) or f"{head}nothing can wake {_whom(found)}"
    if in_users_code(main, state) and not in_users_code(first, state):
        waits = f"is blocked in {blocked_in(main, state)} for {duration(found.waited_ns)} or more"
        behind = f"behind {name_of(first.id, state.snapshot)} ({call_of(first, state) or 'a call'})"
        tail = f"; nothing can wake {_whom(found)}"
        subject = sentence_case(_main(main, state.snapshot))
        return shortest(f"{subject} {waits}, {behind}{tail}", f"{subject} {waits}{tail}")
    frame = user_frame(main.id, state)
    line = line_of(frame) if frame is not None else ""
    tail = f"nothing can wake {_whom(found) if len(found.processes) > 1 else 'them'}"
    begun = "main thread waits for it"
    return shortest(*([f"{head}{begun} ({line}); {tail}"] if line else []), f"{head}{begun}; {tail}", f"{head}{tail}")


def _tasks_blocked(main: Thread, found: ClosedSet, state: RuleInput) -> str:
    tasks = stuck_tasks(main, state)
    if main.wait is not WaitKind.POLL or not tasks:
        return ""
    first = tasks[0]
    called = state.code.call(state.snapshot.stacks.get(first.id), full=True)
    [awaited, *_] = state.graph.blockers_of(first.id)
    what = called or thing_name(awaited, state.snapshot)
    more = f" and {many(len(tasks) - 1, 'other task')}" if len(tasks) > 1 else ""
    return (
        f"{sentence_case(name_of(first.id, state.snapshot))}{more} wait{'' if more else 's'} in "
        f"{what}{at(first.id, state)} for {duration(found.waited_ns)} or more; "
        f"nothing can wake {name_of(main.id, state.snapshot)}"
    )


def _whom(found: ClosedSet) -> str:
    if len(found.threads) == 1:
        return "it"
    if len(found.processes) > 1:
        return f"these {len(found.processes):,} processes"
    others = len(found.threads) - 1
    return f"it or the {'other thread' if others == 1 else f'{others:,} other threads'}"


def _checked(pid: int, snapshot: Snapshot) -> Evidence:
    return Evidence(kind="proc", source=f"/proc/{pid}", text=_CHECKED, at_wall_ns=snapshot.now().wall_ns or None)


def _looked_at_twice(found: ClosedSet, snapshot: Snapshot) -> bool:
    """Return whether two samples saw all waits without CPU time between them, which would begin a new wait."""
    now = snapshot.now(found.processes[0].host).mono_ns
    return all(
        (activity := snapshot.activity.get(thread.id)) is not None and now - activity.first_mono_ns >= _SURE_NS
        for thread in found.threads
    )


def rules() -> Sequence[Rule]:
    return (NoWaker(),)
