"""Publish the event loops of one Python process: tasks, their stacks, edges and resources, as they change.

Invariants:
    loop_watch.T1. A task is published only if it was in the first sample, or stayed at the same place from one sample
        to the next; at most MOST_PUBLISHED of a process.
    loop_watch.T2. Code that runs, or is about to, may cancel any task of its loop. Meanwhile a task is `timed` unless
        it has not run since it was found free of timers while nothing ran (loops.L3).
    loop_watch.T3. A wait is as old as the place at which its task waits: a task that got a lock and waits for it again,
        at another line or for another future, has begun a new wait. A future at the same address and line can't be
        told apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from msgspec import structs
from msgspec.structs import replace

from livedbg.adapters.python.awaits import LoopSample
from livedbg.adapters.python.givers import ProcessGivers
from livedbg.adapters.python.greenlet_loops import is_hub_run
from livedbg.adapters.python.loops import LoopState, TaskNames, sample_loops, stacks_of
from livedbg.adapters.python.processes import PythonProcess
from livedbg.adapters.python.status import Statuses
from livedbg.adapters.python.trio_loops import is_trio_step
from livedbg.cpython.event_loops import MOST_TASKS, LoopTask
from livedbg.cpython.greenlets import GreenletReader
from livedbg.cpython.heap import HeapReader
from livedbg.cpython.loop_modules import LoopModules
from livedbg.linux.procfs import BlockedSyscall, SyscallSeen
from livedbg.linux.sockets import Socket, SocketTable
from livedbg.model import EdgeKey, EdgeKind, Frame, SourceHealth, Task, TaskState, ids
from livedbg.model.facts import RequestFacts, facts_of
from livedbg.session.adapter import Context
from livedbg.session.publisher import Publisher
from livedbg.session.sources import StackSources

_TRIES: Final = 3


class Peers:
    """Names of the remote ends of a process's sockets.

    Each is looked up once, or up to three times if the kernel's list lacks it: a list that changes while it is read
    misses entries.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._known: dict[str, str] = {}
        self._missed: dict[str, int] = {}

    def of(self, descriptors: Iterable[int]) -> dict[int, str]:
        """Map socket descriptors to `a socket to 10.0.0.2:443`; other descriptors are left out. Blocking."""
        links: dict[int, str] = {}
        for number in descriptors:
            try:
                link = str(Path(f"/proc/{self._pid}/fd/{number}").readlink())
            except OSError:
                continue
            if link.startswith("socket:["):
                links[number] = link
        new = {link for link in links.values() if link not in self._known and self._missed.get(link, 0) < _TRIES}
        if new:
            table = SocketTable(self._pid)
            for link in new:
                found = table.get(int(link[8:-1]))
                if found is not None:
                    self._known[link] = _named(found)
                else:
                    self._missed[link] = self._missed.get(link, 0) + 1
        self._known = {link: name for link, name in self._known.items() if link in links.values()}
        self._missed = {link: count for link, count in self._missed.items() if link in links.values()}
        return {number: self._known.get(link, "a socket") for number, link in links.items()}


def _named(found: Socket) -> str:
    if found.remote:
        return f"a socket to {found.remote}"
    if found.listening:
        return f"connections to {found.local}"
    return "a Unix socket" if found.protocol == "unix" else "a socket"


MOST_PUBLISHED: Final = 10_000
"""Tasks of one process that the state gets to know; it keeps them after their end."""

_RUN_ONCE: Final = "BaseEventLoop._run_once"
_UNSEEN: Final = (
    "{label}: {what} runs, but its tasks can't be read in this version; only the threads are seen. "
    "A deadlock between tasks is not."
)
_OTHERS: Final = (
    "{what} is loaded: livedbg doesn't read its tasks, so a deadlock between them is not seen. "
    "A task dump of the program's own would tell ({dump})."
)
_DUMPS: Final = {"trio": "trio's instruments", "greenlet": "gevent.util.print_run_info", "curio": "curio's monitor"}
_CUT: Final = f"More than {MOST_TASKS:,} tasks of event loops, or much memory: the others are not seen."
_FULL: Final = f"More than {MOST_PUBLISHED:,} tasks have come and gone: new ones are not shown any more."
_UNREADABLE: Final = "The tasks of event loops can't be read, because they change while they are read."


Frames: TypeAlias = tuple[Frame, ...]
_NO_FRAMES: Final[tuple[Frames, Frames]] = ((), ())


class LoopReading(NamedTuple):
    """A sample, and its entities, edges and stacks."""

    sample: LoopSample
    state: LoopState


class LoopWatch:
    """The event loops of one process."""

    def __init__(self, process: PythonProcess, context: Context, statuses: Statuses, givers: ProcessGivers) -> None:
        self._process = process
        self._givers = givers
        self._context = context
        self._statuses = statuses
        self._out = Publisher(f"python/{ids.process(context.request.host, process.pid)}/tasks")
        self._names = TaskNames(context.request.host, process.pid)
        reader = process.reader
        layout = process.interpreter.layout
        self._heap = HeapReader(reader.objects) if reader is not None and layout is not None and layout.tasks else None
        self._modules = LoopModules(self._heap) if self._heap is not None else None
        self._greenlets = GreenletReader(self._heap, reader) if self._heap is not None and reader is not None else None
        self._peers = Peers(process.pid)
        self._places: dict[str, object] = {}
        self._since: dict[object, int] = {}
        self._published: set[str] = set()
        self._untimed: set[object] = set()
        self._moved: set[str] = set()
        self._read: dict[str, tuple[Frames, Frames]] = {}
        self._first = True

    def sample(self) -> LoopReading | None:
        """Sample the loops, None if unreadable in this version; OSError if the process is gone. Call it in a thread."""
        reader = self._process.reader
        if self._heap is None or self._modules is None or reader is None or self._greenlets is None:
            return None
        read = partial(sample_loops, reader, self._heap, self._modules, self._greenlets)
        sample = read()
        before: Mapping[int, SyscallSeen] = {}
        after = before
        if sample.callbacks:
            before = self._process.calls()
            sample = read()
            after = self._process.calls()
        sample = self._settled(sample)
        blocked = set()
        for loop in sample.callbacks:
            tid = self._process.tid_of(sample.loops.loops[loop].thread or 0)
            call = before.get(tid) if tid is not None else None
            if tid is not None and isinstance(call, BlockedSyscall) and call == after.get(tid):
                blocked.add(loop)
        peers = self._peers.of({what.fd for what in sample.awaits.values() if what.fd >= 0})
        host, tid_of = self._context.request.host, self._process.tid_of
        state = LoopState(host, self._process.pid, self._names, tid_of, frozenset(blocked), peers=peers)
        state.add(sample, self._givers.of_tasks(sample, self._names.of))
        return LoopReading(sample, state)

    async def add_sources(self, reading: LoopReading | None, sources: StackSources) -> None:
        """Add the source lines of their places to the stacks of tasks; those of a task that has not run are known."""
        frames = reading.state.frames if reading is not None else {}
        new = [stack for stack in stacks_of(frames) if self._read.get(stack.thread, _NO_FRAMES)[0] != stack.frames]
        self._read = {own: read for own, read in self._read.items() if own in frames}
        for stack, found in zip(new, await sources.added(self._process.pid, new) if new else (), strict=True):
            self._read[stack.thread] = (stack.frames, found.frames)

    def _settled(self, sample: LoopSample) -> LoopSample:
        """Mark as `timed` the tasks that running code may cancel (T2)."""
        restless = {loop.address for loop in sample.loops.loops.values() if loop.current or loop.ready}
        places = {task.address: (task.address, _place(task)) for task in sample.loops.tasks}
        unsure = {task.address for task in sample.loops.tasks if task.loop in restless or not task.steady}
        timed = sample.timed | {address for address in unsure if places[address] not in self._untimed}
        self._untimed = {place for address, place in places.items() if address not in timed}
        return replace(sample, timed=frozenset(timed))

    def emit(self, reading: LoopReading | None) -> None:
        """Publish what has changed."""
        if reading is None:
            self._unseen()
            return
        self._describe(reading.sample)
        state = reading.state
        self._names.keep(state.read)
        shown = self._shown(state)
        stamp = self._context.stamp()
        now = stamp["mono_ns"]
        states = ((own, task.state, self._places[own]) for own, task in state.tasks.items())
        dated = (*map(self._dated_by, state.edges), *states)
        self._since = {key: self._since.get(key, now) for key in dated}
        tasks = {own: self._dated(state.tasks[own]) for own in shown}
        edges = tuple(
            structs.replace(edge, since_mono_ns=self._since[self._dated_by(key)])
            for key, edge in state.edges.items()
            if _ends_in(key, shown)
        )
        ends = {edge.target for edge in edges}
        resources = tuple(resource for resource in state.resources.values() if resource.id in ends)
        read = {own: self._read.get(own, ((), frames))[1] for own, frames in state.frames.items() if own in tasks}
        stacks = stacks_of(read, now)
        self._first = False
        self._context.emit(
            *self._out.show(stamp, tasks=tasks.values(), stacks=stacks, resources=resources, edges=edges)
        )

    def unreadable(self) -> None:
        """Report that the tasks could not be read, and withdraw their waits."""
        if self._out.tasks:
            self._statuses.report(self._process.pid, SourceHealth.DEGRADED, "tasks-unreadable", _UNREADABLE)
            self.forget()

    def forget(self) -> None:
        """Remove the edges from the graph."""
        self._context.emit(*self._out.show(self._context.stamp(), edges=()))

    def _shown(self, state: LoopState) -> set[str]:
        """Return the published tasks (T1)."""
        places: dict[str, object] = {own: _place(task) for own, task in state.read.items()}
        stayed = {own for own, place in places.items() if self._first or self._places.get(own) == place}
        ran = {own for own, place in places.items() if self._places.get(own, place) != place}
        self._moved = {own for own in self._moved | ran if own in places}
        self._places = places
        shown = {own for own in state.tasks if own in self._published or own in stayed}
        new = sorted(shown - self._published)
        room = MOST_PUBLISHED - len(self._published)
        if len(new) > room:
            shown -= set(new[max(0, room) :])
            self._statuses.report(self._process.pid, SourceHealth.DEGRADED, "tasks-full", _FULL)
        self._published |= shown
        return shown

    def _dated(self, task: Task) -> Task:
        if task.id in self._moved:
            task = structs.replace(task, facts=structs.replace(facts_of(task.facts, RequestFacts), moved=True))
        if task.state is TaskState.RUNNING:
            return task
        return structs.replace(task, since_mono_ns=self._since[task.id, task.state, self._places[task.id]])

    def _dated_by(self, key: EdgeKey) -> object:
        """Return a key that changes when a task has run and waits for the same thing again (T3)."""
        return (key, self._places.get(key.source)) if key.kind is EdgeKind.WAITS_FOR else key

    def _unseen(self) -> None:
        """Report loops whose tasks can't be read."""
        frames = [frame for thread in self._process.last.threads.values() for frame in thread.frames]
        found = {
            "asyncio": any(frame.code.name == _RUN_ONCE for frame in frames),
            "trio": any(is_trio_step(frame) for frame in frames),
            "gevent": any(is_hub_run(frame) for frame in frames),
        }
        what = " and ".join(name for name, runs in found.items() if runs)
        if what:
            sentence = _UNSEEN.format(label=self._process.interpreter.label, what=what)
            self._statuses.report(self._process.pid, SourceHealth.DEGRADED, "tasks-unseen", sentence)

    def _describe(self, sample: LoopSample) -> None:
        pid = self._process.pid
        if sample.loops.cut:
            self._statuses.report(pid, SourceHealth.DEGRADED, "tasks-cut", _CUT)
        self._statuses.recovered(pid, "tasks-unreadable", *(() if sample.loops.cut else ("tasks-cut",)))
        for other in sorted(sample.others):
            sentence = _OTHERS.format(what=other, dump=_DUMPS[other])
            self._statuses.report(pid, SourceHealth.DEGRADED, f"{other}-unseen", sentence)


def _place(task: LoopTask) -> object:
    """Return a value that changes when a task runs."""
    return task.waiter, task.pending, task.chain.stamp


def _ends_in(key: EdgeKey, shown: set[str]) -> bool:
    return all(end in shown for end in (key.source, key.target) if end.startswith("task:"))
