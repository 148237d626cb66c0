"""Whom ranks that have completed a broadcast or scatter of gloo had it from, by what the others still wait for.

Invariants:
    senders.S1. gloo sends to a rank only once that has asked this one for it. Who has completed its part has had it
        from the rank that sends to it, and has been asked by each of those that it sends to.
    senders.S3. Who still waits for it has not had it: so no rank that has completed its part sends to this one.
    senders.S2. A root is given only if no other one is left of all ranks; of what a rank does that has not completed
        it nothing is taken for known but the root that its frame has.

Source: gloo/broadcast.cc (a binomial tree) and gloo/scatter.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from livedbg.model import Stack

__all__ = ["receives", "roots_of_completed"]

_MOST: Final = 64
_WAITS: Final = "gloo::transport::tcp::UnboundBuffer::waitRecv("


def _in_tree(rank: int, root: int, total: int) -> int | None:
    """Who sends to a rank in a broadcast; None for the root."""
    number = (rank - root) % total
    return (number - (1 << number.bit_length() - 1) + root) % total if number else None


def _from_root(rank: int, root: int, _total: int) -> int | None:
    return root if rank != root else None


_SENDERS: Final[Mapping[str, Callable[[int, int, int], int | None]]] = {"broadcast": _in_tree, "scatter": _from_root}


def roots_of_completed(
    name: str,
    members: Sequence[int],
    roots: Mapping[int, int],
    completed: Collection[int],
    receiving: Collection[int] = (),
) -> dict[int, int]:
    """The roots that ranks had which have completed a collective, where these follow from the others'.

    Args:
        name: of the collective.
        members: the ranks of its group, in the group's own order.
        roots: of ranks that are in it: the roots that they have.
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
    """Whether a rank still waits for a collective of gloo, if it is in one of this name only.

    Args:
        name: of the collective.
        stacks: of the threads of its process.
    """
    function = f"gloo::{name}("
    inside = [one for one in stacks if any(frame.function.startswith(function) for frame in one.frames)]
    return len(inside) == 1 and any(frame.function.startswith(_WAITS) for frame in inside[0].frames)
