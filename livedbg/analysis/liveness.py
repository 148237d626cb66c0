"""What of the CPU time that threads use is progress, and which waits are those of a program that is idle.

Invariants:
    liveness.L1. A thread that ticks (little CPU time, nobody waits for it, not a main thread) is no progress:
        watchdogs, event loops of libraries and timers of runtimes do that beside a job that hangs.
    liveness.L2. What one helper thread waits for says nothing of its process: a process is idle by its main thread, or
        by the thread at the end of what that waits for.
    liveness.L3. In a runtime that livedbg does not look into, a little CPU time of any thread is no progress, and in
        one that polls none is.
    liveness.L4. CPU time of a thread that shows nothing else (livedbg.analysis.burning) is no progress that was seen,
        unless a count of completed work has risen.
    liveness.L6. A thread that sleeps again and again for moments, and does next to nothing between, is no progress that
        was seen: a loop that polls for something that never comes looks the same. Nor is one that is back in a
        wait with a time limit for its own program, and did next to nothing before (`join(1)`, `Event.wait(1)`), nor
        one that sleeps for longer: it says nothing of the thread that it looks after.
    liveness.L7. Nor is a thread that polls descriptors with a time limit, and does next to nothing between, while
        another thread of its process has been in one wait for the threshold that nothing explains. Nor is a thread that
        polls with a time limit and uses little CPU time, while a thread of the job is held up (L8): an event loop runs
        on beside the thread that it has given a job to.
    liveness.L8. A program is not called idle while one of its threads has waited for the threshold for what nobody
        waits for on purpose: a lock (but that of who accepts connections), a barrier, or a semaphore of Python.
    liveness.L5. A key, or a change of a file, is what an idle program waits for only if it waits for nothing else that
        another process or device may owe it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from livedbg.analysis.burning import burns
from livedbg.analysis.job_waits import waits_for_job, waits_for_semaphore
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.words import host_of, waited_ns
from livedbg.model import POLLS, UNSEEN_RUNTIME, Resource, Thread, ThreadState
from livedbg.model.snapshot import Snapshot

__all__ = [
    "TICK_SHARE",
    "awaits_children",
    "burning",
    "cpu_share",
    "held_up",
    "idle_thread",
    "last_waited_for",
    "long_waits",
    "main_threads",
    "napping",
    "progressing",
    "ticking",
    "unseen_runtimes",
]

TICK_SHARE: Final = 0.05
"""Of a core: a helper thread that uses less does nothing but tick. gloo's loop takes 0.13 %, a JVM's timer 0.2 %."""

_NAPS: Final = 3
_NAP_NS: Final = 1_000_000_000
_MOMENT_NS: Final = 200_000
"""From this many sleeps on, of at most this length on average, each followed by at most this much CPU time: a nap."""

_INSIDE: Final = re.compile(r"sleep|sem_|pthread_|futex")
"""Waits that nothing from outside ends: what a poll or a read gets may be handled in a moment."""

_HELD: Final = ("mutex:", "rwlock:", "pylock:", "barrier:")
_POLLS: Final = re.compile(r"poll of|select of|epoll_wait")
_SIGNALS: Final = re.compile(r"sigwait|sigsuspend|pause|read of signalfd")


def cpu_share(thread: Thread, snapshot: Snapshot) -> float:
    """The CPU time that a thread used since it is watched, by that time: 1 for a whole core.

    Time in which it waited for a CPU is left out: on a busy machine, a thread that works gets as little as one that
    ticks.
    """
    activity = snapshot.activity.get(thread.id)
    if activity is None or not activity.cpu_total_ns:
        return 0.0
    span = snapshot.now(host_of(thread.id)).mono_ns - activity.first_mono_ns - activity.queued_total_ns
    return activity.cpu_total_ns / max(span, activity.cpu_total_ns)


def _active(threads: Sequence[Thread], snapshot: Snapshot) -> list[Thread]:
    """The threads that run, or used CPU time while they were watched."""
    active = {name for name, activity in snapshot.activity.items() if activity.cpu_total_ns}
    return [thread for thread in threads if thread.id in active or thread.state is ThreadState.RUNNING]


def progressing(threads: Sequence[Thread], state: RuleInput) -> list[Thread]:
    """The threads whose CPU time is progress."""
    snapshot = state.snapshot
    unseen = unseen_runtimes(snapshot)
    active = [thread for thread in _active(threads, snapshot) if not _ticks(thread, unseen, state)]
    active = [thread for thread in active if not (_moments(thread, snapshot) or _polls_in_vain(thread, state))]
    if loops := {thread.id for thread in active if _loops(thread, snapshot)}:
        alive = [thread for thread in snapshot.threads.values() if not thread.exited]
        active = [t for t in active if t.id not in loops] if held_up(alive, state) is not None else active
    burnt = {thread.id for thread in burning(active, state)}
    return [thread for thread in active if thread.id not in burnt]


def burning(threads: Sequence[Thread], state: RuleInput) -> list[Thread]:
    """The threads that compute or spin, and show nothing else (L4)."""
    snapshot, limit_ns = state.snapshot, state.settings.thread_stall_ns
    found = [thread for thread in threads if burns(thread, snapshot, limit_ns)]
    if not found:
        return []
    mono_ns = snapshot.now().mono_ns
    rises = any(c.changes and mono_ns - c.changed_mono_ns < limit_ns for c in snapshot.counters.values())
    return [] if rises else found


def napping(threads: Sequence[Thread], state: RuleInput) -> list[Thread]:
    """The threads that wake for moments again and again, and do next to nothing between (L6)."""
    return [thread for thread in threads if _naps(thread, state.snapshot)]


def _naps(thread: Thread, snapshot: Snapshot) -> bool:
    activity = snapshot.activity.get(thread.id)
    if activity is None or not _moments(thread, snapshot):
        return False
    span_ns = snapshot.now(host_of(thread.id)).mono_ns - activity.first_mono_ns
    often = activity.runs >= _NAPS and span_ns <= activity.runs * _NAP_NS
    return often or not (thread.waits_in or "").startswith("sleep")  # a longer sleep says itself for how long


def _moments(thread: Thread, snapshot: Snapshot) -> bool:
    """Whether it is in a wait that ends by itself, and did next to nothing between such waits (L6)."""
    return _INSIDE.match(thread.waits_in or "") is not None and _wakes_by_time(thread, snapshot)


def _polls_in_vain(thread: Thread, state: RuleInput) -> bool:
    """Whether it polls descriptors as briefly, beside a thread of its process that waits and waits (L7)."""
    if _POLLS.match(thread.waits_in or "") is None or not _wakes_by_time(thread, state.snapshot):
        return False
    beside = (other for other in state.snapshot.threads_of(thread.process) if other.id != thread.id)
    return any(_waits_on(other, state) for other in beside)


def _loops(thread: Thread, snapshot: Snapshot) -> bool:
    """Whether it polls descriptors with a time limit, and uses little CPU time, as an idle event loop does."""
    polls = _POLLS.match(thread.waits_in or "") is not None and thread.timed is True
    return polls and cpu_share(thread, snapshot) < TICK_SHARE


def _waits_on(thread: Thread, state: RuleInput) -> bool:
    """Whether it has been in one wait without a time limit for the threshold, and not for what may come."""
    waited = waited_ns(thread, state.snapshot)
    if waited is None or thread.timed or waited < state.settings.thread_stall_ns:
        return False
    return not (_takes_jobs(thread, state) or _waits_for_signal(thread) or _serves(thread, state))


def _wakes_by_time(thread: Thread, snapshot: Snapshot) -> bool:
    """Whether its wait ends by itself, and it did next to nothing between such waits."""
    activity = snapshot.activity.get(thread.id)
    if activity is None or not activity.runs or thread.timed is not True:
        return False
    return activity.cpu_total_ns <= activity.runs * _MOMENT_NS and cpu_share(thread, snapshot) < TICK_SHARE


def ticking(threads: Sequence[Thread], state: RuleInput) -> list[Thread]:
    """The threads that use some CPU time, and none of which is progress (L1)."""
    unseen = unseen_runtimes(state.snapshot)
    return [thread for thread in _active(threads, state.snapshot) if _ticks(thread, unseen, state)]


def _ticks(thread: Thread, unseen: Mapping[str, str], state: RuleInput) -> bool:
    runtime = unseen.get(thread.process, "")
    if runtime == POLLS:
        return True
    if cpu_share(thread, state.snapshot) >= TICK_SHARE or (not runtime and _is_main(thread, state.snapshot)):
        return False
    waiters = state.graph.waiters_of(thread.id)
    return bool(runtime) or all(waiter.startswith("process:") for waiter in waiters)  # its own, for any thread


def unseen_runtimes(snapshot: Snapshot) -> dict[str, str]:
    """The processes that run in such a runtime, each with POLLS or UNSEEN_RUNTIME."""
    found = snapshot.statuses.values()
    return {status.target: status.code for status in found if status.code in (POLLS, UNSEEN_RUNTIME)}


def _is_main(thread: Thread, snapshot: Snapshot) -> bool:
    process = snapshot.processes.get(thread.process)
    return process is None or process.pid == thread.tid


def main_threads(threads: Sequence[Thread], snapshot: Snapshot) -> list[Thread]:
    """The main threads of the processes, as far as they have not ended."""
    return [thread for thread in threads if _is_main(thread, snapshot)]


def long_waits(threads: Sequence[Thread], state: RuleInput) -> Iterator[tuple[Thread, int]]:
    """The main threads that have been in one wait without a time limit for the threshold or longer, each with its time.

    Waits of an idle program are not among them.
    """
    for thread in main_threads(threads, state.snapshot):
        waited = waited_ns(thread, state.snapshot)
        if waited is None or thread.timed or waited < state.settings.thread_stall_ns:
            continue
        if not _idle(thread, state):
            yield thread, waited


def idle_thread(threads: Sequence[Thread], state: RuleInput) -> tuple[Thread, str] | None:
    """The thread that shows that all of it is idle, and what it waits for: `connections`, `a key`.

    Returns:
        None where some process is not idle.
    """
    mains = main_threads(threads, state.snapshot)
    if not mains or not all(_idle(thread, state) for thread in mains) or held_up(threads, state) is not None:
        return None
    if all(_takes_jobs(thread, state) for thread in mains):
        return mains[0], "a job"
    ends = [last_waited_for(thread, state) for thread in mains]
    helpers = threads if any(_waits_for_signal(thread) for thread in mains) else ()
    found = ((thread, _serves(thread, state)) for thread in (*ends, *helpers))
    return next(((thread, what) for thread, what in found if what), None)


def held_up(threads: Sequence[Thread], state: RuleInput) -> tuple[Thread, int] | None:
    """A thread, and for how long it has waited for a lock, a barrier or a semaphore of Python (L8)."""
    for thread in threads:
        waited = waited_ns(thread, state.snapshot)
        if waited is None or thread.timed or waited < state.settings.thread_stall_ns:
            continue
        stack = state.snapshot.stacks.get(thread.id)
        in_lock = any(entity.startswith(_HELD) for entity in state.graph.blockers_of(thread.id))
        in_lock = in_lock or (stack is not None and waits_for_semaphore(stack.frames))
        if in_lock and not _takes_jobs(thread, state) and not _serves(last_waited_for(thread, state), state):
            return thread, waited
    return None


def awaits_children(thread: Thread, state: RuleInput) -> bool:
    """Whether a thread, as that of a shell, waits for child processes that are watched too."""
    if not (thread.waits_in or "").startswith(("waitpid", "waitid")):
        return False
    children = state.graph.blockers_of(thread.id)
    return bool(children) and all(_judged_itself(child, state.snapshot) for child in children)


def _judged_itself(entity: str, snapshot: Snapshot) -> bool:
    """Whether it is a process of the job whose main thread is there."""
    process = snapshot.processes.get(entity)
    if process is None or process.exited or not process.target:
        return False
    main = snapshot.threads.get(f"thread:{entity.partition(':')[2]}/{process.pid}")
    return main is not None and not main.exited


def _takes_jobs(thread: Thread, state: RuleInput) -> bool:
    stack = state.snapshot.stacks.get(thread.id)
    return stack is not None and thread.state is ThreadState.WAITING and waits_for_job(stack.frames)


def _idle(thread: Thread, state: RuleInput) -> bool:
    """Whether a main thread waits as that of an idle program does: for connections, keys, signals, jobs or a time.

    One that waits for its children is as idle as these are, which have main threads of their own.
    """
    end = last_waited_for(thread, state)
    if _serves(end, state) or end.timed or _waits_for_signal(end):
        return True
    return awaits_children(end, state) or _takes_jobs(thread, state)


def _waits_for_signal(thread: Thread) -> bool:
    return _SIGNALS.match(thread.waits_in or "") is not None


def last_waited_for(thread: Thread, state: RuleInput) -> Thread:
    """The thread at the end of what a thread waits for, as for one that it joins."""
    for name in reversed(state.graph.chain(thread.id)):
        found = state.snapshot.threads.get(name)
        if found is not None:
            return found
    return thread


def _serves(thread: Thread, state: RuleInput) -> str:
    """What it waits for that may come at any time; "" where that isn't all that it waits for (L5)."""
    blockers = state.graph.blockers_of(thread.id)
    resources = [resource for entity in blockers if (resource := state.snapshot.resources.get(entity)) is not None]
    if any(resource.listening for resource in resources):
        return "connections"
    if len(resources) < len(blockers) or not all(_owed_by_nobody(resource) for resource in resources):
        return ""
    return next((resource.idle for resource in resources if resource.idle), "")


def _owed_by_nobody(resource: Resource) -> bool:
    """Whether it is what an idle program waits for, or a way to wake itself."""
    return bool(resource.idle) or resource.wakes_itself or resource.attributes.get("what") in ("signalfd", "timerfd")
