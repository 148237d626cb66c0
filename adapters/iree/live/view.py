"""Convert scans of one process to tasks, semaphores and edges.

If workgroups are not counted, an operation's running dispatch, and since when, comes from the stacks that found it.

Invariants:
    iree_view.W1. An operation is published only if two consecutive scans found it: a program that makes progress
        emits next to nothing.
    iree_view.W2. A running dispatch begins with the first scan since which no workgroup was begun or finished;
        if workgroups are not counted, with the first stack since which no other dispatch of its operation was seen.
    iree_view.W3. If the command buffers of several operations have the running dispatch, none is said to run it.
    iree_view.W4. An object with the address and signals of an operation of the last scan that may be another one
        (iree_shot.T4) counts as found once: it begins with this scan, and will get a name of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct, structs

from livedbg.adapters.iree.facts import WORKGROUPS, DispatchFacts, SemaphoreFacts, iree_task
from livedbg.adapters.iree.live.loops import Loop, OnStack
from livedbg.adapters.iree.live.operations import Names, Operation, Point
from livedbg.adapters.iree.live.recordings import (
    Command,
    Loose,
    Recording,
    active_in,
    begun,
    facts_of_command,
    lines_of,
    mark_of,
    one_of,
    state_of,
    with_loops,
)
from livedbg.adapters.iree.live.shot import Shot
from livedbg.adapters.iree.live.waits import Outsiders
from livedbg.model import Edge, EdgeKind, Process, Resource, Task, TaskState, ids


class Turn(Struct, frozen=True):
    """The running dispatch.

    Attributes:
        since_ns: CLOCK_MONOTONIC of the first stack since which no other one was seen.
        before: name of the previous one; "" if none was seen.
    """

    index: int
    name: str
    since_ns: int
    before: str = ""


_Key: TypeAlias = tuple[int, tuple[Point, ...], int]
_OUTSIDERS: Final = 3  # threads that are named
NO_LOOPS: Final[Mapping[str, Loop]] = MappingProxyType({})
_MOST_COMMANDS: Final = 500


class Shown(NamedTuple):
    """Entities to publish now."""

    tasks: dict[str, Task]
    resources: dict[str, Resource]
    edges: tuple[Edge, ...]
    counters: dict[tuple[str, str], tuple[float, float | None]]


class _Seen(Struct):
    """An operation over several scans.

    Attributes:
        since_ns: CLOCK_MONOTONIC of the first scan.
        looks: number of scans.
        mark: progress of its recording.
        mark_since_ns: time of the last progress.
    """

    signals: tuple[Point, ...]
    since_ns: int
    looks: int = 1
    mark: tuple[int, ...] = ()
    mark_since_ns: int = 0


class View:
    """The scans of one process; its tasks' names have a prefix if several processes have tasks."""

    def __init__(self, host: str, process: Process, prefix: str = "") -> None:
        self._host = host
        self._process = process
        self._names = Names(prefix)
        self._seen: dict[int, _Seen] = {}
        self._ended: Counter[tuple[int, tuple[Point, ...]]] = Counter()  # of those that were shown
        self._loose = Loose(self._names, process.id)
        self._turns: dict[_Key, Turn] = {}  # what the operations run
        self._shot: Shot | None = None

    def take(self, shot: Shot, mono_ns: int) -> None:
        for address, known in self._seen.items():
            if known.looks > 1 and address not in shot.same:
                self._ended[address, known.signals] += 1
        seen: dict[int, _Seen] = {}
        for address, one in shot.operations.items():
            before = self._seen.get(address)
            entry = seen[address] = _Seen(one.signals, mono_ns, mark_since_ns=mono_ns)
            mark = mark_of(shot.recordings.get(one.command_buffer))
            if before is not None and address in shot.same:
                entry.since_ns, entry.looks = before.since_ns, before.looks + 1
                entry.mark_since_ns = before.mark_since_ns if before.mark == mark else mono_ns
            entry.mark = mark
        self._seen, self._shot = seen, shot

    def still(self, mono_ns: int) -> bool:
        """Return whether something has made no progress since an earlier scan, or runs unexplained by any queue."""
        return self._loose.any or any(seen.looks > 1 and seen.mark_since_ns < mono_ns for seen in self._seen.values())

    def shown(self, running: list[OnStack], outsiders: Outsiders, looping: Mapping[str, Loop] = NO_LOOPS) -> Shown:
        """Return what to publish, given the running dispatches, possible signallers, and looping threads."""
        tasks: dict[str, Task] = {}
        edges: list[Edge] = []
        points: set[Point] = set()
        shot = self._shot
        standing = {at: one for at, one in shot.operations.items() if self._seen[at].looks > 1} if shot else {}
        active = self._active(shot, standing, running) if shot is not None else {}
        for one in standing.values():
            self._operation(one, active.get(one.address, ()), running=running, tasks=tasks, edges=edges)
            points.update(one.waits)
        edges += self._loose.shown(running, tasks, looping)
        if shot is not None:
            for wait in shot.host:
                if self._ends_in(wait.point, standing, shot):
                    points.add(wait.point)
                    thread = ids.thread(self._host, self._process.pid, wait.tid)
                    edges.append(self._wait(thread, wait.point))
            for point in points & shot.waits.producers.keys():
                producer = standing.get(shot.waits.producers[point])
                if producer is not None:
                    text = f"its signal list: value {point.value} or more"
                    edges.append(
                        Edge(kind=EdgeKind.HOLDS, source=self._task(producer), target=self._sem(point), evidence=text)
                    )
        resources = {one.id: one for one in self._resources(points, outsiders)}
        tasks = {name: with_loops(task, looping) for name, task in tasks.items()}
        return Shown(tasks, resources, tuple(edges), dict(self._counted()))

    def _counted(self) -> Iterator[tuple[tuple[str, str], tuple[int, int]]]:
        """Yield the begun and total workgroups of each command buffer."""
        shot = self._shot
        for one in shot.operations.values() if shot is not None else ():
            recording = shot.recordings.get(one.command_buffer) if shot is not None else None
            done = begun(recording) if recording is not None and not one.blocked else None
            if done is not None:
                yield (self._task(one), WORKGROUPS), done

    def _ends_in(self, point: Point, standing: Mapping[int, Operation], shot: Shot) -> bool:
        """Return whether a thread waits for a stuck operation, or for a point that nobody signals."""
        return point in shot.waits.missing or shot.waits.producers.get(point) in standing

    def _task(self, one: Operation) -> str:
        return self._names.task(one.kind, self._generation(one))

    def _generation(self, one: Operation) -> _Key:
        """Return a key that distinguishes an operation from former ones with its address and signals.

        Other operations share their names, so that a program that makes progress doesn't create ever more names.
        """
        return one.address, one.signals, self._ended[one.address, one.signals]

    def _sem(self, point: Point) -> str:
        return self._names.semaphore(self._host, self._process.pid, point)

    def _wait(self, source: str, point: Point) -> Edge:
        assert self._shot is not None
        value = self._shot.semaphores[point.semaphore].value
        text = f"in the semaphore's list of waits: value {point.value}, it is at {value}"
        return Edge(kind=EdgeKind.WAITS_FOR, source=source, target=self._sem(point), evidence=text)

    def _active(
        self, shot: Shot, standing: Mapping[int, Operation], running: list[OnStack]
    ) -> dict[int, tuple[Command, ...]]:
        """Map operations to the commands that may run now; () if not known (W3)."""
        found: dict[int, tuple[Command, ...]] = {}
        counted = set[int]()
        shares = Counter(one.device for one in standing.values() if not one.blocked)
        for at, one in standing.items():
            recording = shot.recordings.get(one.command_buffer)
            if recording is not None and not one.blocked:
                found[at] = tuple(active_in(recording, running, alone=shares[one.device] == 1))
                counted.update({at} if recording.progress is not None else ())
        owners = Counter(command.dispatch for commands in found.values() for command in commands)
        for at, commands in found.items():
            if at not in counted and any(owners[command.dispatch] > 1 for command in commands):
                found[at] = ()
        kept = {self._generation(standing[at]) for at in found}
        self._turns = {key: turn for key, turn in self._turns.items() if key in kept}
        return found

    def _operation(
        self,
        one: Operation,
        active: tuple[Command, ...],
        *,
        running: list[OnStack],
        tasks: dict[str, Task],
        edges: list[Edge],
    ) -> None:
        assert self._shot is not None
        seen, name = self._seen[one.address], self._task(one)
        recording = self._shot.recordings.get(one.command_buffer)
        unknown = recording is not None and not one.blocked and not active
        commands = one_of(recording) if recording is not None and unknown else ""
        tasks[name] = iree_task(
            name,
            None,
            TaskState.SUBMITTED if one.blocked else TaskState.RUNNING,
            since_mono_ns=seen.since_ns,
            where=(one.device,),
            owner=self._process.id,
            facts=DispatchFacts(operation=one.kind, device=one.device, one_of=commands),
        )
        edges += [self._wait(name, point) for point in one.waits]
        if recording is not None:
            self._commands(one, recording, active, running=running, tasks=tasks, edges=edges)

    def _commands(
        self,
        one: Operation,
        recording: Recording,
        active: tuple[Command, ...],
        *,
        running: list[OnStack],
        tasks: dict[str, Task],
        edges: list[Edge],
    ) -> None:
        operation, seen = self._task(one), self._seen[one.address]
        progress = None if one.blocked else recording.progress
        first = min((command.region for command in active), default=0)
        busy = [self._command(one, command) for command in active]
        for number, command in enumerate(recording.commands):
            waits = command not in active
            if command.dispatch is None or (waits and command.region < first) or number >= _MOST_COMMANDS:
                continue
            if waits and not one.blocked and not active:
                continue  # what of it is done is not known
            name = self._command(one, command)
            here = [on for on in running if on.dispatch == command.dispatch and not waits]
            threads = tuple(on.thread for on in here)
            facts = facts_of_command(command, progress, one.device, waits=waits)
            since_ns = seen.since_ns if waits else seen.mark_since_ns
            if not waits and progress is None:
                turn = self._turn(self._generation(one), command.index, command.dispatch.name, here, since_ns)
                since_ns = turn.since_ns
                facts = structs.replace(facts, after=turn.before)
            tasks[name] = iree_task(
                name,
                command.dispatch.name,
                TaskState.SUBMITTED if waits else state_of(command, progress),
                since_mono_ns=since_ns,
                where=(one.device, *threads),
                owner=self._process.id,
                facts=structs.replace(facts, lines=lines_of(here), operation=operation),
            )
            edges += [Edge(kind=EdgeKind.RUNS_ON, source=name, target=thread) for thread in threads]
            if waits and busy:
                text = f"a barrier of the command buffer: region {command.region} begins when region {first} is done"
                edges += [Edge(kind=EdgeKind.DEPENDS_ON, source=name, target=other, evidence=text) for other in busy]
            elif waits:
                text = "the command buffer has not begun"
                edges.append(Edge(kind=EdgeKind.DEPENDS_ON, source=name, target=operation, evidence=text))
            else:
                text = "the command buffer ends when its dispatches have"
                edges.append(Edge(kind=EdgeKind.WAITS_FOR, source=operation, target=name, evidence=text))

    def _turn(self, operation: _Key, index: int, name: str, running: Sequence[OnStack], since_ns: int) -> Turn:
        """Note that an operation runs one of its commands.

        Args:
            index: number of the command.
            name: of its dispatch.
            running: stacks as evidence; none if it is the only command.
            since_ns: the first scan of the operation.
        """
        turn = self._turns.get(operation)
        if turn is None or turn.index != index:
            begun_ns = max(since_ns, min((on.taken_mono_ns for on in running), default=since_ns))
            before = turn.name if turn is not None else next((on.before for on in running if on.before), "")
            turn = self._turns[operation] = Turn(index, name, begun_ns, before)
        return turn

    def _command(self, one: Operation, command: Command) -> str:
        assert command.dispatch is not None
        return self._names.task(command.dispatch.name, (*self._generation(one), command.index))

    def _resources(self, points: set[Point], outsiders: Outsiders) -> Iterator[Resource]:
        shot = self._shot
        if shot is None:
            return
        numbers = {at: number for number, at in enumerate(sorted({point.semaphore for point in points}), 1)}
        for point in points:
            value = shot.semaphores[point.semaphore].value
            missing = point in shot.waits.missing
            facts = SemaphoreFacts(
                value=value,
                wanted=point.value,
                process=self._process.id,
                missing=missing,
                later=shot.waits.later.get(point) if missing else None,
                until="work in flight ends" if outsiders.names and outsiders.wait else "",
                outsiders=outsiders.threads[:_OUTSIDERS],
            )
            yield Resource(
                id=self._sem(point),
                kind="sem",
                name=f"semaphore {numbers[point.semaphore]} at value {point.value}",
                state=f"at {value}",
                outside=f"{', '.join(outsiders.names[:_OUTSIDERS])} could signal it" if outsiders.names else "",
                facts=facts,
            )
