"""The adapter for collectives: reads the Flight Recorders of all ranks, and puts what stands on the stream as tasks.

Invariants:
    collectives_adapter.C1. No target is stopped, and nothing is set or run in it: its memory is read.
    collectives_adapter.C2. What does not stand (joined.J1) is no task: a healthy job puts next to nothing
        on the stream.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from msgspec import structs

from livedbg.adapters.pytorch.collectives.counters import ENQUEUED, MESSAGES
from livedbg.adapters.pytorch.collectives.exchanges import exchanges
from livedbg.adapters.pytorch.collectives.families import Ended, without_copies
from livedbg.adapters.pytorch.collectives.inside import waits_in_collective
from livedbg.adapters.pytorch.collectives.jobs import jobs_of, known_ended, meeting_of, of_jobs, rpc_workers, said_calls
from livedbg.adapters.pytorch.collectives.joined import Look, join, standing
from livedbg.adapters.pytorch.collectives.late import late_diagnostic, latecomers
from livedbg.adapters.pytorch.collectives.messages import Messages
from livedbg.adapters.pytorch.collectives.newest import reached
from livedbg.adapters.pytorch.collectives.peeks import Peeks, counts_of, rest
from livedbg.adapters.pytorch.collectives.python_calls import INIT, STORE, WORK
from livedbg.adapters.pytorch.collectives.ranks import RankReader, RankSeen
from livedbg.adapters.pytorch.collectives.tasks import (
    collective_edges,
    collective_task,
    entrants,
    exchange_edges,
    exchange_task,
    receiving,
    thread_of,
    with_meeting,
)
from livedbg.adapters.pytorch.collectives.traffic import bytes_under_way
from livedbg.adapters.pytorch.rpc.frames import RpcThread
from livedbg.adapters.pytorch.rpc.tasks import rpc_events
from livedbg.analysis.ranks import REACHED
from livedbg.model import (
    Diagnostic,
    Edge,
    SourceHealth,
    SourceStatus,
    Task,
    TaskState,
    ids,
)
from livedbg.model.events import CounterSeen, DiagnosticSeen, EdgesReplaced, Event, RanksSeen, StatusSeen, TasksSeen
from livedbg.model.snapshot import Snapshot
from livedbg.session.adapter import Adapter, Context, Request, processes_seen, targets_ended
from livedbg.session.pacing import Cost, Limit, Stopwatch, timed

__all__ = ["CollectivesAdapter"]

_PATIENCE_S: Final = 5.0
_STACKS_S: Final = 20.0  # a busy machine
_APART_S: Final = 0.5  # two looks of a session that samples once
_LIMIT: Final = Limit(cpu=0.004, least_s=1.0, most_s=10.0)
_RANK_BY: Final = "its process groups"
_SCOPE: Final = "pytorch/collectives"
_ANY: Final = frozenset({0})
"""Some thread."""


class CollectivesAdapter(Adapter):
    """Collectives of the processes of a session that use torch.distributed."""

    name = "collectives"
    sees = "collectives of torch.distributed that stand, which ranks are in them, and which are not"
    cost = "no stop; reads the Flight Recorder of each rank from memory, every 15 s while all go on, else each second"

    def __init__(self) -> None:
        self._readers: dict[tuple[str, int | None], RankReader] = {}
        self._before: dict[str, Look] = {}
        self._rpc: dict[str, tuple[RpcThread, ...]] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._messages = Messages()
        self._peeks = Peeks()
        self._ended = Ended()
        self._tasks: dict[str, Task] = {}
        self._edges: tuple[Edge, ...] = ()
        self._slow: dict[str, Diagnostic] = {}
        self._said: dict[str, SourceStatus] = {}
        self._lock = asyncio.Lock()
        self._looked_s = 0.0

    @classmethod
    def applies(cls, request: Request) -> bool:
        """When processes are watched."""
        return bool(request.processes)

    async def run(self, context: Context) -> None:
        """Look until the targets have ended; a session that samples once looks twice."""
        await processes_seen(context)
        ranks, cost = await self._look(context)
        if context.request.once:
            if ranks:
                await context.sleep(_APART_S)
                await self._stacks(context, ranks)
                await self._look(context)
            context.settled()
            return
        context.settled()
        known, stopped = 0, False
        while not targets_ended(context):
            fresh = len(ranks) > known  # what found them has a cost that comes once
            known = len(ranks)
            pause_s = _LIMIT.least_s if fresh or stopped else _LIMIT.rest_s(cost)
            stopped = await rest(context, partial(self._peek, context), pause_s)
            ranks, cost = await self._look(context)

    async def _peek(self, context: Context) -> bool:
        """Whether every rank has enqueued something since the last peek."""
        counts = await asyncio.to_thread(counts_of, list(self._readers.values()))
        known = {process: count for process, count in counts.items() if (process, ENQUEUED) in self._counts}
        self._say({(process, ENQUEUED): count for process, count in known.items()}, context)
        return self._peeks.take(known)

    async def _stacks(self, context: Context, ranks: Sequence[RankSeen]) -> None:
        """Wait for the stacks of those who have something pending: only these say whether a thread waits for it. The
        Python frames of one that waits for what it enqueued or posted before don't."""
        wanted = {thread for rank in ranks for thread in _threads(rank, context.request.host)}
        posted = {thread for rank in ranks for thread in _posted(rank, context.request.host)}
        begun = time.monotonic()
        while wanted and context.request.stacks != "none" and not targets_ended(context):
            known = context.snapshot().stacks
            stacks = [known.get(thread) for thread in wanted]
            native = {thread for thread in wanted if thread in known and known[thread].layer != "python"}
            if all(one in native or (one not in posted and waits_in_collective(known.get(one))) for one in wanted):
                return
            if time.monotonic() - begun > (_PATIENCE_S if None not in stacks else _STACKS_S):
                return
            await context.sleep(0.05)

    async def reread(self, context: Context) -> None:
        """Look again, but not at once: what stands shows between two looks that are some time apart."""
        if self._before or self._tasks:
            await asyncio.sleep(max(0.0, self._looked_s + _APART_S - time.monotonic()))
            await self._look(context)

    async def _look(self, context: Context) -> tuple[list[RankSeen], Cost]:
        async with self._lock:
            try:
                return await self._look_alone(context)
            finally:
                self._looked_s = time.monotonic()

    async def _look_alone(self, context: Context) -> tuple[list[RankSeen], Cost]:
        watch = Stopwatch()
        snapshot = context.snapshot()
        living = [process for process in snapshot.processes.values() if process.target and not process.exited]
        seen: list[RankSeen] = []
        spent_s = 0.0
        for process in living:
            key = (process.id, process.start_ticks)
            reader = self._readers.setdefault(key, RankReader(process))
            try:
                rank, cost = await asyncio.to_thread(timed, reader.read, process)
            except OSError:
                continue  # gone, or not ours to look at: the process adapter says so
            spent_s += cost.cpu_s
            self._tell(reader, context)
            if rank is not None:
                seen.append(rank)
        alive = {(process.id, process.start_ticks) for process in living}
        self._readers = {key: reader for key, reader in self._readers.items() if key in alive}
        seen = of_jobs(without_copies(seen, snapshot))
        if seen or self._tasks:
            self._number(seen, snapshot, context)
            self._count(seen, snapshot, context)
            self._put(seen, snapshot, context)
            self._late(seen, snapshot, context)
        own = watch.cost()
        return seen, Cost(own.cpu_s + spent_s, own.wall_s)

    def _number(self, seen: Sequence[RankSeen], snapshot: Snapshot, context: Context) -> None:
        """Say the ranks that the environment does not tell."""
        self._name({rank.look.process: rank.look.rank for rank in seen}, snapshot, context)

    @staticmethod
    def _name(ranks: Mapping[str, int], snapshot: Snapshot, context: Context) -> None:
        fresh = {process: rank for process, rank in ranks.items() if snapshot.processes[process].rank != rank}
        if fresh:
            context.emit(RanksSeen(ranks=fresh, by=_RANK_BY, **context.stamp()))

    def _count(self, seen: Sequence[RankSeen], snapshot: Snapshot, context: Context) -> None:
        """How many collectives each rank has enqueued so far, which is its newest in each group, and its messages."""
        looks = [rank.look for rank in seen if rank.look.initialised]
        counts = {(look.process, ENQUEUED): sum(ring.count for ring in look.rings) for look in looks}
        self._messages.keep([rank.look.process for rank in seen])
        for rank in seen:
            process = rank.look.process
            counts[process, MESSAGES] = self._messages.of(rank, snapshot.threads_of(process))
        for (process, group), number in reached(looks).items():
            counts[process, REACHED + group] = number
        self._counts = {key: count for key, count in self._counts.items() if key in counts}
        self._say(counts, context)

    def _say(self, counts: Mapping[tuple[str, str], int], context: Context) -> None:
        """Put counts on the stream that have changed."""
        for (process, name), count in counts.items():
            if self._counts.get((process, name)) != count:
                context.emit(CounterSeen(entity=process, name=name, value=float(count), **context.stamp()))
        self._counts |= counts

    def _put(self, seen: Sequence[RankSeen], snapshot: Snapshot, context: Context) -> None:
        """What has changed in what stands."""
        stamp = context.stamp()
        tasks: dict[str, Task] = {}
        edges: list[Edge] = []
        for number, job in enumerate(jobs_of(seen, snapshot)):
            looks = [rank.look for rank in job]
            by_rank = {look.rank: look for look in looks}
            prefix = f"{number + 1}." if number else ""
            stands = {look.rank: standing(self._before.get(look.process), look) for look in looks}
            moved = {look.rank: _moved_by(self._before.get(look.process), look) for look in looks}
            ended = self._ended.of(job, meeting_of(job[0], snapshot), snapshot)
            self._name({process: rank for rank, process in ended.items() if process}, snapshot, context)
            for one in join(looks, stands):
                task = collective_task(one, prefix, by_rank, moved, ended, receiving=receiving(one, job, snapshot))
                task = structs.replace(task, attributes=task.attributes | entrants(one, job, context.request.host))
                tasks[task.id] = task
                edges += collective_edges(task.id, one, job, snapshot, context.request.host)
            called, calls = said_calls(job, self._before, snapshot, context.request.host)
            for exchange in exchanges(called, calls, _crosses):
                task = exchange_task(exchange, prefix, by_rank, moved, known_ended(exchange, ended, job, snapshot))
                if exchange.name == INIT:
                    task = with_meeting(task, [by_rank[rank].process for rank in exchange.calls], snapshot)
                tasks[task.id] = task
                edges += exchange_edges(task.id, exchange, job, context.request.host)
            requests, asked = rpc_events(rpc_workers(job, context.request.host), self._rpc)
            tasks |= {task.id: task for task in requests}
            edges += asked
        self._before = {rank.look.process: rank.look for rank in seen}
        self._rpc = {rank.look.process: rank.rpc for rank in seen}
        gone = [
            structs.replace(task, state=TaskState.COMPLETED, since_mono_ns=stamp["mono_ns"])
            for name, task in self._tasks.items()
            if name not in tasks
        ]
        changed = [task for name, task in tasks.items() if self._tasks.get(name) != task]
        events: list[Event] = []
        if changed or gone:
            events.append(TasksSeen(tasks=(*changed, *gone), **stamp))
        if tuple(edges) != self._edges:
            events.append(EdgesReplaced(scope=_SCOPE, edges=tuple(edges), **stamp))
        self._tasks, self._edges = tasks, tuple(edges)
        context.emit(*events)

    def _late(self, seen: Sequence[RankSeen], snapshot: Snapshot, context: Context) -> None:
        """Say which ranks come late, and which no longer do."""
        jobs = ([rank.look for rank in job] for job in jobs_of(seen, snapshot))
        late = {one.id: one for one in (late_diagnostic(one) for looks in jobs for one in latecomers(looks))}
        gone = {name: structs.replace(one, resolved=True) for name, one in self._slow.items()}
        for name, one in {**gone, **late}.items():
            if self._slow.get(name) != one:
                context.emit(DiagnosticSeen(diagnostic=one, **context.stamp()))
        self._slow = late

    def _tell(self, reader: RankReader, context: Context) -> None:
        """Say what can't be read of a process, and when it can be again."""
        known = self._said.get(reader.process.id)
        if not reader.problem and known is None:
            return
        status = SourceStatus(
            source="pytorch",
            target=reader.process.id,
            health=SourceHealth.DEGRADED if reader.problem else SourceHealth.OK,
            code="recorder-unread",
            sentence=f"Collectives are not seen: {reader.problem}." if reader.problem else "",
            remedy="stacks are read all the same; docs/systems/pytorch.md has the versions" if reader.problem else "",
        )
        if status != known:
            self._said[reader.process.id] = status
            context.emit(StatusSeen(status=status, **context.stamp()))


def _crosses(one: Look, other: Look) -> bool:
    """Whether bytes are on their way between two ranks."""
    pids = [int(ids.parse(look.process).short) for look in (one, other)]
    return bytes_under_way(*pids)


def _moved_by(before: Look | None, now: Look) -> frozenset[int]:
    """The threads that went on between two looks; after one look, all."""
    return now.moved_by(before) if before is not None else frozenset(entry.thread for entry in now.entries) or _ANY


def _threads(rank: RankSeen, host: str) -> list[str]:
    return [thread_of(rank, own, host) for own in rank.threads]


def _posted(rank: RankSeen, host: str) -> list[str]:
    """Threads of which only a native stack says what their call is (exchanges.E3)."""
    return [thread_of(rank, call.ident, host) for call in rank.look.calls if call.name in (STORE, WORK)]
