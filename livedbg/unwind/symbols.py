"""Loads the symbols of mapped files into a gdb, one file at a time, when something asks for them.

A file may have a name that gdb demangles for ever: thirty letters are enough for a text of gigabytes. So the processor
time that gdb may use for a file is limited by the file's size, and what took longer is not asked for again.

They are added by hand with their load address (`add-symbol-file`), so a gdb that is not attached can load them too,
and they stay when it attaches.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable
from typing import Final

from livedbg.gdbmi import GdbCommandError, GdbEngine, GdbTimeout
from livedbg.linux import target_files
from livedbg.linux.procfs import CLOCK_TICK_NS, read_stat
from livedbg.text.sanitize import clean_line
from livedbg.unwind.modules import Module, Modules

_UNSAFE_PATH: Final = re.compile(r"[\x00-\x1f\x7f]")
_LEAST_S: Final = 0.05
_CPU_S: Final = 4.0  # for any file
_CPU_BYTES: Final = 4 << 20  # of a file for which gdb may use one second more
_LOOK_S: Final = 0.5


class SymbolsTooSlow(GdbTimeout):
    """gdb uses too much processor time for the symbols of a file; this gdb is of no use any more.

    Attributes:
        module: the file.
    """

    def __init__(self, module: Module, used_s: float) -> None:
        super().__init__(
            f"gdb needs more than {used_s:.0f} s of processor time for the symbols of {clean_line(module.name, 200)}.",
            "",
            "symbols-too-slow",
        )
        self.module = module


class Symbols:
    """What one gdb has loaded.

    Args:
        engine: the gdb.
        too_slow: files that an earlier gdb could not read in time.
    """

    def __init__(self, engine: GdbEngine, too_slow: Iterable[Module] = ()) -> None:
        self._engine = engine
        self._loaded: dict[Module, None] = {}
        self._refused: set[Module] = set(too_slow)

    def __contains__(self, module: Module) -> bool:
        """Whether its symbols are loaded."""
        return module in self._loaded

    @property
    def loaded(self) -> list[str]:
        """Names of the files whose symbols are loaded."""
        return [module.file.name for module in self._loaded]

    def refused(self, module: Module) -> bool:
        """Whether gdb can't load it."""
        return module in self._refused

    def outdated(self, modules: Modules) -> bool:
        """Whether some would name what is none of theirs: the process has other files now where theirs were."""
        return any(modules.overlaid(module) for module in self._loaded)

    async def load(self, wanted: Iterable[Module], end: float) -> None:
        """Load those that are not loaded yet, in the order of their addresses.

        Args:
            wanted: files.
            end: when it must be done, by `time.monotonic()`.

        Raises:
            SymbolsTooSlow: gdb can't read one of them.
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
            left_s = max(_LEAST_S, end - time.monotonic())
            try:
                await self._read(module, f'add-symbol-file "{quoted}" -o {module.bias:#x}', left_s)
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
