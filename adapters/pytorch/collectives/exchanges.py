"""Joins what the threads of a job's ranks call that no recorder has: sends, receives, monitored barriers.

Invariants:
    exchanges.E1. A call stands only if the same call, with the same variables, was there at two looks. It may still be
        another one, as variables come to lie where those of the call before lay: since when its thread waits says more.
    exchanges.E2. A receive whose sender is in a send to it, of the same group and tag, lacks nobody: bytes may be on
        their way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from livedbg.adapters.pytorch.collectives.joined import Look
from livedbg.adapters.pytorch.collectives.python_calls import PythonCall

__all__ = ["Exchange", "exchanges", "root_of", "standing_calls"]

_OTHER: Final = {"recv": "send", "send": "recv"}
_TOGETHER: Final = ("monitored_barrier", "init_process_group", "new_group")


class Exchange(Struct, frozen=True, kw_only=True):
    """A call that stands, on one rank or on several.

    Attributes:
        name: of the function.
        group: name of the group.
        description: what its author called it, or "".
        peer: of a send or a receive: the other rank.
        tag: of a message.
        calls: by rank, of those that are in it.
        absent: ranks that it lacks and that are seen.
        unseen: ranks that it lacks and of which nothing is known.
        total: how many ranks it takes.
    """

    name: str
    group: str
    description: str
    peer: int | None
    tag: int
    calls: Mapping[int, PythonCall]
    absent: tuple[int, ...]
    unseen: tuple[int, ...]
    total: int

    @property
    def key(self) -> str:
        """What tells it from the others of its group: `recv.0.1.7` is rank 0's receive from rank 1 with tag 7."""
        ranks = [*self.calls] if self.peer is not None else []
        parts = (self.name, *ranks[:1], self.peer, self.tag) if self.peer is not None else (self.name,)
        return ".".join(map(str, parts))


def standing_calls(before: Look | None, now: Look) -> tuple[PythonCall, ...]:
    """The calls that stand for a rank (E1)."""
    return tuple(call for call in now.calls if before is not None and call in before.calls)


def root_of(look: Look, thread: int, name: str) -> int | None:
    """The root of a collective that a thread is in; None where it can't be told.

    Args:
        look: at its rank.
        thread: as pthread_self(3) has it.
        name: of the collective.
    """
    return next((call.peer for call in look.calls if call.ident == thread and call.name == name), None)


def exchanges(looks: Sequence[Look], stands: Mapping[int, Sequence[PythonCall]]) -> list[Exchange]:
    """What stands for the ranks of a job.

    Args:
        looks: one for each rank that is seen.
        stands: the calls that stand for each of them, by rank.
    """
    by_rank = {look.rank: look for look in looks}
    described = {e.group: e.description for look in looks for e in look.entries if e.description}
    found = [*_messages(by_rank, stands, described), *_meetings(by_rank, stands, described)]
    return sorted(found, key=lambda one: (one.name, min(one.calls)))


def _messages(
    looks: Mapping[int, Look], stands: Mapping[int, Sequence[PythonCall]], described: Mapping[str, str]
) -> Iterator[Exchange]:
    for rank, calls in stands.items():
        for call in calls:
            if call.name not in _OTHER or call.peer is None or call.peer == rank:
                continue
            other = _matching(call, rank, looks)
            lacks = () if other is not None else (call.peer,)
            yield Exchange(
                name=call.name,
                group=call.group,
                description=described.get(call.group, ""),
                peer=call.peer,
                tag=call.tag,
                calls={rank: call} if other is None else {rank: call, call.peer: other},
                absent=tuple(one for one in lacks if one in looks),
                unseen=tuple(one for one in lacks if one not in looks),
                total=2,
            )


def _matching(call: PythonCall, rank: int, looks: Mapping[int, Look]) -> PythonCall | None:
    """The other end of a message, if its rank is in it (E2)."""
    other = looks.get(call.peer if call.peer is not None else -1)
    wanted = (_OTHER[call.name], call.group, rank, call.tag)
    calls = other.calls if other is not None else ()
    return next((one for one in calls if (one.name, one.group, one.peer, one.tag) == wanted), None)


def _meetings(
    looks: Mapping[int, Look], stands: Mapping[int, Sequence[PythonCall]], described: Mapping[str, str]
) -> Iterator[Exchange]:
    found: dict[tuple[str, str], dict[int, PythonCall]] = {}
    for rank, calls in stands.items():
        for call in calls:
            if call.name in _TOGETHER and call.group:
                found.setdefault((call.name, call.group), {})[rank] = call
    for (name, group), inside in found.items():
        members = max((looks[rank].groups.get(group, ()) for rank in inside), key=len)
        fresh = {rank for rank, look in looks.items() if any((c.name, c.group) == (name, group) for c in look.calls)}
        if name == "init_process_group":  # who has process groups has left it
            fresh |= {rank for rank, look in looks.items() if look.initialised}
        others = [rank for rank in members if rank not in inside and rank not in fresh]
        yield Exchange(
            name=name,
            group=group,
            description=described.get(group, ""),
            peer=None,
            tag=0,
            calls=inside,
            absent=tuple(rank for rank in others if rank in looks),
            unseen=tuple(rank for rank in others if rank not in looks),
            total=len(members),
        )
