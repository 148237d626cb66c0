"""The cuda-gdb adapter: takes a GPU core dump on request, and reads those that a process writes by itself.

Invariants:
    cudagdb_adapter.G1. Without an intent nothing is requested from a process; if intrusive actions are forbidden,
        never.
    cudagdb_adapter.G2. A requested dump is in the ledger before it is read.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from pathlib import Path
from typing import ClassVar, Final

from livedbg.adapters.cuda.cudagdb.core_dump import open_core, sort_cores
from livedbg.adapters.cuda.cudagdb.device_state import compare_states
from livedbg.adapters.cuda.cudagdb.dump_files import DumpWatch, find_dump_pipe, has_dump_pipe, watch_of
from livedbg.adapters.cuda.cudagdb.dump_request import read_dump, refuse_abort, request_dump
from livedbg.adapters.cuda.cudagdb.engine import find_cuda_gdb
from livedbg.adapters.cuda.cudagdb.state_text import events_of
from livedbg.model import Intrusion, Process, SourceHealth
from livedbg.model.devices import DUMP_READY, DeviceState
from livedbg.model.errors import LivedbgError
from livedbg.model.events import Touched
from livedbg.model.intents import DumpDevice, Intent
from livedbg.session.adapter import Context, Level, Request, living
from livedbg.session.pacing import Cost, Limit
from livedbg.session.polling import PolledAdapter
from livedbg.session.publisher import Statuses
from livedbg.text.sanitize import clean_line
from livedbg.touch.config import refuse_touch

_LIMIT: Final = Limit(wall=0.02, least_s=2.0, most_s=5.0)  # of hundreds of processes all descriptors are read
_LAST_CHECKS: Final = 4
_LAST_S: Final = 0.25
_READ_S: Final = 120.0


class CudaGdbAdapter(PolledAdapter):
    """Shows the device state of processes."""

    name: ClassVar[str] = "cudagdb"
    sees: ClassVar[str] = "kernels, warps and exceptions on CUDA devices, from GPU core dumps"
    cost: ClassVar[str] = "only on request: kernels are stopped while the driver writes the dump; host threads go on"
    level: ClassVar[Level] = Level.TOUCH
    handles: ClassVar[tuple[type[Intent], ...]] = (DumpDevice,)

    awaited = False

    def __init__(self) -> None:
        super().__init__()
        self._statuses = Statuses(self.name)
        self._watches: dict[str, DumpWatch | None] = {}
        self._ready: set[str] = set()
        self._newest: dict[str, DeviceState] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    @classmethod
    def applies(cls, request: Request) -> bool:
        return bool(request.processes) and not request.once

    async def run(self, context: Context) -> None:
        await super().run(context)
        for _ in range(_LAST_CHECKS if any(self._watches.values()) else 0):  # a job often ends right after its dump
            await asyncio.sleep(_LAST_S)
            await self.look(context)

    async def look(self, context: Context) -> float:
        """Find processes that accept requests, and the dumps that they wrote."""
        begun_s = time.monotonic()
        for process in list(context.snapshot().processes.values()):
            if process.target:
                await self._check(context, process)
        return _LIMIT.rest_s(Cost(wall_s=time.monotonic() - begun_s))

    async def handle(self, intent: Intent, context: Context) -> None:
        """Take a dump of one process and read it.

        Raises:
            TouchRefused: intrusive actions are forbidden, or the dump may end the process.
            ToolMissing: there is no cuda-gdb; nothing was requested.
            TargetError: the process accepts no such request, or no dump came.
            SourceError: the dump can't be read.
        """
        assert isinstance(intent, DumpDevice)
        process = living(context, intent.process)
        refuse_touch(context.request, "A GPU core dump stops the kernels while it is written")
        gdb = find_cuda_gdb(_named(context.request))
        place = await asyncio.to_thread(find_dump_pipe, process.pid)
        if not intent.may_abort:
            refuse_abort(place)

        def touched(touch: Intrusion) -> None:
            context.emit(Touched(intrusion=touch, **context.stamp()))

        async with self._locks[process.id]:
            dumped = await request_dump(place, process.id, touched, intent.limit_s)
            watch = self._watches.get(process.id)
            if watch is not None:
                watch.forget()
            state = await read_dump(gdb, dumped, place, process.id, _READ_S)
        self._emit(context, state)

    async def _check(self, context: Context, process: Process) -> None:
        """Check whether a process accepts requests, and read the dumps that it wrote."""
        if process.id not in self._watches:
            self._watches[process.id] = await asyncio.to_thread(watch_of, process.pid)
        if process.id not in self._ready and not process.exited and await asyncio.to_thread(has_dump_pipe, process.pid):
            self._ready.add(process.id)
            sentence = "It accepts requests for a GPU core dump: D on the screen Device, or livedbg device PID --dump."
            self._statuses.say(context, process.id, DUMP_READY, sentence, health=SourceHealth.OK)
        watch = self._watches[process.id]
        if watch is None or self._locks[process.id].locked():
            return
        for path in await asyncio.to_thread(watch.find):
            await self._read(context, process, path)

    async def _read(self, context: Context, process: Process, path: Path) -> None:
        try:
            core, _ = sort_cores([path])
            gdb = find_cuda_gdb(_named(context.request))
            state = await open_core(gdb, core, None, process.id, limit_s=_READ_S, pid=process.pid)
        except LivedbgError as error:
            said = clean_line(f"A GPU core dump was written, {path}, and can't be read: {error.message}")
            self._statuses.say(context, process.id, error.code, said, clean_line(error.remedy))
            return
        self._emit(context, state)

    def _emit(self, context: Context, state: DeviceState) -> None:
        known = compare_states(self._newest.get(state.target), state)
        self._newest[state.target] = known
        context.emit(*events_of(known, context.stamp()))


def _named(request: Request) -> str | None:
    """Return the named gdb if it is a cuda-gdb."""
    return request.gdb if request.gdb is not None and "cuda-gdb" in Path(request.gdb).name else None
