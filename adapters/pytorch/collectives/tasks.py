"""Publish pending collectives, and calls that no recorder has, as tasks and edges.

The rendezvous of ranks (listener at MASTER_PORT, connected hosts) is taken from the kernel's connections in a rank's
network namespace (`/proc/PID/net/tcp`, proc_pid_net(5)).

For a gloo broadcast or scatter, the root of ranks that have completed it is derived from the ranks that still wait.
Source: gloo/broadcast.cc (a binomial tree) and gloo/scatter.cc.

Invariants:
    tasks.S1. gloo sends to a rank only after that rank's request. A rank that has completed its part has received from
        its sender, and has been asked by each of its receivers.
    tasks.S3. A rank that still waits has not received: so no rank that has completed its part sends to it.
    tasks.S2. A root is given only if it is the only possible one of all ranks; of a rank that has not completed, only
        the root in its frame is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, structs

from livedbg.adapters.pytorch.collectives.exchanges import Exchange, root_of
from livedbg.adapters.pytorch.collectives.inside import waits_in_collective
from livedbg.adapters.pytorch.collectives.joined import Look, Standing
from livedbg.adapters.pytorch.collectives.ranks import RankSeen
from livedbg.adapters.pytorch.collectives.traffic import socket_inodes
from livedbg.adapters.pytorch.facts import CallFacts, call_facts
from livedbg.linux.sockets import SocketTable
from livedbg.model import Edge, EdgeKind, Stack, Task, TaskState, ids
from livedbg.model.snapshot import Snapshot
from livedbg.text.sanitize import clean_line

_MOST: Final = 64
_WAITS: Final = "gloo::transport::tcp::UnboundBuffer::waitRecv("


def _broadcast_sender(rank: int, root: int, total: int) -> int | None:
    """Return the sender to a rank in a broadcast; None for the root."""
    number = (rank - root) % total
    return (number - (1 << number.bit_length() - 1) + root) % total if number else None


def _from_root(rank: int, root: int, _total: int) -> int | None:
    return root if rank != root else None


_SENDERS: Final[Mapping[str, Callable[[int, int, int], int | None]]] = {
    "broadcast": _broadcast_sender,
    "scatter": _from_root,
}


def roots_of_completed(
    name: str,
    members: Sequence[int],
    roots: Mapping[int, int],
    completed: Collection[int],
    receiving: Collection[int] = (),
) -> dict[int, int]:
    """Return the roots of ranks that have completed a collective, as far as they follow from the others'.

    Args:
        members: the ranks of its group, in the group's own order.
        roots: known roots, by rank that is in it.
        completed: ranks that have completed it.
        receiving: ranks that still wait for it.
    """
    sender_of = _SENDERS.get(name)
    known = {*roots, *roots.values(), *completed} <= set(members)
    if sender_of is None or not known or not roots or len(members) > _MOST:
        return {}
    total = len(members)
    place = {rank: number for number, rank in enumerate(members)}
    may = {place[rank]: {place[roots[rank]]} if rank in roots else set(range(total)) for rank in members}
    waiting = {place[rank] for rank in receiving if rank in place}
    finished = {place[rank] for rank in completed if rank not in roots}

    def asks(rank: int, sender: int) -> bool:
        return any(sender_of(rank, root, total) == sender for root in may[rank])

    def sends(rank: int, receiver: int) -> bool:
        return any(sender_of(receiver, root, total) == rank for root in may[rank])

    def possible(rank: int, root: int) -> bool:
        sender = sender_of(rank, root, total)
        served = [one for one in range(total) if sender_of(one, root, total) == rank]
        had = sender is None or sends(sender, rank)
        return had and all(asks(one, rank) and one not in waiting for one in served)

    changed = True
    while changed:
        left = {rank: {root for root in may[rank] if possible(rank, root)} for rank in finished}
        changed = any(left[rank] != may[rank] for rank in finished)
        may |= left
    return {members[rank]: members[next(iter(may[rank]))] for rank in sorted(finished) if len(may[rank]) == 1}


def receives(name: str, stacks: Iterable[Stack]) -> bool:
    """Return whether a rank still waits for a gloo collective, if it is in just one of this name."""
    function = f"gloo::{name}("
    inside = [one for one in stacks if any(frame.function.startswith(function) for frame in one.frames)]
    return len(inside) == 1 and any(frame.function.startswith(_WAITS) for frame in inside[0].frames)


_HERE: Final = ("localhost", "127.0.0.1", "::1", "0.0.0.0")
_MOST_HOSTS: Final = 8


class Meeting(Struct, frozen=True):
    """The rendezvous of a job.

    Attributes:
        address: `10.0.0.1:29500`.
        deserted: it is on this host, and nobody listens there.
        hosts: other hosts that have connections to it, as seen from here.
        others: connections from this host by processes that are no known rank.
    """

    address: str
    deserted: bool
    hosts: tuple[str, ...]
    others: int = 0


def meeting_of(pid: int, environment: Mapping[str, str], known: Iterable[int] = ()) -> Meeting | None:
    """Return the rendezvous of a rank, given the pids of all ranks; None if its environment does not give it."""
    address, port = environment.get("MASTER_ADDR", ""), environment.get("MASTER_PORT", "")
    if not address or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        return None
    table = SocketTable(pid)
    sockets = table.at(int(port))
    joined = [one for one in sockets if one.remote and one.state == "established"]
    hosts = {one.remote.rpartition(":")[0] for one in joined if table.peer(one) is None}
    own = {inode for one in {pid, *known} for inode in _sockets_of(one)}
    others = sum(peer is not None and peer not in own for peer in map(table.peer, joined))
    deserted = address in _HERE and not any(one.listening for one in sockets)
    return Meeting(f"{clean_line(address)}:{int(port)}", deserted, tuple(sorted(hosts))[:_MOST_HOSTS], others)


def _sockets_of(pid: int) -> set[int]:
    try:
        return socket_inodes(pid)
    except OSError:
        return set()


_MOST_ENTRANTS: Final = 8


def collective_task(
    one: Standing,
    prefix: str,
    looks: Mapping[int, Look],
    moved: Mapping[int, frozenset[int]],
    ended: Mapping[int, str],
    *,
    receiving: Collection[int] = (),
    enters: Mapping[int, tuple[str, ...]] | None = None,
) -> Task:
    """Return the task of a collective.

    Args:
        prefix: of the job, if there are several.
        moved: the threads that moved between the last two samples, by rank.
        ended: ranks whose process has ended -> that process, or "".
        receiving: ranks that wait for data from another one.
        enters: see `entrants`.
    """
    first = one.first
    said, follow = _roots(one, looks, receiving)
    does = {rank: f"{entry.name} {_shape(entry.shapes)}".strip() for rank, entry in sorted(one.entries.items())}
    facts = CallFacts(
        **_ranks(one, (*one.entries, *one.passed), looks, ended),
        moved=_ordered(rank for rank in one.absent if looks[rank].moved_in(one.group, moved[rank])),
        elsewhere=_ordered(rank for rank in one.absent if moved[rank]),
        ranks=max(len(one.members), *(len(look.groups.get("0", ())) for look in looks.values())),
        does=does if one.differs else {},
        shape="" if one.differs else _shape(first.shapes),
        roots=said | follow,
        inferred=_ordered(follow),
        timeout_ms=first.timeout_ms or 0,
        enters=dict(enters or {}),
    )
    return Task(
        id=ids.collective(f"{prefix}{_key(one)}", one.sequence),
        system="pytorch",
        name=f"{first.name} #{one.sequence}",
        kernel=first.name,
        state=TaskState.RUNNING,
        since_wall_ns=first.created_wall_ns,
        ends_wall_ns=first.created_wall_ns + first.timeout_ms * 1_000_000 if first.timeout_ms else None,
        facts=facts,
    )


def _roots(
    one: Standing, looks: Mapping[int, Look], receiving: Collection[int]
) -> tuple[dict[int, int], dict[int, int]]:
    """Return the roots in the frames of ranks, and the derived roots of ranks that have left the collective."""
    found = {rank: root_of(looks[rank], entry.thread, entry.name) for rank, entry in one.entries.items()}
    roots = {rank: root for rank, root in found.items() if root is not None}
    if one.first.backend != "gloo" or len({entry.name for entry in one.entries.values()}) > 1:
        return roots, {}
    completed = [rank for rank in one.passed if looks[rank].completed(one.first)]
    return roots, roots_of_completed(one.first.name, one.members, roots, completed, receiving)


def receiving(one: Standing, job: Sequence[RankSeen], snapshot: Snapshot) -> list[int]:
    """Return the ranks in a collective that wait for data from another rank."""
    found = []
    for rank in job:
        if rank.look.rank in one.entries and one.passed:
            threads = snapshot.threads_of(rank.look.process)
            stacks = [snapshot.stacks[thread.id] for thread in threads if thread.id in snapshot.stacks]
            found += [rank.look.rank] if receives(one.first.name, stacks) else []
    return found


def _key(one: Standing | Exchange) -> str:
    """Return a unique key of a group: groups of a device mesh share their description."""
    text = f"{one.description}.{one.group}" if one.description not in ("", one.group) else one.group
    return re.sub(r"[/\s]", "_", text)


def _shape(shapes: Sequence[Sequence[int]]) -> str:
    return f"[{', '.join(map(str, shapes[0]))}]" if shapes else ""


def _ordered(ranks: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(ranks))


def _ranks(
    one: Standing | Exchange, inside: Iterable[int], looks: Mapping[int, Look], ended: Mapping[int, str]
) -> dict[str, Any]:
    """Return the facts of a call that say which ranks are in it, and which are not."""
    gone = {rank: ended[rank] for rank in one.unseen if ended.get(rank)}
    return {
        "group": one.description or one.group,
        "inside": _ordered(inside),
        "absent": _ordered(one.absent),
        "unseen": _ordered(rank for rank in one.unseen if rank not in ended),
        "ended": _ordered(rank for rank in one.unseen if rank in ended),
        "processes": {rank: looks[rank].process for rank in (*inside, *one.absent)} | gone,
        "handles": {rank: looks[rank].handles for rank in one.absent if looks[rank].handles},
    }


def entrants(one: Standing, job: Sequence[RankSeen], host: str) -> dict[int, tuple[str, ...]]:
    """Return, for ranks absent from a collective, the threads that have entered others of its group."""
    found = {}
    for rank in job:
        if rank.look.rank in one.absent:
            enter = {entry.thread for entry in rank.look.entries if entry.group == one.group}
            pid = int(ids.parse(rank.look.process).short)
            tids = sorted(rank.entrants[ident] for ident in enter if ident in rank.entrants)[:_MOST_ENTRANTS]
            found[rank.look.rank] = tuple(ids.thread(host, pid, tid) for tid in tids)
    return {rank: threads for rank, threads in found.items() if threads}


def collective_edges(task: str, one: Standing, job: Sequence[RankSeen], snapshot: Snapshot, host: str) -> list[Edge]:
    """Return the edges from waiting threads to a collective, and from it to absent ranks."""
    what = f"{one.first.name} #{one.sequence} of {one.description or one.group}"
    waiting = {}
    for rank in job:
        entry = one.entries.get(rank.look.rank)
        thread = thread_of(rank, entry.thread, host) if entry is not None else ""
        if entry is not None and thread and waits_in_collective(snapshot.stacks.get(thread)):
            waiting[thread] = f"Flight Recorder of rank {rank.look.rank}: record {entry.record} is not completed"
    return _edges(task, one, job, waiting, f"has not enqueued {what}")


def _edges(
    task: str, one: Standing | Exchange, job: Sequence[RankSeen], waiting: Mapping[str, str], lacks: str
) -> list[Edge]:
    """Return the edges of a call: from threads that wait in it, with the evidence, and to ranks that are absent."""
    absent = {look.process: f"rank {look.rank} {lacks}" for rank in job if (look := rank.look).rank in one.absent}
    return [
        *(Edge(kind=EdgeKind.WAITS_FOR, source=own, target=task, evidence=text) for own, text in waiting.items()),
        *(Edge(kind=EdgeKind.WAITS_FOR, source=task, target=own, evidence=text) for own, text in absent.items()),
    ]


def thread_of(rank: RankSeen, own: int, host: str) -> str:
    """Return the thread id for a pthread_self(3) of a rank; "" if not known."""
    if own not in rank.threads:
        return ""
    return ids.thread(host, int(ids.parse(rank.look.process).short), rank.threads[own])


def exchange_task(
    one: Exchange, prefix: str, looks: Mapping[int, Look], moved: Mapping[int, frozenset[int]], ended: Mapping[int, str]
) -> Task:
    """Return the task of a call that no recorder has.

    Args:
        prefix: of the job, if there are several.
        moved: the threads that moved between the last two samples, by rank.
        ended: ranks whose process has ended -> that process, or "".
    """
    facts = CallFacts(
        **_ranks(one, tuple(one.calls), looks, ended),
        kind=one.name,
        peer=one.peer,
        tag=one.tag if one.peer is not None else None,
        keys=tuple(key for call in one.calls.values() for key in call.keys),
        posted=one.posted,
        under_way=one.under_way,
        moved=_ordered(rank for rank in one.absent if moved[rank]),
        ranks=one.total,
    )
    return Task(
        id=ids.collective(f"{prefix}{_key(one)}", one.key),
        system="pytorch",
        name=_name(one),
        kernel=one.name,
        state=TaskState.RUNNING,
        facts=facts,
    )


def with_meeting(task: Task, waiting: Iterable[str], snapshot: Snapshot) -> Task:
    """Add the rendezvous to the task of `init_process_group`, in which some processes wait."""
    there = [snapshot.processes[one] for one in sorted(waiting)]
    place = meeting_of(there[0].pid, there[0].environment, [one.pid for one in there])
    if place is None:
        return task
    met = {"meets": place.address, "deserted": place.deserted, "hosts": place.hosts, "others": place.others}
    return structs.replace(task, facts=structs.replace(call_facts(task), **met))


def _name(one: Exchange) -> str:
    joint = {"recv": "from", "send": "to"}.get(one.name, "")
    if not joint:
        return one.name
    return f"{one.name} {joint} {'another rank' if one.peer is None else f'rank {one.peer}'}"


def exchange_edges(task: str, one: Exchange, job: Sequence[RankSeen], host: str) -> list[Edge]:
    """Return the edges of a call: waiting threads, and absent ranks."""
    text = "the innermost Python frame of rank {} is in {}"
    inside = [(thread_of(rank, one.calls[n].ident, host), n) for rank in job if (n := rank.look.rank) in one.calls]
    waiting = {thread: text.format(number, one.name) for thread, number in inside if thread}
    return _edges(task, one, job, waiting, f"is not in {one.name}")
