"""How often a process launches kernels, and in which span of time all its launches were traced.

Invariants:
    launch_rates.L1. Time in which launches were not traced does not count, nor time whose events were not read yet.
"""

from __future__ import annotations

from typing import Final

from livedbg.analysis.rules.words import duration
from livedbg.model import Process, ids
from livedbg.model.launches import TRACED, TRACED_TO
from livedbg.model.snapshot import CounterKey, Snapshot

__all__ = ["HABIT", "next_steps", "often", "traced_span"]

HABIT: Final = 4
"""Number of half seconds with launches that show a regular rate."""

_SECOND_NS: Final = 1_000_000_000


def traced_span(process: Process, snapshot: Snapshot) -> tuple[int, int] | None:
    """The span in which all launches of a process were traced (CLOCK_MONOTONIC, ns), at least: L1."""
    traced = snapshot.counters.get(CounterKey(process.id, TRACED))
    if traced is None or not traced.value:
        return None
    now, to = snapshot.now(process.host).mono_ns, snapshot.counters.get(CounterKey(process.id, TRACED_TO))
    return traced.changed_mono_ns, now if to is None else min(now, int(to.value * _SECOND_NS))


def often(per_s: float) -> str:
    """A mean rate, as text."""
    return f"{per_s:,.0f} a second" if per_s >= 2 else f"one in {duration(1e9 / per_s)}"


def next_steps(process: str) -> tuple[str, ...]:
    """Next steps when launches have stopped."""
    pid = ids.parse(process).short
    return (
        f"livedbg stacks {pid}   (stacks of all threads, also of those that spin)",
        f"livedbg device {pid} --dump   (which kernel runs, and where its warps are)",
    )
