"""Behaviour of threads, and of processes and jobs by it: one value of a closed set, by one ordered table.

CPU time is no progress: a loop that waits for a flag uses as much as one that computes. A thread that waits without a
time limit is judged by the thread at the end of its wait chain, a process by its main thread, a job by its processes.

Invariants:
    behaviour.L1. A thread that ticks (little CPU time, nobody waits for it, not a main thread) is no progress:
        watchdogs, event loops of libraries and timers of runtimes do that beside a job that hangs.
    behaviour.L2. The wait of a helper thread says nothing about its process: a process is idle by its main thread, or
        by the thread at the end of that one's wait chain.
    behaviour.L3. In a runtime that livedbg does not inspect, a little CPU time of any thread is no progress, and in one
        that polls none is.
    behaviour.L4. CPU time of a thread that shows nothing else is no observed progress, unless a count of completed work
        has risen, or a loop of the thread progresses (livedbg.adapters.samples.loop_progress), or it computes in loops
        of C or C++ that only their own end ends, itself or in functions of mathematics: no library, which may spin.
    behaviour.L5. An idle program waits for a key or a change of a file only if it waits for nothing else that another
        process or device may owe it.
    behaviour.L6. A thread that repeatedly wakes from waits with a time limit, uses little CPU time and moves no bytes
        polls, however long each poll takes: a loop that polls for something that never comes looks the same. So does
        one that uses more CPU time because it wakes often, if each poll is short and it moves nothing.
    behaviour.L7. A thread that polls descriptors polls in this sense if it was seen to move nothing, or if it does next
        to nothing while another thread of its process has been in one unexplained wait for the threshold. Nor is an
        event loop that uses little CPU time progress while a thread of the job is held up (L8).
    behaviour.L8. A program is not called idle while one of its threads has waited for the threshold for something that
        nobody waits for on purpose: a lock (except the lock of a thread that accepts connections, or that sleeps in no
        loop), a barrier, or a semaphore of Python. A futex in a function that is called after a lock is one, and one
        whose word says that others wait for a lock, unless the thread is one of a library (L20).
    behaviour.L9. A thread whose calls are not known does not "compute". One that progressed while it was watched
        computes only after the threshold and ten times its usual step have passed without another step.
    behaviour.L10. A job is not called running while a main thread is blocked for the threshold and nobody who may end
        that wait is seen to progress. Where the wait is for a lock, only its holder may end it. A process that began
        after the wait did can't be its target, and progress of a process outside the job does not show that it will
        end the wait. Nor does that of a thread that nobody waits for and that sleeps between its bursts: telemetry does
        that beside a job that hangs.
    behaviour.L11. A program that waits for the jobs of a pool or a queue is not idle because one of them waits for
        something that may come at any time: a job is to end. It goes on while a thread sleeps in such a job. Who has
        no job is idle, a helper thread or a task, and ends nobody's wait.
    behaviour.L12. Nor is a program that waits for a server's answer because the server waits for connections, if that
        server leaves its request unread, or none of its threads waits for that connection.
    behaviour.L13. Nor is a server while a request may be held up in it: one of its threads has waited for the threshold
        for something that only its own process can provide (an event, a condition, a future), beside a connection that
        no thread waits at, or in a job of a pool. A client that waits for news looks the same. Nor is a server that
        leaves unread data that it sent to itself.
    behaviour.L14. Nor is a program that polls, or waits with a time limit, because a process waits for connections that
        may answer it: one outside its family, or one of it to which it has a connection.
        Nor is a parent that waits for a signal, while a child waits for it: the child may have sent that before; nor
        one that has waited for an answer of its own child for the threshold, which serves. A child waits for orders.
    behaviour.L15. Nor does a thread show progress that does little but answer: only threads that poll, tick or are
        blocked can give it what it waits for. A program that asks a child again and again whether a job is done, or
        whether it lives, looks the same whatever becomes of the job.
    behaviour.L16. A thread that sleeps in a loop whose source says that it ends when something has come is not asleep:
        it waits for that, however long each sleep is. One that rests in a loop that waits for nothing is asleep,
        however short each sleep is: by a `sleep` of the language, not in a library, which may poll. So is one in a job
        of a pool that sleeps in no loop of the user's code: a step of that job.
    behaviour.L17. A thread that waits until its server is stopped, or a task of whose event loop does, serves if some
        thread of its process waits for connections.
    behaviour.L18. An event loop that polls is asleep if each of its tasks rests in a loop that waits for nothing, or in
        none; or has run while it was watched, within the threshold, and awaits something itself (no library may poll
        for it), without giving up; or waits for other tasks only, for a job, or until it is told to stop. Not if some
        task is in a loop that ends when something has come.
    behaviour.L19. Who waits for what a sleeping thread or task will give (livedbg.cpython.givers) goes on as that one
        does: it sleeps in a loop that waits for nothing, at a line that each round comes to, or in none; or it is a
        task that goes on (L18). Who sleeps since something failed may never come to give.
    behaviour.L20. A helper thread whose whole stack is of libraries waits for a job of its library, if it waits for a
        condition, a semaphore or a futex: OpenBLAS, OpenMP and others keep such threads. Who waits for what it does
        waits himself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise, takewhile
from typing import Final, NamedTuple

from livedbg.analysis.enders import nearest, reachable
from livedbg.analysis.progress_seen import calls_seen, loop_of
from livedbg.analysis.python_calls import (
    awaits_jobs,
    awaits_tasks,
    gives_up_in_task,
    in_job,
    is_timer,
    sleeps_in_task,
    takes_item,
    waits_for_child,
    waits_for_job,
    waits_for_semaphore,
    waits_to_be_stopped,
)
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.words import host_of, waited_ns
from livedbg.analysis.user_code import Inside
from livedbg.model import (
    POLLS,
    UNSEEN_RUNTIME,
    EdgeKey,
    EdgeKind,
    Frame,
    LoopWay,
    Process,
    Resource,
    Task,
    Thread,
    ThreadState,
    WaitKind,
    ids,
)
from livedbg.model.facts import LockFacts, RequestFacts, SocketFacts, WaitedFacts, facts_of
from livedbg.model.snapshot import Snapshot

TICK_SHARE: Final = 0.05
"""Of a core: a helper thread that uses less does nothing but tick. gloo's loop takes 0.13 %, a JVM's timer 0.2 %."""

JOB: Final = "a job"
"""What an idle worker of a pool waits for."""

ORDER: Final = "an order to stop"
"""What a thread waits for that leaves all work to others."""

_LONG_S: Final = 600.0
_NAP_S: Final = 1.0
"""Who asks to sleep for so long says himself for how long; a shorter sleep again and again is a poll."""
_RESTING: Final = (LoopWay.RESTS, LoopWay.WORKS, LoopWay.ENDS)
_GOES_ON: Final = (*_RESTING, LoopWay.ONCE)
"""Loops in which a task that sleeps goes on then; a thread that sleeps for moments may be called again and again."""
_HALF: Final = 0.5
_LEAST_NS: Final = 100_000_000
_MOMENT_NS: Final = 200_000
_BYTES: Final = 64
"""A wake that moves fewer is one for its own sake: of an eventfd, a pipe to itself, a flag."""
_STEPS: Final = 10
_INTERPRETER: Final = (
    "python",
    "libpython",
    "_multiprocessing.",
    "libc.",
    "libc-",
    "libpthread",
    "ld-",
    "time.",
    "[vdso",
    "vdso",
)
"""Files of Python's interpreter and of the C library."""

_MEETS: Final = (
    *("atomic", "mutex", "lock", "wait", "barrier", "semaphore", "condition", "future", "promise", "thread", "latch"),
    *("once", "stop_token", "execution"),
)
"""Words in the names of what C++ has for threads to meet."""

_MATHEMATICS: Final = ("libm.", "libm-", "libmvec")

_SLEEPS_OF_CPP: Final = tuple(
    f"{returned}{name}"
    for returned in ("", "void ", "bool ", "std::cv_status ")
    for name in (
        "std::this_thread::sleep_",
        "std::condition_variable",
        "std::_V2::condition_variable",
        "std::__condvar",
    )
)

_BEGINS: Final = frozenset({"start_thread", "clone", "clone3", "__clone", "__clone3", "thread_start"})
"""Functions of libc that are outermost in a thread's stack."""
LOCKS: Final = ("mutex:", "rwlock:", "pylock:")
"""How the identifiers of locks begin."""
_HELD: Final = (*LOCKS, "barrier:")


class Behaviour(StrEnum):
    """The behaviour of a thread."""

    ENDED = "ended"
    STOPPED = "stopped"
    UNSEEN = "unseen"
    SERVING = "serving"
    BLOCKED = "blocked"
    SLEEPING = "sleeping"
    POLLING = "polling"
    COMPUTING = "computing"
    PROGRESSING = "progressing"


class Doing(NamedTuple):
    """A thread's behaviour, and the reason to believe it."""

    kind: Behaviour
    reason: str = ""


_IDLE_WORKER: Final = Doing(Behaviour.SERVING, JOB)
LONG_BLOCKED: Final = Doing(Behaviour.BLOCKED, "for the threshold")


class Row(NamedTuple):
    """A row of the table in docs/behaviour.md: the first that `holds` (returns a reason) gives a thread's behaviour."""

    kind: Behaviour
    doc: str
    holds: Callable[[Thread, RuleInput], str | None]


class Standing(NamedTuple):
    """State of a process; `end` decides it: the main thread, or a thread at the end of its wait chain."""

    main: Thread
    end: Thread
    doing: Doing


def doing(thread: Thread, state: RuleInput) -> Doing:
    """Return a thread's behaviour."""
    known = state.once(_nothing_yet)
    if thread.id not in known:
        reasons = ((row.kind, row.holds(thread, state)) for row in TABLE)
        known[thread.id] = next(Doing(kind, reason) for kind, reason in reasons if reason is not None)
    return known[thread.id]


def _nothing_yet(_snapshot: Snapshot) -> dict[str, Doing]:
    return {}


# the rows


def _ended(thread: Thread, _state: RuleInput) -> str | None:
    return "" if thread.exited or thread.state in (ThreadState.ZOMBIE, ThreadState.DEAD) else None


def _stopped(thread: Thread, _state: RuleInput) -> str | None:
    if thread.state in (ThreadState.STOPPED, ThreadState.TRACED) or thread.wait is WaitKind.STOP:
        return thread.waits_in or "a signal, or a debugger"
    return None


def _unseen(thread: Thread, state: RuleInput) -> str | None:
    code = state.once(unseen_runtimes).get(thread.process)
    if code is None or (code == UNSEEN_RUNTIME and cpu_share(thread, state.snapshot) >= TICK_SHARE):
        return None
    return "its runtime is not looked into"


def _serving(thread: Thread, state: RuleInput) -> str | None:
    if thread.state is not ThreadState.WAITING:
        return None
    if thread.wait is WaitKind.SIGNAL:
        return "a signal"
    if _takes_jobs(thread, state) or _helps_library(thread, state):
        return JOB
    return _serves(thread, state) or ("connections" if _until_stopped(thread, state) else None)


def _helps_library(thread: Thread, state: RuleInput) -> bool:
    """Return whether a helper thread, which a library has begun, waits for a job of it (L20)."""
    if thread.wait not in _FOR_ITEMS or _is_main(thread, state.snapshot):
        return False
    frames = _frames(thread, state)
    whole = any(frame.function in _BEGINS for frame in frames)
    library = any(map(state.code.of_library, frames))
    return whole and library and all(_is_of_library(frame, state) for frame in frames)


def _is_of_library(frame: Frame, state: RuleInput) -> bool:
    if frame.language != "native" or state.code.inside(frame) < Inside.FRAMEWORK:
        return False
    nameless = frame.function.startswith("0x") and not (frame.module or "").startswith(_INTERPRETER)
    return not nameless or state.code.of_library(frame)


def _until_stopped(thread: Thread, state: RuleInput) -> bool:
    """Return whether a thread, or a task of its event loop, waits until the server of its process is stopped (L17)."""
    names = (name for entity in state.once(_listening) for name in state.graph.waiters_of(entity))
    threads = (state.snapshot.threads.get(name) for name in names)
    serves = any(one is not None and one.process == thread.process for one in threads)
    return serves and thread.id in state.once(_waiting_to_be_stopped)


def _listening(snapshot: Snapshot) -> tuple[str, ...]:
    return tuple(resource.id for resource in snapshot.resources.values() if resource.listening)


def _waiting_to_be_stopped(snapshot: Snapshot) -> set[str]:
    waiting = {name for name, stack in snapshot.stacks.items() if waits_to_be_stopped(stack.frames)}
    tasks = waiting - snapshot.threads.keys()
    keys = (EdgeKey(EdgeKind.RUNS_ON, task, name) for task in tasks for name in snapshot.threads)
    return waiting | {key.target for key in keys if key in snapshot.edges}


def _blocked_for_long(thread: Thread, state: RuleInput) -> str | None:
    waited = waited_ns(thread, state.snapshot)
    if thread.state not in (ThreadState.WAITING, ThreadState.DISK) or thread.timed or waited is None:
        return None
    return LONG_BLOCKED.reason if waited >= state.settings.thread_stall_ns else None


def _loop_ends(thread: Thread, state: RuleInput) -> str | None:
    return "a loop of it comes nearer to its end" if loop_of(thread, state) is not None else None


def _sleeping(thread: Thread, state: RuleInput) -> str | None:
    way = _loop_way(thread, state)
    waits = thread.timed or thread.wait is WaitKind.SLEEP or way is LoopWay.PAUSES
    if thread.state is not ThreadState.WAITING or not waits or cpu_share(thread, state.snapshot) >= TICK_SHARE:
        return None
    if way is LoopWay.PAUSES:
        return "the next round of its loop" if thread.timed else ORDER
    if thread.timed and is_timer(_frames(thread, state)):
        return "the time of a timer"
    if thread.wait is WaitKind.POLL and _tasks_go_on(thread, state):
        return "the next of its tasks"
    if thread.wait is not WaitKind.SLEEP or way is LoopWay.POLLS:
        return None
    step = way is LoopWay.ONCE and in_job(_frames(thread, state), state.code.workers)
    long = (thread.sleeps_s or 0) >= _NAP_S or way in _RESTING or step
    return thread.waits_in or "sleep" if long or not _has_run(thread, state.snapshot) else None


def giver_of(entity: str, state: RuleInput) -> Thread | None:
    """Return the thread that sleeps, itself or in a task, and then gives what a thread or a task waits for (L19)."""
    snapshot = state.snapshot
    for name in _givers_of(entity, state):
        thread = snapshot.threads.get(name)
        if thread is None:
            thread = _loop_of(name, state)
        elif doing(thread, state).kind is not Behaviour.SLEEPING or not _sleeps_in_rounds(thread, state):
            thread = None
        if thread is not None:
            return thread
    return None


def _givers_of(entity: str, state: RuleInput) -> Iterator[str]:
    """Yield who may give what an entity waits for: in its process, or into the pipe or socket that it reads."""
    into = state.once(_given_into)
    for name in state.graph.blockers_of(entity):
        resource = state.snapshot.resources.get(name)
        facts = resource.facts if resource is not None else None
        yield from facts_of(facts, WaitedFacts).givers
        yield from into.get(name, ())
        yield from into.get(ids.fd_object("socket", host_of(name), facts_of(facts, SocketFacts).other_end), ())


def _given_into(snapshot: Snapshot) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key in snapshot.edges:
        if key.kind is EdgeKind.GIVES:
            found.setdefault(key.target, []).append(key.source)
    return found


def _sleeps_in_rounds(thread: Thread, state: RuleInput) -> bool:
    way = _loop_way(thread, state)
    return way in _GOES_ON or (way is LoopWay.PAUSES and thread.timed is True)


def _loop_of(name: str, state: RuleInput) -> Thread | None:
    """Return the thread of a task that waits for nobody, and will run again by itself (L18)."""
    task = state.snapshot.tasks.get(name)
    if task is None or state.graph.waits_of(name):
        return None
    thread = next((one for at in task.where if (one := state.snapshot.threads.get(at)) is not None), None)
    return thread if thread is not None and _goes_on(task, thread, state) else None


def giver_for(thread: Thread, state: RuleInput) -> Thread | None:
    """Return who sleeps and gives what a thread waits for, or a task of its event loop, if all of its tasks go on."""
    if thread.wait is not WaitKind.POLL or not _tasks_go_on(thread, state):
        return giver_of(thread.id, state)
    tasks = state.once(_tasks_of_threads).get(thread.id, ())
    return next((found for task in tasks if (found := giver_of(task.id, state)) is not None), None)


def sleeping_task(thread: Thread, state: RuleInput) -> Task | None:
    """Return the first task that sleeps of a thread in its event loop, or None."""
    tasks = state.once(_tasks_of_threads).get(thread.id, ()) if thread.wait is WaitKind.POLL else ()
    stacks = ((task, state.snapshot.stacks.get(task.id)) for task in tasks)
    return next((task for task, stack in stacks if stack is not None and sleeps_in_task(stack.frames)), None)


def _tasks_go_on(thread: Thread, state: RuleInput) -> bool:
    """Return whether each task of a thread's event loop sleeps, or got on (L18)."""
    tasks = state.once(_tasks_of_threads).get(thread.id)
    return bool(tasks) and all(_goes_on(task, thread, state) for task in tasks or ())


def _tasks_of_threads(snapshot: Snapshot) -> dict[str, list[Task]]:
    found: dict[str, list[Task]] = {}
    for key in snapshot.edges:
        if key.kind is EdgeKind.RUNS_ON and key.source in snapshot.tasks:
            found.setdefault(key.target, []).append(snapshot.tasks[key.source])
    return found


def _goes_on(task: Task, thread: Thread, state: RuleInput) -> bool:
    stack = state.snapshot.stacks.get(task.id)
    place = state.code.frame(stack)
    if stack is None or place is None or place.loop is LoopWay.POLLS:
        return False
    if sleeps_in_task(stack.frames):
        return place.loop in _GOES_ON
    waits = state.graph.waits_of(task.id)
    if (
        place.loop is LoopWay.PAUSES
        or _works(task.id, state)
        or giver_of(task.id, state) is not None
        or awaits_tasks(stack.frames)
        or (waits and all(edge.target in state.snapshot.tasks for edge in waits))
    ):
        return True
    called = takewhile(lambda frame: frame is not place, stack.frames)
    itself = all(state.code.inside(frame) in (Inside.LIBRARY, Inside.NEVER) for frame in called)
    since_ns = state.snapshot.now(host_of(thread.id)).mono_ns - state.settings.thread_stall_ns
    moved = facts_of(task.facts, RequestFacts).moved and (task.since_mono_ns or 0) > since_ns
    return moved and itself and not gives_up_in_task(stack.frames)


def polls_in_loop(thread: Thread, state: RuleInput) -> bool:
    """Return whether a thread sleeps in a loop that ends when something has come (L16)."""
    return thread.wait is WaitKind.SLEEP and _loop_way(thread, state) is LoopWay.POLLS


def _loop_way(thread: Thread, state: RuleInput) -> LoopWay:
    """Return how the loop goes on in which a thread waits: one of the user's code, or of a library that it called."""
    frames, place = _frames(thread, state), state.code.frame(state.snapshot.stacks.get(thread.id))
    called = next((frame for frame in frames if frame.language == "python"), place)
    if place is None or called is None or LoopWay.POLLS in (place.loop, called.loop):
        return LoopWay.UNKNOWN if place is None else LoopWay.POLLS
    rests = _rests_itself(frames, called) and (called is place or place.loop is LoopWay.PAUSES)
    return place.loop if rests else LoopWay.UNKNOWN


def _rests_itself(frames: Sequence[Frame], caller: Frame) -> bool:
    """Return whether a `sleep` of the language waits, or a lock, and no library, which may poll: for a database."""
    inside = list(takewhile(lambda frame: frame is not caller, frames))
    own = ((one.module or "").startswith(_INTERPRETER) or one.function.startswith(_SLEEPS_OF_CPP) for one in inside)
    return bool(inside) and all(own)


def _polling(thread: Thread, state: RuleInput) -> str | None:
    snapshot = state.snapshot
    activity = snapshot.activity.get(thread.id)
    if activity is not None and polls_in_loop(thread, state) and cpu_share(thread, snapshot) < TICK_SHARE:
        return "it sleeps in a loop that ends when something has come"
    if activity is None or not activity.limited or not activity.runs or _loop_way(thread, state) in _RESTING:
        return None
    little = cpu_share(thread, snapshot) < TICK_SHARE
    brief = activity.cpu_total_ns <= activity.runs * _MOMENT_NS
    moves = None if activity.moved is None else activity.moved >= _BYTES * activity.runs
    if activity.rests in _INSIDE and thread.state in (ThreadState.WAITING, ThreadState.RUNNING):
        return "it wakes and waits again" if little or (brief and moves is False) else None
    if activity.rests is not WaitKind.POLL or thread.state is not ThreadState.WAITING or not little:
        return None
    if moves is not None:
        return "it polls, and moves nothing" if not moves else None
    beside = (other for other in snapshot.threads_of(thread.process) if other.id != thread.id)
    return "it polls beside a wait" if brief and any(_waits_on(other, state) for other in beside) else None


def _computing(thread: Thread, state: RuleInput) -> str | None:
    return "CPU time alone was seen" if burns_for_ns(thread, state) is not None and not _completes(state) else None


def _computes_to_an_end(thread: Thread, state: RuleInput) -> bool:
    """Return whether a thread was only seen in native code, in loops that only their own end ends (L4)."""
    place = state.code.frame(state.snapshot.stacks.get(thread.id))
    if place is None or place.language != "native" or place.loop is not LoopWay.ENDS or not place.module:
        return False
    stacks = [_frames(thread, state)]
    stacks += [stack.frames for one in state.snapshot.profiles.get(thread.id, ()) for stack in one.stacks]
    return all(_in_own_code(frames, place, state) for frames in stacks)


def _in_own_code(frames: Sequence[Frame], place: Frame, state: RuleInput) -> bool:
    user = state.code.frame_of(frames)
    inside = takewhile(lambda frame: frame is not user, frames)
    return user is not None and user.module == place.module and all(map(_only_computes, inside))


def _only_computes(frame: Frame) -> bool:
    """Return whether a function is one of mathematics, or a template of C++ that waits for nothing."""
    if (frame.module or "").startswith(_MATHEMATICS):
        return True
    template = frame.function.startswith(("std::", "__gnu_cxx::"))
    return template and not any(word in frame.function for word in _MEETS)


def _progressing(thread: Thread, state: RuleInput) -> str | None:
    return "it got on" if _has_run(thread, state.snapshot) or thread.state is ThreadState.RUNNING else None


_NAPS: Final = (WaitKind.SLEEP, WaitKind.SEMAPHORE)
_FOR_ITEMS: Final = (WaitKind.CONDITION, WaitKind.SEMAPHORE, WaitKind.FUTEX)
"""How a queue of C++ waits."""
_INSIDE: Final = frozenset(
    {
        WaitKind.SLEEP,
        WaitKind.SEMAPHORE,
        WaitKind.MUTEX,
        WaitKind.RWLOCK,
        WaitKind.CONDITION,
        WaitKind.BARRIER,
        WaitKind.JOIN,
        WaitKind.FUTEX,
    }
)
"""Waits that nothing from outside ends: what a poll or a read gets may be handled in a moment."""

TABLE: Final = (
    Row(Behaviour.ENDED, "It has ended.", _ended),
    Row(Behaviour.STOPPED, "A signal, a debugger or a freezer has stopped it.", _stopped),
    Row(Behaviour.UNSEEN, "It is in a runtime that livedbg does not look into.", _unseen),
    Row(
        Behaviour.SERVING,
        "It waits for what may come at any time: a connection, a key, a signal, a job, a change of a file.",
        _serving,
    ),
    Row(
        Behaviour.PROGRESSING,
        "A loop that only its own end ends comes nearer to it, whatever it sleeps between.",
        _loop_ends,
    ),
    Row(
        Behaviour.SLEEPING,
        "It sleeps for a second or longer, has not run since it began to sleep, or rests in a loop that waits for "
        "nothing; not in a loop that ends when something has come. So does an event loop if each of its tasks does, or "
        "got on; and a thread that waits until it is told to stop.",
        _sleeping,
    ),
    Row(
        Behaviour.BLOCKED,
        "It has been in one wait without a time limit for the threshold (10 s).",
        _blocked_for_long,
    ),
    Row(
        Behaviour.POLLING,
        "It wakes again and again from waits with a time limit, and did nothing between that anyone can see; or it "
        "sleeps in a loop that ends when something has come.",
        _polling,
    ),
    Row(Behaviour.COMPUTING, "It uses CPU time, and nothing else was seen of it.", _computing),
    Row(Behaviour.PROGRESSING, "It has run, and came to another call, wait or place.", _progressing),
    Row(Behaviour.BLOCKED, "It is in a wait, for less than the threshold or with a time limit.", lambda *_: ""),
)

_MOST_WAYS: Final = 64
"""Ways from one wait that are followed."""

_OPEN: Final = frozenset({Behaviour.BLOCKED, Behaviour.POLLING, Behaviour.UNSEEN})
"""Who does one of these is judged by others."""

# processes and jobs


def standings(threads: Sequence[Thread], state: RuleInput) -> list[Standing]:
    """Return the state of each process whose main thread is among some threads."""
    known = state.once(_none_stands)
    mains = main_threads(threads, state.snapshot)
    known.update((main.id, _standing(main, state)) for main in mains if main.id not in known)
    return [known[main.id] for main in mains]


def _none_stands(_snapshot: Snapshot) -> dict[str, Standing]:
    return {}


def _standing(main: Thread, state: RuleInput) -> Standing:
    does = doing(main, state)
    if does.kind not in _OPEN or main.wait is WaitKind.CHILD:  # children are judged themselves
        return Standing(main, main, does)
    last = last_waited_for(main, state)
    at_end = doing(last, state)
    if at_end.kind is Behaviour.SERVING and (
        (at_end.reason == JOB and last is not main)
        or _awaits_relative(main, last, state)
        or awaits_jobs_of_pool(main, state)
        or _asks_again(main, last, state)
        or ignored_by(main, state) is not None
    ):
        return Standing(main, main, does)
    if last is not main and at_end.kind not in _OPEN:
        return Standing(main, last, at_end)
    if at_end == LONG_BLOCKED and any(name.startswith(LOCKS) for name in state.graph.chain(main.id)):
        return Standing(main, last, at_end)
    long = waited_ns(main, state.snapshot) or 0
    others = [other for other in _may_end(last, state) if _began_before(other, main, long, state)]
    for kind in (Behaviour.PROGRESSING, Behaviour.COMPUTING):
        for other in others:
            if doing(other, state).kind is kind and not (_ticks(other, state) or _shows_nothing(other, state)):
                return Standing(main, other, doing(other, state))
    if awaits_jobs_of_pool(main, state):
        asleep = (one for one in others if doing(one, state).kind is Behaviour.SLEEPING)
        for other in asleep:
            if in_job(_frames(other, state), state.code.workers) or _loop_way(other, state) is LoopWay.WORKS:
                return Standing(main, other, doing(other, state))
    giver = giver_for(last, state)
    return Standing(main, last, at_end) if giver is None else Standing(main, giver, doing(giver, state))


def _shows_nothing(thread: Thread, state: RuleInput) -> bool:
    """Return whether a thread sleeps between its bursts (L10), or only answers who makes no progress (L15)."""
    if _sleeps_between(thread, state):
        return True
    if thread.timed or cpu_share(thread, state.snapshot) >= TICK_SHARE:
        return False
    if thread.state is ThreadState.RUNNING:  # what it waited for is not known any more
        return True
    who = nearest(thread, state)
    works = (one for one in who.threads if doing(one, state).kind in (Behaviour.PROGRESSING, Behaviour.COMPUTING))
    idle = all(_ticks(one, state) or _sleeps_between(one, state) for one in works)
    return bool(who.threads) and not who.outside and idle


class Ignored(NamedTuple):
    """A connection that its server ignores (L12)."""

    waiter: Thread
    socket: Resource
    unread: int


def ignored_by(thread: Thread, state: RuleInput) -> Ignored | None:
    """Return the connection in the wait chain of a thread that its server ignores (L12), or None."""
    chain = state.graph.chain(thread.id)
    for name, entity in pairwise(chain):
        waiter, resource = state.snapshot.threads.get(name), state.snapshot.resources.get(entity)
        if waiter is None or resource is None or doing(waiter, state) != LONG_BLOCKED:
            continue
        facts = facts_of(resource.facts, SocketFacts)
        there = state.graph.blockers_of(entity)
        if facts.other_end and there and waiter.process not in there and len(state.graph.blockers_of(name)) == 1:
            end = ids.fd_object("socket", host_of(name), facts.other_end)
            if facts.unread or not state.graph.waiters_of(end):
                return Ignored(waiter, resource, facts.unread)
    return None


def awaits_jobs_of_pool(thread: Thread, state: RuleInput) -> bool:
    """Return whether a thread waits for jobs to end: a serving job never ends (L11)."""
    stack = state.snapshot.stacks.get(thread.id)
    return stack is not None and awaits_jobs(stack.frames)


def _awaits_relative(main: Thread, last: Thread, state: RuleInput) -> bool:
    """Return whether a parent has waited for its child that serves, or a child waits for its parent's signal (L14)."""
    own, other = state.snapshot.processes.get(main.process), state.snapshot.processes.get(last.process)
    if own is None or other is None:
        return False
    of_child = other.ppid == own.pid and doing(main, state) == LONG_BLOCKED
    return of_child or (own.ppid == other.pid and last.wait is WaitKind.SIGNAL)


def _asks_again(thread: Thread, server: Thread, state: RuleInput) -> bool:
    process = state.snapshot.processes.get(thread.process)
    if process is None or not (thread.timed or doing(thread, state).kind is Behaviour.POLLING):
        return False
    return asks((server,), process.id, state) or all(one is not server for one in family_threads(process, state))


def asks(servers: Iterable[Thread], process: str, state: RuleInput) -> bool:
    """Return whether one of some servers waits at a connection to a process (L14)."""
    ends = (end for server in servers for end in state.graph.blockers_of(server.id) if end.startswith("socket:"))
    return any(process in state.graph.blockers_of(end) for end in ends)


def _may_end(thread: Thread, state: RuleInput) -> Iterable[Thread]:
    """Return the threads that may end a wait. Any thread of the family may end the wait of a polling thread."""
    if doing(thread, state).kind is not Behaviour.BLOCKED:
        process = state.snapshot.processes.get(thread.process)
        return (one for one in family_threads(process, state) if one is not thread) if process is not None else ()
    return reachable(thread, (), state).threads


def family_threads(process: Process, state: RuleInput, without: Collection[str] = ()) -> list[Thread]:
    """Return the threads of a process and its living descendants, except for processes in `without` and theirs."""
    snapshot = state.snapshot
    processes = snapshot.processes.values()
    alive = [one for one in processes if not one.exited and one.host == process.host and one.id not in without]
    family = {process.pid}
    while children := [one for one in alive if one.ppid in family and one.pid not in family]:
        family |= {child.pid for child in children}
    members = {one.id for one in alive if one.pid in family}
    return [thread for thread in snapshot.threads.values() if thread.process in members and not thread.exited]


def _began_before(other: Thread, waiter: Thread, waited: int, state: RuleInput) -> bool:
    """Return whether a thread of another process existed when a wait began (L10).

    Children that die and are started again can't be the target of the wait.
    """
    process = state.snapshot.processes.get(other.process)
    if other.process == waiter.process or process is None or process.start_wall_ns is None:
        return True
    age_ns = state.snapshot.now(process.host).wall_ns - process.start_wall_ns
    return waited < state.settings.thread_stall_ns or age_ns >= state.settings.thread_stall_ns


# what is seen of threads


def cpu_share(thread: Thread, snapshot: Snapshot) -> float:
    """Return the share of a core that a thread has used since it is watched.

    Time in which it waited for a CPU is left out: on a busy machine, a working thread gets as little as a ticking one.
    What is left counts as a tenth of a second at least: of a few milliseconds, a tick fills the whole.
    """
    activity = snapshot.activity.get(thread.id)
    if activity is None or not activity.cpu_total_ns:
        return 0.0
    span = snapshot.now(host_of(thread.id)).mono_ns - activity.first_mono_ns - activity.queued_total_ns
    return activity.cpu_total_ns / max(span, activity.cpu_total_ns, _LEAST_NS)


def burns_for_ns(thread: Thread, state: RuleInput) -> int | None:
    """Return for how long a thread has only used CPU time; None if it shows anything else (L9).

    A loop over a matrix in registers and a loop that waits for a flag look the same from outside: no system call, no
    wait, no page fault. So this CPU time is neither observed progress nor a stall. A thread that got on before has to
    show nothing for the threshold, and samples of it no calls and no iterations of a loop.
    """
    activity = state.snapshot.activity.get(thread.id)
    if activity is None or thread.state is not ThreadState.RUNNING or thread.marks is None:
        return None
    quiet_ns = state.snapshot.now(host_of(thread.id)).mono_ns - activity.step_mono_ns
    usual_ns = (activity.step_mono_ns - activity.first_mono_ns) / activity.steps if activity.steps else 0.0
    if activity.steps and quiet_ns < max(state.settings.thread_stall_ns, _STEPS * usual_ns):
        return None
    shows = calls_seen(thread, state) is not None or loop_of(thread, state) is not None
    return None if shows or _computes_to_an_end(thread, state) else quiet_ns


def progressing(threads: Iterable[Thread], state: RuleInput) -> list[Thread]:
    """Return the threads seen to progress, without ticking ones (L1) and event loops beside a held-up job (L7)."""
    active = [thread for thread in threads if doing(thread, state).kind is Behaviour.PROGRESSING]
    active = [thread for thread in active if not _ticks(thread, state)]
    if loops := {thread.id for thread in active if _loops(thread, state.snapshot)}:
        alive = [thread for thread in state.snapshot.threads.values() if not thread.exited]
        active = [t for t in active if t.id not in loops] if held_up(alive, state) is not None else active
    return active


def ticking(threads: Iterable[Thread], state: RuleInput) -> list[Thread]:
    """Return the threads that use some CPU time without progress (L1)."""
    return [t for t in threads if _has_run(t, state.snapshot) and _ticks(t, state)]


def unseen_runtimes(snapshot: Snapshot) -> Mapping[str, str]:
    """Return the processes in runtimes that livedbg does not inspect, each with POLLS or UNSEEN_RUNTIME."""
    found = snapshot.statuses.values()
    return {status.target: status.code for status in found if status.code in (POLLS, UNSEEN_RUNTIME)}


def main_threads(threads: Iterable[Thread], snapshot: Snapshot) -> list[Thread]:
    """Return the main threads that have not ended."""
    return [thread for thread in threads if _is_main(thread, snapshot)]


def held_up(threads: Iterable[Thread], state: RuleInput) -> tuple[Thread, int] | None:
    """Return a thread, and for how long it has waited for what nobody waits for on purpose (L8)."""
    for thread in threads:
        waited = waited_ns(thread, state.snapshot)
        if waited is None or thread.timed or waited < state.settings.thread_stall_ns:
            continue
        stack = state.snapshot.stacks.get(thread.id)
        in_lock = any(entity.startswith(_HELD) for entity in state.graph.blockers_of(thread.id))
        in_lock = in_lock or (stack is not None and waits_for_semaphore(stack.frames)) or _locks(thread, state)
        if giver_of(thread.id, state) is not None or _ends_in_nap(thread, state):
            continue
        if in_lock and not _takes_jobs(thread, state) and not _serves(last_waited_for(thread, state), state):
            return thread, waited
    return None


def _locks(thread: Thread, state: RuleInput) -> bool:
    """Return whether a thread waits for a futex in a lock that is not of the C library: `absl::Mutex::LockSlow`."""
    resources = (state.snapshot.resources.get(name) for name in state.graph.blockers_of(thread.id))
    if any(facts_of(one.facts, LockFacts).contended for one in resources if one is not None):
        return not _helps_library(thread, state)
    frames = _frames(thread, state) if thread.wait is WaitKind.FUTEX else ()
    user = state.code.frame_of(frames)
    inside = [*takewhile(lambda frame: frame is not user, frames), *filter(None, [user])]
    return any(frame.language == "native" and _is_lock(frame.function) for frame in inside)


def _is_lock(function: str) -> bool:
    name = function.partition("(")[0].rpartition("::")[2].lower()
    for other in ("unlock", "block", "clock"):
        name = name.replace(other, "")
    return "lock" in name


def _ends_in_nap(thread: Thread, state: RuleInput) -> bool:
    """Return whether the last thread of a wait chain sleeps in no loop of the user's code, for ten minutes at most."""
    last = last_waited_for(thread, state)
    naps = doing(last, state).kind is Behaviour.SLEEPING and _loop_way(last, state) is LoopWay.ONCE
    return last is not thread and naps and (last.sleeps_s or 0) < _LONG_S


def unanswered(threads: Iterable[Thread], state: RuleInput) -> tuple[Thread, int] | None:
    """Return a thread that may keep a client waiting, and for how long it has waited for its own process (L13).

    It waits beside a connection that no thread waits at, or in a job of a pool.
    """
    inside = (thread for thread in threads if thread.wait in _INSIDE and doing(thread, state) == LONG_BLOCKED)
    waiting = [thread for thread in inside if giver_of(thread.id, state) is None]
    users = [thread for thread in waiting if in_users_code(thread, state)]
    left = {name for name in {one.process for one in waiting} if _leaves_a_connection(name, state)}
    found = (one for one in users or waiting if one.process in left or in_job(_frames(one, state), state.code.workers))
    first = next(found, None)
    return None if first is None else (first, waited_ns(first, state.snapshot) or 0)


def _frames(thread: Thread, state: RuleInput) -> Sequence[Frame]:
    stack = state.snapshot.stacks.get(thread.id)
    return stack.frames if stack is not None else ()


def in_users_code(thread: Thread, state: RuleInput) -> bool:
    """Return whether a thread is in the user's own code."""
    frame = state.code.frame_of(_frames(thread, state))
    return frame is not None and state.code.inside(frame) in (Inside.USER, Inside.UNLINED)


def _leaves_a_connection(process: str, state: RuleInput) -> bool:
    """Return whether no thread waits at some accepted connection of a socket that the process listens at."""
    host = host_of(process)
    for thread in state.snapshot.threads_of(process):
        for entity in state.graph.blockers_of(thread.id):
            resource = state.snapshot.resources.get(entity)
            facts = facts_of(resource.facts, SocketFacts) if resource is not None else SocketFacts()
            ends = (ids.fd_object("socket", host, inode) for inode in facts.accepted)
            if any(not state.graph.waiters_of(end) for end in ends):
                return True
    return False


def awaits_children(thread: Thread, state: RuleInput) -> bool:
    """Return whether a thread waits for the end of child processes that are watched too, as a shell does."""
    children: Collection[str] = ()
    if thread.wait is WaitKind.CHILD:
        children = state.graph.blockers_of(thread.id)
    elif waits_for_child(_frames(thread, state)):
        own = state.snapshot.processes.get(thread.process)
        children = [one.id for one in state.snapshot.processes.values() if own is not None and _is_child(one, own)]
    return bool(children) and all(_judged_itself(child, state.snapshot) for child in children)


def _is_child(process: Process, parent: Process) -> bool:
    return process.ppid == parent.pid and process.host == parent.host and not process.exited


def _judged_itself(entity: str, snapshot: Snapshot) -> bool:
    process = snapshot.processes.get(entity)
    if process is None or process.exited or not process.target:
        return False
    main = snapshot.threads.get(f"thread:{entity.partition(':')[2]}/{process.pid}")
    return main is not None and not main.exited


def last_waited_for(thread: Thread, state: RuleInput) -> Thread:
    """Return the last thread of the wait chain of a thread, or the thread itself.

    If it waits for several at once, as a poll does: of the ends of the chains, the one that shows least progress. Who
    waits for a thread beside a channel waits for that one to write into it.
    """
    chain = state.graph.chain(thread.id)
    fork = next((name for name in chain if len(state.graph.blockers_of(name)) > 1), None)
    if fork is None or not state.graph.stuck.isdisjoint(chain):
        return _end_of(chain, state) or thread
    ahead = sorted(state.graph.blockers_of(fork))
    ways = map(state.graph.chain, ([name for name in ahead if name in state.snapshot.threads] or ahead)[:_MOST_WAYS])
    ends = [end for way in ways if (end := _end_of(way, state)) is not None]
    return min(ends, key=lambda end: _shows(doing(end, state)), default=_end_of(chain, state) or thread)


def _end_of(chain: Sequence[str], state: RuleInput) -> Thread | None:
    return next((found for name in reversed(chain) if (found := state.snapshot.threads.get(name)) is not None), None)


def _shows(does: Doing) -> int:
    if does.kind in (Behaviour.PROGRESSING, Behaviour.COMPUTING):
        return 1
    if does == _IDLE_WORKER:
        return 3  # it ends nobody's wait (L11)
    return 2 if does.kind in (Behaviour.SERVING, Behaviour.SLEEPING) else 0


def _has_run(thread: Thread, snapshot: Snapshot) -> bool:
    activity = snapshot.activity.get(thread.id)
    return activity is not None and bool(activity.cpu_total_ns or activity.runs)


def _completes(state: RuleInput) -> bool:
    now_ns, limit_ns = state.snapshot.now().mono_ns, state.settings.thread_stall_ns
    work = (counter for counter in state.snapshot.counters.values() if counter.per_s is None)
    return any(counter.changes and now_ns - counter.changed_mono_ns < limit_ns for counter in work)


def _loops(thread: Thread, snapshot: Snapshot) -> bool:
    """Return whether a thread polls descriptors with a timeout and uses little CPU time: an idle event loop."""
    return thread.wait is WaitKind.POLL and thread.timed is True and cpu_share(thread, snapshot) < TICK_SHARE


def _waits_on(thread: Thread, state: RuleInput) -> bool:
    waited = waited_ns(thread, state.snapshot)
    if waited is None or thread.timed or waited < state.settings.thread_stall_ns:
        return False
    return _serving(thread, state) is None


def _ticks(thread: Thread, state: RuleInput) -> bool:
    runtime = state.once(unseen_runtimes).get(thread.process, "")
    if runtime == POLLS:
        return True
    if cpu_share(thread, state.snapshot) >= TICK_SHARE or (not runtime and _is_main(thread, state.snapshot)):
        return False
    waiters = state.graph.waiters_of(thread.id)
    return bool(runtime) or all(waiter.startswith("process:") for waiter in waiters)  # its own, for any thread


def _sleeps_between(thread: Thread, state: RuleInput) -> bool:
    """Return whether a helper thread that nobody waits for sleeps by itself in half of the time or more (L10).

    One that wakes for moments, and waits for a CPU whenever it is looked at, may do so.
    """
    activity = state.snapshot.activity.get(thread.id)
    if activity is None or _is_main(thread, state.snapshot) or cpu_share(thread, state.snapshot) >= _HALF:
        return False
    brief = 0 < activity.cpu_total_ns <= activity.runs * _MOMENT_NS
    if not (brief if activity.rests is None else activity.limited and activity.rests in _NAPS):
        return False
    return all(waiter.startswith("process:") for waiter in state.graph.waiters_of(thread.id))


def _is_main(thread: Thread, snapshot: Snapshot) -> bool:
    process = snapshot.processes.get(thread.process)
    return process is None or process.pid == thread.tid


def _takes_jobs(thread: Thread, state: RuleInput) -> bool:
    frames = _frames(thread, state)
    if thread.state is not ThreadState.WAITING or not frames:
        return False
    helps = not _is_main(thread, state.snapshot)
    return waits_for_job(frames, state.code.workers) or (helps and _works(thread.id, state))


def _works(entity: str, state: RuleInput) -> bool:
    """Return whether a thread or a task waits for the next job of a queue, which it tells of each that it has done."""
    stack = state.snapshot.stacks.get(entity)
    place = state.code.frame(stack)
    if stack is None or place is None or place.loop is not LoopWay.WORKS:
        return False
    thread = state.snapshot.threads.get(entity)
    native = place.language == "native" and thread is not None and thread.wait in _FOR_ITEMS
    return native or takes_item(stack.frames)


def _serves(thread: Thread, state: RuleInput) -> str:
    """Return the external event that a thread waits for, in words; "" if it waits for anything else too (L5)."""
    blockers = state.graph.blockers_of(thread.id)
    resources = [resource for entity in blockers if (resource := state.snapshot.resources.get(entity)) is not None]
    if any(resource.listening for resource in resources):
        return "" if any(_ignores_itself(resource, thread, state) for resource in resources) else "connections"
    if len(resources) < len(blockers) or not all(_owed_by_nobody(resource) for resource in resources):
        return ""
    return next((resource.idle for resource in resources if resource.idle), "")


def _ignores_itself(resource: Resource, thread: Thread, state: RuleInput) -> bool:
    """Return whether a process leaves data unread on a connection to itself that no thread waits at."""
    facts = facts_of(resource.facts, SocketFacts)
    end = ids.fd_object("socket", host_of(thread.id), facts.other_end)
    return bool(facts.unread) and resource.wakes_itself and not state.graph.waiters_of(end)


def _owed_by_nobody(resource: Resource) -> bool:
    return bool(resource.idle) or resource.wakes_itself or resource.attributes.get("what") == "signalfd"


def long_waits(threads: Iterable[Thread], state: RuleInput) -> Iterator[tuple[Thread, int]]:
    """Yield the main threads blocked for the threshold whose wait chain ends in no progress, with the time waited."""
    for standing in standings(list(threads), state):
        stuck = standing.doing.kind is Behaviour.BLOCKED and doing(standing.main, state) == LONG_BLOCKED
        if stuck and not awaits_children(standing.main, state):
            yield standing.main, waited_ns(standing.main, state.snapshot) or 0
