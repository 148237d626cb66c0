"""The IREE adapter: what a runtime in a process has queued, runs and waits for, read from its memory.

Invariants:
    iree_adapter.R1. No target is stopped, and nothing is set or run in it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from livedbg.adapters.iree.dispatch_graph import DispatchGraph, graph_beside
from livedbg.adapters.iree.dumped_sources import Dumped, dumped_beside
from livedbg.adapters.iree.trace_decoder import TraceDecoder
from livedbg.logs.decoder import LogDecoder
from livedbg.model import Process, SourceStatus
from livedbg.model.events import StatusSeen
from livedbg.session.adapter import Adapter, Context, Request, processes_seen, targets_ended

if TYPE_CHECKING:
    from livedbg.adapters.iree.live.watch import LiveWatch

__all__ = ["IreeAdapter"]

_SIGN: Final = b"iree"
_SEARCH_S: Final = 2.0
_SEARCH_MOST_S: Final = 30.0


class IreeAdapter(Adapter):
    """Dispatches, queue operations and semaphores of IREE runtimes in processes."""

    name = "iree"
    sees = "which dispatch runs, what is queued behind it, semaphores that are waited for, and traced tensors in logs"
    cost = (
        "no stop; copies the runtime's memory when what is queued has changed (20 to 200 ms of processor time, at most "
        "1 % of a core), else reads some hundred bytes each second"
    )

    def __init__(self) -> None:
        self._due: dict[str, tuple[float, float]] = {}
        self._live: LiveWatch | None = None
        self._said: dict[tuple[str, str], SourceStatus] = {}

    @classmethod
    def applies(cls, request: Request) -> bool:
        """When processes are watched, or logs read."""
        return bool(request.processes or request.logs)

    def decoders(self, request: Request) -> Sequence[LogDecoder]:
        """What understands traced tensors."""
        return (TraceDecoder(_once(request), _sources(request)),)

    async def run(self, context: Context) -> None:
        """Look until the targets have ended."""
        if not context.request.processes:
            context.settled()
            return
        await processes_seen(context)
        settled = False
        while not targets_ended(context):
            found = await self._found(context)
            if found and self._live is None:
                from livedbg.adapters.iree.live.watch import LiveWatch  # numpy, and most sessions have no such process

                self._live = LiveWatch(self._say, _once(context.request), _sources(context.request))
            pause_s = _SEARCH_S
            if self._live is not None:
                pause_s = await self._live.turn(context, found)
            if context.request.once:
                break
            if not settled:
                settled = True
                context.settled()
            await context.sleep(pause_s)
        if not settled:
            context.settled()

    async def reread(self, context: Context) -> None:
        """Look at the runtimes again."""
        if self._live is not None:
            await self._live.reread(context, await self._found(context))

    async def _found(self, context: Context) -> list[Process]:
        """The processes that have mapped something of IREE."""
        living = [one for one in context.snapshot().processes.values() if one.target and not one.exited]
        return [one for one in living if await self._shows(one)]

    async def _shows(self, process: Process) -> bool:
        """Looked at again and again, more and more rarely; once it shows, it is believed."""
        at_s, pause_s = self._due.get(process.id, (0.0, _SEARCH_S))
        if pause_s == 0:
            return True
        if time.monotonic() < at_s:
            return False
        shows = await asyncio.to_thread(_mentions, process.pid)
        later = (time.monotonic() + pause_s, min(_SEARCH_MOST_S, 2 * pause_s))
        self._due[process.id] = (0.0, 0.0) if shows else later
        return shows

    def _say(self, context: Context, statuses: Sequence[SourceStatus]) -> None:
        for status in statuses:
            if self._said.get((status.target or "", status.code)) != status:
                self._said[status.target or "", status.code] = status
                context.emit(StatusSeen(status=status, **context.stamp()))


def _once(request: Request) -> Callable[[], DispatchGraph | None]:
    """Gives the dispatch graph beside the logs: looked for when it is first needed."""
    return cache(partial(graph_beside, tuple(map(Path, request.logs))))


def _sources(request: Request) -> Callable[[], Mapping[str, Dumped]]:
    """Gives the dumped sources beside the logs: looked for when they are first needed."""
    return cache(partial(dumped_beside, tuple(map(Path, request.logs))))


def _mentions(pid: int) -> bool:
    try:
        return _SIGN in Path(f"/proc/{pid}/maps").read_bytes()
    except OSError:
        return False  # gone, or not ours to look at: the process adapter says so
