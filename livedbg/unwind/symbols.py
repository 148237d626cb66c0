"""Loads the symbols of mapped files into a gdb, one file at a time, when something asks for them.

They are added by hand with their load address (`add-symbol-file`), so a gdb that is not attached can load them too,
and they stay when it attaches.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from typing import Final

from livedbg.gdbmi import GdbCommandError, GdbEngine
from livedbg.unwind.modules import Module, Modules

__all__ = ["Symbols"]

_UNSAFE_PATH: Final = re.compile(r"[\x00-\x1f\x7f]")
_LEAST_S: Final = 0.05


class Symbols:
    """What one gdb has loaded.

    Args:
        engine: the gdb.
    """

    def __init__(self, engine: GdbEngine) -> None:
        self._engine = engine
        self._loaded: dict[Module, None] = {}
        self._refused: set[Module] = set()

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
                await self._engine.console(f'add-symbol-file "{quoted}" -o {module.bias:#x}', left_s)
            except GdbCommandError:
                self._refused.add(module)
            else:
                self._loaded[module] = None
