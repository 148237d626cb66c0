"""Ranks: the process, the progress and the most relevant thread of each.

Invariants:
    ranks.N1. A helper of a rank (which has its environment, or a copy of its memory) is no rank, nor is a launcher of
        ranks that has a rank by a launcher of its own. Of a rank that was started again, the newest process counts.
    ranks.N2. A rank is missing only if a task of a runtime waits for its process; a wait of a process for another one,
        as of a launcher, proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final

from msgspec import Struct

from livedbg.analysis.diagnosis import Diagnosis
from livedbg.linux.live_environment import RANKS, place_of
from livedbg.model import Process, ThreadState
from livedbg.model.snapshot import Snapshot

REACHED: Final = "reached in "
"""How the names of counters of a process begin that say how far it has come among other ranks; a group's name follows:
the number of the newest thing that it has begun there, counted alike on all ranks of the group."""


class RankState(IntEnum):
    """State of a rank, the most relevant first."""

    MISSING = 0
    """Others wait for it in what it has not begun, and it waits in nothing of that kind itself."""
    ENDED = 1
    STOPPED = 2
    GOES = 3
    """As its thread says."""
    WAITS = 4
    """A thread of it waits in what ranks do together."""


class Rank(Struct, frozen=True):
    """A rank.

    Attributes:
        thread: its most relevant thread: the one that waits for other ranks, the verdict's root, or its main thread; ""
            for none.
        reached: number of its newest operation, by group; the group in which it is most behind first.
        behind: by how many operations another rank is ahead of it in one of these groups.
    """

    process: Process
    number: int
    state: RankState
    thread: str
    threads: tuple[str, ...]
    reached: tuple[tuple[str, int], ...]
    behind: int


def ranked(snapshot: Snapshot) -> bool:
    """Return whether there are ranks to show."""
    return any(process.rank is not None for process in snapshot.processes.values())


def ranks_of(snapshot: Snapshot, diagnosis: Diagnosis) -> list[Rank]:
    """Return all ranks, by number."""
    processes = {process.id: process for process in _chiefs(snapshot.processes.values())}
    threads: dict[str, list[str]] = {name: [] for name in processes}
    for name, thread in snapshot.threads.items():
        if not thread.exited and thread.process in threads:
            threads[thread.process].append(name)
    reached: dict[str, dict[str, int]] = {}
    for (entity, counter), seen in snapshot.counters.items():
        if counter.startswith(REACHED) and entity in processes:
            reached.setdefault(entity, {})[counter[len(REACHED) :]] = int(seen.value)
    jobs = {name: _job(process) for name, process in processes.items()}
    most: dict[object, dict[str, int]] = {}
    for name, groups in reached.items():
        of_job = most.setdefault(jobs[name], {})
        for group, number in groups.items():
            of_job[group] = max(of_job.get(group, 0), number)
    found = []
    for name, process in processes.items():
        own = reached.get(name, {})
        ahead = {group: most[jobs[name]][group] - number for group, number in own.items()}
        found.append(_rank(process, threads[name], own, ahead, diagnosis))
    return sorted(found, key=lambda rank: (rank.number, rank.process.pid))


def _rank(
    process: Process, threads: list[str], reached: Mapping[str, int], ahead: Mapping[str, int], diagnosis: Diagnosis
) -> Rank:
    graph = diagnosis.graph
    waiting = next((name for name in threads if any(_is_task(edge.target) for edge in graph.waits_of(name))), "")
    if process.exited:
        state = RankState.ENDED
    elif not waiting and any(map(_is_task, graph.waiters_of(process.id))):
        state = RankState.MISSING
    elif process.state in (ThreadState.STOPPED, ThreadState.TRACED):
        state = RankState.STOPPED
    else:
        state = RankState.WAITS if waiting else RankState.GOES
    roots = [name for name in diagnosis.verdict.roots if name in threads]
    main = process.id.replace("process:", "thread:", 1) + f"/{process.pid}"
    shown = (waiting if state is RankState.WAITS else "") or next(iter(roots), "")
    shown = shown or (main if main in threads else next(iter(threads), ""))
    places = sorted(reached.items(), key=lambda item: (-ahead[item[0]], item[0]))
    behind = max(ahead.values(), default=0)
    return Rank(process, process.rank or 0, state, shown, tuple(threads), tuple(places), behind)


def _job(process: Process) -> object:
    place = place_of(process.environment)
    meets = place is not None and (place.variable != RANKS[0] or "MASTER_PORT" in dict(place.meeting))
    return process.host, place.meeting if place is not None and meets else process.ppid


def _is_task(entity: str) -> bool:
    return entity.startswith("task:")


def _chiefs(processes: Iterable[Process]) -> list[Process]:
    """Return the processes that are ranks themselves (N1)."""
    by_pid = {(process.host, process.pid): process for process in processes}
    found = {process.id: process for process in by_pid.values() if process.rank is not None and process.target}
    launchers: set[str] = set()
    helpers: set[str] = set()
    for process in found.values():
        for above in _above(process, by_pid):
            if above.id not in found:
                continue
            if _own(process) and not _own(above):
                launchers.add(above.id)
            elif (_own(above) and not _own(process)) or above.rank == process.rank:
                helpers.add(process.id)
    chiefs = [process for name, process in found.items() if name not in launchers | helpers]
    alive = {(process.host, process.ppid, process.rank) for process in chiefs if not process.exited}
    return [one for one in chiefs if not one.exited or (one.host, one.ppid, one.rank) not in alive]


def _own(process: Process) -> bool:
    """Return whether a process's rank belongs to its own job, and not to a launcher around it."""
    place = place_of(process.environment)
    return bool(process.rank_by) or place is None or place.variable == RANKS[0]


def _above(process: Process, by_pid: Mapping[tuple[str, int], Process]) -> Iterable[Process]:
    seen = {process.pid}
    while process.ppid is not None and process.ppid not in seen:
        seen.add(process.ppid)
        above = by_pid.get((process.host, process.ppid))
        if above is None:
            return
        yield above
        process = above
