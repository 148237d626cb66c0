"""Find and start cuda-gdb, and query its tables: by MI if it has the command, else by its console.

Console tables are parsed by the shape of rows, not by column positions, which move with the longest name (cuda-gdb
manual, "Info CUDA Commands", and real output of cuda-gdb 12.6 and 13). A heading that applies to all rows below it
(`Device 0 SM 3`, `Kernel 0`) is copied into each row.

Invariants:
    cuda_gdb_queries.K1. All queries share one deadline; anything not queried or answered by then becomes a note.
    cuda_gdb_queries.K2. A refused query is a note; only the end of the debugger ends the queries.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar

from livedbg.adapters.cuda.checks import find_tool
from livedbg.adapters.cuda.cudagdb.tables import Focus, convert, read_row
from livedbg.gdbmi.engine import GdbEngine
from livedbg.gdbmi.errors import GdbCommandError, GdbTimeout
from livedbg.gdbmi.records import MiTable, Record
from livedbg.model.errors import ToolMissing
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line

_HEX: Final = r"0x[0-9a-fA-F]{1,16}"
_DIM: Final = r"\(\d{1,18},\d{1,18}(?:,\d{1,18})?\)"
_LONGEST: Final = 8_192  # a line that is longer is no row
_CURRENT: Final = r"^\*? ?"
_GROUP: Final = lazy_re(r"^(Device|SM|Warp|Wp|Kernel) (\d{1,18})(?: (SM) (\d{1,18}))?(?: (Warp|Wp) (\d{1,18}))?\s*$")
_NAMES: Final = {"Device": "device", "SM": "sm", "Warp": "warp", "Wp": "warp", "Kernel": "kernel"}

_SHAPES: Final = {
    "devices": (
        r"(?P<device>\d{1,18}) (?P<pci_bus>[0-9a-fA-F:.]+) (?P<name>.+?) (?P<description>\S+) (?P<sm_type>sm_\w+)"
        r" (?P<num_sms>\d{1,18}) (?P<num_warps>\d{1,18}) (?P<num_lanes>\d{1,18}) (?P<num_regs>\d{1,18})"
        rf" (?P<active_sms_mask>{_HEX})"
    ),
    "sms": rf"(?P<sm>\d{{1,18}}) (?P<active_warps_mask>{_HEX})",
    "warps": (
        rf"(?P<warp>\d{{1,18}}) (?P<active_lanes_mask>{_HEX}) (?P<divergent_lanes_mask>{_HEX})"
        rf" (?P<active_physical_pc>{_HEX}) (?P<kernel>\d{{1,18}}) (?P<blockIdx>{_DIM})(?: (?P<threadIdx>{_DIM}))?"
    ),
    "lanes": (
        rf"(?P<lane>\d{{1,18}}) (?P<state>\w+) (?P<physical_pc>{_HEX}) (?P<threadIdx>{_DIM})"
        r" (?P<exception>.+?)"
    ),
    "kernels": (
        rf"(?P<kernel>\d{{1,18}}) (?P<parent>-|\d{{1,18}}) (?P<device>\d{{1,18}}) (?P<grid>-?\d{{1,18}})"
        rf" (?P<status>\w+) (?P<sms_mask>{_HEX}) (?P<gridDim>{_DIM}) (?P<blockDim>{_DIM}) (?P<invocation>.+?)"
    ),
    "blocks": rf"(?P<from>{_DIM}) (?P<to>{_DIM}) (?P<count>\d{{1,18}}) (?P<state>\w+)",
    "threads": (
        rf"(?P<from_blockIdx>{_DIM}) ?(?P<from_threadIdx>{_DIM}) (?P<to_blockIdx>{_DIM}) ?(?P<to_threadIdx>{_DIM})"
        rf" (?P<count>\d{{1,18}}) (?P<virtual_pc>{_HEX}) (?P<filename>.+?) (?P<line>\d{{1,18}})"
    ),
    "contexts": rf"(?P<context>{_HEX}) (?P<device>\d{{1,18}}) (?P<state>\w+)",
}

TABLES: Final[Mapping[str, re.Pattern[str]]] = {name: lazy_re(f"{_CURRENT}{shape}$") for name, shape in _SHAPES.items()}
"""Table -> the form of its rows, with single blanks; the groups are named as MI names the columns."""


def console_rows(table: str, text: str) -> list[dict[str, str]]:
    """Return the rows of a table (one of TABLES) in the output of `info cuda TABLE`."""
    shape = TABLES[table]
    shared: dict[str, str] = {}
    rows: list[dict[str, str]] = []
    for line in text.splitlines():
        group = _GROUP.match(line)
        if group is not None:
            pairs = zip(group.groups()[::2], group.groups()[1::2], strict=True)
            shared = {_NAMES[name]: number for name, number in pairs if name is not None}
            continue
        row = shape.match(" ".join(line.split())) if len(line) < _LONGEST else None  # no runs of blanks to try
        if row is not None:
            rows.append({**shared, **{name: value for name, value in row.groupdict().items() if value is not None}})
    return rows


Row = TypeVar("Row")
Answer = TypeVar("Answer")
_UNKNOWN: Final = lazy_re(r"undefined (mi )?command|unrecognized option|not implemented", re.IGNORECASE)
_LEAST_S: Final = 0.05

MI_TABLES: Final = lazy_re(r"\w{0,60}InfoCuda\w{1,60}Table")
"""Names of its tables in MI output (gdb/cuda/cuda-commands.c in cuda-gdb's source)."""

_SETTINGS: Final = ("set pagination off", "set confirm off", "set width 0", "set height 0", "set auto-load off")
_SETTING_S: Final = 10.0
_VERSION: Final = lazy_re(r"cuda-gdb\)? ?(?:release )?(\d+\.\d+)?", re.IGNORECASE)


class Queries:
    """Queries to one debugger.

    Attributes:
        notes: what could not be read, one sentence each.
        focus: its focus, if it reports one.

    Args:
        engine: a cuda-gdb with a target.
        end_s: the deadline, on the monotonic clock.
    """

    def __init__(self, engine: GdbEngine, end_s: float) -> None:
        self.notes: list[str] = []
        self.focus: Focus | None = None
        self._engine = engine
        self._end_s = end_s

    @property
    def left_s(self) -> float:
        return self._end_s - time.monotonic()

    async def rows(self, table: str, kind: Callable[..., Row], words: str = "") -> list[Row]:
        """Return the parsable rows of a table.

        Args:
            table: `devices`, `warps`, …
            kind: of row (livedbg.adapters.cuda.cudagdb.tables).
            words: a filter, in cuda-gdb's words.

        Raises:
            GdbGone: the debugger has ended.
        """
        asked = f"{table} {words}".rstrip()
        found = await self._table(table, asked)
        if found is None:
            return []
        rows, bad = convert(found, kind)
        said = found.declared if isinstance(found, MiTable) else len(found)
        missing = said - len(found) + bad
        if missing > 0:
            self.notes.append(f"{missing:,} of {said:,} rows of `info cuda {asked}` could not be read.")
        return rows

    async def answer(self, command: str, what: str) -> Record | None:
        """Return the answer to an MI command, None with a note without one; raise GdbGone if the debugger has ended."""
        try:
            return await self._asked(self._engine.command, command, what)
        except GdbCommandError as error:
            self.notes.append(f"No {what}: {error.message}")
        return None

    async def console(self, command: str, what: str = "") -> str:
        """Return a console command's output; if it is refused, "", and a note if `what` names it. May raise GdbGone."""
        try:
            return await self._asked(self._engine.console, command, what) or ""
        except GdbCommandError as error:
            if what:
                self.notes.append(f"No `{what}`: {error.message}")
            return ""

    async def _asked(self, ask: Callable[[str, float], Awaitable[Answer]], command: str, what: str) -> Answer | None:
        """Return the answer; None if there is none in time, with a note if `what` names it."""
        if self.left_s >= _LEAST_S:
            with contextlib.suppress(GdbTimeout):
                return await ask(command, self.left_s)
        if what:
            self.notes.append(f"`{what}` was not answered in time.")
        return None

    async def find_focus(self) -> None:
        """Query the focus of the debugger; raise GdbGone if it has ended."""
        record = await self.answer("-cuda-focus-query device sm warp lane kernel grid block thread", "focus")
        said = record.payload.get("CudaFocus") if record is not None else None
        if isinstance(said, dict):
            try:
                self.focus = read_row(Focus, said)
            except (KeyError, ValueError):
                self.notes.append("The debugger's focus could not be read.")

    async def _table(self, table: str, asked: str) -> MiTable | list[dict[str, str]] | None:
        try:
            record = await self._asked(self._engine.command, f"-cuda-info-{asked}", f"info cuda {asked}")
        except GdbCommandError as error:
            if not _UNKNOWN.search(error.message):
                self.notes.append(f"No `info cuda {asked}`: {clean_line(error.message)}")
                return None
            return console_rows(table, await self.console(f"info cuda {asked}", f"info cuda {asked}"))
        if record is None:
            return None
        found = next((value for value in record.payload.values() if isinstance(value, MiTable)), None)
        if found is None:
            self.notes.append(f"The answer to `info cuda {asked}` holds no table.")
        return found


def find_cuda_gdb(path: str | None = None) -> str:
    """Return the path of cuda-gdb: the requested one, the first on PATH, or a toolkit's; else raise ToolMissing."""
    if path is not None:
        found = shutil.which(path)
        if found is None:
            raise ToolMissing(f"{path} is not there.", "give the path of a cuda-gdb, or leave --gdb out", "gdb-missing")
        return found
    found = find_tool("cuda-gdb")
    if found is not None:
        return found
    raise ToolMissing(
        "cuda-gdb is not installed: it is what reads the state of a device.",
        "install NVIDIA's package cuda-gdb-12-9 (or of your CUDA version), or give its path with --gdb; a core dump "
        "can be read on any machine that has one, no GPU is needed",
        "cuda-gdb-missing",
    )


async def start_cuda_gdb(path: str, target: int = 0) -> GdbEngine:
    """Start a cuda-gdb without attaching it, for a process, or for a file that our user named if `target` is 0.

    Raises:
        ToolMissing: the program is another gdb.
        GdbGone, GdbTimeout: it can't be started.
    """
    engine = GdbEngine(path, target=target, tables=MI_TABLES)
    try:
        await engine.start()
        version = await engine.console("show version", _SETTING_S)
        if _VERSION.search(version) is None:
            said = clean_line(version.strip().splitlines()[0], 100) if version.strip() else "something else"
            raise ToolMissing(
                f"{path} is no cuda-gdb, but {said}.", "give the path of a cuda-gdb with --gdb", "not-cuda-gdb"
            )
        for setting in _SETTINGS:
            try:
                await engine.console(setting, _SETTING_S)
            except GdbCommandError:
                continue  # an older one does without
    except BaseException:
        await engine.close()
        raise
    return engine
