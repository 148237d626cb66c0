"""Sleeping adapters: not imported until something shows their system; most sessions see one system, or none.

Invariants:
    waking.A1. A sleeping adapter is not imported. It wakes when a process shows the signs of its system, when the state
        shows the system (or a thread that runs or naps), when a log is read, or when somebody sends an intent that no
        running adapter handles.
    waking.A2. The first full sample of a session is not done before all processes were checked for signs, and the
        adapters woken by then have settled.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from typing import Final

from msgspec import Struct

from livedbg.model.snapshot import Snapshot
from livedbg.session.adapter import Adapter, Context, processes_seen, targets_ended, threads_seen
from livedbg.session.pacing import Backoff, Limit, timed
from livedbg.session.recognition import by_snapshot, of_running
from livedbg.session.running import napping, running

_LIMIT: Final = Limit(cpu=0.002, least_s=0.5, most_s=120.0)  # maps of many large processes take long


class Sleeper(Struct, frozen=True):
    """A sleeping adapter; `make` imports it, or returns None if it has nothing to do in this session."""

    system: str
    make: Callable[[], Adapter | None]


class WakingAdapter(Adapter):
    """Checks which systems the processes of a session use, and wakes their adapters."""

    name = "systems"
    sees = "which systems processes use, by the files that they have mapped and the devices that they have open"
    cost = "reads /proc/PID/maps and the descriptors, more and more rarely; nothing where no system is left to wake"

    def __init__(self, asleep: Callable[[], Collection[str]], wake: Callable[[Collection[str]], None]) -> None:
        self._asleep = asleep
        self._wake = wake

    async def run(self, context: Context) -> None:
        """Check until all are awake: named processes at once, the others when they are known."""
        named = {target.pid for target in context.request.processes}
        self._wake(await asyncio.to_thread(_of_processes, named))
        await processes_seen(context)
        await threads_seen(context)
        pauses, files_s = Backoff(_LIMIT.least_s, 5.0, 1.5), 0.0
        while self._asleep():
            snapshot = context.snapshot()
            found = {"samples"} if running(snapshot) or napping(snapshot) else set()
            if time.monotonic() >= files_s:  # a thread that runs is seen in between, however long the files take
                shown, cost = await asyncio.to_thread(timed, _shown, snapshot, named)
                found, named, files_s = found | shown, set(), time.monotonic() + _LIMIT.rest_s(cost)
            woken = found & set(self._asleep())
            self._wake(woken)
            context.settled()
            if context.request.once or targets_ended(context):
                return
            await context.sleep(pauses.reset() if woken else pauses.grow())
        context.settled()


def _shown(snapshot: Snapshot, known: Collection[int] = ()) -> set[str]:
    """Return the systems that the state and the living processes show; files of processes in `known` are not read."""
    found = by_snapshot(snapshot, None)
    living = [process for process in snapshot.processes.values() if process.target and not process.exited]
    for process in living:
        found |= by_snapshot(snapshot, process)
    return found | _of_processes({process.pid for process in living} - set(known))


def _of_processes(pids: Collection[int]) -> set[str]:
    found: set[str] = set()
    for pid in pids:
        try:
            found |= of_running(pid, languages=True)
        except OSError:
            continue  # it is gone, or not ours to see
    return found
