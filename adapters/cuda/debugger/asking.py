"""Asks a cuda-gdb for its tables: by MI where it has the command, else by its console.

Invariants:
    asking.K1. All questions together end at one deadline; what was not asked or not answered by then is a note.
    asking.K2. A question that is refused is a note; only a debugger that is gone ends the asking.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from livedbg.adapters.cuda.debugger.console import console_rows
from livedbg.adapters.cuda.debugger.rows import Focus, convert, focus_of
from livedbg.gdbmi import GdbCommandError, GdbEngine, GdbTimeout
from livedbg.gdbmi.records import Record
from livedbg.gdbmi.tables import MiTable
from livedbg.text.sanitize import clean_line

__all__ = ["Asker"]

Row = TypeVar("Row")
_UNKNOWN: Final = re.compile(r"undefined (mi )?command|unrecognized option|not implemented", re.IGNORECASE)
_LEAST_S: Final = 0.05


class Asker:
    """Questions to one debugger.

    Attributes:
        notes: what could not be seen, one sentence each.
        focus: what it looks at, as far as it said.

    Args:
        engine: a cuda-gdb with a target.
        end_s: when all is to be over, on the monotonic clock.
    """

    def __init__(self, engine: GdbEngine, end_s: float) -> None:
        self.notes: list[str] = []
        self.focus: Focus | None = None
        self._engine = engine
        self._end_s = end_s

    @property
    def left_s(self) -> float:
        """How long there is to go."""
        return self._end_s - time.monotonic()

    async def rows(self, table: str, make: Callable[[Mapping[str, str]], Row], words: str = "") -> list[Row]:
        """The rows of a table, those that can be understood.

        Args:
            table: `devices`, `warps`, …
            make: makes one (livedbg.adapters.cuda.debugger.rows).
            words: a filter, in cuda-gdb's words.

        Raises:
            GdbGone: the debugger has ended.
        """
        asked = f"{table} {words}".rstrip()
        found = await self._table(table, asked)
        if found is None:
            return []
        rows, bad = convert(found, make)
        said = found.declared if isinstance(found, MiTable) else len(found)
        missing = said - len(found) + bad
        if missing > 0:
            self.notes.append(f"{missing:,} of {said:,} rows of `info cuda {asked}` could not be read.")
        return rows

    async def answer(self, command: str, what: str) -> Record | None:
        """The answer to an MI command; None with a note where there is none.

        Raises:
            GdbGone: the debugger has ended.
        """
        if self.left_s < _LEAST_S:
            self._too_late(what)
            return None
        try:
            return await self._engine.command(command, self.left_s)
        except GdbTimeout:
            self._too_late(what)
        except GdbCommandError as error:
            self.notes.append(f"No {what}: {error.message}")
        return None

    async def console(self, command: str, what: str = "") -> str:
        """What a console command prints; "" where it is refused, with a note where `what` names it.

        Raises:
            GdbGone: the debugger has ended.
        """
        if self.left_s < _LEAST_S:
            if what:
                self._too_late(what)
            return ""
        try:
            return await self._engine.console(command, self.left_s)
        except (GdbTimeout, GdbCommandError) as error:
            if what:
                self.notes.append(f"No {what}: {error.message}")
            return ""

    async def find_focus(self) -> None:
        """Ask what the debugger looks at.

        Raises:
            GdbGone: the debugger has ended.
        """
        record = await self.answer("-cuda-focus-query device sm warp lane kernel grid block thread", "focus")
        said = record.payload.get("CudaFocus") if record is not None else None
        if isinstance(said, dict):
            try:
                self.focus = focus_of(said)
            except (KeyError, ValueError):
                self.notes.append("The debugger's focus could not be read.")

    async def _table(self, table: str, asked: str) -> MiTable | list[dict[str, str]] | None:
        if self.left_s < _LEAST_S:
            self._too_late(f"info cuda {asked}")
            return None
        try:
            record = await self._engine.command(f"-cuda-info-{asked}", self.left_s)
        except GdbTimeout:
            self._too_late(f"info cuda {asked}")
            return None
        except GdbCommandError as error:
            if not _UNKNOWN.search(error.message):
                self.notes.append(f"No `info cuda {asked}`: {clean_line(error.message)}")
                return None
            text = await self.console(f"info cuda {asked}", f"`info cuda {asked}`")
            return console_rows(table, text)
        found = next((value for value in record.payload.values() if isinstance(value, MiTable)), None)
        if found is None:
            self.notes.append(f"The answer to `info cuda {asked}` holds no table.")
        return found

    def _too_late(self, what: str) -> None:
        self.notes.append(f"`{what}` was not answered in time.")
