"""The unwinders of a session, shared by all adapters: drgn in one process for all targets, else a warm gdb for each.

Invariants:
    unwind_pool.O1. A session has one unwinding process, or a gdb for each process, however many adapters ask; it ends
        when the last of them has closed the pool.
    unwind_pool.O2. A gdb that is at work is not ended for another.
    unwind_pool.D1. The file of the copied stacks is gone from the disk when `unwind` returns.
    unwind_pool.D2. An unwinding process that ends is replaced once: for the same process without debug information
        where it crashed. When that one ends too, gdb unwinds.
    unwind_pool.D3. Nothing is remembered of a process but what its files were known by: after an exec no frame has the
        name of a function that lay at its address earlier.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from livedbg.linux.maps import Mapping
from livedbg.model.errors import LivedbgError, ToolMissing
from livedbg.text.sanitize import clean_line
from livedbg.unwind.capture import Capture, doubted
from livedbg.unwind.copies import copy_folder, sweep
from livedbg.unwind.helper_process import HelperProcess, UnwinderGone, UnwindTimeout, usable
from livedbg.unwind.modules import Modules
from livedbg.unwind.unwound import Note, StackUnwinder, Unwound, frame_of, left_s, unwound
from livedbg.unwind.wire import Copied, Reply, Request, WireMapping, write_stacks

if TYPE_CHECKING:
    from livedbg.unwind.unwinder import Unwinder

_SLOW_CPU_S: Final = 10.0  # of one capture: then the debug information is to blame and not a busy host
_PLAIN: Final = "no-debug-information"


class SharedHelper:
    """The unwinding process of a session, or its replacement."""

    def __init__(self) -> None:
        self._process: HelperProcess | None = None
        self._lock = asyncio.Lock()
        self._deaths = 0
        self.problem = ""

    @property
    def given_up(self) -> bool:
        """True if the helper can't be used any more; `problem` says why."""
        return bool(self.problem)

    @property
    def process(self) -> HelperProcess | None:
        """The process that runs, or ran last."""
        return self._process

    async def running(self) -> HelperProcess:
        """Return the process, started.

        Raises:
            UnwinderGone, UnwindTimeout: it can't be started.
        """
        async with self._lock:
            if self._process is None or not self._process.alive:
                await asyncio.to_thread(sweep)  # what a killed livedbg left
                self._process = HelperProcess()
                try:
                    await self._process.start()
                except (UnwinderGone, UnwindTimeout) as error:
                    self.problem = error.message
                    raise
            return self._process

    def died(self, error: LivedbgError) -> None:
        """Count an unwanted end; after the second it is given up."""
        self._deaths += 1
        if self._deaths > 1:
            self.problem = f"{error.message} It did so twice."

    async def close(self) -> None:
        if self._process is not None:
            await self._process.close()


class DrgnUnwinder:
    """Unwinds captures of one process by drgn, or by `otherwise` when the helper is given up."""

    def __init__(self, pid: int, helper: SharedHelper, otherwise: Callable[[], Awaitable[StackUnwinder]]) -> None:
        self.pid = pid
        self._helper = helper
        self._otherwise = otherwise
        self._debug = True
        self._notes: dict[str, Note] = {}
        self.cpu_s = 0.0
        self._other: StackUnwinder | None = None

    @property
    def notes(self) -> list[Note]:
        return [*self._notes.values(), *(self._other.notes if self._other is not None else ())]

    async def unwind(self, capture: Capture, limit_s: float, *, values: bool = False) -> dict[int, Unwound]:
        end = time.monotonic() + limit_s
        with copy_folder() as folder:
            stacks = folder / "stacks"
            await asyncio.to_thread(write_stacks, stacks, capture.threads)
            while not self._helper.given_up:
                request = Request(
                    capture.pid,
                    str(stacks),
                    _code_of(capture.mappings),
                    _threads_of(capture, values),
                    self._debug,
                    values,
                )
                try:
                    reply = await self._asked(request, left_s(end))
                except UnwinderGone as error:
                    self._note("unwinder-gone", error.message)
                    continue
                if reply.error and not reply.stacks:
                    raise UnwinderGone(f"drgn can't unwind: {clean_line(reply.error)}.", "--gdb gdb", "unwind-failed")
                return _stacks(reply, Modules(capture.pid, capture.mappings))
        self._note("unwinder-gone", f"{self._helper.problem} gdb unwinds instead.")
        self._other = await self._otherwise()
        return await self._other.unwind(capture, left_s(end), values=values)

    async def close(self) -> None:
        """Do nothing: others use the unwinding process too."""

    async def _asked(self, request: Request, limit_s: float) -> Reply:
        process = await self._helper.running()
        before_s = process.cpu_s
        try:
            return await process.ask(request, limit_s)
        except UnwinderGone as error:
            self._helper.died(error)
            if process.crashed:
                self._without_debug_information("crashed on")
            raise
        except UnwindTimeout:
            if process.cpu_s - before_s > _SLOW_CPU_S:
                self._without_debug_information("took too long for")
            raise
        finally:
            self.cpu_s += max(0.0, process.cpu_s - before_s)

    def _without_debug_information(self, why: str) -> None:
        self._debug = False
        self._note(
            _PLAIN,
            f"livedbg-unwind {why} the debug information of {self.pid}: stacks have no lines and no inlined calls.",
        )

    def _note(self, code: str, sentence: str) -> None:
        self._notes[code] = Note(code, sentence)


def _code_of(mappings: tuple[Mapping, ...]) -> list[WireMapping]:
    files = {mapping.path for mapping in mappings if mapping.executable and mapping.path.startswith("/")}
    return [WireMapping.of(mapping) for mapping in mappings if mapping.executable or mapping.path in files]


def _threads_of(capture: Capture, values: bool) -> list[Copied]:
    return [
        Copied(
            thread.tid,
            thread.low,
            thread.low + len(thread.stack),
            thread.registers,
            tuple(copy.registers for copy in doubted(thread)) if values else (),
            thread.guessed,
        )
        for thread in capture.threads
    ]


def _stacks(reply: Reply, modules: Modules) -> dict[int, Unwound]:
    frames = [frame_of(frame, modules) for frame in reply.frames]
    return {stack.tid: unwound([frames[place] for place in stack.places], whole=stack.whole) for stack in reply.stacks}


_MOST: Final = 4  # gdbs at once; each takes some tens of megabytes and what it has loaded
_MOST_PROCESSES: Final = 4096  # that are remembered


class UnwinderPool:
    """Keeps unwinders of processes; `gdb` is for where drgn can't be used."""

    def __init__(self, gdb: str | None, *, drgn: bool = True) -> None:
        self._gdb = gdb
        self._helper = SharedHelper() if drgn and usable() else None
        self._users = 1
        self._drgns: OrderedDict[int, DrgnUnwinder] = OrderedDict()
        self._unwinders: OrderedDict[int, Unwinder] = OrderedDict()
        self._starting = asyncio.Lock()

    @classmethod
    def shared(cls, gdb: str | None, *, drgn: bool = True) -> UnwinderPool:
        """Return the pool of the running event loop. Each user closes it."""
        pools = _shared.setdefault(asyncio.get_running_loop(), {})
        pool = pools.get((gdb, drgn))
        if pool is None or not pool._users:
            pool = pools[gdb, drgn] = cls(gdb, drgn=drgn)
        else:
            pool._users += 1
        return pool

    async def warm(self, pid: int) -> None:
        """Start the helper that will unwind a process.

        Raises:
            LivedbgError: it can't be used.
        """
        if self._helper is not None and not self._helper.given_up:
            await self._helper.running()
        else:
            await self.of(pid)

    async def of(self, pid: int) -> StackUnwinder:
        """Return the unwinder of a process.

        Raises:
            GdbGone, GdbTimeout, GdbCommandError: gdb can't be used.
            ToolMissing: there is none.
        """
        if self._helper is None:
            return await self._gdb_of(pid)
        known = self._drgns.get(pid)
        if known is None:
            known = self._drgns[pid] = DrgnUnwinder(pid, self._helper, lambda: self._gdb_of(pid))
            while len(self._drgns) > _MOST_PROCESSES:
                self._drgns.popitem(last=False)
        self._drgns.move_to_end(pid)
        return known

    async def _gdb_of(self, pid: int) -> Unwinder:
        async with self._starting:  # who comes while it starts waits for it
            known = self._unwinders.get(pid)
            if known is not None and known.alive:
                self._unwinders.move_to_end(pid)
                return known
            await self.drop(pid)
            while len(self._unwinders) >= _MOST and (idle := self._idle()) is not None:
                await self.drop(idle)
            if self._gdb is None:
                why = f"{self._helper.problem} " if self._helper is not None else ""
                raise ToolMissing(f"{why}gdb is not installed.", "sudo apt-get install gdb", "gdb-missing")
            from livedbg.unwind.unwinder import Unwinder  # where drgn can't

            fresh = Unwinder(self._gdb, pid)
            try:
                await fresh.start()
            except BaseException:
                await fresh.close()
                raise
            self._unwinders[pid] = fresh
            return fresh

    def cpu_s(self, pid: int) -> float:
        """Return the CPU seconds used for the stacks of a process."""
        used = (self._drgns.get(pid), self._unwinders.get(pid))
        return sum(one.cpu_s for one in used if one is not None)

    async def drop(self, pid: int) -> None:
        """End the gdb of a process, so that the next one starts afresh."""
        unwinder = self._unwinders.pop(pid, None)
        if unwinder is not None:
            await unwinder.close()

    def _idle(self) -> int | None:
        return next((pid for pid, unwinder in self._unwinders.items() if not unwinder.busy), None)

    async def close(self) -> None:
        """Drop one user; the last ends all unwinders."""
        self._users -= 1
        if not self._users:
            for pid in list(self._unwinders):
                await self.drop(pid)
            if self._helper is not None:
                await self._helper.close()


_shared: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str | None, bool], UnwinderPool]] = WeakKeyDictionary()
