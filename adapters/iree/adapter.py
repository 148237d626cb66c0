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
from livedbg.model import Process
from livedbg.session.adapter import Context, Request, processes_seen
from livedbg.session.polling import PolledAdapter
from livedbg.session.publisher import Statuses

if TYPE_CHECKING:
    from livedbg.adapters.iree.live.watch import LiveWatch

__all__ = ["IreeAdapter"]

_SIGN: Final = b"iree"
_SEARCH_S: Final = 2.0
_SEARCH_MOST_S: Final = 30.0


class IreeAdapter(PolledAdapter):
    """Dispatches, queue operations and semaphores of IREE runtimes in processes."""

    name = "iree"
    sees = "which dispatch runs, what is queued behind it, semaphores that are waited for, and traced tensors in logs"
    cost = (
        "no stop; copies the runtime's memory when what is queued has changed (20 to 200 ms of processor time, at most "
        "1 % of a core), else reads some hundred bytes each second"
    )

    apart_s = 0.5

    def __init__(self) -> None:
        super().__init__()
        self._due: dict[str, tuple[float, float]] = {}
        self._live: LiveWatch | None = None
        self._statuses = Statuses("iree")
        self._looked_twice = False

    @classmethod
    def applies(cls, request: Request) -> bool:
        """When processes are watched, or logs read."""
        return bool(request.processes or request.logs)

    def decoders(self, request: Request) -> Sequence[LogDecoder]:
        """What understands traced tensors."""
        return (TraceDecoder(_once(request), _sources(request)),)

    async def begin(self, context: Context) -> bool:
        """Wait for processes, where some are watched."""
        if context.request.processes:
            await processes_seen(context)
        return bool(context.request.processes)

    async def look(self, context: Context) -> float:
        """Look at the runtimes that are there."""
        found = await self._found(context)
        if found and self._live is None:
            from livedbg.adapters.iree.live.watch import LiveWatch  # numpy, and most sessions have no such process

            self._live = LiveWatch(self._statuses, _once(context.request), _sources(context.request))
        return await self._live.look(context, found) if self._live is not None else _SEARCH_S

    async def again(self, context: Context) -> bool:
        """A session that samples once looks twice."""
        if self._live is None or self._looked_twice or not context.request.once:
            return False
        self._looked_twice = True
        return await self._live.sampled(context)

    async def reread(self, context: Context) -> None:
        """Look at the runtimes again."""
        if self._live is not None:
            await self.turn(context)

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
