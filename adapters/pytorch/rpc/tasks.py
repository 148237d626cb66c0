"""Requests of torch.distributed.rpc as tasks and edges of the stream.

Invariants:
    rpc_tasks.T1. A request is put on the stream only if the same thread waited for the same at two looks.
    rpc_tasks.T2. Who carries a request out is each thread of the asked worker that carries out that function. Which of
        several requests for it is not known, so these are no edges: a function that asks itself over two workers is in
        no circle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from livedbg.adapters.pytorch.facts import RpcFacts
from livedbg.adapters.pytorch.rpc.frames import RpcThread
from livedbg.model import Edge, EdgeKind, Task, TaskState, ids

_OWN: Final = ("_gather_to_leader", "_broadcast_to_followers", "_update_group_membership")
"""Functions by which `shutdown` and `_all_gather` talk to the other workers."""


class RpcRank(Struct, frozen=True):
    """A worker at one moment.

    Attributes:
        rank: its rank.
        process: identifier of its process.
        name: of the worker.
        threads: what they do.
        tids: identifiers of the threads by pthread_self(3).
    """

    rank: int
    process: str
    name: str
    threads: tuple[RpcThread, ...]
    tids: Mapping[int, str]


def rpc_events(ranks: Sequence[RpcRank], before: Mapping[str, tuple[RpcThread, ...]]) -> tuple[list[Task], list[Edge]]:
    """The requests that are waited for, and the ranks in `shutdown`.

    Args:
        ranks: the workers of a job.
        before: what the threads of each process did at the look before.
    """
    tasks: list[Task] = []
    edges: list[Edge] = []
    for one in ranks:
        for thread in one.threads:
            own = one.tids.get(thread.ident, "")
            if not own or not (thread.asks or thread.leaves) or thread not in before.get(one.process, ()):  # T1
                continue
            leaves = thread.leaves and (not thread.asks or thread.function in _OWN)
            task = _task(one, thread, ranks, leaves=leaves)
            tasks.append(task)
            what = "is in rpc.shutdown" if leaves else f"waits for {thread.function or 'a request'}"
            edges.append(Edge(kind=EdgeKind.WAITS_FOR, source=own, target=task.id, evidence=f"rank {one.rank} {what}"))
    return tasks, edges


def _task(one: RpcRank, thread: RpcThread, ranks: Sequence[RpcRank], *, leaves: bool) -> Task:
    others = [rank for rank in ranks if rank is not one]
    asked = [rank for rank in others if rank.name == thread.to] if thread.to else others if len(others) == 1 else []
    served = [] if leaves else [one for rank in asked for one in rank.threads if one.serves and one.ident in rank.tids]
    meant = [one for one in served if thread.function in ("", one.serves)]
    absent = [rank for rank in others if not any(other.leaves for other in rank.threads)]
    facts = RpcFacts(
        leaves=leaves,
        rank=one.rank,
        to="" if leaves else thread.to or (asked[0].name if asked else ""),
        function="" if leaves else thread.function,
        asked=asked[0].process if asked and not leaves else "",
        absent=tuple(rank.rank for rank in absent) if leaves else (),
        busy=tuple(rank.tids[one.ident] for rank in asked for one in served),
        served_by=tuple(rank.tids[one.ident] for rank in asked for one in meant),
        processes={rank.rank: rank.process for rank in ranks},
    )
    return Task(
        id=ids.task("rpc", f"{one.rank}.{thread.ident:x}"),
        system="pytorch",
        name="rpc.shutdown" if leaves else f"rpc {thread.function}".strip(),
        state=TaskState.RUNNING,
        facts=facts,
    )
