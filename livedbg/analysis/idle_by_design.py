"""Programs that nothing can wake and that may wait by design: until Ctrl-C, or while a child serves.

A thread that waits for a lost `Event` looks like one that waits for Ctrl-C, and an event loop without work looks like
one whose tasks wait for each other; the loop may be in another thread, which wakes the main thread of its runtime
(Tcl's notifier, a parked main thread of an asynchronous runtime). Their waits don't tell which it is, so a rule must
not call them stuck.

Invariants:
    idle_by_design.D1. An event loop is not idle by design if its tasks are known and each of them waits without a time
        limit for something that only tasks of a loop end: a lock, a semaphore, a queue, a channel, another task. A task
        that waits for an event, a future or anything else leaves it open, and so does a loop that has a callback for a
        signal.
    idle_by_design.D2. Nor is a poll in a call of the user's code to a function named for the one thing that it returns
        (`recv_string`): an event loop returns only when it shall end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from livedbg.analysis.closed import Closed, ClosedSet
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.words import name_of
from livedbg.model import Frame, Process, Task, TaskState, Thread, ThreadState, WaitKind
from livedbg.text.patterns import lazy_re

_THREADING: Final = lazy_re(r"(^|/)threading\.py$")
_LIBRARY: Final = lazy_re(r"/lib(?:64)?/python3[^/]*/(?!site-packages/|dist-packages/)|^<frozen ")
_LOCKS: Final = ("mutex:", "rwlock:", "pylock:", "flock:", "barrier:", "thread:", "gil:")
_CALLS: Final = frozenset(
    {
        WaitKind.JOIN,
        WaitKind.MUTEX,
        WaitKind.RWLOCK,
        WaitKind.BARRIER,
        WaitKind.CHILD,
        WaitKind.FILE_LOCK,
    }
)
"""What nobody waits for on purpose and for ever."""

_ONE_THING: Final = lazy_re(r"(?:recv|receive|read|get|pull|take|pop)(?:_\w+)?")
"""Names of functions that return what they wait for: nobody calls one to wait for Ctrl-C."""

_OF_TASKS: Final = frozenset({"pylock", "sem", "cond"})
_DONE: Final = frozenset({TaskState.COMPLETED, TaskState.FAILED})
_TASKS_LACK: Final = frozenset({"tasks-cut", "tasks-full", "tasks-unreadable", "tasks-unseen"})
"""What the source of tasks says where it does not show all of a process."""


def may_be_meant(found: ClosedSet, closed: Closed, state: RuleInput) -> str:
    """Return why a closed set may wait by design; "" if nothing suggests it."""
    mains = [(main, process) for process in found.processes for main in _main_of(process, found)]
    for main, process in mains:
        if process.target and (reason := _meant(main, process, found, state)):
            return reason
    if any(_waits_for_lock(main, state) for main, _ in mains):
        return ""
    child = next(_other_children(found, closed, state), None)
    if child is None:
        return ""
    return f"{name_of(child.id, state.snapshot)}, a child, may still work"


def _main_of(process: Process, found: ClosedSet) -> list[Thread]:
    return [thread for thread in found.threads if thread.process == process.id and thread.tid == process.pid]


def _meant(main: Thread, process: Process, found: ClosedSet, state: RuleInput) -> str:
    if main.wait is WaitKind.POLL and _only_wakes_itself(main, state):
        owed = stuck_tasks(main, state) or _receives(main, state)
        return "" if owed else "an event loop with nothing to do looks the same"
    if not (process.exe or "").rpartition("/")[2].startswith("python"):
        if _has_idle_loop(main, found, state) and not _waits_for_lock(main, state):
            return "an event loop in another thread, with nothing to do, looks the same"
        return ""
    stack = state.snapshot.stacks.get(main.id)
    frames = [frame for frame in stack.frames if frame.language == "python"] if stack is not None else []
    if not frames:
        return "its Python stack can't be read, and a wait for Ctrl-C looks the same"
    return "a program that waits for Ctrl-C looks the same" if _in_event_wait(frames) else ""


def _receives(main: Thread, state: RuleInput) -> bool:
    """Return whether the user's Python code called a library's function that returns one thing, and no loop (D2)."""
    called = state.code.call(state.snapshot.stacks.get(main.id))
    return _ONE_THING.fullmatch(called.rpartition(".")[2]) is not None


def stuck_tasks(thread: Thread, state: RuleInput) -> list[Task]:
    """Return the last tasks of the wait chains of an event loop that only its own thread could wake.

    Empty if one of them may wait by design (D1).
    """
    if any(
        status.target == thread.process and status.code in _TASKS_LACK for status in state.snapshot.statuses.values()
    ):
        return []
    left = [t for t in state.snapshot.tasks.values() if thread.id in t.where and t.state not in _DONE]
    last = [task for task in left if not any(name in state.snapshot.tasks for name in state.graph.blockers_of(task.id))]
    return sorted(last, key=lambda t: (len(t.id), t.id)) if all(_waits_for_tasks(task, state) for task in last) else []


def _waits_for_tasks(task: Task, state: RuleInput) -> bool:
    """Return whether a task waits without a timeout for a lock, a semaphore or a queue of its loop (D1)."""
    waits = state.graph.waits_of(task.id)
    resources = [state.snapshot.resources.get(edge.target) for edge in waits]
    known = all(one is not None and one.kind in _OF_TASKS and not (one.idle or one.outside) for one in resources)
    return bool(waits) and known and not any(edge.timed for edge in waits)


def _has_idle_loop(main: Thread, found: ClosedSet, state: RuleInput) -> bool:
    """Return whether another thread of the process is in an event loop that only its own program could give work.

    Python's own waits say more, and are judged by their stacks.
    """
    others = [thread for thread in found.threads if thread.process == main.process and thread is not main]
    return any(thread.wait is WaitKind.POLL and _only_wakes_itself(thread, state) for thread in others)


def _only_wakes_itself(thread: Thread, state: RuleInput) -> bool:
    resources = [state.snapshot.resources.get(entity) for entity in state.graph.blockers_of(thread.id)]
    return bool(resources) and all(one is not None and one.wakes_itself for one in resources)


def _in_event_wait(frames: list[Frame]) -> bool:
    """Return whether code other than Python's library called `Event.wait`, on top of which `Condition.wait` is.

    Frames have class names from CPython 3.11 on, except from py-spy.
    """
    if len(frames) < 3 or not all(_THREADING.search(frame.file or "") for frame in frames[:2]):
        return False
    named = frames[0].function in ("Condition.wait", "wait") and frames[1].function in ("Event.wait", "wait")
    return named and not _LIBRARY.search(frames[2].file or "")


def _waits_for_lock(main: Thread, state: RuleInput) -> bool:
    held = any(entity.startswith(_LOCKS) for entity in state.graph.blockers_of(main.id))
    return held or main.wait in _CALLS


def _other_children(found: ClosedSet, closed: Closed, state: RuleInput) -> Iterator[Process]:
    stuck = {process.id for one in closed.sets for process in one.processes}
    family = {(process.host, process.pid) for process in found.processes}
    over = (ThreadState.ZOMBIE, ThreadState.DEAD)
    left = [p for p in state.snapshot.processes.values() if not p.exited and (p.host, p.pid) not in family]
    while children := [process for process in left if (process.host, process.ppid) in family]:
        yield from (child for child in children if child.id not in stuck and child.state not in over)
        family |= {(child.host, child.pid) for child in children}
        left = [process for process in left if (process.host, process.pid) not in family]
