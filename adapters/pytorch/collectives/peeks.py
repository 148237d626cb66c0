"""Whether the ranks go on, at next to no cost: how many operations each rank's recorders have had.

All that the ring of a loop has is new after some seconds, and to read it takes some ten milliseconds a rank.

Invariants:
    peeks.K1. While every rank goes on from one peek to the next, rings are read every `CALM_S`. As soon as one does
        not, they are read at once, and again a moment later: two looks tell what stands.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from livedbg.adapters.pytorch.collectives.ranks import RankReader
from livedbg.session.adapter import Context, targets_ended

__all__ = ["CALM_S", "PEEK_S", "Peeks", "counts_of", "rest"]

CALM_S: Final = 15.0
PEEK_S: Final = 2.0
_LEAST_S: Final = 1.0


class Peeks:
    """Counts of ranks, compared from one time to the next."""

    def __init__(self) -> None:
        self._before: Mapping[str, int] = {}

    def take(self, counts: Mapping[str, int]) -> bool:
        """Whether every rank has enqueued something since the last time; False where there is none.

        Args:
            counts: by process, of all ranks.
        """
        before, self._before = self._before, dict(counts)
        return bool(counts) and all(count > before.get(process, count) for process, count in counts.items())


def counts_of(readers: Iterable[RankReader]) -> dict[str, int]:
    """How many operations each rank has enqueued so far, by process; those are left out of which nothing is read."""
    found: dict[str, int] = {}
    for reader in readers:
        try:
            count = reader.count()
        except OSError:
            continue  # gone, or not ours to look at: the next look says so
        if count is not None:
            found[reader.process.id] = count
    return found


async def rest(context: Context, peek: Callable[[], Awaitable[bool]], pause_s: float) -> bool:
    """Wait until the rings are to be read again (K1).

    Args:
        context: of the session.
        peek: whether every rank went on since the last peek.
        pause_s: how long to wait while one does not.

    Returns:
        Whether all ranks went on, and now one does not.
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
