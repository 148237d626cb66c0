"""Report where a process died from its core file, if signals may not be traced (signal_tracer).

livedbg requests the core of a command that it starts (livedbg.session.core_files), and removes it after reading.

Invariants:
    cores.R1. A core is read, and removed, only if it is of a process that the command started, and which ended by the
        core's signal.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar, Final

from msgspec import structs

from livedbg.adapters.exceptions.signal_meaning import BY_SOMEBODY, origin
from livedbg.linux import target_files
from livedbg.linux.ending import has_ended
from livedbg.linux.procfs import signal_name
from livedbg.model import ExceptionHit, Process
from livedbg.model.catchpoints import Catchpoint, CatchpointState, Moment
from livedbg.model.errors import LivedbgError
from livedbg.model.events import CatchpointSeen, Event, ExceptionSeen
from livedbg.model.request import CORES
from livedbg.session.adapter import Context, Request, processes_seen
from livedbg.session.core_files import MOST_BYTES, cores_in
from livedbg.session.polling import PolledAdapter
from livedbg.session.tools import no_unwinder, shared_unwinders
from livedbg.unwind.core_file import CoreFile, read_core
from livedbg.unwind.unwound import Unwound

_CHECK_S: Final = 0.5
_UNWIND_S: Final = 8.0  # the session waits for 10 s (livedbg.session.session)


class CoresAdapter(PolledAdapter):
    """Reads the core of each process that a fault has ended."""

    name: ClassVar[str] = "cores"
    sees: ClassVar[str] = "where a launched process died, by its core file, where signals may not be traced"
    cost: ClassVar[str] = f"a process that dies writes its stacks and heap, at most {MOST_BYTES >> 20} MiB, to disk"

    def __init__(self) -> None:
        super().__init__()
        self._read: set[str] = set()

    @classmethod
    def applies(cls, request: Request) -> bool:
        return CORES in request.options

    async def begin(self, context: Context) -> bool:
        context.settled()
        await processes_seen(context)
        return True

    async def look(self, context: Context) -> float:
        """Read the cores of ended processes, and of unseen children once the command has ended."""
        targets, known = context.request.processes, context.snapshot().processes
        over = {f"process:{context.request.host}/{one.pid}": one.cwd for one in targets if has_ended(one.pid)}
        over |= {one.id: Path(one.cwd) if one.cwd else over.get(one.id) for one in known.values() if one.exited}
        folders = {cwd for name, cwd in over.items() if cwd is not None and name not in self._read}
        self._read.update(over)
        for folder in folders:
            for path in await asyncio.to_thread(cores_in, folder):
                await self._take(path, context)
        return _CHECK_S

    async def _take(self, path: Path, context: Context) -> None:
        """Read and remove a core, if it is one of the session."""
        found = await asyncio.to_thread(_taken, path, context.snapshot().processes, context.request)
        if found is not None:
            core, at_ns = found
            stack = await self._stack(core, context)
            for event in _events(core, stack, at_ns, context):
                context.emit(event)

    async def _stack(self, core: CoreFile, context: Context) -> Unwound:
        """Return the stack of the thread that got the signal."""
        if no_unwinder(context.request) is not None:
            return Unwound((), False)
        pool = shared_unwinders(context.request)
        died = core.capture.threads[0]
        try:
            unwinder = await pool.of(core.capture.pid)
            unwound = await unwinder.unwind(structs.replace(core.capture, threads=(died,)), _UNWIND_S)
        except LivedbgError:
            return Unwound((), False)
        finally:
            await pool.close()
        return unwound.get(died.tid, Unwound((), False))


def _taken(path: Path, known: Mapping[str, Process], request: Request) -> tuple[CoreFile, int] | None:
    """Read and remove a core of the session; return it and when it was written (R1)."""
    try:
        core = read_core(path)
        if core is None or not has_ended(core.capture.pid) or not _is_of(core, known, request):
            return None
        at_ns = target_files.status(path).st_mtime_ns
        path.unlink()
    except OSError:
        return None
    return core, at_ns


def _is_of(core: CoreFile, known: Mapping[str, Process], request: Request) -> bool:
    """Return whether a core is of a known process, or of the command's session (setsid(2))."""
    process = known.get(f"process:{request.host}/{core.capture.pid}")
    if process is not None:
        return process.exit_status in (None, -core.signal)
    return core.session in {one.pid for one in request.processes}


def _events(core: CoreFile, stack: Unwound, at_ns: int, context: Context) -> Iterator[Event]:
    """Yield the signal as a catchpoint would have reported it."""
    name, died, pid, host = signal_name(core.signal), core.capture.threads[0], core.capture.pid, context.request.host
    process = f"process:{host}/{pid}"
    by_somebody = core.code in BY_SOMEBODY and core.address & 0xFFFFFFFF != pid
    why = origin(core.signal, core.code) if core.code is not None else "for a reason that the core does not have"
    if core.signal == signal.SIGSEGV and (core.code or 0) > 0:
        why += f", at address {core.address:#x}"
    point = Catchpoint(
        id=f"core/{pid}",
        process=process,
        pattern=name,
        moment=Moment.SIGNAL,
        engine="core",
        state=CatchpointState.DONE,
        seen=1,
        hits=1,
    )
    hit = ExceptionHit(
        id=f"exception:{host}/{point.id}/1",
        type=name,
        message=f"{why}; fatal",
        thread=f"thread:{host}/{pid}/{died.tid}",
        process=process,
        stack=stack.frames,
        at_wall_ns=at_ns,
        first_wall_ns=at_ns,
        catchpoint=point.id,
        count=1,
        partial=not stack.whole,
        sent=by_somebody,
    )
    yield CatchpointSeen(catchpoint=point, **context.stamp())
    yield ExceptionSeen(hit=hit, **context.stamp())
