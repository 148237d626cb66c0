"""The Ascend adapter: reads what the `simpler` runtime logs and writes, with or without a process.

The log itself is read by the log adapter, which feeds this adapter's decoder; this module watches
the files beside the logs, and notices when a log has gone quiet.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from livedbg.adapter import Adapter, Context, Request, logs_ended
from livedbg.adapters.ascend.decoder import AscendDecoder
from livedbg.adapters.ascend.files import FileWatch, folders_of
from livedbg.adapters.ascend.model import AscendModel
from livedbg.events import StatusSeen
from livedbg.logs.decoder import LogDecoder
from livedbg.model import SourceHealth, SourceStatus

__all__ = ["AscendAdapter"]

_POLL_S: Final = 2.0
_LOGS_S: Final = 120.0  # how long one look waits for the logs


class AscendAdapter(Adapter):
    """Tasks, cores and dependencies of Ascend NPU runs."""

    name = "ascend"
    sees = "tasks, cores, dependencies and stalls of the `simpler` runtime, from its log, deps.json and name_map*.json"
    cost = "reads log lines that are read anyway, and looks for two kinds of files every 2 s; the target is not touched"

    def __init__(self) -> None:
        self.model = AscendModel()
        self._files = FileWatch()
        self._decoder: AscendDecoder | None = None
        self._told: set[Path] = set()

    @classmethod
    def applies(cls, request: Request) -> bool:
        """Every session that reads logs may read one of this runtime."""
        return bool(request.processes or request.logs)

    def decoders(self, request: Request) -> Sequence[LogDecoder]:
        """The decoder of the runtime's log."""
        if self._decoder is None:
            self._decoder = AscendDecoder(self.model)
        return (self._decoder,)

    async def run(self, context: Context) -> None:
        """Watch the files and the silence."""
        settled = False
        while True:
            over = logs_ended(context)  # this is the last look
            await self._look(context)
            with self.model.lock:
                context.emit(*self.model.collect(context.stamp(), whole=True))
            if not settled:
                settled = True
                context.settled()
            if context.request.once or over:
                return
            await context.sleep(_POLL_S)

    async def _look(self, context: Context) -> None:
        if context.request.once:
            await self._after_logs(context)
        folders = await asyncio.to_thread(folders_of, [*context.request.logs, *self._logs_of(context)])
        files = await asyncio.to_thread(self._files.look, folders)
        with self.model.lock:
            for file in files:
                self.model.take(file)
        self._tell(context)

    async def _after_logs(self, context: Context) -> None:
        """One look: what the files add is said after what the logs said."""
        deadline = time.monotonic() + _LOGS_S
        while not self.model.settled and time.monotonic() < deadline:
            await context.sleep(0.01)

    def _logs_of(self, context: Context) -> list[str]:
        """Where the logs lie that are being read for the processes."""
        return [source.path for source in context.snapshot().log_sources.values() if source.path]

    def _tell(self, context: Context) -> None:
        problems = self._files.problems
        for path, problem in problems.items():
            if path not in self._told and not (problem.passing and not context.request.once):
                self._told.add(path)
                self._status(context, path, SourceHealth.DEGRADED, problem.sentence)
        for path in [path for path in self._told if path not in problems]:
            self._told.discard(path)
            self._status(context, path, SourceHealth.OK, "")

    def _status(self, context: Context, path: Path, health: SourceHealth, sentence: str) -> None:
        remedy = "check that the run that writes it has ended" if sentence else ""
        status = SourceStatus(
            source=self.name, target=str(path), health=health, code="bad-file", sentence=sentence, remedy=remedy
        )
        context.emit(StatusSeen(status=status, **context.stamp()))
