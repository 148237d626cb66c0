"""What the rules about launches share: how long a process was listened to, and how they say it.

Invariants:
    launch_words.L1. Time in which nobody listened to launches counts for nothing, nor does that of which nobody has
        read yet what was heard.
"""

from __future__ import annotations

from typing import Final

from livedbg.analysis.rules.words import duration
from livedbg.model import Process, ids
from livedbg.model.launches import HEARD, HEARD_TO
from livedbg.model.snapshot import CounterKey, Snapshot

__all__ = ["HABIT", "heard", "next_steps", "often"]

HABIT: Final = 4
"""So many half seconds in which something was launched are a habit."""

_SECOND_NS: Final = 1_000_000_000


def heard(process: Process, snapshot: Snapshot) -> tuple[int, int] | None:
    """Since when and until when all launches of a process were heard at least (CLOCK_MONOTONIC, ns): L1."""
    listens = snapshot.counters.get(CounterKey(process.id, HEARD))
    if listens is None or not listens.value:
        return None
    now, to = snapshot.now(process.host).mono_ns, snapshot.counters.get(CounterKey(process.id, HEARD_TO))
    return listens.changed_mono_ns, now if to is None else min(now, int(to.value * _SECOND_NS))


def often(per_s: float) -> str:
    """How often something came, in the mean."""
    return f"{per_s:,.0f} a second" if per_s >= 2 else f"one in {duration(1e9 / per_s)}"


def next_steps(process: str) -> tuple[str, ...]:
    """What to do where launches have stopped."""
    pid = ids.parse(process).short
    return (
        f"livedbg stacks {pid} --glance   (what its threads are at, also those that spin)",
        f"livedbg device {pid} --dump   (whether a kernel still runs, and where its warps stand)",
    )
