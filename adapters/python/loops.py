"""Sample the event loops of a process: tasks, what each awaits, lock holders, blocked loops.

Lost futures: every way to complete a future needs a reference to it (a task, callback, timer, handle, thread or C
extension), which counts in its `ob_refcnt`. If all references are found in the tasks that wait for it, and in those
that wait for these, nobody else can complete it. Weak references are not seen.

Edges (scope `python/<process id>/tasks`):
    task  runs_on    thread           that of its event loop
    task  waits_for  pylock           asyncio.Lock, trio.Lock
    task  holds      pylock           asyncio: it is inside `async with` of the lock; trio: the lock names it
    task  waits_for  cond, sem        Event, Condition, Queue, Barrier, a channel; Semaphore, CapacityLimiter
    task  waits_for  future           a bare future
    task  waits_for  task             a task, gather, wait, TaskGroup, shield, a nursery
    task  waits_for  thread           its loop's thread is blocked in a callback

Invariants:
    loops.L1. Waits and lock holders are given only for tasks that did not change during the sample.
    loops.L2. A loop is blocked only if its thread sat in the same call before and after the sample, and in between was
        in a callback and not in the loop's own wait.
    loops.L3. A task that a timer may wake or end is `timed`, and so is each task that it awaits or has in a variable of
        its coroutines: it may cancel that one.
    loops.R1. A future is lost only if each of its references was found in a suspended task that waits for it,
        directly or through other tasks, and no timer may wake or end such a task.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Final

from msgspec.structs import replace

from livedbg.adapters.python.awaits import (
    Await,
    HeldLock,
    LoopSample,
    awaited,
    held_locks_of,
    joined,
    of_steady,
    user_frame,
)
from livedbg.adapters.python.givers import Named
from livedbg.adapters.python.greenlet_loops import GREENLET, read_all_greenlets
from livedbg.adapters.python.trio_loops import is_trio_step, read_all_trio, threads_of_trio
from livedbg.cpython.event_loops import (
    MOST_TASKS,
    EventLoop,
    EventLoops,
    LoopTask,
    Timer,
    confirmed,
    is_future,
    read_loops,
)
from livedbg.cpython.greenlets import GreenletReader, is_known
from livedbg.cpython.heap import HeapReader
from livedbg.cpython.loop_modules import LoopModules
from livedbg.cpython.objects import is_pointer
from livedbg.cpython.threads import PyFrame, PyThread, ThreadReader
from livedbg.cpython.trio_tasks import CONTEXT
from livedbg.model import Edge, EdgeKey, EdgeKind, Frame, Resource, Stack, Task, TaskState, ids
from livedbg.model.facts import RequestFacts, WaitedFacts
from livedbg.model.reach import reachable


def lost_futures(
    heap: HeapReader, tasks: Iterable[LoopTask], awaits: Mapping[int, Await], unsure: Set[int]
) -> frozenset[int]:
    """Return the addresses of the lost futures (R1); `unsure` are tasks that may go on, by a timer or a change."""
    known = {task.address: task for task in tasks}
    waiters: dict[int, list[int]] = {}
    behind: dict[int, list[int]] = {}
    for address, what in awaits.items():
        if what.kind == "future" and address in known:
            waiters.setdefault(what.address, []).append(address)
        for other in what.tasks:
            behind.setdefault(other, []).append(address)
    found = set()
    for future, direct in waiters.items():
        group = reachable(direct, lambda one: behind.get(one, ()))
        if group & unsure or not group <= known.keys():
            continue
        if any(known[one].chain.future != future for one in direct):
            continue
        try:
            references = heap.words(future, 1)[0] & 0xFFFF_FFFF
            if _counted(heap, future, [known[one] for one in group], len(direct)) == references:
                found.add(future)
        except (OSError, OverflowError):
            continue  # it goes on
    return frozenset(found)


def _counted(heap: HeapReader, future: int, group: Iterable[LoopTask], direct: int) -> int:
    """Count the references to a future from its waiters: tasks, its `await`, and coroutine variables (a cell once)."""
    count = 2 * direct
    cells = set()
    for task in group:
        for frame in task.chain.frames:
            for slot in frame.slots:
                if slot == future:
                    count += 1
                elif is_pointer(slot) and heap.type_name(slot) == "cell":
                    cells.add(slot)
    return count + sum(1 for cell in cells if heap.in_cell(cell) == future)


_RUN_ONCE: Final = "BaseEventLoop._run_once"
_RUNNERS: Final = "/asyncio/runners.py"
_AHEAD_S: Final = 0.05  # a timer is overdue from that on


def sample_loops(reader: ThreadReader, heap: HeapReader, modules: LoopModules, greenlets: GreenletReader) -> LoopSample:
    """Sample the event loops of a process; raise OSError if it is gone or changes too fast."""
    found: list[EventLoops] = []
    awaits: dict[int, Await] = {}
    held: dict[int, list[tuple[int, HeldLock]]] = {}
    contexts: list[int] = []
    roots: list[int] = []
    others = set[str]()
    for interpreter in reader.interpreters():
        names = modules.names(interpreter)
        loops = read_loops(heap, names) if names else EventLoops()
        for task in loops.tasks:
            _read(heap, task, awaits, held)
        found.append(confirmed(heap, names, loops) if loops.tasks else loops)
        contexts += [names[CONTEXT]] if CONTEXT in names else []
        if GREENLET in names:
            if is_known(heap.objects.text(names.get("__version__", 0))):
                roots.append(names[GREENLET])
            else:
                others.add(GREENLET)
    others |= modules.others
    own = joined(found)
    if not own.tasks and not contexts and not roots:
        return LoopSample(others=frozenset(others))
    steady = {task.address for task in own.tasks if task.steady}
    trio = read_all_trio(heap, contexts)
    threads = reader.threads()
    of_trio, unread = threads_of_trio(trio.loops, threads)
    of_loops = with_thread(joined((own, of_trio)), threads)
    light = read_all_greenlets(heap, greenlets, roots, reader.threads)
    timed = _timed(heap, own, awaits)
    unsure = timed | (awaits.keys() - steady)
    return LoopSample(
        loops=joined((of_loops, light.loops)),
        awaits={task: what for task, what in awaits.items() if task in steady} | dict(trio.awaits) | dict(light.awaits),
        held=of_steady(held, steady) | dict(trio.held) | dict(light.held),
        timed=timed | trio.timed | light.timed,
        due=_due(heap, own) | trio.due | light.due,
        callbacks=_callbacks(of_loops.loops.values(), threads) | dict(light.callbacks),
        lost=lost_futures(heap, own.tasks, awaits, unsure),
        others=frozenset(others | ({"trio"} if unread else set())),
    )


def with_thread(found: EventLoops, threads: Iterable[PyThread]) -> EventLoops:
    """Give the only loop whose thread can't be read (uvloop's) that of `asyncio.run`, if one thread is in it."""
    unknown = [loop for loop in found.loops.values() if loop.thread is None and not loop.readable]
    runners = [one for one in threads if any(frame.code.file.endswith(_RUNNERS) for frame in one.frames)]
    if len(unknown) != 1 or len(runners) != 1 or any(one.thread == runners[0].ident for one in found.loops.values()):
        return found
    loop = replace(unknown[0], thread=runners[0].ident)
    return replace(found, loops={**found.loops, loop.address: loop})


def _read(
    heap: HeapReader, task: LoopTask, awaits: dict[int, Await], held: dict[int, list[tuple[int, HeldLock]]]
) -> None:
    try:
        what = awaited(heap, task)
        locks = list(held_locks_of(heap, task))
    except (OSError, OverflowError):
        return  # it goes on
    if what is not None:
        awaits[task.address] = what
    for lock in locks:
        held.setdefault(lock.lock, []).append((task.address, lock))


def _timed(heap: HeapReader, found: EventLoops, awaits: Mapping[int, Await]) -> frozenset[int]:
    """Return the tasks that a timer may wake or end, those they await, and those in their variables (L3)."""
    by_waiter: dict[int, list[int]] = {}
    known = {task.address: task for task in found.tasks}
    for task in found.tasks:
        by_waiter.setdefault(task.waiter, []).append(task.address)
    todo: list[int] = []
    for loop in found.loops.values():
        if not loop.readable:  # its timers are not known
            todo += [task.address for task in found.tasks if task.loop == loop.address]
        for timer in loop.timers:
            for thing in _ended_by_timer(heap, timer):
                todo += by_waiter.get(thing, ())
                if thing in known:
                    todo.append(thing)

    def may_end(task_at: int) -> Iterator[int]:
        what = awaits.get(task_at)
        yield from what.tasks if what is not None else ()
        if task_at in known:
            yield from (one for one in _reach(heap, known[task_at]) if one in known)

    return frozenset(reachable(todo, may_end))


def _reach(heap: HeapReader, task: LoopTask) -> Iterator[int]:
    """Yield the variables of a task's coroutines and items of lists and sets there: it may cancel these tasks."""
    for frame in task.chain.frames:
        for value in dict.fromkeys(frame.slots):
            yield value
            try:
                yield from heap.items(value, MOST_TASKS) if is_pointer(value) else ()
            except (OSError, OverflowError):
                continue  # it changed meanwhile


def _ended_by_timer(heap: HeapReader, timer: Timer) -> list[int]:
    """Return the futures and tasks that a timer may end."""
    found = list(timer.arguments)
    try:
        if bound := heap.bound_to(timer.callback):
            found.append(bound)
            if is_pointer(bound) and not is_future(heap, bound):
                found.append(heap.attributes(bound).get("_task", 0))  # asyncio.Timeout
    except (OSError, OverflowError):
        pass  # it was called meanwhile
    return found


def _due(heap: HeapReader, found: EventLoops) -> frozenset[int]:
    """Return the tasks that could run now: their awaited object is done or their timer has expired."""
    now_s = time.monotonic() - _AHEAD_S
    late: set[int] = set()
    for loop in found.loops.values():
        for timer in loop.timers:
            if timer.when is not None and timer.when < now_s:
                late.update(_ended_by_timer(heap, timer))
    return frozenset(
        task.address for task in found.tasks if not task.running and (not task.pending or task.waiter in late)
    )


def _callbacks(loops: Iterable[EventLoop], threads: Iterable[PyThread]) -> dict[int, Sequence[PyFrame]]:
    by_ident = {thread.ident: thread for thread in threads}
    found = {}
    for loop in loops:
        thread = by_ident.get(loop.thread) if loop.thread is not None else None
        frames = callback_of(thread.frames) if thread is not None else ()
        if frames:
            found[loop.address] = frames
    return found


def callback_of(frames: Sequence[PyFrame]) -> Sequence[PyFrame]:
    """Return the frames of the callback that a loop runs, innermost first; () while the loop waits for events."""
    at = next((place for place, frame in enumerate(frames) if frame.code.name == _RUN_ONCE or is_trio_step(frame)), 0)
    inside = frames[:at]
    if not inside or inside[-1].code.file.endswith("/selectors.py"):
        return ()
    return inside


_MOST_NAME: Final = 60
_LOST: Final = "nothing but its waiters refers to it"
_EVENT: Final = "an event"
_SIGNAL: Final = "a signal, for which its loop has a callback"
_CANCELLING: Final = "was asked to end (cancelled)"


class TaskNames:
    """Task ids of a process: by name if unique, and stable while the task lives."""

    def __init__(self, host: str, pid: int) -> None:
        self._prefix = (host, str(pid))
        self._known: dict[tuple[int, str], str] = {}
        self._taken: dict[str, tuple[int, str]] = {}

    def of(self, task: LoopTask) -> str:
        key = (task.address, task.name)
        if key not in self._known:
            name = task.name.replace("/", "_")[:_MOST_NAME] or "?"
            if name in self._taken:
                name = f"{name}@{task.address:#x}"
            self._taken[name] = key
            self._known[key] = name
        return ids.task(task.system, *self._prefix, self._known[key])

    def keep(self, tasks: Mapping[str, LoopTask]) -> None:
        """Forget tasks that have ended."""
        alive = {(task.address, task.name) for task in tasks.values()}
        for key in [key for key in self._known if key not in alive]:
            del self._taken[self._known.pop(key)]


def _holds_up(what: Await, sample: LoopSample) -> bool:
    """Return whether a request is delayed: no other task reads from its client meanwhile."""
    read = {other.fd for other in sample.awaits.values()}
    return what.holds_up or (what.client >= 0 and what.client not in read)


class LoopState:
    """Entities and edges of one sample.

    Args:
        tid_of: maps `threading.get_ident()` to our tid.
        blocked: loops whose threads are blocked in a callback.
        peers: file descriptors -> `a socket to 10.0.0.2:443`.
    """

    def __init__(
        self,
        host: str,
        pid: int,
        names: TaskNames,
        tid_of: Callable[[int], int | None],
        blocked: frozenset[int],
        *,
        peers: Mapping[int, str],
    ) -> None:
        self._host = host
        self._pid = pid
        self._names = names
        self._tid_of = tid_of
        self._blocked = blocked
        self._peers = peers
        self.tasks: dict[str, Task] = {}
        self.read: dict[str, LoopTask] = {}
        self.frames: dict[str, tuple[Frame, ...]] = {}
        self.edges: dict[EdgeKey, Edge] = {}
        self.resources: dict[str, Resource] = {}
        self._givers: Named = {}

    def add(self, sample: LoopSample, givers: Named) -> None:
        """Add everything of a sample, and who gives what its tasks wait for."""
        self._givers = givers
        by_address = {task.address: self._names.of(task) for task in sample.loops.tasks}
        for task in sample.loops.tasks:
            self._task(task, by_address, sample)
        self._holders(by_address, sample)

    def _task(self, task: LoopTask, by_address: Mapping[int, str], sample: LoopSample) -> None:
        own = by_address[task.address]
        what = sample.awaits.get(task.address)
        thread = self._thread_of(task, sample)
        attributes = {}
        frame = user_frame(task.chain.frames)
        if frame is not None:
            attributes["at"] = frame.where
        if what is not None:
            by = what.by or self._peers.get(what.fd, "")
            attributes["awaits"] = what.label + (f" ({by})" if by else "")
        if task.cancelling:
            attributes["cancelled"] = _CANCELLING
        if task.chain.cut:
            attributes["note"] = "its chain of coroutines is too long: the innermost are missing"
        if task.running:
            state = TaskState.RUNNING
        elif task.address in sample.due:
            state = TaskState.READY
        else:
            state = TaskState.SUBMITTED
        outermost = task.chain.frames[-1].code.name.rpartition("<locals>.")[2] if task.chain.frames else None
        self.read[own] = task
        self.tasks[own] = Task(
            id=own,
            system=task.system,
            name=own.rpartition("/")[2],
            kernel=outermost,
            state=state,
            where=(thread,) if thread else (),
            attributes=attributes,
            facts=RequestFacts(held_up=True) if what is not None and _holds_up(what, sample) else None,
        )
        self.frames[own] = tuple(
            Frame(function=one.code.name, file=one.code.file, line=one.line, language="python")
            for one in task.chain.frames
        )
        if thread:
            self._edge(EdgeKind.RUNS_ON, own, thread, "its event loop")
            if task.loop in self._blocked and not task.running:
                where = sample.callbacks[task.loop][0].where
                self._edge(EdgeKind.WAITS_FOR, own, thread, f"its event loop is in a callback: {where}")
        if what is not None and not task.cancelling:
            self._wait(own, task, what, by_address, sample)

    def _wait(self, own: str, task: LoopTask, what: Await, by_address: Mapping[int, str], sample: LoopSample) -> None:
        timed = task.address in sample.timed
        frame = user_frame(task.chain.frames)
        where = f" in {frame.where}" if frame is not None else ""
        for other in what.tasks:
            if other in by_address:
                evidence = f"awaits task {other:#x} by {what.label}{where}"
                self._edge(EdgeKind.WAITS_FOR, own, by_address[other], evidence, timed=timed, any_of=True)
        if not what.kind:
            return
        target = ids.lock(what.kind, self._host, self._pid, what.address)
        loop = sample.loops.loops.get(task.loop)
        signals = loop is not None and loop.signals and what.kind != "pylock"
        if target not in self.resources:
            self.resources[target] = Resource(
                id=target,
                kind=what.kind,
                name=f"{what.name} {what.address:#x}",
                state=self._state_of(what, sample),
                outside=_SIGNAL if signals else "",
                idle=_EVENT if what.name.endswith(".Event") else "",
                lost=_LOST if what.address in sample.lost else "",
                facts=WaitedFacts(givers=given) if (given := self._givers.get(what.address)) else None,
                attributes={"type": what.name, "called in": frame.where if frame is not None else ""},
            )
        self._edge(EdgeKind.WAITS_FOR, own, target, f"awaits {what.label} {what.address:#x}{where}", timed=timed)

    def _state_of(self, what: Await, sample: LoopSample) -> str:
        if what.kind != "pylock":
            if what.kind != "future":
                return "waits to be notified"
            return _LOST if what.address in sample.lost else "who may complete it is not known"
        if len(sample.held.get(what.address, ())) == 1:
            return "locked"
        if not what.name.startswith("asyncio."):
            return "its owner has ended, or changes just now"
        return "locked; asyncio keeps no owner of a Lock, and no suspended task is inside `async with` of it"

    def _holders(self, by_address: Mapping[int, str], sample: LoopSample) -> None:
        for lock, holders in sample.held.items():
            target = ids.lock("pylock", self._host, self._pid, lock)
            if target not in self.resources or len(holders) != 1:
                continue
            ((address, held),) = holders
            if address in by_address:
                evidence = f"{self.resources[target].name}: {held.how}"
                self._edge(EdgeKind.HOLDS, by_address[address], target, evidence, inferred=held.inferred)

    def _thread_of(self, task: LoopTask, sample: LoopSample) -> str:
        loop = sample.loops.loops.get(task.loop)
        tid = self._tid_of(loop.thread) if loop is not None and loop.thread is not None else None
        return ids.thread(self._host, self._pid, tid) if tid is not None else ""

    def _edge(
        self,
        kind: EdgeKind,
        source: str,
        target: str,
        evidence: str,
        *,
        inferred: bool = False,
        timed: bool = False,
        any_of: bool = False,
    ) -> None:
        edge = Edge(
            kind=kind,
            source=source,
            target=target,
            evidence=evidence,
            inferred=inferred,
            timed=timed,
            any_of=any_of,
        )
        self.edges.setdefault(edge.key, edge)


def stacks_of(frames: Mapping[str, tuple[Frame, ...]], mono_ns: int = 0) -> list[Stack]:
    """Return chains of coroutines, by task, as stacks."""
    return [
        Stack(thread=own, frames=chain, taken_mono_ns=mono_ns, source="coroutines", layer="python")
        for own, chain in frames.items()
        if chain
    ]
