"""Inspects a stopped thread: its frames and their variables.

Symbols are loaded before anything is attached, as many as a time limit allows: while the gdb that holds a process loads
some, a thread that gets a signal or starts another one waits for it.

Invariants:
    inspector.V1. gdb is never asked for longer than what is left of an inspection's time limit: variables that it has
        not read by then are left out.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from msgspec import structs
from msgspec.structs import replace

from livedbg.gdbmi.engine import GdbEngine
from livedbg.gdbmi.errors import GdbCommandError, GdbError
from livedbg.linux import target_files
from livedbg.linux.maps import parse_maps
from livedbg.model import Frame
from livedbg.text.sanitize import clean_line
from livedbg.unwind.modules import Module, Modules
from livedbg.unwind.unwound import Unwound
from livedbg.unwind.walk import Walker

_PROGRAM: Final = Path(__file__).with_name("gdb_inspect.py")
_DEPTH: Final = 40  # frames whose variables are read
_VARIABLES_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class StoppedAt:
    """The position of a stopped thread, and the first four arguments in registers."""

    tid: int
    arguments: tuple[int, ...]
    counter: int


class Inspector:
    """Inspects stopped threads of one process through one started gdb."""

    def __init__(self, engine: GdbEngine, pid: int) -> None:
        self._engine = engine
        self._pid = pid
        self._walker = Walker(engine)

    async def prepare(self) -> None:
        """Load our Python into gdb.

        Raises:
            GdbCommandError: gdb has no Python.
            GdbGone, GdbTimeout: it has ended, or doesn't answer.
        """
        await self._walker.prepare()
        await self._engine.console(f"source {_PROGRAM}")
        await self._engine.python("livedbg_printers()")

    async def load(self, first: Sequence[str], limit_s: float) -> int:
        """Load symbols while nothing is attached yet; return how many files' symbols are loaded.

        Args:
            first: paths, as the process has them, of the files that come first; then the small ones before the large.
            limit_s: time limit; the rest is loaded on demand.

        Raises:
            GdbGone, GdbTimeout: gdb has ended, or doesn't answer.
            OSError: the process is gone.
        """
        end = time.monotonic() + limit_s
        for module in self._modules(first):
            if time.monotonic() > end:
                break
            await self._walker.symbols.load([module], time.monotonic() + limit_s)
        return len(self._walker.symbols.loaded)

    async def at(self, number: str, limit_s: float) -> StoppedAt | None:
        """Return where a thread is stopped; None if it runs or is gone.

        Raises:
            GdbCommandError, GdbGone, GdbTimeout: gdb can't read it.
        """
        found = await self._engine.python(f"livedbg_registers({int(number)})", limit_s)
        if not found:
            return None
        tid, *arguments, counter = map(int, found)
        return StoppedAt(tid, tuple(arguments), counter)

    async def frames(self, at: StoppedAt, limit_s: float) -> Unwound:
        """Return the frames of a stopped thread, each with its variables and the source around it.

        Raises:
            GdbCommandError, GdbGone, GdbTimeout: gdb can't read it.
            OSError: the process is gone.
        """
        end = time.monotonic() + limit_s
        modules = Modules(self._pid, list(parse_maps(self._pid)))
        walked = await self._walker.walk({at.tid: at.counter}, modules, end)
        if at.tid not in walked:
            raise GdbCommandError("The thread is running.")
        stack = walked[at.tid]
        seconds = max(0.05, min(_VARIABLES_S, end - time.monotonic() - 0.5))
        seen: list[tuple[str | None, list[str]]] = []
        with contextlib.suppress(GdbError):  # the frames by themselves are worth something
            call = f"livedbg_variables({at.tid}, {_DEPTH}, {seconds:.2f})"
            seen = await self._engine.python(call, max(0.1, end - time.monotonic()))
        frames = [_with(frame, *what) for frame, what in zip(stack.frames, seen, strict=False)]
        return replace(stack, frames=(*frames, *stack.frames[len(frames) :]))

    def _modules(self, first: Sequence[str]) -> list[Module]:
        mappings = list(parse_maps(self._pid))
        modules = Modules(self._pid, mappings)
        sizes: dict[Module, tuple[bool, int]] = {}
        for mapping in mappings:
            module = modules.at(mapping.start) if mapping.executable else None
            if module is not None:
                with contextlib.suppress(OSError):
                    sizes[module] = (mapping.path not in first, target_files.status(module.file).st_size)
        return sorted(sizes, key=lambda module: sizes[module])


def _with(frame: Frame, source: str | None, variables: Sequence[str]) -> Frame:
    file = clean_line(source) if source else frame.file
    return structs.replace(frame, file=file, local_variables=tuple(clean_line(text, 600) for text in variables))
