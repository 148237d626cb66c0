"""The nvFuser adapter: reads what nvFuser prints and traces, with or without a process."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from livedbg.adapters.nvfuser.decoder import NvfuserDecoder
from livedbg.adapters.nvfuser.model import NvfuserModel
from livedbg.adapters.nvfuser.trace_files import TraceWatch
from livedbg.logs.decoder import LogDecoder
from livedbg.session.adapter import Context, Request, logs_ended
from livedbg.session.polling import PolledAdapter
from livedbg.session.publisher import Statuses
from livedbg.text.sanitize import clean_line

if TYPE_CHECKING:
    from livedbg.adapters.nvfuser.log_follower import LogFollower

__all__ = ["NvfuserAdapter"]

_POLL_S: Final = 1.0
_SLICE_S: Final = 0.5
_LOGS_S: Final = 120.0  # how long a session that reads once waits for the logs
_ENVIRON: Final = 1 << 20


class NvfuserAdapter(PolledAdapter):
    """Segments of nvFuser's fusions, and the passes that its threads are in."""

    name = "nvfuser"
    sees = "fusions, their segments and errors, from what nvFuser prints, and its passes from NVFUSER_TRACE's file"
    cost = "reads such logs a second time, and looks for traces each second; the target is not touched"

    of_logs = True

    def __init__(self) -> None:
        super().__init__()
        self.model = NvfuserModel()
        self._follower: LogFollower | None = None
        self._statuses = Statuses(self.name)

    @classmethod
    def applies(cls, request: Request) -> bool:
        """Every session that reads logs may read one of nvFuser."""
        return bool(request.processes or request.logs)

    def decoders(self, request: Request) -> Sequence[LogDecoder]:
        """What recognises nvFuser's logs."""
        return (NvfuserDecoder(self.model),)

    async def begin(self, context: Context) -> bool:
        """A session that reads once waits for the logs."""
        self._traces = TraceWatch(context.request.host)
        if context.request.once:
            await self._after_logs(context)
        return True

    async def look(self, context: Context) -> float:
        """Read on in the logs and the traces."""
        if self.model.wanted:
            await self._follow(context, final=context.request.once or logs_ended(context))
        context.emit(*self.model.collect(context.stamp()))
        places = [*context.request.logs, *await self._named_traces(context)]
        while await asyncio.to_thread(self._traces.read, places, _SLICE_S):
            context.emit(*self._traces.events(context.stamp()))
            await context.drain()
        context.emit(*self._traces.events(context.stamp()))
        for path, sentence in self._follower.problems.items() if self._follower is not None else ():
            remedy = "copy the whole file, if it was cut on its way"
            self._statuses.say(context, clean_line(path), "bad-file", clean_line(sentence), remedy)
        return _POLL_S

    async def _follow(self, context: Context, *, final: bool) -> None:
        """Read on in the logs that have nvFuser's text."""
        if self._follower is None:
            from livedbg.adapters.nvfuser.log_follower import LogFollower  # 30 ms, and most sessions have no such log

            self._follower = LogFollower(self.model)
        while await asyncio.to_thread(self._follower.read, _SLICE_S, final):
            context.emit(*self.model.collect(context.stamp()))
            await context.drain()

    async def _after_logs(self, context: Context) -> None:
        """A session that reads once: the log adapter says which logs have nvFuser's text."""
        deadline = time.monotonic() + _LOGS_S
        while not self.model.settled and time.monotonic() < deadline:
            await context.sleep(0.01)

    async def _named_traces(self, context: Context) -> list[str]:
        """Where the targets' environments say that their traces are written."""
        host = context.request.host
        pids = [p.pid for p in context.snapshot().processes.values() if p.host == host and not p.exited]
        pids += [target.pid for target in context.request.processes]
        return await asyncio.to_thread(_traces_of, dict.fromkeys(pids))


def _traces_of(pids: dict[int, None]) -> list[str]:
    found: list[str] = []
    for pid in pids:
        with contextlib.suppress(OSError), Path(f"/proc/{pid}/environ").open("rb") as file:
            for entry in file.read(_ENVIRON).split(b"\0"):
                name, _, value = entry.partition(b"=")
                if name == b"NVFUSER_TRACE" and value:
                    path = Path(value.decode("utf-8", "surrogateescape"))
                    found.append(str(path if path.is_absolute() else Path(f"/proc/{pid}/cwd").resolve() / path))
    return found
