"""How the event loops of a process appear in the state: tasks, their stacks, resources and edges.

Edges (scope `python/<process id>/tasks`):
    task  runs_on    thread           that of its event loop
    task  waits_for  pylock           asyncio.Lock, trio.Lock
    task  holds      pylock           asyncio: it is inside `async with` of the lock; trio: the lock names it
    task  waits_for  cond, sem        Event, Condition, Queue, Barrier, a channel; Semaphore, CapacityLimiter
    task  waits_for  future           a bare future
    task  waits_for  task             a task, gather, wait, TaskGroup, shield, a nursery
    task  waits_for  thread           its loop's thread is blocked in a callback
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from livedbg.adapters.python.awaits import Await, user_frame
from livedbg.adapters.python.loop_sample import LoopSample
from livedbg.cpython.event_loops import LoopTask
from livedbg.model import Edge, EdgeKey, EdgeKind, Frame, Resource, Stack, Task, TaskState, ids

_MOST_NAME: Final = 60
_LOST: Final = "nothing but its waiters refers to it"
_CANCELLING: Final = "was asked to end (cancelled)"


class TaskNames:
    """Identifiers of the tasks of a process: by name where that is its own, and stable while the task lives.

    Args:
        host: the host's name.
        pid: the process.
    """

    def __init__(self, host: str, pid: int) -> None:
        self._prefix = (host, str(pid))
        self._known: dict[tuple[int, str], str] = {}
        self._taken: dict[str, tuple[int, str]] = {}

    def of(self, task: LoopTask) -> str:
        """The identifier of a task."""
        key = (task.address, task.name)
        if key not in self._known:
            name = task.name.replace("/", "_")[:_MOST_NAME] or "?"
            if name in self._taken:
                name = f"{name}@{task.address:#x}"
            self._taken[name] = key
            self._known[key] = name
        return ids.task(task.system, *self._prefix, self._known[key])

    def keep(self, tasks: Mapping[str, LoopTask]) -> None:
        """Forget those that have ended."""
        alive = {(task.address, task.name) for task in tasks.values()}
        for key in [key for key in self._known if key not in alive]:
            del self._taken[self._known.pop(key)]


class LoopState:
    """Entities and edges of one sample.

    Args:
        host: the host's name.
        pid: the process.
        names: identifiers of its tasks.
        tid_of: our number of a thread, by its `threading.get_ident()`.
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

    def add(self, sample: LoopSample) -> None:
        """Add everything that a sample found."""
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
        if target not in self.resources:
            self.resources[target] = Resource(
                id=target,
                kind=what.kind,
                name=f"{what.name} {what.address:#x}",
                state=self._state_of(what, sample),
                lost=_LOST if what.address in sample.lost else "",
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

    def stacks(self, mono_ns: int) -> list[Stack]:
        """The chains of coroutines as stacks."""
        return [
            Stack(thread=own, frames=frames, taken_mono_ns=mono_ns, source="coroutines", layer="python")
            for own, frames in self.frames.items()
            if frames
        ]

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
