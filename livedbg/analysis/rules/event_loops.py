"""Event loops that a task's call blocks while other tasks could run, and futures that may never complete."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from livedbg.analysis.behaviour import Behaviour, doing
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.places import at, blocked_in, shortest, thing_name
from livedbg.analysis.rules.words import (
    duration,
    edge_evidence,
    host_of,
    name_of,
    pids_of,
    since_wall_ns,
    thread_evidence,
    waited_ns,
)
from livedbg.model import Edge, EdgeKey, EdgeKind, Severity, Task, TaskState, Thread, ThreadState, WaitKind
from livedbg.text.wording import many, sentence_case

_SHOWN: Final = 16
_UNSEEN_HOLDER: Final = ("look where it is acquired without `async with`, and whether each way out releases it",)
_OF_HOLDERS: Final = ("pylock:", "sem:")
_BLOCKED: Final = (ThreadState.WAITING, ThreadState.DISK)


class BlockedLoop:
    """Rule for an event loop whose thread is blocked in a call while tasks are ready."""

    name = "loop-blocked"
    doc = (
        "The thread of an event loop has been blocked in one call of a callback, or of a task's own code, for longer "
        "than the threshold (10 s), while other tasks of the loop are ready to run: none of them can. Rests on the "
        "call, which was the same before and after the loop was read, on the thread's frames, and on what the loop "
        "has in its queues. A call with a time limit that is no sleep, and one that waits for somebody who can be "
        "named, are `unknown`; a wait for a key or for connections is only reported. A loop that waits for something "
        "to do is not blocked, nor "
        "is one whose other tasks have nothing to do."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        waiting = _waiting(state)
        for name, tasks in waiting.items():
            thread = state.snapshot.threads.get(name)
            waited = waited_ns(thread, state.snapshot) if thread is not None else None
            if thread is None or waited is None or thread.state not in _BLOCKED:
                continue
            ready = [task for task in tasks if state.snapshot.tasks[task].state is TaskState.READY]
            if ready and waited >= state.settings.thread_stall_ns:
                yield self._finding(thread, waited, tasks, ready, state)

    def _finding(
        self, thread: Thread, waited: int, tasks: Sequence[str], ready: Sequence[str], state: RuleInput
    ) -> Finding:
        snapshot = state.snapshot
        place = at(thread.id, state)
        called = state.code.call(snapshot.stacks.get(thread.id), full=True)
        where = f" in {called}{place}" if called and place else f" in {blocked_in(thread, state)}"
        said = (
            f"The event loop of {name_of(thread.id, snapshot)} is blocked{where} for {duration(waited)} or more; "
            f"{many(len(tasks), 'task waits', 'tasks wait')}, {len(ready)} ready"
        )
        proofs = [edge_evidence(task, thread.id, snapshot) for task in ready[:_SHOWN]]
        ends, idle = _goes_on(thread, state), _idle(thread, state)
        sure = not ends and not idle
        current = tuple(_running_on(thread, state))
        return Finding(
            rule=self.name,
            severity=Severity.ERROR if sure else Severity.WARNING,
            sentence=shortest(f"{said} to run.", f"{said}."),
            entities=(thread.id, *current, *ready[:_SHOWN]),
            evidence=(thread_evidence(thread, state), *[proof for proof in proofs if proof is not None]),
            next=(
                f"livedbg stacks {pids_of((thread.id,))[0]}",
                "call it in an executor or a thread (asyncio.to_thread), or use a library that awaits",
            ),
            since_wall_ns=since_wall_ns(thread, snapshot),
            state=VerdictState.STALLED if sure else VerdictState.UNKNOWN if not idle else None,
            roots=(thread.id,),
        )


class LostFuture:
    """Rule for tasks that await a future to which nothing else has a strong reference."""

    name = "lost-future"
    doc = (
        "A task of an event loop has awaited, for longer than the threshold (10 s), a future to which nothing but the "
        "tasks that wait for it refers. Rests on the future's count of references, all of which were found in these "
        "tasks. It is `unknown`: weak references are not seen, and a program that is meant to run until a signal ends "
        "it waits like that too."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        snapshot = state.snapshot
        for resource in snapshot.resources.values():
            if not resource.lost:
                continue
            tasks = [task for task in state.graph.waiters_of(resource.id) if task in snapshot.tasks]
            waited = min((_awaited_ns(task, resource.id, state) for task in tasks), default=0)
            if tasks and waited >= state.settings.thread_stall_ns:
                yield self._finding(resource.id, tasks, waited, state)

    def _finding(self, future: str, tasks: Sequence[str], waited: int, state: RuleInput) -> Finding:
        snapshot = state.snapshot
        first = tasks[0]
        more = f" (and {len(tasks) - 1} more)" if len(tasks) > 1 else ""
        proofs = [edge_evidence(task, future, snapshot) for task in tasks[:_SHOWN]]
        return Finding(
            rule=self.name,
            severity=Severity.WARNING,
            sentence=(
                f"{sentence_case(name_of(first, snapshot))}{more} has awaited a future{at(first, state)} for "
                f"{duration(waited)} or more that nothing else references: it may never complete."
            ),
            entities=(*tasks[:_SHOWN], future),
            evidence=tuple(proof for proof in proofs if proof is not None),
            next=(
                "keep the future where its producer finds it, and complete it on errors too",
                "nothing to do if this is how the program waits for a signal to end it",
            ),
            inferred=True,
            state=VerdictState.UNKNOWN,
            roots=(first,),
        )


class TaskHeldUp:
    """Rule for tasks that wait for a lock or a semaphore that nobody is seen to release."""

    name = "task-held-up"
    doc = (
        "A task of an event loop awaits a lock or a semaphore without a time limit, and no task is seen to hold it, or "
        "the task inside its `async with` block awaits a future, an event or a condition that nobody is seen to set: a "
        "request may hang in a server that looks idle. For the threshold (10 s); where a task holds the lock and the "
        "loop only polls, at once. It is `unknown`, and only that where nothing else gets on: a limit on how many "
        "requests are served at a time looks the same. Rests on the coroutines of the tasks."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        snapshot = state.snapshot
        locks = [name for name in snapshot.resources if name.startswith(_OF_HOLDERS)]
        for lock in locks:
            waiters = [name for name in state.graph.waiters_of(lock) if name in snapshot.tasks]
            edges = [edge for task in waiters for edge in state.graph.waits_of(task) if edge.target == lock]
            holders = state.graph.blockers_of(lock)
            if not edges or any(edge.timed for edge in edges) or any(not _awaits(one, state) for one in holders):
                continue
            waited, task = max((_awaited_ns(task, lock, state), task) for task in waiters)
            if waited >= state.settings.thread_stall_ns or (holders and _loop_polls(task, state)):
                yield self._finding(lock, [task, *(one for one in waiters if one != task)], holders, waited, state)

    def _finding(
        self, lock: str, waiters: Sequence[str], holders: Sequence[str], waited: int, state: RuleInput
    ) -> Finding:
        snapshot, task = state.snapshot, waiters[0]
        more = f" and {many(len(waiters) - 1, 'other task')}" if len(waiters) > 1 else ""
        named, lasts = sentence_case(name_of(task, snapshot)), waited >= state.settings.thread_stall_ns
        proofs = [edge_evidence(one, lock, snapshot) for one in waiters[:_SHOWN]]
        said = f"{named}{more} wait{'' if more else 's'} for {thing_name(lock, snapshot)}{at(task, state)}"
        said += f" for {duration(waited)} or more" if lasts else ""
        for holder in holders:
            proofs += [edge_evidence(lock, holder, snapshot)]
            called = state.code.call(snapshot.stacks.get(holder), full=True)
            what = called or thing_name(state.graph.blockers_of(holder)[0], snapshot)
            said += f", held by {name_of(holder, snapshot)}, which awaits {what}{at(holder, state)}"
        return Finding(
            rule=self.name,
            severity=Severity.WARNING,
            sentence=f"{said}." if holders else f"{said}; no task is seen to hold it.",
            entities=(*holders, *waiters[:_SHOWN], lock),
            evidence=tuple(proof for proof in proofs if proof is not None),
            next=() if holders else _UNSEEN_HOLDER,
            inferred=True,
            state=VerdictState.UNKNOWN,
            roots=tuple(holders[:1]) or (task,),
        )


def _awaits(task: str, state: RuleInput) -> bool:
    """Return whether a task awaits, without a time limit, something that no thread, process or task is seen to give."""
    if task not in state.snapshot.tasks or task in state.graph.stuck or not state.graph.blockers_of(task):
        return False
    chain = state.graph.chain(task)
    timed = any(edge.timed for one in chain if one in state.snapshot.tasks for edge in state.graph.waits_of(one))
    return not timed and not chain[-1].startswith(("thread:", "process:", "task:"))


def _loop_polls(task: str, state: RuleInput) -> bool:
    threads = (state.snapshot.threads.get(name) for name in state.snapshot.tasks[task].where)
    return any(doing(thread, state).kind is Behaviour.POLLING for thread in threads if thread is not None)


class RequestHeldUp:
    """Rule for a task that serves a request and waits long for something that only its own program can provide."""

    name = "request-held-up"
    doc = (
        "A task of an event loop that answers a request awaits an event, a condition or a future, or a task "
        "awaits the end of the jobs of a queue, without a time limit and for the threshold (10 s): a request may hang "
        "in a server that looks idle. It is `unknown`, and only that where nothing else gets on: a client that waits "
        "for news looks the same. A task that takes items from a queue is none, nor is one from whose client another "
        "task reads meanwhile. Rests on the coroutines of the task, on who called the user's code in them, and on "
        "whether they have the connection."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield a finding for each of the first `_SHOWN` tasks."""
        found = (self._finding(task, edge, state) for task, edge in _held_up(state))
        yield from islice((one for one in found if one is not None), _SHOWN)

    def _finding(self, task: Task, edge: Edge, state: RuleInput) -> Finding | None:
        snapshot = state.snapshot
        waited = _awaited_ns(task.id, edge.target, state)
        if waited < state.settings.thread_stall_ns:
            return None
        called = state.code.call(snapshot.stacks.get(task.id), full=True)
        what = f"in {called}" if called else f"for {thing_name(edge.target, snapshot)}"
        thread = next((snapshot.threads[name] for name in task.where if name in snapshot.threads), None)
        return Finding(
            rule=self.name,
            severity=Severity.WARNING,
            sentence=(
                f"{sentence_case(name_of(task.id, snapshot))} has waited {what}"
                f"{at(task.id, state)} for {duration(waited)} or more: it is held up, or waits for news."
            ),
            entities=(task.id, edge.target),
            evidence=tuple(one for one in (edge_evidence(task.id, edge.target, snapshot),) if one is not None),
            next=tuple(f"livedbg stacks {pid}" for pid in pids_of((thread.id,) if thread is not None else ())),
            inferred=True,
            state=VerdictState.UNKNOWN,
            roots=(task.id,),
        )


def _held_up(state: RuleInput) -> Iterator[tuple[Task, Edge]]:
    """Yield the tasks that hold up a request, each with its wait; lost futures have a rule of their own."""
    for task in state.held_up_tasks():
        for edge in state.graph.waits_of(task.id):
            resource = state.snapshot.resources.get(edge.target)
            if resource is not None and not (edge.timed or resource.lost or edge.target.startswith(_OF_HOLDERS)):
                yield task, edge


def _awaited_ns(task: str, future: str, state: RuleInput) -> int:
    """Return how long a task has waited for a future: since the wait was seen, or its loop's thread last ran."""
    snapshot = state.snapshot
    edge = snapshot.edges.get(EdgeKey(EdgeKind.WAITS_FOR, task, future))
    since = edge.since_mono_ns if edge is not None else None
    seen = snapshot.now(host_of(future)).mono_ns - since if since is not None else 0
    threads = (snapshot.threads.get(name) for name in snapshot.tasks[task].where)
    return max([seen, *(waited_ns(thread, snapshot) or 0 for thread in threads if thread is not None)])


def _waiting(state: RuleInput) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for edge in state.snapshot.waits.values():
        tasks = state.snapshot.tasks
        if edge.kind is EdgeKind.WAITS_FOR and edge.target.startswith("thread:") and edge.source in tasks:
            found.setdefault(edge.target, []).append(edge.source)
    return found


def _goes_on(thread: Thread, state: RuleInput) -> bool:
    if thread.timed and thread.wait is not WaitKind.SLEEP:
        return True
    chain = state.graph.chain(thread.id)
    return any(one != thread.id and one.startswith(("thread:", "process:", "task:")) for one in chain)


def _idle(thread: Thread, state: RuleInput) -> bool:
    blockers = (state.snapshot.resources.get(entity) for entity in state.graph.blockers_of(thread.id))
    return any(one is not None and (one.idle or one.listening) for one in blockers)


def _running_on(thread: Thread, state: RuleInput) -> Iterator[str]:
    for task in state.tasks_in(TaskState.RUNNING):
        if EdgeKey(EdgeKind.RUNS_ON, task.id, thread.id) in state.snapshot.edges:
            yield task.id


def rules() -> Sequence[Rule]:
    return (BlockedLoop(), LostFuture(), TaskHeldUp(), RequestHeldUp())
