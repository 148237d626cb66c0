"""Describe what a rank does that others wait for, and judge it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from livedbg.adapters.pytorch.collectives.inside import waits_in_collective
from livedbg.adapters.pytorch.rules.threads import (
    main_thread,
    of_child,
    opens,
    python_frames,
    runs_users_code,
    sleeps_again,
    waits_words,
)
from livedbg.adapters.pytorch.rules.wakers import family_of_rank, from_outside, loader_workers, pool_tasks, who_may_end
from livedbg.analysis.behaviour import last_waited_for, progressing
from livedbg.analysis.diagnosis import VerdictState
from livedbg.analysis.postmortem.ended import how_ended
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.descriptors import limit_reached
from livedbg.analysis.rules.places import at
from livedbg.analysis.rules.words import call_of, duration, name_of, waited_ns
from livedbg.model import Thread, ThreadState
from livedbg.text.patterns import lazy_re

_HALTED: Final = (ThreadState.STOPPED, ThreadState.TRACED)
_LIVELINESS: Final = (VerdictState.STALLED, VerdictState.UNKNOWN, VerdictState.RUNNING)
_QUEUES: Final = frozenset({"Queue.get", "SimpleQueue.get"})
_SET_BY_HANDLERS: Final = frozenset({"Event.wait", "SimpleQueue.get"})
"""What a handler of a signal may end: `queue.SimpleQueue.put` is made to be called there, `Queue.put` can't be."""

_SHARED: Final = lazy_re(r"open of |SemLock|sem_|semop|semtimedop|msgrcv|msgsnd|mq_|flock of|fcntl")
_MULTIPROCESSING: Final = lazy_re(r"/multiprocessing/(?:synchronize|queues|connection|managers)\.py$")
_WAITS: Final = lazy_re(r"/(?:threading|queue)\.py$")
_INNER: Final = 3
_SAID_NS: Final = 100_000_000
"""A shorter wait has no duration in a sentence."""

_OF_LOADER: Final = "its DataLoader waits for a worker: "
_OF_POOL: Final = "it waits for a task of a thread pool: "


class Absence(NamedTuple):
    """Activity of an absent rank.

    Attributes:
        what: text after `Rank 2 has not entered …: `.
        state: the resulting verdict.
        entity: where it is stuck.
        busy: some part of it makes progress.
        does: a better sentence predicate, if there is one: `has been opening ckpt.fifo for writing for 41 s
            (train.py:152)`; else "".
    """

    what: str
    state: VerdictState
    entity: str
    busy: bool = False
    does: str = ""


def liveliest_of(found: Iterable[Absence]) -> Absence:
    return max(found, key=lambda one: _LIVELINESS.index(one.state))


def absence_of(process: str, state: RuleInput, handles: str = "") -> Absence:
    """Describe the activity of an absent rank, including a full descriptor table and the signals that it handles."""
    found = _absence_of(process, state, handles)
    full = limit_reached(process, state.snapshot)
    if full is None or found.state is VerdictState.RUNNING or process == found.entity:
        return found
    return found._replace(what=f"{found.what}; it has all {full[1]} files open that it may")


def _absence_of(process: str, state: RuleInput, handles: str) -> Absence:
    """Describe the activity of an absent rank.

    It is a stall only if the awaited thread is in one wait without a time limit for the threshold (10 s), nothing from
    outside explains that wait, nothing of its process and its children makes progress, and none of them may still end
    the wait (`wakers`).
    """
    known = state.snapshot.processes.get(process)
    main = main_thread(process, state)
    if known is not None and known.exited:
        how = f" {how_ended(known.exit_status)}" if known.exit_status is not None else ""
        return Absence(f"its process has ended{how}", VerdictState.STALLED, process)
    if main is None or known is None:
        return Absence("nothing is known of its threads", VerdictState.UNKNOWN, process)
    if known.state in _HALTED or main.state in _HALTED:
        return Absence("its process is stopped (SIGCONT lets it go on)", VerdictState.STALLED, process)
    family = family_of_rank(known, state)
    busy = bool(_at_work(family, state))
    workers = loader_workers(main, family, state)
    tasks = pool_tasks(_held_up_by(main, state), family, state) if not workers else []
    ends = [_held_up_by(worker, state) for worker in workers or tasks] or [_held_up_by(main, state)]
    stuck = {main.id, _held_up_by(main, state).id, *(one.id for one in (*workers, *tasks, *ends))}
    found = [_of_thread(end, stuck, family, state, busy=busy) for end in ends]
    liveliest = liveliest_of(found)
    if workers:
        return liveliest._replace(what=f"{_OF_LOADER}{liveliest.what}", does="")
    if tasks:
        return liveliest._replace(what=f"{_OF_POOL}{liveliest.what}")
    end = state.snapshot.threads[liveliest.entity]
    if handles and liveliest.state is VerdictState.STALLED and _called(end, state) & _SET_BY_HANDLERS:
        what = f"{liveliest.what}, which a handler of {handles} may end"
        return Absence(what, VerdictState.UNKNOWN, liveliest.entity)
    if _on_queue(liveliest, end, state):
        return liveliest._replace(what=f"it waits{at(end.id, state)} on a queue that nobody fills")
    return liveliest


def _of_thread(thread: Thread, stuck: set[str], family: list[Thread], state: RuleInput, *, busy: bool) -> Absence:
    """Describe the thread that blocks a rank."""
    goes_on = VerdictState.RUNNING if busy else VerdictState.UNKNOWN
    if thread.state is ThreadState.RUNNING:
        what = f"it computes{at(thread.id, state)}" if busy else f"it computes, or spins{at(thread.id, state)}"
        return Absence(what, goes_on, thread.id, busy)
    waited = waited_ns(thread, state.snapshot)
    where = "it is stopped (SIGCONT lets it go on)"
    where = where if thread.state in _HALTED else waits_words(thread, state)
    if waited is None:
        return Absence(where, VerdictState.UNKNOWN, thread.id)
    if sleeps_again(thread, state) and waited < state.settings.thread_stall_ns:
        where += ", again and again"
    elif waited >= _SAID_NS:
        where += f" for {duration(waited)}"
    where += of_child(thread, state) if not thread.timed else ""
    if waited < state.settings.thread_stall_ns:
        return Absence(where, goes_on, thread.id, busy)
    if any(blocker.startswith("task:rpc/") for blocker in state.graph.blockers_of(thread.id)):
        return Absence(f"{where}, until another worker answers", VerdictState.UNKNOWN, thread.id)
    if thread.timed and waits_in_collective(state.snapshot.stacks.get(thread.id)):
        return Absence(f"{where}, until another rank comes", VerdictState.UNKNOWN, thread.id)
    if busy and not thread.timed:
        return Absence(f"{where}, while others of its threads or children work", VerdictState.UNKNOWN, thread.id, True)
    found = of_long_wait(thread, where, stuck, family, state)
    return found._replace(does=opens(thread, waited, state)) if found.state is VerdictState.STALLED else found


def of_long_wait(
    thread: Thread, where: str, stuck: Collection[str], family: Collection[Thread], state: RuleInput
) -> Absence:
    """Describe a thread that has been in one wait (`where`) for the threshold, by what may still end that."""
    if thread.timed:
        return Absence(f"{where}, which ends by itself", VerdictState.UNKNOWN, thread.id)
    if outside := from_outside(thread, family, state):
        return Absence(f"{where}, which {outside} may end", VerdictState.UNKNOWN, thread.id)
    if other := who_may_end(stuck, family, state):
        return Absence(f"{where}, while {other}", VerdictState.UNKNOWN, thread.id)
    return Absence(where, VerdictState.STALLED, thread.id)


def _at_work(family: Iterable[Thread], state: RuleInput) -> list[Thread]:
    """Return the threads that make progress. A thread that sleeps repeatedly may poll for ever, and doesn't count."""
    return [one for one in progressing(list(family), state) if not sleeps_again(one, state)]


def _called(thread: Thread, state: RuleInput) -> set[str]:
    """Return a thread's calls, also if it was started in a library method (`Thread(target=event.wait)`)."""
    inner = {frame.function for frame in python_frames(thread, state)[:_INNER] if _WAITS.search(frame.file or "")}
    return {call_of(thread, state)} | inner


def _on_queue(absence: Absence, end: Thread, state: RuleInput) -> bool:
    queue = absence.state is VerdictState.STALLED and bool(_called(end, state) & _QUEUES)
    return queue and runs_users_code(end, state)


def another_may(process: str, absence: Absence, others: Iterable[str], state: RuleInput) -> str:
    """Return a process that may end a rank's wait for a shared object such as a FIFO or a semaphore; "" for none."""
    thread = state.snapshot.threads.get(absence.entity)
    if thread is None:
        return ""
    shared = any(_MULTIPROCESSING.search(frame.file or "") for frame in python_frames(thread, state)[:_INNER])
    if not shared and not _SHARED.match(call_of(thread, state)):
        return ""
    alive = [one for one in others if one != process and absence_of(one, state).state is not VerdictState.STALLED]
    if shared and thread.process == process and (parent := _parent_at_work(process, state)):
        alive.append(parent)
    return name_of(alive[0], state.snapshot) if alive else ""


def _parent_at_work(process: str, state: RuleInput) -> str:
    """Return the parent that shares multiprocessing objects with a rank, unless it waits for it; "" for none."""
    known = state.snapshot.processes.get(process)
    found = (one for one in state.snapshot.processes.values() if known is not None and one.pid == known.ppid)
    parent = next((one for one in found if not one.exited), None)
    main = main_thread(parent.id, state) if parent is not None else None
    if known is None or parent is None or main is None:
        return ""
    forked = parent.command == known.command or any("multiprocessing" in word for word in known.command)
    waits = not main.timed and (waited_ns(main, state.snapshot) or 0) >= state.settings.thread_stall_ns
    return parent.id if forked and not waits else ""


def others_may(threads: Mapping[str, str], state: RuleInput) -> str:
    """Return which other thread may end the wait: ` in feed (train.py:3)`, or ` ` if unknown; "" for none."""
    for process, waiting in threads.items():
        known = state.snapshot.processes.get(process)
        others = [one for one in state.snapshot.threads_of(process) if one.id != waiting and not one.exited]
        own = [one for one in others if runs_users_code(one, state)]
        family = family_of_rank(known, state) if known is not None else []
        if active := [one for one in progressing(family, state) if one.id != waiting]:
            return at(active[0].id, state) or " "
        for one in own:
            if (one.timed and not waits_in_collective(state.snapshot.stacks.get(one.id))) or from_outside(
                one, family, state
            ):
                return at(one.id, state) or " "
    return ""


def _held_up_by(main: Thread, state: RuleInput) -> Thread:
    """Return the last thread of its process in the wait chain (joined threads, lock holders), or the thread itself."""
    seen = {main.id}
    thread = main
    while True:
        blockers = state.graph.blockers_of(thread.id)
        held = [holder for one in blockers if one not in state.snapshot.threads for holder in _holders(one, state)]
        others = [one for one in (*blockers, *(held if len(held) == 1 else ())) if one in state.snapshot.threads]
        fresh = [one for one in others if one not in seen and state.snapshot.threads[one].process == main.process]
        if not fresh:
            last = last_waited_for(thread, state)  # such as a thread of a child
            return last if last.process != main.process and last.state is ThreadState.RUNNING else thread
        thread = state.snapshot.threads[fresh[0]]
        seen.add(thread.id)


def _holders(resource: str, state: RuleInput) -> list[str]:
    return [one for one in state.graph.blockers_of(resource) if one in state.snapshot.threads]
