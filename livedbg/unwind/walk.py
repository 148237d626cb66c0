"""Walks the stacks of threads that gdb knows, of a core file or of a process, loading the symbols that this takes.

Symbols and unwind tables are loaded on demand: first of the files that the program counters are in, then of those that
the frames lead into, until no frame lies in a file that was not loaded. They stay loaded for the next time. They are
added by hand with their load address (`add-symbol-file`), so a gdb that is not attached can load them too, and they
stay when it attaches.

gdb may demangle a name of a file for ever: thirty letters are enough for a text of gigabytes. So the CPU time that gdb
may use for a file is limited by the file's size, and a file that took longer is not loaded again.

Invariants:
    walk.U1. Only files that a frame lies in are loaded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from livedbg.gdbmi.engine import GdbEngine
from livedbg.gdbmi.errors import GdbCommandError, GdbTimeout
from livedbg.linux import target_files
from livedbg.linux.procfs import CLOCK_TICK_NS, read_stat
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line
from livedbg.unwind.modules import Module, Modules
from livedbg.unwind.unwound import DEPTH, Unwound, frame_of, is_root, left_s, unwound
from livedbg.unwind.wire import WireFrame

_UNSAFE_PATH: Final = lazy_re(r"[\x00-\x1f\x7f]")
_CPU_S: Final = 4.0  # for any file
_CPU_BYTES: Final = 4 << 20  # of a file for which gdb may use one second more
_LOOK_S: Final = 0.5


class SymbolsTooSlow(GdbTimeout):
    """gdb uses too much CPU time for the symbols of a file; this gdb is of no use any more."""

    def __init__(self, module: Module, used_s: float) -> None:
        super().__init__(
            f"gdb needs more than {used_s:.0f} s of processor time for the symbols of {clean_line(module.name, 200)}.",
            "",
            "symbols-too-slow",
        )
        self.module = module


class Symbols:
    """The symbols that one gdb has loaded; `too_slow` are files that an earlier gdb could not read in time."""

    def __init__(self, engine: GdbEngine, too_slow: Iterable[Module] = ()) -> None:
        self._engine = engine
        self._loaded: dict[Module, None] = {}
        self._refused: set[Module] = set(too_slow)

    def __contains__(self, module: Module) -> bool:
        return module in self._loaded

    @property
    def loaded(self) -> list[str]:
        """Names of the files whose symbols are loaded."""
        return [module.file.name for module in self._loaded]

    def refused(self, module: Module) -> bool:
        """Return whether gdb can't load the file."""
        return module in self._refused

    def outdated(self, modules: Modules) -> bool:
        """Return whether another file now lies where a loaded one was."""
        return any(modules.overlaid(module) for module in self._loaded)

    async def load(self, wanted: Iterable[Module], end: float) -> None:
        """Load the files that are not loaded yet, in the order of their addresses.

        Args:
            end: deadline, by `time.monotonic()`.

        Raises:
            SymbolsTooSlow: gdb needs too much time for the symbols of a file.
            GdbTimeout: it took longer.
            GdbGone: gdb has ended.
        """
        for module in sorted(wanted, key=lambda module: module.bias):
            if module in self._loaded or module in self._refused:
                continue
            if _UNSAFE_PATH.search(str(module.file)):
                self._refused.add(module)
                continue
            quoted = str(module.file).replace("\\", "\\\\").replace('"', '\\"')
            try:
                await self._read(module, f'add-symbol-file "{quoted}" -o {module.bias:#x}', left_s(end))
            except GdbCommandError:
                self._refused.add(module)
            else:
                self._loaded[module] = None

    async def _read(self, module: Module, command: str, left_s: float) -> None:
        begun_s = self._cpu_s()
        reading = asyncio.ensure_future(self._engine.console(command, left_s))
        try:
            while not (await asyncio.wait({reading}, timeout=_LOOK_S))[0]:
                used_s = self._cpu_s() - begun_s
                if used_s > _CPU_S + _size(module) / _CPU_BYTES:
                    raise SymbolsTooSlow(module, used_s)
            reading.result()
        finally:
            if not reading.done():
                reading.cancel()
                await asyncio.wait({reading})

    def _cpu_s(self) -> float:
        try:
            return read_stat(self._engine.pid or 0).cpu_ticks * CLOCK_TICK_NS / 1e9
        except (OSError, ValueError, IndexError):
            return 0.0


def _size(module: Module) -> int:
    try:
        return target_files.status(module.file).st_size
    except OSError:
        return 0


_ROUNDS: Final = 24
_SAMPLES: Final = 3  # threads with the same program counter that are walked to find the files
_WALK: Final = Path(__file__).with_name("gdb_walk.py")


class Walker:
    """Walks stacks in one gdb."""

    def __init__(self, engine: GdbEngine, too_slow: Iterable[Module] = ()) -> None:
        self._engine = engine
        self.symbols = Symbols(engine, too_slow)

    async def prepare(self, limit_s: float = 10.0) -> None:
        """Load our Python into gdb.

        Raises:
            GdbCommandError: it has no Python.
            GdbGone, GdbTimeout: it has ended, or doesn't answer.
        """
        await self._engine.console(f"source {_WALK}", limit_s)
        await self._engine.python("1", limit_s)

    async def walk(self, counters: Mapping[int, int], modules: Modules, end: float) -> dict[int, Unwound]:
        """Return the stacks of threads.

        Args:
            counters: program counters by thread.
            end: deadline, by `time.monotonic()`.

        Raises:
            GdbTimeout, GdbCommandError, GdbGone: it took longer, or gdb can't do it.
        """
        await self._load_what_frames_need(counters, modules, end)
        found: dict[str, tuple[list[tuple[int, str | None, str | None, int | None]], bool]] = {}
        tids = sorted(counters)
        for _ in range(_ROUNDS):
            answer = await self._engine.python(f"livedbg_frames({tids!r}, {DEPTH})", left_s(end))
            found |= answer
            lead = {int(tid): self._first_missing([frame[0] for frame in answer[tid][0]], modules) for tid in answer}
            tids = sorted(tid for tid, module in lead.items() if module is not None)
            if not tids:  # threads with the same counter may have come there from other files than the samples
                break
            await self.symbols.load({module for module in lead.values() if module is not None}, end)
        return {int(tid): _unwound(frames, whole, modules) for tid, (frames, whole) in found.items()}

    async def _load_what_frames_need(self, counters: Mapping[int, int], modules: Modules, end: float) -> None:
        samples: dict[int, list[int]] = {}
        for tid, counter in counters.items():
            same = samples.setdefault(counter, [])
            if len(same) < _SAMPLES:
                same.append(tid)
        await self.symbols.load({module for pc in samples if (module := modules.at(pc)) is not None}, end)
        tids = [tid for same in samples.values() for tid in same]
        for _ in range(_ROUNDS):
            walked = await self._engine.python(f"livedbg_counters({tids!r}, {DEPTH})", left_s(end))
            missing = {module for pcs in walked.values() if (module := self._first_missing(pcs, modules))}
            if not missing:
                break
            await self.symbols.load(missing, end)

    def _first_missing(self, counters: Sequence[int], modules: Modules) -> Module | None:
        """Return the innermost file of a stack that is not loaded: frames beyond it can't be trusted yet."""
        for counter in counters:
            module = modules.at(counter)
            if module is None:
                continue
            if self.symbols.refused(module):
                return None
            if module not in self.symbols:
                return module
        return None


def _unwound(frames: list[tuple[int, str | None, str | None, int | None]], whole: bool, modules: Modules) -> Unwound:
    made = [frame_of(WireFrame(*frame), modules) for frame in frames]
    last = made[-1] if made else None
    return unwound(made, whole=whole or (last is not None and is_root(last.function)))
