"""Which processes are ranks, and of which job; what the ranks of one call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import structs

from livedbg.adapters.pytorch.collectives.exchanges import Exchange, said_by, standing_calls
from livedbg.adapters.pytorch.collectives.families import launcher_waits
from livedbg.adapters.pytorch.collectives.joined import Look
from livedbg.adapters.pytorch.collectives.python_calls import INIT, STORE, PythonCall
from livedbg.adapters.pytorch.collectives.ranks import RankSeen
from livedbg.adapters.pytorch.collectives.tasks import thread_of
from livedbg.adapters.pytorch.rpc.tasks import RpcRank
from livedbg.model.snapshot import Snapshot

_FIRST: Final = (INIT, STORE)
"""What ranks call that have no process group yet."""


def of_jobs(seen: list[RankSeen]) -> list[RankSeen]:
    """Without the processes that have an environment of a rank and no process group, such as the workers of a
    DataLoader: but these are ranks while others wait in `init_process_group`, or for keys of the store."""
    joined = {rank.look.rank for rank in seen if rank.look.initialised or rank.look.calls}
    begins = any(call.name in _FIRST for rank in seen for call in rank.look.calls)
    bare = [rank for rank in seen if not (rank.look.initialised or rank.look.calls)]
    late = [rank for rank in bare if begins and rank.look.rank not in joined]
    single = [rank for rank in late if sum(rank.look.rank == other.look.rank for other in late) == 1]
    return [rank for rank in seen if rank not in bare or rank in single]


def jobs_of(seen: Iterable[RankSeen], snapshot: Snapshot) -> list[list[RankSeen]]:
    """The ranks by job: those with one rendezvous and one size; a rank that is there twice makes two jobs of them, by
    their parents."""
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
    """What the ranks of one job have in common."""
    process = snapshot.processes[rank.look.process]
    names = ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID")
    return tuple(process.environment.get(name, "") for name in names), rank.look.groups.get("0", ())


def rpc_workers(job: Sequence[RankSeen], host: str) -> list[RpcRank]:
    """The ranks of a job that use torch.distributed.rpc."""
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
    """The looks, and the calls that stand, with what the native stacks say of them."""
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


def known_ended(
    one: Exchange, ended: Mapping[int, str], job: Sequence[RankSeen], snapshot: Snapshot
) -> Mapping[int, str]:
    """A rank that is not there before a job has begun may not have been started yet: a launcher that waits for the end
    of its children starts no more."""
    return ended if one.name != INIT or launcher_waits(job, snapshot) else {}
