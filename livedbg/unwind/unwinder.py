"""Unwinds captures of one process in a gdb that never attaches to it.

Symbols and unwind tables are loaded on demand: first of the files that the program counters are in, then of
those that the frames lead into, until no frame lies in a file that was not loaded. They stay loaded for the
next capture.

Invariants:
    U1. gdb gets a core file and never the process.
    U2. Only files that a frame lies in are loaded.
    U3. The core file is gone from the disk when `unwind` returns.
    U4. One capture at a time: who comes meanwhile waits.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from livedbg.gdbmi import GdbCommandError, GdbEngine
from livedbg.model import Frame
from livedbg.sanitize import clean_line
from livedbg.unwind.capture import Capture
from livedbg.unwind.core import write_core
from livedbg.unwind.modules import Module, Modules
from livedbg.unwind.symbols import Symbols

__all__ = ["Unwinder", "Unwound"]

_DEPTH: Final = 256
_ROUNDS: Final = 24
_SAMPLES: Final = 3  # threads with the same program counter that are walked to find the files
_WALK: Final = Path(__file__).with_name("gdb_walk.py")
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
_ROOT_FRAMES: Final = re.compile(r"^(_start|__?clone3?|start_thread|__libc_start_(call_)?main(_impl)?)$")


@dataclass(frozen=True, slots=True)
class Unwound:
    """The native stack of one thread.

    Attributes:
        whole: the outermost frame was reached.
    """

    frames: tuple[Frame, ...]
    whole: bool


class Unwinder:
    """A warm gdb for one process.

    Args:
        gdb: path of the program.
        pid: the process whose captures it will unwind.
    """

    def __init__(self, gdb: str, pid: int) -> None:
        self.pid = pid
        self._engine = GdbEngine(gdb)
        self._symbols = Symbols(self._engine)
        self._one_at_a_time = asyncio.Lock()

    @property
    def alive(self) -> bool:
        """Whether its gdb runs."""
        return self._engine.alive

    @property
    def loaded(self) -> list[str]:
        """Names of the files whose symbols are loaded."""
        return self._symbols.loaded

    async def start(self) -> None:
        """Start the gdb.

        Raises:
            GdbGone, GdbTimeout: it can't be started.
            GdbCommandError: it has no Python.
        """
        await self._engine.start()
        for setting in _SETTINGS:
            try:
                await self._engine.console(setting)
            except GdbCommandError:
                continue  # this gdb doesn't know it
        await self._engine.console(f"source {_WALK}")
        await self._engine.python("1")

    async def unwind(self, capture: Capture, limit_s: float) -> dict[int, Unwound]:
        """The stacks of a capture's threads.

        Args:
            capture: of this unwinder's process.
            limit_s: time limit of the whole.

        Raises:
            GdbTimeout: it took longer.
            GdbCommandError, GdbGone: gdb can't do it.
            OSError: the process is gone, or the core can't be written.
        """
        async with self._one_at_a_time:
            return await self._unwind(capture, time.monotonic() + limit_s)

    async def close(self) -> None:
        """End the gdb."""
        await self._engine.close()

    async def _unwind(self, capture: Capture, end: float) -> dict[int, Unwound]:
        modules = Modules(self.pid, capture.mappings)
        folder = Path(tempfile.mkdtemp(prefix="livedbg-", dir=_memory_folder()))
        try:
            core = folder / "core"
            write_core(core, capture, modules)
            await self._engine.console(f"core-file {core}", _left(end))
            await self._load_what_frames_need(capture, modules, end)
            answer = await self._engine.python(f"livedbg_frames(None, {_DEPTH})", _left(end))
            await self._engine.console("core-file", _left(end))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return {int(tid): _unwound(frames, whole, modules) for tid, (frames, whole) in answer.items()}

    async def _load_what_frames_need(self, capture: Capture, modules: Modules, end: float) -> None:
        samples: dict[int, list[int]] = {}
        for thread in capture.threads:
            same = samples.setdefault(thread.pc, [])
            if len(same) < _SAMPLES:
                same.append(thread.tid)
        await self._symbols.load({module for pc in samples if (module := modules.at(pc)) is not None}, end)
        tids = [tid for same in samples.values() for tid in same]
        for _ in range(_ROUNDS):
            walked = await self._engine.python(f"livedbg_counters({tids!r}, {_DEPTH})", _left(end))
            missing = {module for counters in walked.values() if (module := self._first_missing(counters, modules))}
            if not missing:
                break
            await self._symbols.load(missing, end)

    def _first_missing(self, counters: list[int], modules: Modules) -> Module | None:
        """The innermost file of a stack that is not loaded: what lies beyond it can't be trusted yet."""
        for counter in counters:
            module = modules.at(counter)
            if module is None:
                continue
            if self._symbols.refused(module):
                return None
            if module not in self._symbols:
                return module
        return None


def _left(end: float) -> float:
    return max(0.05, end - time.monotonic())


def _memory_folder() -> str | None:
    memory = Path("/dev/shm")
    return str(memory) if memory.is_dir() else None


def _unwound(frames: list[tuple[int, str | None, str | None, int | None]], whole: bool, modules: Modules) -> Unwound:
    made: list[Frame] = []
    for pc, name, file, line in frames:
        module = modules.name_at(pc)
        if module is None and name is None:
            break  # not code: the unwinder has lost its way
        function = clean_line(name, 400) if name else f"{pc:#x}"
        made.append(
            Frame(
                function=function,
                file=clean_line(file) if file else None,
                line=line,
                module=clean_line(module) if module else None,
                address=pc,
            )
        )
    lost = len(made) < len(frames)
    ended = bool(made) and _ROOT_FRAMES.match(made[-1].function) is not None
    return Unwound(tuple(_up_to_main(made)), (whole or ended) and not lost)


def _up_to_main(frames: list[Frame]) -> list[Frame]:
    """Without what the C library has below `main`, as gdb shows it (`set backtrace past-main off`)."""
    names = [frame.function for frame in frames]
    if "main" not in names:
        return frames
    end = names.index("main") + 1
    return frames[:end] if all(_ROOT_FRAMES.match(name) for name in names[end:]) else frames
