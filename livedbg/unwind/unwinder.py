"""Unwinds captures of one process in a gdb that never attaches to it.

Invariants:
    unwinder.U1. gdb gets a core file and never the process.
    unwinder.U2. The core file is gone from the disk when `unwind` returns.
    unwinder.U3. One capture at a time: who comes meanwhile waits.
    unwinder.U4. A frame is not named by symbols of a file that lay at its address earlier: when the target has executed
        another program there, a fresh gdb is started. (A gdb 13 crashes on some `remove-symbol-file`.)
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from livedbg.gdbmi import GdbCommandError, GdbEngine, GdbGone
from livedbg.linux import procfs
from livedbg.unwind.capture import Capture
from livedbg.unwind.copies import copy_folder, sweep
from livedbg.unwind.core import write_core
from livedbg.unwind.modules import Module, Modules
from livedbg.unwind.symbols import SymbolsTooSlow
from livedbg.unwind.unwound import Note, Unwound
from livedbg.unwind.walk import Walker

__all__ = ["Unwinder"]

_PREPARE_S: Final = 60.0  # for each command before the first capture: on a busy box gdb begins slowly
_SETTINGS: Final = (
    "set pagination off",
    "set confirm off",
    "set auto-solib-add off",
    "set auto-load off",
    "set print elements 200",
    "set backtrace limit 300",
    "set max-completions 0",
    "set sysroot /dev/null",
)


class Unwinder:
    """A warm gdb for one process.

    Args:
        gdb: path of the program.
        pid: the process whose captures it will unwind.
    """

    def __init__(self, gdb: str, pid: int) -> None:
        self.pid = pid
        self._gdb = gdb
        self._engine = GdbEngine(gdb)
        self._walker = Walker(self._engine)
        self._one_at_a_time = asyncio.Lock()
        self._closed = False
        self._too_slow: dict[Module, SymbolsTooSlow] = {}

    @property
    def alive(self) -> bool:
        """Whether its gdb runs."""
        return self._engine.alive

    @property
    def busy(self) -> bool:
        """Whether it unwinds something."""
        return self._one_at_a_time.locked()

    @property
    def cpu_s(self) -> float:
        """Processor time that its gdb has used; 0 when it has ended."""
        pid = self._engine.pid
        try:
            return 0.0 if pid is None else procfs.read_stat(pid).cpu_ticks * procfs.CLOCK_TICK_NS / 1e9
        except OSError:
            return 0.0

    @property
    def too_slow(self) -> list[str]:
        """A sentence for each file whose symbols gdb could not read."""
        return [error.message for error in self._too_slow.values()]

    @property
    def notes(self) -> list[Note]:
        """See StackUnwinder."""
        consequence = "Frames in it have no names, and stacks may end there."
        return [Note("symbols-too-slow", f"{sentence} {consequence}") for sentence in self.too_slow]

    @property
    def loaded(self) -> list[str]:
        """Names of the files whose symbols are loaded."""
        return self._walker.symbols.loaded

    async def start(self) -> None:
        """Start the gdb.

        Raises:
            GdbGone, GdbTimeout: it can't be started.
            GdbCommandError: it has no Python.
        """
        await asyncio.to_thread(sweep)  # what a killed livedbg left
        await _prepare(self._engine, self._walker)

    async def unwind(self, capture: Capture, limit_s: float, *, values: bool = False) -> dict[int, Unwound]:
        """The stacks of a capture's threads.

        Args:
            capture: of this unwinder's process.
            limit_s: time limit of the whole.
            values: not read here.

        Raises:
            GdbTimeout: it took longer.
            GdbCommandError, GdbGone: gdb can't do it.
            OSError: the process is gone, or the core can't be written.
        """
        async with self._one_at_a_time:
            return await self._unwind(capture, time.monotonic() + limit_s)

    async def close(self) -> None:
        """End the gdb."""
        self._closed = True
        await self._engine.close()

    async def _renew(self, patience_s: float = 2.0) -> None:
        """Continue with a fresh gdb; the former one may take `patience_s` to end."""
        engine = GdbEngine(self._gdb)
        walker = Walker(engine, self._too_slow)
        try:
            await _prepare(engine, walker)
        except BaseException:
            await engine.close()
            raise
        if self._closed:  # meanwhile
            await engine.close()
            raise GdbGone("gdb has ended.", "", "gdb-gone")
        before, self._engine, self._walker = self._engine, engine, walker
        await before.close(patience_s)

    async def _unwind(self, capture: Capture, end: float) -> dict[int, Unwound]:
        modules = Modules(self.pid, capture.mappings)
        if self._walker.symbols.outdated(modules):
            await self._renew()
        while True:
            try:
                return await self._walked(capture, modules, end)
            except SymbolsTooSlow as slow:  # without them, the other frames have names
                self._too_slow[slow.module] = slow
                await self._renew(0.0)

    async def _walked(self, capture: Capture, modules: Modules, end: float) -> dict[int, Unwound]:
        with copy_folder() as folder:
            core = folder / "core"
            write_core(core, capture, modules)
            await self._engine.console(f"core-file {core}", _left(end))
            done = await self._walker.walk({thread.tid: thread.pc for thread in capture.threads}, modules, end)
            await self._engine.console("core-file", _left(end))
        return done


async def _prepare(engine: GdbEngine, walker: Walker) -> None:
    await engine.start()
    for setting in _SETTINGS:
        try:
            await engine.console(setting, _PREPARE_S)
        except GdbCommandError:
            continue  # this gdb doesn't know it
    await walker.prepare(_PREPARE_S)


def _left(end: float) -> float:
    return max(0.05, end - time.monotonic())
