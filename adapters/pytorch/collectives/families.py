"""Use parent processes to recognise forked copies of a rank, and ranks that have ended.

Invariants:
    rank_families.F1. A process with the recorder of a rank is no rank if an ancestor of it is that rank: a forked
        worker has a copy of all of its memory.
    rank_families.F2. An unseen rank has ended only if its process was seen to end, or if all ranks of the job
        are children of one launcher on this host, whose living children are all watched and are other ranks, or
        the helper that multiprocessing starts for itself. A child that was dead at the first sample counts as a
        rank only if it was started together with the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from livedbg.adapters.pytorch.collectives.ranks import RankSeen
from livedbg.model import Process, WaitKind
from livedbg.model.snapshot import Snapshot
from livedbg.text.patterns import lazy_re

_OWN: Final = lazy_re(r"multiprocessing\.resource_tracker import main")
"""A process of multiprocessing itself, which runs no code of the program."""

_ZOMBIE: Final = "zombie"
_TOGETHER_NS: Final = 30_000_000_000
"""A launcher starts its ranks within this time: one import of torch a rank, on a busy machine."""


def without_copies(seen: Iterable[RankSeen], snapshot: Snapshot) -> list[RankSeen]:
    """Filter out processes that ranks have forked (F1)."""
    found = list(seen)
    by_pid = {process.pid: process for process in snapshot.processes.values() if not process.exited}
    ranks = {snapshot.processes[rank.look.process].pid: rank.look.rank for rank in found}
    return [rank for rank in found if not _copied(snapshot.processes[rank.look.process], rank.look.rank, ranks, by_pid)]


def _copied(process: Process, rank: int, ranks: dict[int, int], by_pid: dict[int, Process]) -> bool:
    passed = {process.pid}
    parent = process.ppid
    while parent is not None and parent not in passed:
        if ranks.get(parent) == rank:
            return True
        passed.add(parent)
        above = by_pid.get(parent)
        parent = above.ppid if above is not None else None
    return False


class Ended:
    """Remembers which process was which rank."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, int], str] = {}

    def of(self, job: Sequence[RankSeen], key: object, snapshot: Snapshot) -> dict[int, str]:
        """Return the ranks of a job whose process has ended (F2), each with that process; "" if not known."""
        self._known |= {(key, rank.look.rank): rank.look.process for rank in job}
        seen = {rank.look.rank for rank in job}
        gone = {
            rank: process
            for (one, rank), process in self._known.items()
            if one == key and rank not in seen and _over(process, snapshot)
        }
        world = max((len(rank.look.groups.get("0", ())) for rank in job), default=0)
        missing = [rank for rank in range(world) if rank not in seen and rank not in gone]
        if missing and _launched_here(job, snapshot):
            dead = _dead_children(job, snapshot)
            gone |= {rank: dead[0] if len(missing) == len(dead) == 1 else "" for rank in missing}
        return gone


def launcher_waits(job: Sequence[RankSeen], snapshot: Snapshot) -> bool:
    """Return whether the launcher of a job's ranks only waits for its children."""
    processes = [snapshot.processes[rank.look.process] for rank in job]
    parents = {f"thread:{process.host}/{process.ppid}/{process.ppid}" for process in processes}
    mains = [snapshot.threads.get(parent) for parent in parents]
    return all(one is not None and one.timed is not True and one.wait is WaitKind.CHILD for one in mains)


def _over(process: str, snapshot: Snapshot) -> bool:
    known = snapshot.processes.get(process)
    return known is not None and known.exited


def _launched_here(job: Sequence[RankSeen], snapshot: Snapshot) -> bool:
    """Return whether all ranks are or were children of one watched launcher that has no other child now."""
    processes = [snapshot.processes[rank.look.process] for rank in job]
    parents = {process.ppid for process in processes}
    host = processes[0].host
    launcher = next((p for p in snapshot.processes.values() if {p.pid} == parents and p.host == host), None)
    if launcher is None or launcher.exited or not launcher.target:
        return False
    if {child.id for child in living_children(launcher, snapshot)} != {process.id for process in processes}:
        return False
    sizes = [(p.environment.get("LOCAL_WORLD_SIZE"), p.environment.get("WORLD_SIZE")) for p in processes]
    world = max(len(rank.look.groups.get("0", ())) for rank in job)
    here = all(local is not None and local == size for local, size in sizes)
    return here or len(processes) + len(_dead_children(job, snapshot)) == world


def living_children(launcher: Process, snapshot: Snapshot) -> list[Process]:
    """Return the living children of a process, without multiprocessing's own helper."""
    children = (p for p in snapshot.processes.values() if p.ppid == launcher.pid and p.host == launcher.host)
    return [child for child in children if not child.exited and not _is_own(child)]


def _is_own(process: Process) -> bool:
    return any(_OWN.search(word) for word in process.command)


def _dead_children(job: Sequence[RankSeen], snapshot: Snapshot) -> list[str]:
    first = snapshot.processes[job[0].look.process]
    began = [at for one in job if (at := snapshot.processes[one.look.process].start_wall_ns) is not None]
    return [
        process.id
        for process in snapshot.processes.values()
        if process.exited
        and process.ppid == first.ppid
        and process.host == first.host
        and not _is_own(process)
        and (_ZOMBIE not in process.notes or _started_together(process, began))
    ]


def _started_together(process: Process, began: Sequence[int]) -> bool:
    at = process.start_wall_ns
    return at is not None and bool(began) and min(began) - _TOGETHER_NS <= at <= max(began) + _TOGETHER_NS
