"""The calls that ranks are in, with what the native stacks of their threads say of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import structs

from livedbg.adapters.pytorch.collectives.exchanges import said_by, standing_calls
from livedbg.adapters.pytorch.collectives.joined import Look
from livedbg.adapters.pytorch.collectives.python_calls import PythonCall
from livedbg.adapters.pytorch.collectives.ranks import RankSeen
from livedbg.adapters.pytorch.collectives.tasks import thread_of
from livedbg.model.snapshot import Snapshot

__all__ = ["said_of"]


def said_of(
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
