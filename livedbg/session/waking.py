"""Adapters that sleep until something shows their system: most sessions see one system, or none.

Invariants:
    waking.A1. A sleeping adapter is not imported. It wakes when a process shows the signs of its system, when the state
        shows the system, when a log is read, or when somebody asks for what no adapter that runs can do.
    waking.A2. The first full look of a session is not done before all processes were looked at for signs, and what was
        woken by then has settled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final

from msgspec import Struct

from livedbg.model.snapshot import Snapshot
from livedbg.session.adapter import Adapter, Context, processes_seen, targets_ended
from livedbg.session.pacing import Backoff, Limit, timed
from livedbg.session.recognition import by_snapshot, of_running

_LIMIT: Final = Limit(cpu=0.002, least_s=0.5, most_s=120.0)  # maps of many large processes take long


class Sleeper(Struct, frozen=True):
    """An adapter that sleeps.

    Attributes:
        system: the name of its system.
        make: imports it; None where it can't be made, or has nothing to do in this session.
    """

    system: str
    make: Callable[[], Adapter | None]


class WakingAdapter(Adapter):
    """Looks which systems the processes of a session show, for the adapters that sleep.

    Args:
        asleep: gives the systems whose adapters sleep.
        wake: wakes the adapters of some systems.
    """

    name = "systems"
    sees = "which systems processes use, by the files that they have mapped and the devices that they have open"
    cost = "reads /proc/PID/maps and the descriptors, more and more rarely; nothing where no system is left to wake"

    def __init__(self, asleep: Callable[[], Collection[str]], wake: Callable[[Collection[str]], None]) -> None:
        self._asleep = asleep
        self._wake = wake

    async def run(self, context: Context) -> None:
        """Look until all are awake."""
        await processes_seen(context)
        pauses = Backoff(_LIMIT.least_s, 5.0, 1.5)
        while self._asleep():
            found, cost = await asyncio.to_thread(timed, _shown, context.snapshot())
            woken = found & set(self._asleep())
            self._wake(woken)
            context.settled()
            if context.request.once or targets_ended(context):
                return
            await context.sleep(max(pauses.reset() if woken else pauses.grow(), _LIMIT.rest_s(cost)))
        context.settled()


def _shown(snapshot: Snapshot) -> set[str]:
    """The systems that the state and the living processes of a session show."""
    found = by_snapshot(snapshot, None)
    for process in snapshot.processes.values():
        if process.target and not process.exited:
            found |= by_snapshot(snapshot, process)
            try:
                found |= of_running(process.pid)
            except OSError:
                continue  # it is gone, or not ours to see
    return found
