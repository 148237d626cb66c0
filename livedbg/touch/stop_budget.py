"""The time for which a process may be stopped before a watchdog of its runtime gives up on the work.

A runtime that watches its own progress by the wall clock takes a stop for a stall. An adapter that knows of such a
watchdog reports it by a diagnostic with the code `watchdog-armed`: `entities` are the processes, `facts` are
`WatchdogFacts`. Ask here before a stop.

Invariants:
    stop_budget.W1. The answer follows from the state and the time alone.
    stop_budget.W2. Nothing known is no limit; a limit with unknown idle time is halved.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from livedbg.model import Diagnostic
from livedbg.model.facts import Facts, read_facts
from livedbg.model.snapshot import Snapshot

LEAST_S: Final = 0.25
"""With less budget than this, no stop is begun: one takes some hundredths of a second, seldom more."""

_RESERVE_SHARE: Final = 0.1
_RESERVE_S: Final = 0.5


class WatchdogFacts(Facts, frozen=True, kw_only=True, tag="watchdog"):
    """Facts of a watchdog that ends a run.

    Attributes:
        limit_s: after how long it gives up.
        since_wall_ns: last known progress.
        by: how the limit is known, or "".
    """

    limit_s: float | None = None
    since_wall_ns: int | None = None
    watchdog: str = "a watchdog of its runtime"
    by: str = ""


class StopBudget(Struct, frozen=True):
    """The seconds for which something may be stopped now (0: not at all), and why."""

    seconds: float
    sentence: str


def stop_budget(snapshot: Snapshot, process: str, now_wall_ns: int) -> StopBudget | None:
    """Return how long a thread of a process may be stopped from now on.

    Returns:
        The tightest limit of all watchdogs that watch it, or None if none is known.
    """
    budgets = [
        _budget(watchdog, now_wall_ns)
        for watchdog in snapshot.diagnostics.values()
        if watchdog.code == "watchdog-armed" and not watchdog.resolved and _watches(watchdog, process, snapshot)
    ]
    return min((budget for budget in budgets if budget is not None), key=lambda budget: budget.seconds, default=None)


def _watches(watchdog: Diagnostic, process: str, snapshot: Snapshot) -> bool:
    """Return whether a watchdog watches the process, its ancestors or its descendants: they share one log."""
    lines = {*watchdog.entities}
    return bool(lines & set(_ancestors(process, snapshot))) or any(
        process in _ancestors(entity, snapshot) for entity in watchdog.entities
    )


def _ancestors(process: str, snapshot: Snapshot) -> list[str]:
    found: list[str] = []
    known = snapshot.processes.get(process)
    by_pid = {(other.host, other.pid): other for other in snapshot.processes.values() if not other.exited}
    while known is not None and known.id not in found:
        found.append(known.id)
        known = by_pid.get((known.host, known.ppid)) if known.ppid is not None else None
    return found or [process]


def _budget(watchdog: Diagnostic, now_wall_ns: int) -> StopBudget | None:
    known = read_facts(watchdog, WatchdogFacts)
    who, limit_s = known.watchdog, known.limit_s
    if limit_s is None or known.since_wall_ns is None:
        return None
    limit = f"{limit_s:g} s" + (f", {known.by}" if known.by else "")
    idle_s = (now_wall_ns - known.since_wall_ns) / 1e9
    reserve_s = min(limit_s / 2, max(_RESERVE_S, limit_s * _RESERVE_SHARE))
    if 0 <= idle_s <= limit_s:
        seconds = max(0.0, limit_s - idle_s - reserve_s)
        why = f"{who} ends the run after {limit} without progress; there was none for {idle_s:.0f} s"
        return StopBudget(seconds, f"A longer stop would end the run: {why}.")
    seconds = max(0.0, limit_s / 2 - reserve_s)
    why = f"{who} ends the run after {limit} without progress; its log does not show the last progress"
    return StopBudget(seconds, f"A longer stop could end the run: {why}.")
