"""Finds and starts a cuda-gdb."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from typing import Final

from livedbg.adapters.cuda.toolkits import find_tool
from livedbg.gdbmi import GdbCommandError, GdbEngine
from livedbg.gdbmi.records import Record
from livedbg.model.errors import ToolMissing
from livedbg.text.sanitize import clean_line

__all__ = ["TABLES", "find_cuda_gdb", "started"]

TABLES: Final = re.compile(r"\w*InfoCuda\w+Table")
"""Names of its tables in MI output (gdb/cuda/cuda-commands.c in cuda-gdb's source)."""

_SETTINGS: Final = ("set pagination off", "set confirm off", "set width 0", "set height 0", "set auto-load off")
_SETTING_S: Final = 10.0
_VERSION: Final = re.compile(r"cuda-gdb\)? ?(?:release )?(\d+\.\d+)?", re.IGNORECASE)


def find_cuda_gdb(path: str | None = None) -> str:
    """The cuda-gdb to use: the one that was asked for, the first on the PATH, or that of an installed toolkit.

    Raises:
        ToolMissing: there is none.
    """
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


async def started(path: str, notice: Callable[[Record], None] | None = None) -> GdbEngine:
    """A running cuda-gdb that nothing is opened in yet.

    Raises:
        ToolMissing: the program is another gdb.
        GdbGone, GdbTimeout: it can't be started.
    """
    engine = GdbEngine(path, notice=notice, tables=TABLES)
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
