"""The adapter for collectives: reads the Flight Recorders of all ranks, and publishes blocked operations as tasks.

It also counts, for each rank:
    the newest collective enqueued in each group;
    message bytes of gloo, which no recorder has: /proc/PID/task/TID/io shows what a thread has written so far
    (proc_pid_io(5)). The threads of gloo's event loop write nothing but messages and their announcements; a thread that
    calls `send` or `recv` writes some of them itself;
    operations, at next to no cost, to see whether the ranks go on.

Reading a recorder takes some ten milliseconds a rank, and in a training loop all entries are new after some seconds.

Invariants:
    collectives_adapter.C1. No target is stopped, and nothing is set or run in it: its memory is read.
    collectives_adapter.C2. Only a blocked operation (joined.J1) is a task: a healthy job emits next to nothing.
    collectives_adapter.M1. For a thread inside a message call, only bytes written between two samples that both found
        it there count: otherwise it may have written a log.
    collectives_adapter.K1. While every rank goes on from one peek to the next, rings are read every `CALM_S`. When one
        does not, they are read at once, and again a moment later: two samples show what is blocked.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from msgspec import structs

from livedbg.adapters.pytorch.collectives.exchanges import exchanges, said_by, standing_calls
from livedbg.adapters.pytorch.collectives.families import Ended, launcher_waits, without_copies
from livedbg.adapters.pytorch.collectives.groups import WORLD
from livedbg.adapters.pytorch.collectives.inside import waits_in_collective
from livedbg.adapters.pytorch.collectives.joined import Look, join, named, standing
from livedbg.adapters.pytorch.collectives.late import latecomers
from livedbg.adapters.pytorch.collectives.python_calls import INIT, STORE, WORK, PythonCall
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
from livedbg.adapters.pytorch.facts import ENQUEUED, MESSAGES
from livedbg.adapters.pytorch.rpc.tasks import RpcRank, RpcThread, rpc_events
from livedbg.analysis.ranks import REACHED
from livedbg.linux.procfs import bytes_written
from livedbg.model import Edge, Task, Thread, ids
from livedbg.model.events import RanksSeen
from livedbg.model.snapshot import Snapshot
from livedbg.session.adapter import Context, targets_ended, until
from livedbg.session.pacing import Cost, Limit, Stopwatch, timed
from livedbg.session.polling import PolledAdapter
from livedbg.session.publisher import Publisher, Statuses

_FIRST: Final = (INIT, STORE)
"""What ranks call that have no process group yet."""


def of_jobs(seen: list[RankSeen]) -> list[RankSeen]:
    """Filter out processes that have a rank's environment but no process group, such as DataLoader workers.

    They do count as ranks while others wait in `init_process_group`, or for keys of the store.
    """
    joined = {rank.look.rank for rank in seen if rank.look.initialised or rank.look.calls}
    begins = any(call.name in _FIRST for rank in seen for call in rank.look.calls)
    bare = [rank for rank in seen if not (rank.look.initialised or rank.look.calls)]
    late = [rank for rank in bare if begins and rank.look.rank not in joined]
    single = [rank for rank in late if sum(rank.look.rank == other.look.rank for other in late) == 1]
    return [rank for rank in seen if rank not in bare or rank in single]


def jobs_of(seen: Iterable[RankSeen], snapshot: Snapshot) -> list[list[RankSeen]]:
    """Group the ranks by job: same rendezvous and size; a rank that occurs twice splits them, by parent process."""
    jobs: dict[object, list[RankSeen]] = {}
    for rank in seen:
        jobs.setdefault(meeting_of(rank, snapshot), []).append(rank)
    found: list[list[RankSeen]] = []
    for job in jobs.values():
        if len({rank.look.rank for rank in job}) == len(job):
            found.append(job)
            continue
        families: dict[int | None, list[RankSeen]] = {}
        for rank in job:
            families.setdefault(snapshot.processes[rank.look.process].ppid, []).append(rank)
        found += [one for one in families.values() if len({rank.look.rank for rank in one}) == len(one)]
    return found


def meeting_of(rank: RankSeen, snapshot: Snapshot) -> object:
    """Return a key that the ranks of one job share."""
    process = snapshot.processes[rank.look.process]
    names = ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID")
    return tuple(process.environment.get(name, "") for name in names), rank.look.groups.get("0", ())


def rpc_workers(job: Sequence[RankSeen], host: str) -> list[RpcRank]:
    """Return the ranks of a job that use torch.distributed.rpc."""
    return [
        RpcRank(
            rank.look.rank,
            rank.look.process,
            rank.worker,
            rank.rpc,
            {own: thread for own in rank.threads if (thread := thread_of(rank, own, host))},
        )
        for rank in job
        if rank.worker
    ]


def said_calls(
    job: Sequence[RankSeen], before: Mapping[str, Look], snapshot: Snapshot, host: str
) -> tuple[list[Look], dict[int, list[PythonCall]]]:
    """Return the samples and the blocked calls by rank, refined by native stacks."""
    looks: list[Look] = []
    stands: dict[int, list[PythonCall]] = {}
    for rank in job:
        said = {
            call: found
            for call in rank.look.calls
            if (found := said_by(snapshot.stacks.get(thread_of(rank, call.ident, host)), call)) is not None
        }
        looks.append(structs.replace(rank.look, calls=tuple(said.values())))
        standing = standing_calls(before.get(rank.look.process), rank.look)
        stands[rank.look.rank] = [said[call] for call in standing if call in said]
    return looks, stands


CALM_S: Final = 15.0
PEEK_S: Final = 2.0
_LEAST_S: Final = 1.0


class Peeks:
    """Compares operation counts of ranks over time."""

    def __init__(self) -> None:
        self._before: Mapping[str, int] = {}

    def take(self, counts: Mapping[str, int]) -> bool:
        """Return whether each rank's count (by process) has increased since the last call; False without ranks."""
        before, self._before = self._before, dict(counts)
        return bool(counts) and all(count > before.get(process, count) for process, count in counts.items())


async def rest(context: Context, peek: Callable[[], Awaitable[bool]], pause_s: float) -> bool:
    """Wait until the rings should be read again (K1).

    Args:
        peek: returns whether every rank went on since the last peek.
        pause_s: how long to wait while one does not.

    Returns:
        True if all ranks went on before, and now one does not.
    """
    begun_s, moved = time.monotonic(), False
    while not targets_ended(context):
        left_s = pause_s - (time.monotonic() - begun_s)
        await context.sleep(min(PEEK_S, max(left_s, _LEAST_S)))
        before, moved = moved, await peek()
        if before and not moved:
            return True
        if time.monotonic() - begun_s >= (CALM_S if moved else pause_s):
            return False
    return False


_LOOP: Final = "gloo_tcp_loop"
_MOST_LOOPS: Final = 32
_EXCHANGES: Final = ("recv", "send", WORK)


class Messages:
    """Counts the message bytes that each rank has written since its first sample."""

    def __init__(self) -> None:
        self._before: dict[str, dict[int, int]] = {}
        self._totals: dict[str, int] = {}

    def keep(self, processes: Collection[str]) -> None:
        """Forget all other ranks."""
        for name in self._totals.keys() - set(processes):
            del self._totals[name], self._before[name]

    def of(self, rank: RankSeen, threads: Iterable[Thread]) -> int:
        """Return the bytes of a rank so far."""
        process = rank.look.process
        pid = int(ids.parse(process).short)
        loops = [thread.tid for thread in threads if thread.name == _LOOP and not thread.exited][:_MOST_LOOPS]
        calls = [rank.threads.get(call.ident) for call in rank.look.calls if call.name in _EXCHANGES]
        now = {tid: count for tid in {*loops, *calls} if tid is not None and (count := bytes_written(pid, tid))}
        before = self._before.get(process, {})
        more = sum(count - before[tid] for tid, count in now.items() if tid in before)
        self._before[process] = now
        self._totals[process] = self._totals.get(process, 0) + more
        return self._totals[process]


def reached(looks: Sequence[Look]) -> Mapping[tuple[str, str], int]:
    """Map (process, group) to the number of its newest collective; 0 if only others of the group have one.

    Unknown numbers are left out: a ring that has wrapped may have lost the newest one of a group.
    """
    titles: dict[str, str] = {}
    newest: dict[tuple[str, str], int] = {}
    for look in looks:
        for group, backend in look.entered_groups:
            entries, _ = look.entered(group, backend)
            titles.setdefault(group, entries[0].description)
            newest[look.process, group] = max(entry.sequence for entry in entries)
    for look in looks:
        if all(ring.whole for ring in look.rings):
            for group, members in look.groups.items():
                if group in titles and look.rank in members:
                    newest.setdefault((look.process, group), 0)
    return {(process, _title(group, titles[group])): number for (process, group), number in newest.items()}


def _title(group: str, description: str) -> str:
    """Return the display name of a group; groups of a device mesh share their description."""
    if not named(description):
        return "all" if group == WORLD else group
    return f"{description}.{group}"


_PATIENCE_S: Final = 5.0
_STACKS_S: Final = 20.0  # a busy machine
_LIMIT: Final = Limit(cpu=0.004, least_s=1.0, most_s=10.0)
_RANK_BY: Final = "its process groups"
_ANY: Final = frozenset({0})
"""Some thread."""


class CollectivesAdapter(PolledAdapter):
    """Collectives of the processes of a session that use torch.distributed."""

    name = "collectives"
    sees = "collectives of torch.distributed that stand, which ranks are in them, and which are not"
    cost = "no stop; reads the Flight Recorder of each rank from memory, every 15 s while all go on, else each second"

    apart_s = 0.5

    def __init__(self) -> None:
        super().__init__()
        self._readers: dict[tuple[str, int | None], RankReader] = {}
        self._before: dict[str, Look] = {}
        self._rpc: dict[str, tuple[RpcThread, ...]] = {}
        self._messages = Messages()
        self._peeks = Peeks()
        self._ended = Ended()
        self._shown = Publisher("pytorch/collectives")
        self._statuses = Statuses("pytorch")
        self._ranks: list[RankSeen] = []
        self._stopped = self._looked_twice = False

    async def again(self, context: Context) -> bool:
        """In a session that samples once, sample a second time if a process uses torch.distributed."""
        if self._looked_twice or not self._ranks or not context.request.once:
            return False
        self._looked_twice = True
        await self._stacks(context, self._ranks)
        return True

    async def rest(self, context: Context, pause_s: float) -> None:
        """Peek until the rings should be read again."""
        self._stopped = await rest(context, partial(self._peek, context), pause_s)

    async def _peek(self, context: Context) -> bool:
        """Return whether every rank has enqueued something since the last peek."""
        readers = [one for one in self._readers.values() if (one.process.id, ENQUEUED) in self._shown.counters]
        counts = await asyncio.to_thread(lambda: {one.process.id: one.count() for one in readers})
        known = {process: count for process, count in counts.items() if count is not None}
        told = {(process, ENQUEUED): (float(count), None) for process, count in known.items()}
        context.emit(*self._shown.add(context.stamp(), counters=told))
        return self._peeks.take(known)

    async def _stacks(self, context: Context, ranks: Sequence[RankSeen]) -> None:
        """Wait for the stacks of threads with pending operations: only these show whether a thread waits.

        If it waits for an operation that it enqueued or posted before, its Python frames don't show that; native ones
        do.
        """
        host = context.request.host
        wanted = {thread_of(rank, own, host) for rank in ranks for own in rank.threads}
        unsure = ((rank, call.ident) for rank in ranks for call in rank.look.calls if call.name in (STORE, WORK))
        posted = {thread_of(rank, own, host) for rank, own in unsure}  # only a native stack identifies them (E3)
        begun = time.monotonic()

        def seen(snapshot: Snapshot) -> bool:
            stacks = {thread: snapshot.stacks.get(thread) for thread in wanted}
            native = {thread for thread, stack in stacks.items() if stack is not None and stack.layer != "python"}
            late = time.monotonic() - begun > (_PATIENCE_S if None not in stacks.values() else _STACKS_S)
            return late or all(
                one in native or (one not in posted and waits_in_collective(stacks[one])) for one in wanted
            )

        if context.request.stacks != "none":
            await until(context, seen)

    async def reread(self, context: Context) -> None:
        """Sample again."""
        if self._before or self._shown.tasks:
            await self.turn(context)

    async def look(self, context: Context) -> float:
        """Read the recorders of all ranks."""
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
            self._report_unreadable(reader, context)
            if rank is not None:
                seen.append(rank)
        alive = {(process.id, process.start_ticks) for process in living}
        self._readers = {key: reader for key, reader in self._readers.items() if key in alive}
        seen = of_jobs(without_copies(seen, snapshot))
        if seen or self._shown.tasks:
            self._name({rank.look.process: rank.look.rank for rank in seen}, snapshot, context)
            self._put(seen, snapshot, context)
        own = watch.cost()
        fresh = len(seen) > len(self._ranks)  # what found them has a cost that comes once
        stopped, self._stopped, self._ranks = self._stopped, False, seen
        return _LIMIT.least_s if fresh or stopped else _LIMIT.rest_s(Cost(own.cpu_s + spent_s, own.wall_s))

    @staticmethod
    def _name(ranks: Mapping[str, int], snapshot: Snapshot, context: Context) -> None:
        """Publish the ranks that the environment does not give."""
        fresh = {process: rank for process, rank in ranks.items() if snapshot.processes[process].rank != rank}
        if fresh:
            context.emit(RanksSeen(ranks=fresh, by=_RANK_BY, **context.stamp()))

    def _counted(self, seen: Sequence[RankSeen], snapshot: Snapshot) -> dict[tuple[str, str], tuple[float, None]]:
        """Return the counters: enqueued collectives of each rank, its newest in each group, and message bytes."""
        looks = [rank.look for rank in seen if rank.look.initialised]
        counts = {(look.process, ENQUEUED): sum(ring.count for ring in look.rings) for look in looks}
        self._messages.keep([rank.look.process for rank in seen])
        for rank in seen:
            process = rank.look.process
            counts[process, MESSAGES] = self._messages.of(rank, snapshot.threads_of(process))
        for (process, group), number in reached(looks).items():
            counts[process, REACHED + group] = number
        return {key: (float(count), None) for key, count in counts.items()}

    def _put(self, seen: Sequence[RankSeen], snapshot: Snapshot, context: Context) -> None:
        """Publish blocked operations and late ranks."""
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
                enters = entrants(one, job, context.request.host)
                waits = receiving(one, job, snapshot)
                task = collective_task(one, prefix, by_rank, moved, ended, receiving=waits, enters=enters)
                tasks[task.id] = task
                edges += collective_edges(task.id, one, job, snapshot, context.request.host)
            called, calls = said_calls(job, self._before, snapshot, context.request.host)
            for exchange in exchanges(called, calls, _in_flight):
                # a rank of a job that has not begun may not have been started yet, unless the launcher only waits
                gone = ended if exchange.name != INIT or launcher_waits(job, snapshot) else {}
                task = exchange_task(exchange, prefix, by_rank, moved, gone)
                if exchange.name == INIT:
                    task = with_meeting(task, [by_rank[rank].process for rank in exchange.calls], snapshot)
                tasks[task.id] = task
                edges += exchange_edges(task.id, exchange, job, context.request.host)
            requests, asked = rpc_events(rpc_workers(job, context.request.host), self._rpc)
            tasks |= {task.id: task for task in requests}
            edges += asked
        self._before = {rank.look.process: rank.look for rank in seen}
        self._rpc = {rank.look.process: rank.rpc for rank in seen}
        late = [said for job in jobs_of(seen, snapshot) for said in latecomers([rank.look for rank in job])]
        counters = self._counted(seen, snapshot)
        context.emit(
            *self._shown.show(context.stamp(), tasks=tasks.values(), edges=edges, counters=counters, diagnostics=late)
        )

    def _report_unreadable(self, reader: RankReader, context: Context) -> None:
        """Report what can't be read of a process, and withdraw that when it can be."""
        remedy = "stacks are read all the same; docs/systems/pytorch.md has the versions"
        problem = (f"Collectives are not seen: {reader.problem}.", remedy)
        self._statuses.only(context, reader.process.id, {"recorder-unread": problem} if reader.problem else {})


def _in_flight(one: Look, other: Look) -> bool:
    pids = [int(ids.parse(look.process).short) for look in (one, other)]
    return bytes_under_way(*pids)


def _moved_by(before: Look | None, now: Look) -> frozenset[int]:
    """Return the threads that went on between two samples; after a single sample, all."""
    return now.moved_by(before) if before is not None else frozenset(entry.thread for entry in now.entries) or _ANY
